"""Predict when a waiting job starts, from a registered model's settings and plain arrays.

Packed unchanged into registered models; needs numpy and pandas alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from .queue_state import FEATURES, NOT_YET, states
from .settings import read_settings
from .start_distribution import CHANCES_S, EDGES_S, LEVELS, SCENARIOS, Calibration, Hazard, at_levels, pooled
from .submitted import earliest_clock_s, read_queue

ARRAYS = "starts.npz"
"""File of the trees and of their calibration."""
STATE, BOTH, POOLED = "state", "both", "pooled"
"""Inputs of a model: the queue's state alone; scenarios too; the mean of the latter and the scenarios' own
distribution."""
HAZARD, RECENT = "hazard", "recent"
"""Methods: boosted trees; or the recent waits of jobs that fit and of others, and nothing else."""
EASY, SLURM = "EASY", "Slurm"
"""The simulation behind the scenarios: EASY that plans by requests, on one pool, or the site's Slurm."""
SPARE = "spare"
"""The column that tells whether a job fits into the free processors (at least 0)."""
STARTS = tuple(f"scenario_{number:02d}_s" for number in range(SCENARIOS))
"""Columns of a job's starts in scenarios, ascending seconds from the time of the question."""
QUANTILES = tuple(f"wait_{round(100 * level):02d}_s" for level in LEVELS)
CHANCES = tuple(f"chance_{name}" for name in CHANCES_S)


@dataclass(frozen=True)
class StartModel:
    """What a version learned by ``trained_s``, with calibration by ``at_s``.

    Both are seconds from the trace's origin. ``columns`` are those of the state; ``plans`` are the indices of the
    columns that are waits by a simple plan. ``trees`` and ``calibrations`` are by inputs: ``STATE``, and the better
    kind with scenarios, if any. ``recent`` is float64 [fits or not, edges], used without trees. ``ahead`` names the
    simulation of the scenarios. Of the site: ``procs`` of the machine (0: unknown), ``origin_unix_s`` and ``timezone``
    as in ``features.clock``.
    """

    method: str
    columns: tuple[str, ...]
    plans: tuple[int, ...]
    trees: Mapping[str, Hazard]
    calibrations: Mapping[str, Calibration]
    recent: np.ndarray
    trained_s: int
    at_s: int
    procs: int = 0
    origin_unix_s: int | None = None
    timezone: str | None = None
    ahead: str = EASY

    def reads(self, scenarios: np.ndarray | None) -> str:
        """Return the kind of inputs read with these ``scenarios``, or without (None)."""
        return STATE if scenarios is None else self.best(self.trees)

    @staticmethod
    def best(kinds: Iterable[str]) -> str:
        """Return the kind to use if all inputs are given: the one beside the state, if any."""
        return next((kind for kind in kinds if kind != STATE), STATE)

    def raw(self, states: np.ndarray, scenarios: np.ndarray | None) -> np.ndarray:
        """Return uncalibrated distributions of waits, float64 [jobs, edges]."""
        if self.method == RECENT:
            return self.recent[(states[:, self.columns.index(SPARE)] < 0).astype(np.int64)]
        kind = self.reads(scenarios)
        chances = self.trees[kind].chances(states, states[:, list(self.plans)], None if kind == STATE else scenarios)
        return pooled(chances, scenarios) if kind == POOLED and scenarios is not None else chances

    def chances(self, states: np.ndarray, scenarios: np.ndarray | None = None) -> np.ndarray:
        """Return calibrated distributions of waits, float64 [jobs, edges].

        ``states`` float64 [jobs, columns]; ``scenarios`` float64 [jobs, ``SCENARIOS``] ascending, None if none were
        simulated.
        """
        return self.calibrated(self.reads(scenarios), self.raw(states, scenarios))

    def calibrated(self, kind: str, uncalibrated: np.ndarray) -> np.ndarray:
        """Return distributions of one ``kind``, calibrated if its calibration is known."""
        return self.calibrations[kind].apply(uncalibrated) if kind in self.calibrations else uncalibrated

    def write(self, directory: Path) -> Mapping[str, object]:
        """Write the arrays; return the settings that :meth:`read` reads."""
        arrays = {"recent": self.recent}
        for kind, hazard in self.trees.items():
            arrays |= {f"{kind}_{name}": values for name, values in hazard.arrays().items()}
        for kind, calibration in self.calibrations.items():
            arrays |= {
                f"{kind}_told": calibration.forecast,
                f"{kind}_came": calibration.came,
                f"{kind}_odds": np.array([calibration.shift, calibration.slope]),
            }
        np.savez_compressed(directory / ARRAYS, **arrays)  # type: ignore[arg-type]
        return {
            "method": self.method,
            "columns": list(self.columns),
            "plans": list(self.plans),
            "trees": list(self.trees),
            "calibrated": list(self.calibrations),
            "trained_s": int(self.trained_s),
            "snapshot_s": int(self.at_s),
            "procs": int(self.procs),
            "origin_unix_s": self.origin_unix_s,
            "timezone": self.timezone,
            "ahead": self.ahead,
        }

    @classmethod
    def read(cls, directory: Path) -> StartModel:
        """Read what :meth:`write` wrote.

        ValueError for another format, OSError for a missing file.
        """
        settings = read_settings(directory)
        with np.load(directory / ARRAYS) as held:
            trees = {
                kind: Hazard(*(held[f"{kind}_{name}"] for name in ("nodes", "thresholds", "values"))) for kind in settings["trees"]
            }
            calibrations = {}
            for kind in settings["calibrated"]:
                shift, slope = held[f"{kind}_odds"].reshape(2, -1)
                calibrations[kind] = Calibration(shift, slope, held[f"{kind}_told"], held[f"{kind}_came"])
            recent = held["recent"]
        if recent.shape[1] != len(EDGES_S):
            raise ValueError("this version divides time into other bins than the model: train it again")
        named = tuple(settings["columns"]), tuple(settings["plans"])
        if named[0] != tuple(FEATURES):
            raise ValueError("this version describes a queue by other columns than the model: train it again")
        site = *(settings[name] for name in ("procs", "origin_unix_s", "timezone")), settings.get("ahead", EASY)
        return cls(settings["method"], *named, trees, calibrations, recent, settings["trained_s"], settings["snapshot_s"], *site)


