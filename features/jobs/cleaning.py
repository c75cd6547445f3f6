"""Cleaning rules for job traces, and a record of every job they touch.

Drop rows that repeat a job, as where exports overlap (:mod:`features.jobs.identity`), and the parts of a job that a line of its
own describes. Drop a job with a number beyond the limits (:mod:`features.limits`). Treat memory and nodes beyond the limits or
below 1, and GPUs beyond them or below 0, as missing. Use requested processors, else allocated ones. Drop a job that has neither,
has no runtime, no requested time or a negative submission, asks for more processors than the machine has, or fits none of its
clusters. Cut the runtime at the request and record the cut. Drop a job far ahead of, or behind, the file's own clock. Order by
submission, then source order.

On the raw KTH-SP2 log these rules keep 28,481 of 28,489 jobs, the number of Gaussier et al. 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from features import limits
from features.clock import Clock
from features.errors import InputError
from features.jobs.choices import MISSING_REQUEST
from features.jobs.file_clock import file_clock
from features.jobs.identity import copies
from features.jobs.schema import OVERRUN, REQUIRED, Trace, UnreadLine
from features.jobs.usage import WIDE, advised, usage

AHEAD = "ahead-of-file-clock"
"""Rule for jobs that lie ahead of the file's own clock (:mod:`features.jobs.file_clock`)."""
BEHIND = "behind-file-clock"
"""Rule for jobs submitted long before all others."""
COPY = "copy-of-a-row"
"""Rule for rows that repeat an earlier one."""
BEYOND = "beyond-limits"
"""Rule for jobs with a number beyond :data:`features.limits.COLUMNS`."""
PARTIAL = "partial-execution"
"""Rule for parts of a job beside the line of the whole job, where the trace has ``summaries``."""
PARTS = (2, 3, 4)
"""Status of such parts: to be continued, or the last one, completed or failed."""
NO_CLUSTER = "fits-no-cluster"
"""Rule for jobs that do not fit an empty machine of clusters."""


@dataclass(frozen=True)
class CleanTrace:
    """A trace ready to simulate: every job has a runtime, processors and a requested time.

    ``jobs`` is the canonical table in order of submission, with the column ``overrun_s``: recorded runtime beyond the request,
    which was cut off. ``rejected_jobs`` has one row for each dropped job and each altered value: ``job_id submit_s rule action
    column before after``; action is ``dropped`` or ``altered``. An unreadable line has the rule ``unreadable-line``, its number
    in the file as ``line`` and its ``text``. ``jobs_read`` counts unreadable lines too. ``machine`` describes the clusters that
    they were cleaned for (:mod:`sim.machine.description`), None for one pool: the trace is simulated on it wherever it goes.
    """

    name: str
    jobs: pd.DataFrame
    rejected_jobs: pd.DataFrame
    procs: int
    origin_unix_s: int | None
    timezone: str | None
    generated: bool
    missing_request: str
    jobs_read: int
    source: str = ""
    notes: tuple[str, ...] = ()
    hashed_with: str = ""
    machine: Any = None

    def __repr__(self) -> str:
        """Return one line: kind, name, size, and what cleaning did."""
        touched = ", ".join(f"{words} {count:,}" for words, count in self.touched().items()) or "all as read"
        kind = "generated trace" if self.generated else "trace"
        return f"{kind} {self.name}: {len(self.jobs):,} jobs on {self.procs:,} processors ({touched})"

    @property
    def clock(self) -> Clock:
        """Return the wall clock of the site, as far as it is known."""
        return Clock(self.origin_unix_s, self.timezone)

    def counted_from(self, origin_unix_s: int | None) -> CleanTrace:
        """Return the trace with its seconds counted from another Unix time.

        It is unchanged if one of the two times is unknown.
        """
        if origin_unix_s is None or self.origin_unix_s is None or self.origin_unix_s == origin_unix_s:
            return self
        later_s = self.origin_unix_s - origin_unix_s
        jobs, rejected = (table.assign(submit_s=table["submit_s"] + later_s) for table in (self.jobs, self.rejected_jobs))
        return replace(self, origin_unix_s=origin_unix_s, jobs=jobs, rejected_jobs=rejected)

    def counts(self) -> pd.Series:
        """Return the number of rows of ``rejected_jobs`` by (action, rule)."""
        return self.rejected_jobs.groupby(["action", "rule"], observed=True).size()

    def touched(self) -> dict[str, int]:
        """Return the counts under names such as ``no-runtime dropped``."""
        rules, actions = self.rejected_jobs["rule"], self.rejected_jobs["action"]
        return {str(words): int(count) for words, count in (rules + " " + actions).value_counts(sort=False).items()}


Holds: TypeAlias = Callable[[pd.DataFrame], np.ndarray]
"""Takes a cleaned table; returns which jobs fit an empty machine, bool [jobs]."""


