"""Cleaning rules for job traces, and a record of every job they touch.

Drop rows that repeat a job, as where exports overlap (:mod:`features.jobs.damage`), and the parts of a job that a line
of its own describes. Drop a job with a number beyond the limits (:mod:`features.limits`). Treat memory and nodes beyond
the limits or below 1, and GPUs beyond them or below 0, as missing. Use requested processors, else allocated ones. Drop
a job that has neither, has no runtime, no requested time or a negative submission, asks for more processors than the
machine has, or fits none of its clusters. Cut the runtime at the request and record the cut. Drop a job far ahead of,
or behind, the file's own clock. Order by submission, then source order.

On the raw KTH-SP2 log these rules keep 28,481 of 28,489 jobs, the number of Gaussier et al. 2015.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

from features import limits
from features.clock import Clock
from features.deferred import pd
from features.errors import InputError
from features.jobs.columns import TableColumns, Texts, columns, filled, held, tabled
from features.jobs.damage import copies, file_clock
from features.jobs.schema import OVERRUN, REQUIRED, Trace, UnreadLine, codes
from features.jobs.usage import WIDE, advised, usage
from features.limits import MISSING_REQUEST

AHEAD = "ahead-of-file-clock"
"""Rule for jobs that lie ahead of the file's own clock (:mod:`features.jobs.damage`)."""
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


