"""Judge predicted starts on daily snapshots of a production cluster, published by Mila with `slurm-queue-time-pred`.

``FILE`` has a row a waiting job and noon. Its columns become those of :mod:`benchmarks.studies.standing`, and hazards answer that
learn as the product's do: models and calibrations know of each day only what had happened by then
(:mod:`benchmarks.studies.daily_starts`). Columns of the future are counted and not read; so are ``*_run_hours``, the hours that jobs of
the queue were to run. ``--days 31-61`` says which days, counted from the first, are judged; ``--json`` prints one object.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from benchmarks.studies.daily_starts import quantiles_daily
from benchmarks.studies.standing import SCOPES, inputs
from features.clock import DAY_S
from features.errors import InputError
from models.packed.queue_state import NOT_YET
from models.packed.start_distribution import LEVELS
from models.starts.evaluation import INTERVALS

NEEDED = ("poll_time", "submit_time", "start_time", "req_cpus", "time_limit_sec")
_WHAT = {"jobs": "jobs", "cores": "procs", "mem": "memory", "gpus": "gpus", "core_hours": "proc_hours", "gpu_hours": "gpu_hours"}
_SCOPE = dict(zip(("", "p_", "a_", "p_a_"), SCOPES, strict=True))
COLUMNS = {"req_cpus": "procs", "time_limit_sec": "requested_s", "priority_y": "priority", "req_mem_total": "memory"}
COLUMNS |= {"account_id": "account", "partition_id_x": "queue", "partition_id_y": "queue"}  # of two, the one at the moment
COLUMNS |= {
    f"{short}_{scope}{what}_above": f"{_SCOPE[scope]}{side}_{_WHAT[what]}"
    for short, side in (("q", "ahead"), ("r", "running"))
    for scope in _SCOPE
    for what in _WHAT
}
"""Their columns and ours."""
SHARES = ("norm_share_poll", "raw_use_poll", "effect_use_poll", "level_fs_poll", "norm_use_poll", "norm_use_log_poll")
FURTHER = (*SHARES, "billing")
"""Further columns that are read as they are."""
TIMES = {"poll_time": "at_s", "submit_time": "submit_s", "eligible_time": "eligible_s", "start_time": "start_s"}
FUTURE = re.compile(
    r".*run_hours|alloc_nodes|state|end_time|elapsed_time|run_time_sec|poll_wait_sec|submit_wait_sec|eligible_wait_sec|priority_x"
)
"""Columns that hold what happened after the moment. Where ``*_run_hours`` stand, jobs of the queue had not run yet."""


def waiting_jobs(path: Path, last: int) -> pd.DataFrame:
    """Return a file of theirs up to the day ``last`` as :func:`benchmarks.studies.standing.inputs` reads it, by moment.

    ``day`` counts from the first; ``start_s`` is known only once it has passed, and NOT_YET without a start. Rows without a moment are
    left out, and a line says so; other values may be missing. Raises InputError for a missing column.
    """
    try:
        names = [name for name in pq.read_schema(path).names if not FUTURE.fullmatch(name)]
        table = pd.read_parquet(path, columns=names)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    if absent := [name for name in NEEDED if name not in table]:
        raise InputError(f"{path}: column {absent[0]} is missing; needed are {', '.join(NEEDED)}")
    if unmarked := int(table["poll_time"].isna().sum()):
        print(f"{unmarked:,} rows without poll_time are left out", file=sys.stderr)
    table = table[table["poll_time"].notna()].sort_values(
        ["poll_time", *(name for name in ("job_unique_id",) if name in table)], kind="stable", ignore_index=True
    )
    columns = {ours: table[theirs] for theirs, ours in COLUMNS.items() if theirs in table}
    columns |= {ours: _seconds(table[theirs]) for theirs, ours in TIMES.items() if theirs in table}
    columns["start_s"] = _seconds(table["start_time"], NOT_YET)
    if "req_tres" in table:
        text = table["req_tres"].astype("str")
        columns |= {"gpus": _number(text, r"gpu[^=,]*=(\d+)", 0.0), "nodes": _number(text, r"node=(\d+)", 1.0)}
        columns |= {"billing": _number(text, r"billing=(\d+)", 0.0)}
    columns |= {name: table[name] for name in SHARES if name in table}
    rows = pd.DataFrame(columns)
    rows["day"] = rows["at_s"] // DAY_S - rows["at_s"].min() // DAY_S + 1
    return rows[rows["day"] <= last].reset_index(drop=True)


def _seconds(times: pd.Series, otherwise: float = np.nan) -> pd.Series:
    """Return Unix seconds of times, or of numbers that are such; of times without a zone, their own clock's."""
    moments = pd.to_datetime(times, utc=True, unit="s" if pd.api.types.is_numeric_dtype(times) else None)
    moments = moments.astype("datetime64[s, UTC]")
    return moments.astype("int64").where(moments.notna(), otherwise)