def answers(chances: np.ndarray) -> dict[str, np.ndarray]:
    """Return the answers from distributions: quantiles of the wait, seconds, and chances."""
    quantiles = dict(zip(QUANTILES, at_levels(chances, np.array(LEVELS)).T, strict=True))
    by = np.searchsorted(EDGES_S, list(CHANCES_S.values()))
    return {**quantiles, **dict(zip(CHANCES, chances[:, by].T, strict=True))}


class StartPredictor:
    """One model, loaded from the directory it was written to."""

    def __init__(self, directory: Path) -> None:
        """Raises ValueError for another format, OSError for a missing file."""
        self.model = StartModel.read(directory)

    def predict(self, queue: pd.DataFrame) -> pd.DataFrame:
        """Return quantiles of each waiting job's wait, and chances to have started.

        They have one row per row of ``queue``, which has the columns of ``submitted.py``. The answers of jobs that run
        are NaN; ``snapshot_age_s`` is that of all. Scenarios are not simulated. ValueError, naming row and column, for
        an invalid value.
        """
        model = self.model
        origin_s, zone = (0, None) if model.origin_unix_s is None else (model.origin_unix_s, model.timezone)
        jobs, row, at_s, local_s, rank = read_queue(queue, model.procs, zone, earliest_clock_s(origin_s + model.at_s))
        waits = np.flatnonzero(jobs.start == NOT_YET)
        at, local = np.full(len(waits), at_s), np.full(len(waits), local_s)
        waiting = answers(model.chances(states(jobs, waits, at, local, model.procs, rank)))
        answer = pd.DataFrame(waiting, index=row[waits]).reindex(range(len(queue))).set_axis(queue.index)
        return answer.assign(snapshot_age_s=at_s - origin_s - model.at_s)
