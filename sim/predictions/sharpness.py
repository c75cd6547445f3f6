"""Sharpness of predicted distributions in simulated schedules, beside three references.

Every predictor is scored alike: a point prediction is the same number at every level. The three references come from the same
schedule: the quantiles of all runtimes ended so far, cut at the request; and one constant for every job, and a random number,
with the same adaptive update as the distribution (:mod:`models.runtime.adaptive`). The latter two are calibrated too, without
knowing anything: only the losses show the difference.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from features.statistics import mean_intervals
from models.runtime.adaptive import adapted, feedback_band, order_of_events
from models.runtime.calibration import chance_band
from models.runtime.distribution import LEVELS, SHOWN, at_levels, coverage, crps, deciles, losses, point, runtimes_so_far
from models.runtime.evaluation import doubling_bins
from models.runtime.options import parse
from models.runtime.quantile import USUAL
from sim.schedule import Schedule

NO_FEATURES, CONSTANT, RANDOM = "(no features)", "(constant, adapted)", "(random, adapted)"
REFERENCES = (NO_FEATURES, CONSTANT, RANDOM)
"""Names of the references, wholly in brackets, unlike the name of any predictor."""
CONSTANT_S = 3600.0
"""The constant for every job. The random number is between a second and the request, uniform in its logarithm."""
KINDS = ("point", "distribution", "reference")


class JudgedJobs(NamedTuple):
    """The jobs to judge: ``rows`` of the trace, with their weeks, 30 days and users.

    ``cluster`` numbers the user and day of every job of the trace, judged or not.
    """

    rows: np.ndarray
    week: np.ndarray
    month: np.ndarray
    cluster: np.ndarray
    user: np.ndarray


@dataclass(frozen=True)
class Sharpness:
    """Scores of predicted distributions over the judged jobs; ``kind`` is in :data:`KINDS`.

    ``scores`` has one row per predictor: ``predictor kind crps_s low high difference difference_low difference_high``, where the
    difference is that to the bare request. ``losses`` has one row per predictor and level: ``predictor kind level pinball_s``.
    Both have every predictor; the rest has only those that answer with a distribution, and the references. ``coverage``:
    ``predictor by begin`` and the columns of :func:`models.runtime.distribution.coverage`, by ``all``, by tenths of the
    ``request`` and by ``width``; ``begin`` is the min request in seconds or processors. ``windows``: for each predictor, level
    and 30 days, counted by ``month``, a row of :func:`models.runtime.calibration.chance_band` and ``feedback_low feedback_high
    feedback_inside``, the narrower band of :func:`models.runtime.adaptive.feedback_band`, null if nothing is updated.
    """

    scores: pd.DataFrame
    losses: pd.DataFrame
    coverage: pd.DataFrame
    windows: pd.DataFrame


class _Distribution(NamedTuple):
    """Quantiles [all jobs, levels] and the update rate of their levels."""

    kind: str
    quantiles: np.ndarray
    levels: np.ndarray
    rate: float


def sharpness(schedules: Sequence[Schedule], judged: JudgedJobs, seed: int = 0) -> Sharpness:
    """Score the predictions of ``schedules`` of one trace as distributions.

    ``seed`` draws the random reference and the bands.
    """
    distributions = {schedule.predictor: _of_schedule(schedule) for schedule in schedules}
    with_quantiles = next((schedule for schedule in schedules if schedule.quantiles is not None), None)
    references = {} if with_quantiles is None else _references(with_quantiles, seed)
    runtime = schedules[0].jobs["runtime_s"].to_numpy(np.float64)[judged.rows]
    request = schedules[0].jobs["requested_s"].to_numpy(np.float64)[judged.rows]
    bare = np.abs(request - runtime)
    scores, level_losses = [], []
    for name, distribution in (distributions | references).items():
        quantiles = _at(distribution, LEVELS)[judged.rows]
        score = crps(quantiles, LEVELS, runtime)
        scores.append({"predictor": name, "kind": distribution.kind, **_scored(score, bare, judged.week)})
        mean = losses(quantiles, LEVELS, runtime).mean(axis=0)
        level_losses.append(pd.DataFrame({"predictor": name, "kind": distribution.kind, "level": LEVELS, "pinball_s": mean}))
    covered, windows = [], []
    for name, forecast in (distributions | references).items():
        if forecast.kind != "point" and with_quantiles is not None:
            schedule = next((one for one in schedules if one.predictor == name), with_quantiles)
            covered.append(_covered(schedule, forecast, judged).assign(predictor=name))
            windows.append(_windows(schedule, forecast, judged, np.random.default_rng(seed)).assign(predictor=name))
    return Sharpness(
        scores=pd.DataFrame(scores),
        losses=pd.concat(level_losses, ignore_index=True),
        coverage=pd.concat(covered, ignore_index=True) if covered else pd.DataFrame(),
        windows=pd.concat(windows, ignore_index=True) if windows else pd.DataFrame(),
    )


def outside(windows: pd.DataFrame) -> pd.DataFrame:
    """Return how often rates of :attr:`Sharpness.windows` left their bands.

    One row per predictor and level, columns ``predictor level rate worst windows by_chance with_feedback``: the rate over all
    jobs, that of the window with the largest error, the number of windows, and how many are outside either band; null if nothing
    is updated.
    """
    rows = []
    groups: Any = windows.groupby(["predictor", "level"], sort=False)
    for (predictor, level), part in groups:
        strays = (part["rate"] - (1.0 - level)).abs().to_numpy()
        has_feedback = bool(part["feedback_low"].notna().all())
        rows.append(
            {
                "predictor": predictor,
                "level": level,
                "rate": float(part["rate"] @ part["jobs"]) / int(part["jobs"].sum()),
                "worst": float(part["rate"].iloc[int(strays.argmax())]),
                "windows": len(part),
                "by_chance": int((~part["inside"].astype(bool)).sum()),
                "with_feedback": int((~part["feedback_inside"].astype(bool)).sum()) if has_feedback else None,
            }
        )
    return pd.DataFrame(rows).astype({"with_feedback": "Int64"})


def update_rate(predictor: str) -> float:
    """Return the rate at which a predictor moves its levels when a job ends; 0 for none."""
    match = re.fullmatch(r"quantile(?:\((.*)\))?", predictor)
    return 0.0 if match is None else float((USUAL | parse(match[1] or ""))["rate"])


def _of_schedule(schedule: Schedule) -> _Distribution:
    if schedule.quantiles is None:
        return _Distribution("point", point(schedule.jobs["predicted_s"].to_numpy(), LEVELS), LEVELS, 0.0)
    levels = np.array(schedule.quantiles.columns, np.float64)
    return _Distribution("distribution", schedule.quantiles.to_numpy(np.float64), levels, update_rate(schedule.predictor))


def _references(schedule: Schedule, seed: int) -> dict[str, _Distribution]:
    """Return the references, from one schedule's own submissions and ends.

    They are updated at the rate of its predictor, or at the default rate.
    """
    jobs = schedule.jobs
    submit, end, runtime, request = (jobs[name].to_numpy(np.int64) for name in ("submit_s", "end_s", "runtime_s", "requested_s"))
    events, rate = order_of_events(submit, end), update_rate(schedule.predictor) or float(USUAL["rate"])
    constant = np.full(len(jobs), CONSTANT_S)
    random = np.exp(np.random.default_rng(seed).random(len(jobs)) * np.log(request))
    references = {NO_FEATURES: _Distribution("reference", runtimes_so_far(submit, end, runtime, request, LEVELS), LEVELS, 0.0)}
    for name, points in ((CONSTANT, constant), (RANDOM, random)):
        references[name] = _Distribution("reference", adapted(points, events, runtime, request, LEVELS, rate), LEVELS, rate)
    return references


def _at(distribution: _Distribution, levels: np.ndarray) -> np.ndarray:
    return at_levels(pd.DataFrame(distribution.quantiles, columns=list(distribution.levels)), levels)


def nearest(levels: np.ndarray, wanted: Sequence[float] = SHOWN) -> list[float]:
    """Return the ``levels`` nearest to the ``wanted`` ones, each once."""
    return list(dict.fromkeys(float(levels[np.abs(levels - level).argmin()]) for level in wanted))


def _scored(score: np.ndarray, bare: np.ndarray, week: np.ndarray) -> dict[str, float]:
    both = np.column_stack([score, score - bare])
    low, high = mean_intervals(both, week)
    ends = {"low": low[0], "high": high[0], "difference": both[:, 1].mean(), "difference_low": low[1], "difference_high": high[1]}
    return {"crps_s": float(score.mean()), **{name: float(value) for name, value in ends.items()}}


def _covered(schedule: Schedule, distribution: _Distribution, judged: JudgedJobs) -> pd.DataFrame:
    jobs = schedule.jobs.iloc[judged.rows]
    runtime, procs, request = (jobs[name].to_numpy() for name in ("runtime_s", "procs", "requested_s"))
    levels = np.array(nearest(distribution.levels))
    quantiles = _at(distribution, levels)[judged.rows]
    tenth = deciles(request)
    least = {number: float(request[tenth == number].min()) for number in np.unique(tenth)}
    groups = {"all": np.zeros(len(jobs), np.int64), "request": tenth, "width": doubling_bins(procs)}
    tables = []
    for by, group in groups.items():
        table = coverage(quantiles, levels, runtime, group, 1.0 * procs * runtime)
        begin = table["group"].map(least) if by == "request" else table["group"].astype(float)
        tables.append(table.assign(by=by, begin=begin))
    return pd.concat(tables, ignore_index=True)


def _windows(schedule: Schedule, distribution: _Distribution, judged: JudgedJobs, rng: np.random.Generator) -> pd.DataFrame:
    submit, end, runtime = (schedule.jobs[name].to_numpy() for name in ("submit_s", "end_s", "runtime_s"))
    events, month = order_of_events(submit, end), np.full(len(runtime), -1)
    month[judged.rows] = judged.month
    tables = []
    for level in nearest(distribution.levels):
        under = runtime > _at(distribution, np.array([level]))[:, 0]
        target = 1.0 - level
        band = chance_band(under[judged.rows], target, judged.month, judged.cluster[judged.rows])
        band = band.assign(level=level, feedback_low=np.nan, feedback_high=np.nan, feedback_inside=None)
        if distribution.rate > 0:
            own = feedback_band(under, target, month, judged.cluster, events, distribution.rate, rng)
            band = band.assign(
                **{f"feedback_{name}": own[name] for name in ("low", "high")}, feedback_inside=own["inside"].tolist()
            )
        tables.append(band.rename(columns={"window": "month"}))
    return pd.concat(tables, ignore_index=True)