def _number(text: pd.Series, pattern: str, otherwise: float) -> pd.Series:
    return text.str.extract(pattern)[0].astype("float64").fillna(otherwise)


def figures(answers: np.ndarray, waited_s: np.ndarray, day: np.ndarray) -> dict[str, object]:
    """Return what is judged: the median's error, and the shares of intervals that held, all and by day.

    ``answers`` float64 [jobs, ``LEVELS``] and ``waited_s`` are in seconds; ``day`` int64 [jobs].
    """
    quantiles = dict(zip(LEVELS, answers.T, strict=True))
    error = np.log10(np.maximum(quantiles[0.5], 1.0)) - np.log10(np.maximum(waited_s, 1.0))
    held = {
        round(100 * share): (waited_s >= quantiles[low]) & (waited_s <= quantiles[high]) for share, (low, high) in INTERVALS.items()
    }
    by_day = pd.Series(held[80]).groupby(day).mean()
    return {
        "questions": len(waited_s),
        "mse_log10": float((error**2).mean()),
        "within_2": float((np.abs(error) <= np.log10(2.0)).mean()),
        **{f"held_{share}": float(each.mean()) for share, each in held.items()},
        "held_80_by_day": {str(number): float(share) for number, share in by_day.items()},
    }


def days_of(text: str) -> tuple[int, int]:
    """Return the first and last day of ``31-61``; InputError for other texts."""
    match = re.fullmatch(r"(\d{1,5})-(\d{1,5})", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise InputError(f"--days {text}: is no range of days such as 31-61")
    return int(match[1]), int(match[2])


def asked_of(table: pd.DataFrame, first: int) -> np.ndarray:
    """Return which rows are of the day ``first`` or later, bool [rows]."""
    return table["day"].to_numpy(np.int64) >= first


def described(table: pd.DataFrame) -> np.ndarray:
    """Return the models' inputs, float64 [rows, inputs]."""
    return inputs(table, [name for name in FURTHER if name in table]).to_numpy(np.float64)


def waits_of(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return the moments and the starts, Unix seconds int64 [rows]."""
    return table["at_s"].to_numpy(np.int64), table["start_s"].to_numpy(np.int64)


def judged(path: Path, first: int, last: int, seed: int) -> dict[str, object]:
    """Return the figures of the days ``first`` to ``last`` of a file; rows of later days are not read."""
    table = waiting_jobs(path, last)
    asked, (at_s, start_s) = asked_of(table, first), waits_of(table)
    if not asked.any():
        raise InputError(f"{path}: has no rows of the days {first} to {last}")
    answers = quantiles_daily(described(table), at_s, start_s, int(at_s[asked].min()), seed)[asked]
    started = start_s[asked] < NOT_YET
    notes = [f"{(~started).sum():,} jobs without a start are not judged"] if not started.all() else []
    unread = sorted(name for name in pq.read_schema(path).names if FUTURE.fullmatch(name))
    notes.append(f"{len(unread)} columns of the future are not read: {', '.join(unread)}")
    print("\n".join(notes), file=sys.stderr)
    waited, day = (start_s - at_s)[asked].astype(np.float64), table["day"].to_numpy(np.int64)[asked]
    return figures(answers[started], waited[started], day[started])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("file", type=Path)
    arguments.add_argument("--days", default="31-61", help="days to judge, counted from the first (default: %(default)s)")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--json", action="store_true", help="print one JSON object")
    options = arguments.parse_args()
    try:
        result = judged(options.file, *days_of(options.days), options.seed)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    print(json.dumps(result) if options.json else pd.Series(result).to_string())


if __name__ == "__main__":
    main()
