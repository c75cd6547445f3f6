"""Describe where waiting jobs stand, by priority, partition and account, for models.

A table has a row a job that waits at a moment. What stands above it is counted already; all else is computed
here, from that moment's rows alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

SCOPES = {"": "all jobs", "queue_": "those of its queue", "account_": "of its account", "both_": "of both"}
"""Jobs that are counted, by the first part of a column's name."""
COUNTED = ("jobs", "procs", "memory", "gpus", "proc_hours", "gpu_hours")
"""What is counted of them: proc_hours by requests, of running jobs what is left of these."""
AHEAD, RUNNING = (tuple(f"{scope}{side}_{what}" for scope in SCOPES for what in COUNTED) for side in ("ahead", "running"))
"""Columns of waiting jobs with a higher priority than the job, and of the running jobs that are counted."""
JOB = ("procs", "requested_s", "priority", "memory", "gpus", "nodes")
"""Columns of the job itself."""
KEYS = ("at_s", "submit_s", "eligible_s", "queue", "account")
"""Moment, times in seconds, and names. ``eligible_s`` later than the moment counts as not yet eligible, and no more."""
_MISSING = -1.0
_GROUPS = {"queue": ["at_s", "queue"], "account": ["at_s", "account"], "both": ["at_s", "queue", "account"]}


def inputs(table: pd.DataFrame, further: Sequence[str] = ()) -> pd.DataFrame:
    """Return the inputs of each row, float64, -1 where unknown.

    ``table`` has the columns ``KEYS``, ``JOB``, ``AHEAD``, ``RUNNING``; any may be left out, or null, but ``at_s``, ``submit_s``,
    ``procs`` and ``requested_s``. ``further`` are numeric columns that are read as they are.
    """
    table = table.reset_index(drop=True)
    columns = (*JOB, *AHEAD, *RUNNING, *further)
    numbers = table.reindex(columns=list(columns)).astype(np.float64)
    keys = table.reindex(columns=list(KEYS)).assign(priority=_order(table))
    waited = table["at_s"].to_numpy(np.float64) - table["submit_s"].to_numpy(np.float64)
    ready = (keys["at_s"] - keys["eligible_s"].astype(np.float64)).clip(lower=_MISSING)
    hours = np.log1p(numbers["procs"] * numbers["requested_s"] / 3600.0)
    parts = [
        numbers,
        pd.DataFrame({"waited_s": waited, "eligible_for_s": ready, "own_proc_hours": hours}),
        pd.DataFrame({"submit_hour": table["submit_s"] % 86_400 // 360 / 10.0}),
        _ratios(numbers),
        _length(numbers, keys),
        _group_columns(keys, pd.Series(waited), pd.Series(np.expm1(hours))),
    ]
    described = pd.concat(parts, axis=1)
    return described.replace([np.inf, -np.inf], np.nan).fillna(_MISSING)


def _order(table: pd.DataFrame) -> pd.Series:
    """Return what jobs are ordered by: priority where all rows have it, else how early they were submitted."""
    if "priority" in table and table["priority"].notna().all():
        return table["priority"].astype(np.float64)
    return -table["submit_s"].astype(np.float64)


def _ratios(numbers: pd.DataFrame) -> pd.DataFrame:
    """Return what waits ahead relative to what runs, logarithms."""
    return pd.DataFrame(
        {
            f"{scope}turnover_{what}": _log(numbers[f"{scope}ahead_{what}"]) - _log(numbers[f"{scope}running_{what}"])
            for scope in SCOPES
            for what in ("jobs", "procs", "proc_hours")
        }
    )


def _length(numbers: pd.DataFrame, keys: pd.DataFrame) -> pd.DataFrame:
    """Return the length of the job's queue, hours ahead a processor that it runs on, and the mean of those hours."""
    by = [keys["at_s"], keys["queue"]]
    columns = {"queue_length": numbers["queue_ahead_jobs"].groupby(by, dropna=False).transform("max")}
    columns |= {"queue_turns_hours": _log(numbers["queue_ahead_proc_hours"]) - _log(numbers["queue_running_procs"])}
    columns |= {"ahead_mean_hours": _log(numbers["queue_ahead_proc_hours"]) - _log(numbers["queue_ahead_procs"])}
    return pd.DataFrame(columns)


def _group_columns(keys: pd.DataFrame, waited: pd.Series, hours: pd.Series) -> pd.DataFrame:
    """Return ranks, numbers and waits so far among the rows of a moment, by queue, account and both."""
    columns = {"rank": keys["priority"].groupby(keys["at_s"]).rank(pct=True)}
    for name, group in _GROUPS.items():
        by = [keys[key] for key in group]
        waits = waited.groupby(by, dropna=False)
        columns[f"{name}_waiting"] = waits.transform("size")
        columns[f"{name}_oldest_s"], columns[f"{name}_waited_s"] = waits.transform("max"), waits.transform("median")
        columns[f"{name}_age_rank"] = waits.rank(pct=True)
        columns[f"{name}_rank"] = keys["priority"].groupby(by, dropna=False).rank(pct=True)
        columns[f"{name}_hours"] = hours.groupby(by, dropna=False).transform("sum")
    return pd.DataFrame(columns).astype(np.float64)


def _log(values: pd.Series) -> pd.Series:
    return pd.Series(np.log1p(values.clip(lower=0.0)))
