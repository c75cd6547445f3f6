"""Inspection of a trace: jobs, users, times, gaps, and the effects of cleaning.

``inspect_trace`` is a pure function of the trace; :mod:`pipelines.report.inspection` prints the result.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from features.clock import WEEK_S, local_clock_s
from features.errors import InputError
from features.jobs.choices import MISSING_REQUEST
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.schema import COLUMNS, IDENTITIES, Trace
from features.jobs.usage import Usage, advised, occupied, offered_load, usage

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
LONGEST_GAPS = 5


@dataclass(frozen=True)
class Gap:
    """A time without submissions: from second ``from_s``, ``length_s`` seconds long.

    ``from_local`` is its local date, if known.
    """

    from_s: int
    length_s: int
    from_local: str | None


@dataclass(frozen=True)
class Cleaning:
    """The effect of one way to treat missing requests: jobs kept, and changes by rule.

    ``refused`` says why the trace is refused, if it is.
    """

    kept: int
    dropped: Mapping[str, int]
    altered: Mapping[str, int]
    offered_load: float | None = None
    refused: str | None = None


@dataclass(frozen=True)
class Inspection:
    """Facts about a trace as recorded; seconds from its origin unless a name says otherwise.

    ``usage`` is the use at once by its records, ``occupied`` the
    allocated over the requested work. ``distributions`` has, for each quantity, its count, mean and :data:`QUANTILES`;
    ``missing`` the number of jobs without a value, by column; ``requests_exceeded`` the number of jobs that ran for longer than
    they had requested, ``requests_stated`` those with both values. ``cleaning`` has
    one entry for each way to treat missing requests, ``missing_request`` is the chosen way.
    """

    name: str
    source: str
    sha256: str
    generated: bool
    jobs: int
    unreadable_lines: int
    procs: int | None
    advised_procs: int | None
    procs_reason: str
    origin_unix_s: int | None
    timezone: str | None
    usage: Usage
    occupied: float | None
    first_submit_s: int
    last_submit_s: int
    first_local: str | None
    last_local: str | None
    out_of_order: int
    distinct: Mapping[str, int]
    gaps: tuple[Gap, ...]
    gaps_over_a_week: int
    distributions: Mapping[str, Mapping[str, float]]
    missing: Mapping[str, int]
    requests_stated: int
    requests_exceeded: int
    missing_request: str
    cleaning: Mapping[str, Cleaning]
    notes: tuple[str, ...]
    header: Mapping[str, str]


def inspect_trace(trace: Trace, procs: int | None = None, missing_request: str = "drop") -> Inspection:
    """Inspect ``trace`` without changing it; ``procs`` overrides the size its source states.

    If no size is stated, jobs are cleaned for the advised number of processors. A trace that cannot be cleaned is inspected, too: its
    refusal is part of the result. Raises InputError only if there are no jobs, or if ``missing_request`` is unknown.
    """
    if missing_request not in MISSING_REQUEST:
        raise InputError(f"unknown way to treat missing requests {missing_request!r}; known: {', '.join(MISSING_REQUEST)}")
    jobs = trace.jobs
    if len(jobs) == 0:
        raise InputError(f"{trace.source or trace.name}: has no jobs")
    used, stated_procs = usage(jobs), procs if procs is not None else trace.procs
    advice = advised(jobs, stated_procs, used.procs)
    procs = stated_procs if stated_procs is not None else advice.procs
    submit = jobs["submit_s"].to_numpy(np.int64)
    ordered = np.sort(submit)
    silence = np.diff(ordered)
    longest = np.argsort(-silence, kind="stable")[:LONGEST_GAPS]
    both = jobs["runtime_s"].notna() & jobs["requested_s"].fillna(0).gt(0)
    return Inspection(
        name=trace.name,
        source=trace.source,
        sha256=trace.sha256,
        generated=trace.generated,
        jobs=len(jobs),
        unreadable_lines=len(trace.unread),
        procs=stated_procs,
        advised_procs=advice.procs,
        procs_reason=advice.reason,
        origin_unix_s=trace.origin_unix_s,
        timezone=trace.timezone,
        usage=used,
        occupied=occupied(jobs),
        first_submit_s=int(ordered[0]),
        last_submit_s=int(ordered[-1]),
        first_local=_local(trace, int(ordered[0])),
        last_local=_local(trace, int(ordered[-1])),
        out_of_order=int((np.diff(submit) < 0).sum()),
        distinct={name: int(jobs[name].nunique()) for name in IDENTITIES},
        gaps=tuple(
            Gap(int(ordered[place]), int(silence[place]), _local(trace, int(ordered[place]))) for place in longest if silence[place]
        ),
        gaps_over_a_week=int((silence > WEEK_S).sum()),
        distributions=_distributions(jobs, silence),
        missing={name: int(jobs[name].isna().sum()) for name in COLUMNS},
        requests_stated=int(both.sum()),
        requests_exceeded=int((jobs["runtime_s"] > jobs["requested_s"])[both].sum()),
        missing_request=missing_request,
        cleaning={way: _cleaning(trace, procs, way) for way in MISSING_REQUEST},
        notes=trace.notes,
        header=dict(trace.header),
    )


def _local(trace: Trace, second: int) -> str | None:
    if trace.origin_unix_s is None:
        return None
    clock = local_clock_s(np.array([second]), trace.origin_unix_s, trace.timezone)[0]
    return str(np.datetime64(int(clock), "s")).replace("T", " ")


def _distributions(jobs: pd.DataFrame, silence: np.ndarray) -> dict[str, dict[str, float]]:
    distributions: dict[str, dict[str, float]] = {}
    quantities = {
        name: jobs[name].dropna().to_numpy(np.float64)
        for name in ("procs", "allocated_procs", "runtime_s", "requested_s", "wait_s")
    }
    for name, values in {**quantities, "interarrival_s": silence.astype(np.float64)}.items():
        if len(values):
            quantiles = np.quantile(values, QUANTILES, method="inverted_cdf")
            distributions[name] = {
                "count": len(values),
                "mean": float(values.mean()),
                **{f"q{100 * level:.0f}": float(value) for level, value in zip(QUANTILES, quantiles, strict=True)},
            }
    return distributions


def _cleaning(trace: Trace, procs: int | None, missing_request: str) -> Cleaning:
    """Return what cleaning keeps and changes, or why it refuses the trace."""
    try:
        cleaned: CleanTrace = clean(trace, procs, missing_request)
    except InputError as error:
        return Cleaning(0, {}, {}, refused=str(error))
    counts: dict[str, dict[str, int]] = {"dropped": {}, "altered": {}}
    by_rule: dict[Any, Any] = cleaned.counts().to_dict()
    for (action, rule), number in by_rule.items():
        counts[action][rule] = int(number)
    return Cleaning(len(cleaned.jobs), counts["dropped"], counts["altered"], offered_load(cleaned.jobs, cleaned.procs))
