"""Schedules as files, by their ending: Parquet, CSV or SWF."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from features.errors import InputError, one_line
from features.jobs.cleaning import PARTS, CleanTrace
from features.jobs.schema import IDENTITIES
from pipelines.lake import places
from pipelines.lake.csv_text import csv_text
from pipelines.lake.parquet import write_parquet
from sim.schedule import Schedule

_ROW = ["job_id", "submit_s", "start_s", "end_s", "procs", "predicted_s", "corrections"]
_OF_SITES = ("started_by", "nodes")
"""Columns of a replay of a site."""
_PARQUET, _CSV, _SWF = ENDINGS = (".parquet", ".csv", ".swf")


def _ending(path: Path) -> str:
    return path.suffix.lower()


def check_ending(option: str, path: Path, schedules: int) -> None:
    """Raise InputError for another ending, or several schedules in a format for one."""
    if (ending := _ending(path)) not in ENDINGS:
        raise InputError(f"{option} {path}: must end in {', '.join(ENDINGS)}, which says what is written")
    if ending == _SWF and schedules != 1:
        raise InputError(f"{option} {path}: {ending} holds one schedule, not {schedules}; {_PARQUET} and {_CSV} hold several")


def check_unchanged(option: str, path: Path, changes: str) -> None:
    """Raise InputError for an SWF file if ``changes``, as a policy states them, are any."""
    if changes and _ending(path) == _SWF:
        raise InputError(
            f"{option} {path}: {_SWF} repeats the trace's fields, and with {changes} the jobs differ from the trace: write {_PARQUET} or {_CSV}"
        )


def check_nodes(path: Path) -> None:
    """Raise InputError for a format that cannot hold the nodes of a site's replay."""
    if _ending(path) == _SWF:
        raise InputError(f"{path}: a replay of a site has nodes, which SWF has no field for: write {_PARQUET} or {_CSV}")


def write_schedules(path: Path, schedules: Sequence[Schedule], workload: CleanTrace | None, metadata: dict[str, Any]) -> None:
    """Write ``schedules`` of ``workload``, one row per job, atomically.

    Raises InputError if the disk refuses it, and for an SWF file without a workload or of other jobs.
    """
    ending = _ending(path)
    if ending == _SWF:
        if workload is None:
            if "nodes" in schedules[0].jobs:
                check_nodes(path)
            raise InputError(f"{path}: SWF has fields that only the trace knows: give the trace, too")
        same = ["job_id", "procs", "runtime_s"]  # submissions may be shaken
        ours, theirs = (table[same].to_numpy(np.int64) for table in (schedules[0].jobs, workload.jobs))
        if schedules[0].trace not in ("", workload.name) or not np.array_equal(ours, theirs):
            raise InputError(
                f"{path}: the jobs of the schedule are not those of {workload.name}, in its order: give the trace that was scheduled"
            )
        _write_text(path, swf_text(schedules[0], workload))
        return
    rows = pd.concat([_rows(schedule) for schedule in schedules], ignore_index=True)
    if ending == _CSV:
        _write_text(path, csv_text(rows))
    else:
        write_parquet(rows, path, kind="schedules", metadata=metadata)


def _rows(schedule: Schedule) -> pd.DataFrame:
    rows = schedule.jobs[[*_ROW, *(name for name in _OF_SITES if name in schedule.jobs)]].copy()
    rows.insert(0, "predictor", schedule.predictor)
    rows.insert(0, "scheduler", schedule.scheduler)
    return rows


def swf_text(schedule: Schedule, workload: CleanTrace) -> str:
    """Return a schedule in the Standard Workload Format 2.2.

    Both have the same jobs, row by row: numbers of jobs may repeat. Waits (field 3) are the simulated ones; predecessors and think
    times (fields 17 and 18) are the trace's. Names that are not numbers are numbered in order of appearance; unknown values are -1.
    If shaken jobs are submitted before second 0, all times are later, so that the first is at second 0; the header states by how much.
    """
    jobs, recorded, origin = schedule.jobs, workload.jobs, workload.origin_unix_s
    later_s = max(0, -int(jobs["submit_s"].min()))
    submit, start, end = (jobs[name] + later_s for name in ("submit_s", "start_s", "end_s"))
    status = recorded["status"].replace(dict.fromkeys(PARTS, 1)).fillna(-1)
    unknown = np.full(len(jobs), -1)
    fields = [
        *(jobs["job_id"], submit, start - submit, end - start, jobs["procs"]),
        *(unknown, unknown, jobs["procs"], jobs["requested_s"], unknown, status),
        *(_numbers(recorded[name]) for name in IDENTITIES),
        *(recorded["preceding_job"].fillna(-1), recorded["think_s"].fillna(-1)),
    ]
    header = {
        "Version": "2.2",
        "Computer": schedule.trace,
        "Note": f"{'generated workload, ' if schedule.generated else ''}schedule simulated by Queuecast: {schedule.label}, "
        f"correction {schedule.correction}, {schedule.semantics}"
        + (f", all times {later_s} s later than in the trace" if later_s else ""),
        "MaxRecords": len(jobs),
        "MaxProcs": schedule.procs,
        "UnixStartTime": None if origin is None else origin - later_s,
        "TimeZoneString": workload.timezone,
    }
    lines = [f"; {key}: {one_line(str(value))}\n" for key, value in header.items() if value is not None]
    table = np.column_stack([np.asarray(field, np.int64) for field in fields])
    return "".join([*lines, *(" ".join(map(str, row)) + "\n" for row in table.tolist())])


def _numbers(names: pd.Series) -> np.ndarray:
    """Return names as numbers, else numbered from 1 in order of appearance; -1 if missing."""
    texts = names.astype(object)
    numbers = pd.to_numeric(texts, errors="coerce")
    if (numbers.isna() == texts.isna()).all() and (numbers.fillna(0) % 1 == 0).all():
        return numbers.fillna(-1).to_numpy(np.int64)
    codes, _ = pd.factorize(texts)
    return np.where(codes < 0, -1, codes + 1)


def _write_text(path: Path, text: str) -> None:
    with places.writing(path):
        places.write(path, text)
