"""The cleaning rules: each on its own, all against a plain-Python reading of them, and on the trace that pins the published count."""

from __future__ import annotations

import operator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features import limits
from features.errors import InputError
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.schema import Trace, conform
from features.limits import MISSING_REQUEST
from pipelines.readers.canonical import read_canonical, write_canonical
from pipelines.readers.swf import read_swf
from tests.conftest import SHARED, needs_shared

FIELDS = ("submit_s", "runtime_s", "procs", "allocated_procs", "requested_s", "queue")
GOOD = (0, 10, 4, 4, 60, "a")


def trace(*rows: tuple, procs: int | None = 8) -> Trace:
    columns: dict[str, object] = {"job_id": np.arange(1, len(rows) + 1)}
    for place, name in enumerate(FIELDS):
        values = [row[place] for row in rows]
        columns[name] = pd.Categorical(pd.array(values, dtype="str")) if name == "queue" else pd.array(values, dtype="Int64")
    columns["submit_s"] = [row[0] for row in rows]
    return Trace(name="t", jobs=conform(columns, len(rows)), procs=procs, source="t.swf")


def test_what_jobs_ask_for_beyond_the_limits_or_against_their_processors_is_taken_as_missing() -> None:
    asked = {
        "nodes": [2, 0, 2, None],
        "procs_per_node": [2, 2, 3, 7],
        "memory_kib": [10, -1, 10**18, 10**15],
        "gpus": [0, -1, 1, None],
    }
    given = trace(*[GOOD] * 4)
    given = replace(given, jobs=given.jobs.assign(**{name: pd.array(values, dtype="Int64") for name, values in asked.items()}))
    cleaned = clean(given)
    assert [step[1:4] for step in touched(cleaned)] == [
        ("altered", "beyond-limits", "nodes"),
        *[("altered", "beyond-limits", "memory_kib")] * 3,
        ("altered", "beyond-limits", "gpus"),
        ("altered", "procs-per-node-against-procs", "procs_per_node"),
    ]
    kept = cleaned.jobs[list(asked)].astype(object).where(lambda table: table.notna(), None)
    assert kept.to_dict("list") == {
        "nodes": [2, None, 2, None],
        "procs_per_node": [2, 2, None, 7],
        "memory_kib": [10, None, None, None],
        "gpus": [0, None, 1, None],
    }


def touched(cleaned: CleanTrace) -> list[tuple]:
    """What was done, as (job_id, action, rule, column, before, after)."""
    rows = cleaned.rejected_jobs[["job_id", "action", "rule", "column", "before", "after"]]
    return [tuple(None if pd.isna(value) else value for value in row) for row in rows.itertuples(index=False)]


@pytest.mark.parametrize(
    ("row", "column", "value"),
    [
        ((limits.SECONDS + 1, 1, 1, 1, 1, "a"), "submit_s", limits.SECONDS + 1),
        ((0, limits.SECONDS + 1, 1, 1, 1, "a"), "runtime_s", limits.SECONDS + 1),
        ((0, 1, 1, 1, 2**63 - 1, "a"), "requested_s", 2**63 - 1),
        ((-(2**63), 1, 1, 1, 1, "a"), "submit_s", -(2**63)),
        ((0, 1, 1, limits.PROCESSORS + 1, 1, "a"), "allocated_procs", limits.PROCESSORS + 1),
    ],
)
def test_jobs_beyond_the_limits_are_left_out(row: tuple, column: str, value: int) -> None:
    cleaned = clean(trace(GOOD, row))
    assert touched(cleaned) == [(2, "dropped", "beyond-limits", column, value, None)]
    assert cleaned.jobs["job_id"].tolist() == [1]


def test_jobs_at_the_limits_stay() -> None:
    row = (0, limits.SECONDS, limits.PROCESSORS, limits.PROCESSORS, limits.SECONDS, "a")
    assert touched(clean(trace(row, procs=limits.PROCESSORS))) == []


@pytest.mark.parametrize("procs", [limits.PROCESSORS + 1, 2**31 - 1, 2**70])
def test_a_machine_beyond_the_limit_is_refused(procs: int) -> None:
    with pytest.raises(InputError, match="procs must be at most 100,000,000"):
        clean(trace(GOOD, procs=procs))


@pytest.mark.parametrize(
    ("jobs", "options", "message"),
    [
        (trace(GOOD, procs=None), {}, "t.swf: the number of processors is unknown; give --procs N"),
        (trace(GOOD), {"procs": 0}, "t.swf: a machine of 0 processors cannot run anything"),
        (trace(), {}, "t.swf: has no jobs"),
        (replace(trace(), procs=None), {}, "t.swf: has no jobs"),
        (
            trace((0, 10, 4, 4, None, "a")),
            {},
            "t.swf: no job states a requested time, so --missing-request drop cannot be applied; --missing-request runtime takes each job's runtime instead",
        ),
        (
            trace(GOOD),
            {"missing_request": "guess"},
            "unknown way to treat missing requests 'guess'; known: drop, runtime, queue-max",
        ),
        (
            trace((0, 0, 4, 4, 60, "a"), (0, 10, 99, 4, 60, "a"), (0, 10, 98, 4, 60, "a")),
            {},
            "t.swf: no job of 3 is left after cleaning (no-runtime: 1, wider-than-machine: 2)",
        ),
    ],
)
def test_what_cannot_be_cleaned_is_refused_in_one_line(jobs: Trace, options: dict, message: str) -> None:
    with pytest.raises(InputError) as caught:
        clean(jobs, **options)
    assert str(caught.value) == message


