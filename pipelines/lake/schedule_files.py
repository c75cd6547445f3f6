"""Schedules as Parquet files, a row for each job."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from features.errors import InputError
from pipelines.lake.parquet import write_parquet
from sim.schedule import Schedule

_ROW = ["job_id", "submit_s", "start_s", "end_s", "procs", "predicted_s", "corrections"]
_OF_SITES = ("started_by", "nodes")
"""Columns of a replay of a site."""
_ENDING = ".parquet"


def check_ending(option: str, path: Path) -> None:
    """Raise InputError for another ending than .parquet."""
    if path.suffix.lower() != _ENDING:
        raise InputError(f"{option} {path}: schedules are written as Parquet: its name must end in {_ENDING}")


def write_schedules(path: Path, schedules: Sequence[Schedule], metadata: dict[str, Any]) -> None:
    """Write ``schedules`` atomically; raise InputError if the disk refuses it."""
    rows = pd.concat([_rows(schedule) for schedule in schedules], ignore_index=True)
    write_parquet(rows, path, kind="schedules", metadata=metadata)


def _rows(schedule: Schedule) -> pd.DataFrame:
    rows = schedule.jobs[[*_ROW, *(name for name in _OF_SITES if name in schedule.jobs)]].copy()
    rows.insert(0, "predictor", schedule.predictor)
    rows.insert(0, "scheduler", schedule.scheduler)
    return rows