@tabled("jobs", "rejected_jobs")
@dataclass(frozen=True)
class CleanTrace:
    """A trace ready to simulate: every job has a runtime, processors and a requested time.

    ``jobs`` is the canonical table in order of submission, with the column ``overrun_s``: recorded runtime beyond the
    request, which was cut off. ``rejected_jobs`` has one row for each dropped job and each altered value:
    ``job_id submit_s rule action column before after``; action is ``dropped`` or ``altered``. An unreadable line has
    the rule ``unreadable-line``, its number in the file as ``line`` and its ``text``. ``jobs_read`` counts unreadable
    lines too. ``machine`` describes the clusters that they were cleaned for (:mod:`sim.machine.description`), None for
    one pool: the trace is simulated on it wherever it goes.
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
        return f"{kind} {self.name}: {len(held(self)):,} jobs on {self.procs:,} processors ({touched})"

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
        touched = held(self, "rejected_jobs")
        pairs = zip(touched["rule"].tolist(), touched["action"].tolist(), strict=True)
        return {f"{rule} {action}": count for (rule, action), count in Counter(pairs).items()}


Holds: TypeAlias = Callable[[Any], np.ndarray]
"""Takes a cleaned DataFrame; returns which jobs fit an empty machine, bool [jobs]."""


def clean(trace: Trace, procs: int | None = None, missing_request: str = "drop", holds: Holds | None = None) -> CleanTrace:
    """Apply the rules to ``trace``; ``procs`` overrides the machine size stated in its source.

    ``holds`` tells which jobs fit a machine of clusters (:mod:`sim.machine`); the others are dropped.

    ``missing_request`` sets the requested time of a job without one: ``drop`` drops the job, ``runtime`` takes its
    runtime, and ``queue-max`` takes the longest request stated earlier in its queue. With ``queue-max``, jobs without
    an earlier request are dropped as ``no-request-yet``; jobs without a queue form one queue. Raises InputError for an
    unknown machine size, if no job has a requested time (unless ``runtime``), and if no job is left.
    """
    size = _size(trace, procs, missing_request)
    table = columns(held(trace))
    work = _Work(table, trace.unread)
    _amounts(work, trace)
    _requests(work, trace, missing_request)
    work.drop(WIDE, work.numbers("procs") > size, "procs")
    overrun = work.table["runtime_s"] - work.table["requested_s"]
    longer = _true(overrun > 0)
    work.table[OVERRUN] = np.where(longer, overrun, 0)
    work.alter("runtime-cut-to-request", longer, "runtime_s", work.table["requested_s"])

    _outside_the_clock(work)
    if holds is not None and work.kept.any():
        fits = np.ones(len(table), bool)
        fits[work.kept] = holds(TableColumns(work.table).rows(work.kept).frame())
        work.drop(NO_CLUSTER, ~fits, "procs")

    if not work.kept.any():
        reasons = ", ".join(f"{rule}: {count}" for rule, count in sorted(Counter(work.report()["rule"].tolist()).items()))
        raise InputError(f"{trace.source or trace.name}: no job of {len(table)} is left after cleaning ({reasons})")
    kept = np.flatnonzero(work.kept)
    kept = kept[np.argsort(work.numbers("submit_s")[kept], kind="stable")]
    work.table |= {name: work.numbers(name).astype(np.int64) for name in (*REQUIRED, OVERRUN)}
    jobs = TableColumns(work.table, table.labels).rows(kept)
    return CleanTrace(
        name=trace.name,
        jobs=jobs,  # type: ignore[bad-argument-type]
        rejected_jobs=work.report(),  # type: ignore[bad-argument-type]
        procs=size,
        origin_unix_s=trace.origin_unix_s,
        timezone=trace.timezone,
        generated=trace.generated,
        missing_request=missing_request,
        jobs_read=len(table) + len(trace.unread),
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
    jobs = len(held(trace))
    if jobs == 0:
        raise InputError(f"{name}: has no jobs")
    if size is None:
        advice = advised(held(trace), None, usage(held(trace)).procs)
        hint = "N" if advice.procs is None else f"{advice.procs} ({advice.reason}), or the true number"
        raise InputError(f"{name}: the number of processors is unknown; give --procs {hint}")
    if not isinstance(size, Integral) or isinstance(size, bool):
        raise InputError(f"{name}: procs is a {type(size).__name__}, not a whole number of processors")
    if size <= 0:
        raise InputError(f"{name}: a machine of {size} processors cannot run anything")
    if size > limits.PROCESSORS:
        raise InputError(f"{name}: procs must be at most {limits.PROCESSORS:,}")
    if jobs > limits.JOBS:
        raise InputError(f"{name}: has {jobs:,} jobs; a trace has at most {limits.JOBS:,}")
    return int(size)


def _amounts(work: _Work, trace: Trace) -> None:
    """Drop copies, parts and impossible values; take allocated processors where none are requested."""
    work.drop(COPY, copies(held(trace)), "job_id")
    if trace.summaries:
        status, number = filled(held(trace), "status", -1), filled(held(trace), "job_id")
        whole = number[np.isin(status, (0, 1, 5))]
        work.drop(PARTIAL, np.isin(status, PARTS) & np.isin(number, whole), "status")
    for column, largest in limits.COLUMNS.items():
        values = work.numbers(column)
        work.drop(BEYOND, (values > largest) | (values < -largest), column)
    if not work.kept.all():
        for column in limits.COLUMNS:  # keep them out of all arithmetic
            work.put(column, ~work.kept, 0)
    requests = [column for column in limits.ASKED if not np.ma.getmaskarray(work.table[column]).all()]
    for column in requests:
        values = work.table[column]
        least = 0 if column == "gpus" else 1
        work.alter(BEYOND, _true((values > limits.ASKED[column]) | (values < least)), column)
    allocated = work.table["allocated_procs"]
    takes = (work.numbers("procs") <= 0) & (work.numbers("allocated_procs") > 0)
    work.alter("procs-from-allocated", takes, "procs", allocated)
    work.drop("no-procs", work.numbers("procs") <= 0, "procs")
    work.drop("no-runtime", work.numbers("runtime_s") <= 0, "runtime_s")
    work.drop("negative-submit", work.numbers("submit_s") < 0, "submit_s")
    if "nodes" in requests and "procs_per_node" in requests:
        shaped = work.table["nodes"] * work.table["procs_per_node"]
        work.alter("procs-per-node-against-procs", _true(shaped != work.table["procs"]), "procs_per_node")


def _requests(work: _Work, trace: Trace, missing_request: str) -> None:
    missing = work.numbers("requested_s") <= 0
    if missing.all() and missing_request != "runtime":
        raise InputError(
            f"{trace.source or trace.name}: no job states a requested time, so --missing-request {missing_request} cannot be applied; "
            "--missing-request runtime takes each job's runtime instead"
        )
    if missing_request == "runtime":
        work.alter("request-from-runtime", missing, "requested_s", work.table["runtime_s"])
    elif missing_request == "queue-max":
        longest = _longest_before(codes(held(trace), "queue"), work.numbers("submit_s"), work.numbers("requested_s").clip(0))
        work.alter("request-from-queue-max", missing & (longest > 0), "requested_s", longest)
        work.drop("no-request-yet", work.numbers("requested_s") <= 0, "requested_s")
    work.drop("no-request", work.numbers("requested_s") <= 0, "requested_s")


def _longest_before(queue: np.ndarray, submit_s: np.ndarray, requested_s: np.ndarray) -> np.ndarray:
    """Return the longest request of a queue up to each job, in order of submission, int64 [jobs]."""
    order = np.lexsort((submit_s, queue))
    above = (queue[order] + 1) * (limits.SECONDS + 1)  # more than any request of the queues before
    longest = np.empty_like(requested_s)
    longest[order] = np.maximum.accumulate(above + requested_s[order]) - above
    return longest


def _outside_the_clock(work: _Work) -> None:
    """Drop jobs before and after the file's own clock; record the column at fault."""
    submit, wait, runtime, overrun = (
        work.numbers(name).astype(np.float64) for name in ("submit_s", "wait_s", "runtime_s", OVERRUN)
    )
    runtime += overrun
    first, clock = file_clock(submit[work.kept], (wait + runtime)[work.kept])
    work.drop(BEHIND, submit < first, "submit_s")
    ahead = {
        "submit_s": submit > clock,
        "wait_s": (submit + wait + runtime > clock) & (wait >= runtime),
        "runtime_s": (submit + wait + runtime > clock) & (wait < runtime),
    }
    for column, where in ahead.items():
        work.drop(AHEAD, where, column)