def plain_rules(rows: list[tuple], procs: int, missing_request: str) -> tuple[list[tuple], list[tuple]]:
    """The rules one job at a time: (what was done as ``touched``), kept jobs as (job, submit, runtime, procs, requested)."""
    before: dict[int, int | None] = {}  # by job: the longest request stated in its queue so far
    longest: dict[object, int] = {}
    for number in sorted(range(1, len(rows) + 1), key=lambda number: rows[number - 1][0]):
        *_, requested, queue = rows[number - 1]
        before[number] = longest.get(queue)
        if (requested or 0) > 0:
            longest[queue] = max(longest.get(queue, 0), requested)
    done, kept = [], []
    for number, (submit, runtime, wanted, allocated, requested, _) in enumerate(rows, 1):
        if (wanted or 0) <= 0 and (allocated or 0) > 0:
            done.append((number, "altered", "procs-from-allocated", "procs", wanted, allocated))
            wanted = allocated
        if (wanted or 0) <= 0:
            done.append((number, "dropped", "no-procs", "procs", wanted, None))
            continue
        if (runtime or 0) <= 0:
            done.append((number, "dropped", "no-runtime", "runtime_s", runtime, None))
            continue
        if submit < 0:
            done.append((number, "dropped", "negative-submit", "submit_s", submit, None))
            continue
        if (requested or 0) <= 0:
            original, requested = requested, {"drop": None, "runtime": runtime, "queue-max": before[number]}[missing_request]
            if requested is None:
                rule = "no-request" if missing_request == "drop" else "no-request-yet"
                done.append((number, "dropped", rule, "requested_s", original, None))
                continue
            done.append((number, "altered", f"request-from-{missing_request}", "requested_s", original, requested))
        if wanted > procs:
            done.append((number, "dropped", "wider-than-machine", "procs", wanted, None))
            continue
        if runtime > requested:
            done.append((number, "altered", "runtime-cut-to-request", "runtime_s", runtime, requested))
            runtime = requested
        kept.append((number, submit, runtime, wanted, requested))
    return done, sorted(kept, key=lambda job: job[1])


MAYBE = st.one_of(st.none(), st.integers(0, 12))
ROWS = st.lists(
    st.tuples(st.integers(-1, 5), MAYBE, MAYBE, MAYBE, MAYBE, st.sampled_from(["a", "b", None])), min_size=1, max_size=12
)


@pytest.mark.slow
@settings(max_examples=12)
@given(ROWS, st.sampled_from(MISSING_REQUEST))
def test_the_rules_together_are_the_rules_one_job_at_a_time(rows: list[tuple], missing_request: str) -> None:
    done, kept = plain_rules(rows, 8, missing_request)
    by_job = operator.itemgetter(0, 1, 2)
    try:
        cleaned = clean(trace(*rows), missing_request=missing_request)
    except InputError:
        assert not kept
        return
    assert sorted(touched(cleaned), key=by_job) == sorted(done, key=by_job)
    columns = ["job_id", "submit_s", "runtime_s", "procs", "requested_s"]
    assert list(cleaned.jobs[columns].itertuples(index=False, name=None)) == kept
    assert cleaned.jobs[columns].dtypes.eq("int64").all()
    assert cleaned.counts().sum() == len(done)


def test_what_is_cut_off_a_runtime_is_kept_beside_it_and_cut_off_no_more(tmp_path: Path) -> None:
    cleaned = clean(trace((0, 60, 4, 4, 60, "a"), (1, 61, 4, 4, 60, "a"), (2, 7000, 4, 4, 60, "a")))
    assert cleaned.jobs["runtime_s"].tolist() == [60, 60, 60]
    assert [step[0] for step in touched(cleaned)] == [2, 3]
    assert cleaned.jobs["overrun_s"].tolist() == [0, 1, 6940]
    assert cleaned.jobs["overrun_s"].dtype == np.int64
    write_canonical(Trace("t", cleaned.jobs, cleaned.procs), tmp_path / "t.parquet")
    pd.testing.assert_frame_equal(clean(read_canonical(tmp_path / "t.parquet")).jobs, cleaned.jobs)


@needs_shared
def test_the_raw_kth_log_gives_the_published_28481_jobs_and_exactly_those() -> None:
    cleaned = clean(read_swf(SHARED / "traces" / "KTH-SP2-1996-2.swf.gz"))
    assert len(cleaned.jobs) == 28_481
    published = read_swf(SHARED / "traces" / "KTH-SP2-filtered.swf.gz").jobs
    columns = ["job_id", "submit_s", "runtime_s", "requested_s"]
    assert (cleaned.jobs[columns].to_numpy() == published[columns].to_numpy(np.int64)).all()
    assert (cleaned.jobs["procs"].to_numpy() == published["procs"].to_numpy(np.int64)).all()