def clean(trace: Trace, procs: int | None = None, missing_request: str = "drop", holds: Holds | None = None) -> CleanTrace:
    """Apply the rules to ``trace``; ``procs`` overrides the machine size stated in its source.

    ``holds`` tells which jobs fit a machine of clusters (:mod:`sim.machine`); the others are dropped.

    ``missing_request`` sets the requested time of a job without one: ``drop`` drops the job, ``runtime`` takes its runtime, and
    ``queue-max`` takes the longest request stated earlier in its queue. With ``queue-max``, jobs without an earlier request are
    dropped as ``no-request-yet``; jobs without a queue form one queue. Raises InputError for an unknown machine size, if no job
    has a requested time (unless ``runtime``), and if no job is left.
    """
    size = _size(trace, procs, missing_request)
    labels = trace.jobs.index  # a user's own may repeat: then they name no job
    trace = replace(trace, jobs=trace.jobs.reset_index(drop=True))
    work = _Work(trace.jobs, trace.unread)
    _amounts(work, trace)
    _requests(work, trace, missing_request)
    work.drop(WIDE, work.table["procs"].fillna(0) > size, "procs")
    longer = (work.table["runtime_s"] > work.table["requested_s"]).fillna(False)
    work.table[OVERRUN] = (work.table["runtime_s"] - work.table["requested_s"]).where(longer, 0)
    work.alter("runtime-cut-to-request", longer, "runtime_s", work.table["requested_s"])

    _outside_the_clock(work)
    if holds is not None and work.kept.any():
        held = np.ones(len(work.table), bool)
        held[work.kept] = holds(work.table.loc[work.kept])
        work.drop(NO_CLUSTER, pd.Series(~held), "procs")

    jobs = work.table.loc[work.kept].sort_values("submit_s", kind="stable")
    own = labels.is_unique and not labels.equals(pd.RangeIndex(len(labels)))
    jobs.index = labels[jobs.index] if own else pd.RangeIndex(len(jobs))
    if len(jobs) == 0:
        reasons = ", ".join(f"{rule}: {len(rows)}" for rule, rows in work.report().groupby("rule"))
        raise InputError(f"{trace.source or trace.name}: no job of {len(trace.jobs)} is left after cleaning ({reasons})")
    jobs = jobs.astype(dict.fromkeys((*REQUIRED, OVERRUN), "int64"))
    return CleanTrace(
        name=trace.name,
        jobs=jobs,
        rejected_jobs=work.report(),
        procs=size,
        origin_unix_s=trace.origin_unix_s,
        timezone=trace.timezone,
        generated=trace.generated,
        missing_request=missing_request,
        jobs_read=len(trace.jobs) + len(trace.unread),
        source=trace.source,
        notes=trace.notes,
        hashed_with=trace.hashed_with,
    )


def _size(trace: Trace, procs: int | None, missing_request: str) -> int:
    """Return the processors of the machine; raise InputError for what cannot be cleaned."""
    if not isinstance(trace, Trace):
        raise InputError(
            f"a {type(trace).__name__} is not a Trace: read_trace reads one, and Trace(name, jobs_from(frame)) makes one"
        )
    if missing_request not in MISSING_REQUEST:
        raise InputError(f"unknown way to treat missing requests {missing_request!r}; known: {', '.join(MISSING_REQUEST)}")
    name, size = trace.source or trace.name, procs if procs is not None else trace.procs
    if size is None:
        advice = advised(trace.jobs, None, usage(trace.jobs).procs)
        hint = "N" if advice.procs is None else f"{advice.procs} ({advice.reason}), or the true number"
        raise InputError(f"{name}: the number of processors is unknown; give --procs {hint}")
    if not isinstance(size, Integral) or isinstance(size, bool):
        raise InputError(f"{name}: procs is a {type(size).__name__}, not a whole number of processors")
    if size <= 0:
        raise InputError(f"{name}: a machine of {size} processors cannot run anything")
    if size > limits.PROCESSORS:
        raise InputError(f"{name}: procs must be at most {limits.PROCESSORS:,}")
    if len(trace.jobs) > limits.JOBS:
        raise InputError(f"{name}: has {len(trace.jobs):,} jobs; a trace has at most {limits.JOBS:,}")
    if len(trace.jobs) == 0:
        raise InputError(f"{name}: has no jobs")
    return int(size)