def _true(condition: np.ndarray) -> np.ndarray:
    """Return a condition on masked arrays, false where a value is missing."""
    return np.ma.filled(condition, False)


class _Work:
    """The table under cleaning and its log of changes; the first matching rule drops a job."""

    def __init__(self, jobs: TableColumns, unread: Sequence[UnreadLine] = ()) -> None:
        self.table = dict(jobs.arrays)
        self.kept = np.ones(len(jobs), bool)
        self._blocks = [_unread(unread)] if unread else []

    def numbers(self, column: str) -> np.ndarray:
        """Return a column with 0 for missing values."""
        return filled(TableColumns(self.table), column)

    def put(self, column: str, where: np.ndarray, values: Any) -> None:
        """Replace the values of a column ``where``, in a copy."""
        self.table[column] = self.table[column].copy()
        self.table[column][where] = values

    def drop(self, rule: str, where: np.ndarray, column: str) -> None:
        hit = where & self.kept
        self._note(rule, "dropped", hit, column, None)
        self.kept &= ~hit

    def alter(self, rule: str, where: np.ndarray, column: str, values: np.ndarray | None = None) -> None:
        hit = where & self.kept
        self._note(rule, "altered", hit, column, values)
        if hit.any():
            self.put(column, hit, np.ma.masked if values is None else values[hit])

    def _note(self, rule: str, action: str, hit: np.ndarray, column: str, after: np.ndarray | None) -> None:
        rows = int(hit.sum())
        if rows == 0:
            return
        block: dict[str, Any] = {
            "job_id": self.table["job_id"][hit],
            "submit_s": self.table["submit_s"][hit],
            "before": self.table[column][hit],
        }
        block |= {"rule": [rule] * rows, "action": [action] * rows, "column": [column] * rows}
        if after is not None:
            block["after"] = after[hit]
        self._blocks.append(block)

    def report(self) -> TableColumns:
        """Return ``rejected_jobs``."""
        blocks = [(block, len(block["job_id"])) for block in self._blocks or [{"job_id": np.zeros(0, np.int64)}]]
        report: dict[str, Any] = {}
        for name in _REPORT:
            if name in _REPORTED_TEXTS:
                report[name] = Texts.of([text for block, rows in blocks for text in block.get(name, [None] * rows)], plain=True)
            else:
                parts = [block.get(name, np.ma.masked_all(rows, np.int64)) for block, rows in blocks]
                report[name] = np.ma.concatenate(parts).astype(np.int64)
        return TableColumns(report)


def _unread(lines: Sequence[UnreadLine]) -> dict[str, Any]:
    return {
        "job_id": np.ma.MaskedArray([line.job_id or 0 for line in lines], [line.job_id is None for line in lines], np.int64),
        "rule": [line.rule for line in lines],
        "action": ["dropped"] * len(lines),
        "column": [""] * len(lines),
        "line": np.array([line.line for line in lines]),
        "text": [line.text for line in lines],
    }


_REPORT = ("job_id", "submit_s", "rule", "action", "column", "before", "after", "line", "text")
_REPORTED_TEXTS = ("rule", "action", "column", "text")
"""Columns of ``rejected_jobs``, and those of them that hold texts."""
