"""Studies of mixed policies: resumable for the command, kept in the lake for the assets.

Finished steps are in a journal beside the folder of tables (:mod:`pipelines.storage.journal`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from features.jobs.schema import fingerprint
from pipelines.storage.journal import Journal, Kind
from pipelines.storage.lake import Lake
from pipelines.storage.parquet import read_parquet, write_parquet
from pipelines.storage.provenance import code_version
from sim.campaigns.maps import Map
from sim.campaigns.windows import Windows, split_windows
from sim.search.directions import grid
from sim.search.pure import THRESHOLDS
from sim.search.study import Record, Settings, Step, Tables, run_study
from sim.search.transfer import Split, last_of, split_of

PAGE = "policies/{}.html"
"""The page about a trace's policies under ``reports`` in the home directory."""
TABLES = ("pure", "waits", "chosen", "replays", "landscapes", "longest")
IN_LAKE = "policies_{}"
"""The tables of a study, and what they are called in the lake."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Study:
    """The tables of a study, and the ``facts`` that identify it, as JSON holds them."""

    facts: Mapping[str, Any]
    tables: Tables

    @property
    def settings(self) -> Settings:
        """What was studied."""
        told: dict[str, Any] = {name: _tuple(value) for name, value in self.facts["settings"].items()}
        told["split"] = Split(**{part: _tuple(numbers) for part, numbers in told["split"].items()})
        return Settings(**told)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def windows_of(jobs: pd.DataFrame, unit: str, last: int | None = None) -> Windows:
    """Return the weeks or months of a trace up to number ``last``.

    Window 0 and jobs that cross windows are left out. Raises InputError where none is left.
    """
    windows = split_windows(jobs, unit)
    kept = tuple(each for each in windows.windows if last is None or each.number <= last)
    if not kept:
        numbers = [each.number for each in windows.windows]
        raise InputError(f"no {unit} up to {last}: those with jobs are {numbers[0]} to {numbers[-1]}")
    return replace(windows, windows=kept)


def asked(
    clean: CleanTrace,
    unit: str,
    last: int | None = None,
    training: Sequence[int] | None = None,
    testing: Sequence[int] | None = None,
    landscapes: tuple[int, ...] | None = None,
    **others: Any,
) -> tuple[Windows, Settings]:
    """Return the windows of a trace up to ``last``, and the settings of a study on them.

    What is not given is as in the paper for its traces (:func:`sim.search.transfer.split_of`); ``landscapes`` are then of the first
    four testing windows. ``others`` are fields of :class:`~sim.search.study.Settings`.
    """
    windows = windows_of(clean.jobs, unit, last or last_of(clean.name, unit))
    split = split_of([window.number for window in windows.windows], clean.name, unit, training, testing)
    drawn = split.testing[:4] if landscapes is None else landscapes
    thresholds = tuple(dict.fromkeys((*THRESHOLDS, others.get("starvation_s", Settings.starvation_s))))
    return windows, Settings(split, unit, landscapes=drawn, thresholds=thresholds, **others)


def study_of(
    workload: CleanTrace,
    settings: Settings,
    windows: Windows,
    *,
    map_steps: Map | None = None,
    done: Mapping[Step, Record] | None = None,
    finished: Callable[[Step, Record], None] | None = None,
    progress: Progress | None = None,
) -> Study:
    """Run a study that is identified by its trace, settings and code."""
    tables = run_study(
        workload.jobs, settings, windows, workload.procs, map_steps=map_steps, done=done, finished=finished, progress=progress
    )
    return Study(identity(workload, settings, windows), tables)


def resumable_study(
    out: Path,
    workload: CleanTrace,
    settings: Settings,
    windows: Windows,
    *,
    restart: bool = False,
    map_steps: Map | None = None,
    progress: Progress | None = None,
) -> Study:
    """Run a study, or the rest of an interrupted one; write its tables.

    They are in the folder ``out``. Raises InputError for a journal of another study, unless ``restart`` discards it, and as :func:`sim.search.study.run_study`.
    """
    with Journal(out, _STEPS, identity(workload, settings, windows), restart) as journal:
        study = study_of(
            workload, settings, windows, map_steps=map_steps, done=journal.done, finished=journal.write, progress=progress
        )
        write_study(out, study)
        journal.remove()
    return study


def _encoded(step: Step, record: Record) -> dict[str, Any]:
    return {"step": list(step), "found": record}


def _decoded(line: dict[str, Any]) -> tuple[Step, Record]:
    stage, window = line["step"]
    return Step(str(stage), int(window)), dict(line["found"])


_STEPS = Kind("study", _encoded, _decoded)


def identity(workload: CleanTrace, settings: Settings, windows: Windows) -> dict[str, Any]:
    """Return what identifies a study, as JSON: jobs, windows, settings, code."""
    facts = {
        "version": code_version(),
        "trace": workload.name,
        "generated": workload.generated,
        "jobs": fingerprint(workload.jobs),
        "procs": workload.procs,
        "windows": [window.number for window in windows.windows],
        "directions": len(grid(settings.points, settings.reading)),
        "simulated_jobs": sum(len(window.jobs) for window in windows.windows),
        "dropped": windows.counts(),
        "drop_basis": windows.basis,
        "settings": asdict(settings),
    }
    told: dict[str, Any] = json.loads(json.dumps(facts))
    return told


def write_study(folder: Path, study: Study) -> None:
    """Write every table of a study into ``folder``, as Parquet with the facts."""
    for name, table in study.tables.by_name().items():
        units = {str(column): "s" for column in table if str(column).endswith("_s")}
        write_parquet(table, folder / f"{name}.parquet", kind=IN_LAKE.format(name), metadata=study.facts, units=units)


def read_study(folder: Path) -> Study:
    """Return what :func:`write_study` wrote."""
    read = {name: read_parquet(folder / f"{name}.parquet", kind=IN_LAKE.format(name)) for name in TABLES}
    return Study(read[TABLES[0]][1], Tables(**{name: table for name, (table, _) in read.items()}))


def keep_study(lake: Lake, clean: CleanTrace, study: Study) -> None:
    """Write the tables of a study of ``clean`` to the lake."""
    for name, table in study.tables.by_name().items():
        lake.write_for(clean, IN_LAKE.format(name), table, {"study": study.facts})


def kept_study(lake: Lake, clean: CleanTrace) -> Study:
    """Return what :func:`keep_study` wrote."""
    read = {name: lake.read_for(clean, IN_LAKE.format(name)) for name in TABLES}
    return Study(read[TABLES[0]][1]["study"], Tables(**{name: table for name, (table, _) in read.items()}))