def _amounts(work: _Work, trace: Trace) -> None:
    """Drop copies, parts and impossible values; take allocated processors where none are requested."""
    work.drop(COPY, pd.Series(copies(trace.jobs)), "job_id")
    if trace.summaries:
        status, whole = trace.jobs["status"], trace.jobs["job_id"]
        work.drop(PARTIAL, status.isin(PARTS) & whole.isin(whole[status.isin((0, 1, 5))]), "status")
    for column, largest in limits.COLUMNS.items():
        work.drop(BEYOND, ((work.table[column] > largest) | (work.table[column] < -largest)).fillna(False), column)
    if not work.kept.all():
        work.table.loc[~work.kept, list(limits.COLUMNS)] = 0  # keep them out of all arithmetic
    filled = [column for column in limits.ASKED if work.table[column].notna().any()]
    for column in filled:
        values = work.table[column]
        least = 0 if column == "gpus" else 1
        work.alter(BEYOND, ((values > limits.ASKED[column]) | (values < least)).fillna(False), column)
    requested = work.table["procs"].fillna(0) > 0
    allocated = work.table["allocated_procs"]
    work.alter("procs-from-allocated", ~requested & (allocated.fillna(0) > 0), "procs", allocated)
    work.drop("no-procs", work.table["procs"].fillna(0) <= 0, "procs")
    work.drop("no-runtime", work.table["runtime_s"].fillna(0) <= 0, "runtime_s")
    work.drop("negative-submit", work.table["submit_s"] < 0, "submit_s")
    if "nodes" in filled and "procs_per_node" in filled:
        shaped = work.table["nodes"] * work.table["procs_per_node"]
        work.alter("procs-per-node-against-procs", (shaped != work.table["procs"]).fillna(False), "procs_per_node")


def _requests(work: _Work, trace: Trace, missing_request: str) -> None:
    missing = work.table["requested_s"].fillna(0) <= 0
    if missing.all() and missing_request != "runtime":
        raise InputError(
            f"{trace.source or trace.name}: no job states a requested time, so --missing-request {missing_request} cannot be applied; "
            "--missing-request runtime takes each job's runtime instead"
        )
    if missing_request == "runtime":
        work.alter("request-from-runtime", missing, "requested_s", work.table["runtime_s"])
    elif missing_request == "queue-max":
        requests_s = work.table["requested_s"].where(~missing, 0)
        by_submission = work.table["submit_s"].sort_values(kind="stable").index
        queue = work.table["queue"].cat.codes.loc[by_submission]
        longest = requests_s.loc[by_submission].groupby(queue).cummax().loc[work.table.index]
        work.alter("request-from-queue-max", missing & (longest > 0), "requested_s", longest)
        work.drop("no-request-yet", work.table["requested_s"].fillna(0) <= 0, "requested_s")
    work.drop("no-request", work.table["requested_s"].fillna(0) <= 0, "requested_s")


def _outside_the_clock(work: _Work) -> None:
    """Drop jobs before and after the file's own clock; record the column at fault."""
    names = ("submit_s", "wait_s", "runtime_s", OVERRUN)
    submit, wait, runtime, overrun = (work.table[name].fillna(0).to_numpy(np.float64) for name in names)
    runtime += overrun
    first, clock = file_clock(submit[work.kept], (wait + runtime)[work.kept])
    work.drop(BEHIND, pd.Series(submit < first), "submit_s")
    ahead = {
        "submit_s": submit > clock,
        "wait_s": (submit + wait + runtime > clock) & (wait >= runtime),
        "runtime_s": (submit + wait + runtime > clock) & (wait < runtime),
    }
    for column, where in ahead.items():
        work.drop(AHEAD, pd.Series(where), column)


class _Work:
    """The table under cleaning and its log of changes; the first matching rule drops a job."""

    def __init__(self, jobs: pd.DataFrame, unread: Sequence[UnreadLine] = ()) -> None:
        self.table = jobs.copy()
        self.kept = np.ones(len(jobs), bool)
        lines = [
            {
                "job_id": line.job_id,
                "rule": line.rule,
                "action": "dropped",
                "column": "",
                "line": line.line,
                "text": line.text,
            }
            for line in unread
        ]
        self._rows = [_as_report(pd.DataFrame(lines))] if lines else []

    def drop(self, rule: str, where: pd.Series, column: str) -> None:
        hit = where.to_numpy(bool) & self.kept
        self._note(rule, "dropped", hit, column, None)
        self.kept &= ~hit

    def alter(self, rule: str, where: pd.Series, column: str, values: pd.Series | None = None) -> None:
        hit = where.to_numpy(bool) & self.kept
        self._note(rule, "altered", hit, column, values)
        if hit.any():
            self.table.loc[hit, column] = pd.NA if values is None else values[hit]

    def _note(self, rule: str, action: str, hit: np.ndarray, column: str, after: pd.Series | None) -> None:
        if not hit.any():
            return
        columns = {"job_id": "job_id", "submit_s": "submit_s", "before": column}
        rows = pd.DataFrame({name: self.table[own].array[hit] for name, own in columns.items()})
        rows = rows.assign(rule=rule, action=action, column=column)
        if after is not None:
            rows["after"] = after.array[hit]
        self._rows.append(rows)

    def report(self) -> pd.DataFrame:
        return _as_report(pd.concat(self._rows, ignore_index=True) if self._rows else pd.DataFrame())


_REPORT = {"job_id": "Int64", "submit_s": "Int64", "rule": "str", "action": "str", "column": "str"}
_REPORT |= {"before": "Int64", "after": "Int64", "line": "Int64", "text": "str"}
"""Columns of ``rejected_jobs`` and their dtypes."""


def _as_report(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.reindex(columns=list(_REPORT)).astype(_REPORT)
