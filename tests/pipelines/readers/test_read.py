"""Ten real traces: how many jobs are read, what cleaning does to them by rule, and what is kept, each counted twice.

The second count is plain Python over split lines and knows nothing of the readers and rules it checks.
"""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from features.errors import InputError
from features.jobs.cleaning import clean
from features.jobs.schema import Trace
from pipelines.readers.read import read_trace
from tests.conftest import SHARED, needs_shared

TRACES = SHARED / "traces"


@dataclass(frozen=True)
class Expected:
    """What a trace holds and what becomes of it."""

    read: int
    kept: int
    procs: int
    dropped: dict[str, int] = field(default_factory=dict)
    altered: dict[str, int] = field(default_factory=dict)
    way: str = "drop"
    given_procs: int | None = None
    timezone: str | None = None
    origin: int | None = None
    users: int = 0
    notes: tuple[str, ...] = ()


UNIX_TIMES = "The header states {} and submissions look like Unix times: second 0 is taken as Unix time 0."
STOCKHOLM = {"procs": 100, "timezone": "Europe/Stockholm", "origin": 843480031}

EXPECTED = {
    "KTH-SP2-1996-2.1-cln.swf.gz": Expected(
        28_476, 28_467, dropped={"no-procs": 1, "no-runtime": 8}, altered={"runtime-cut-to-request": 475}, users=214, **STOCKHOLM
    ),
    "KTH-SP2-1996-2.swf.gz": Expected(
        28_489,
        28_481,
        dropped={"no-runtime": 8},
        altered={"runtime-cut-to-request": 475},
        users=214,
        **STOCKHOLM,
    ),
    "KTH-SP2-filtered.swf.gz": Expected(28_481, 28_481, users=214, **STOCKHOLM),
    "SDSC-SP2-filtered.swf.gz": Expected(54_006, 54_006, procs=128, users=428),
    "CERIT-wagap-2013.swf.gz": Expected(
        17_900,
        17_898,
        procs=2_176,
        given_procs=1_600 + 576,
        dropped={"no-runtime": 2},
        altered={"runtime-cut-to-request": 702},
        origin=0,
        users=75,
        notes=(
            "Columns 20 and 21 are read as queue and requested nodes, and the requested memory as bytes a job (as MetaCentrum writes).",
            "Requests of different kinds of nodes are read as processors of any nodes: 12.",
            "Negative values other than -1 are taken as missing: run time (2).",
            "The preceding job is 1 on all 17,900 lines: it means nothing.",
            UNIX_TIMES.format("no UnixStartTime"),
        ),
    ),
    "ALCF-Theta-2022-chunks.swf.gz": Expected(
        28_800,
        28_800,
        procs=4_360,
        altered={"runtime-cut-to-request": 7_093},
        timezone="UTC",
        origin=0,
        users=382,
        notes=("Job lines of which columns after the 18th are not read: 28,800.", UNIX_TIMES.format("UnixStartTime 0")),
    ),
    "LANL-CM5-1994-4.1-cln.swf.gz": Expected(
        122_060,
        110_769,
        procs=1_024,
        dropped={"no-procs": 3, "no-request": 11_286, "no-runtime": 2},
        altered={"procs-from-allocated": 11_326, "runtime-cut-to-request": 40_180},
        timezone="US/Mountain",
        origin=781275672,
        users=213,
    ),
    "LLNL-Atlas-2006-2.1-cln.swf.gz": Expected(
        43_778,
        31_248,
        procs=9_216,
        dropped={"no-procs": 4_571, "no-request": 5_352, "no-runtime": 2_607},
        altered={"procs-from-allocated": 1, "runtime-cut-to-request": 3_351},
        timezone="US/Pacific",
        origin=1163199901,
        users=130,
    ),
    "NASA-iPSC-1993-3.1-cln.swf.gz": Expected(
        18_239,
        18_066,
        procs=128,
        way="runtime",
        dropped={"no-runtime": 173},
        altered={"procs-from-allocated": 18_239, "request-from-runtime": 18_066},
        timezone="US/Pacific",
        origin=749458803,
        users=69,
    ),
    "NREL-Eagle-sample-sacct.csv": Expected(
        1_000,
        1_000,
        procs=100_000,
        given_procs=100_000,
        altered={"runtime-cut-to-request": 14},
        timezone="America/Denver",
        origin=1546358155,
        users=15,
        notes=("Job ids that an earlier line has too: 451.",),
    ),
}


@cache
def read(name: str) -> Trace:
    expected = EXPECTED[name]
    return read_trace(str(TRACES / name), procs=expected.given_procs, timezone=expected.timezone if name.endswith(".csv") else None)


@cache
def plain_rows(name: str) -> list[tuple[float, ...]]:
    """(job, submit, runtime, allocated, requested processors, requested time) of each job; -1 where it is not stated."""
    if name.endswith(".csv"):
        zone = ZoneInfo("America/Denver")
        with (TRACES / name).open(newline="") as file:
            rows = list(csv.DictReader(file))
        submits = [datetime.fromisoformat(row["submit_time"]).replace(tzinfo=zone).timestamp() for row in rows]
        cells = [[float(row[column]) for column in ("job_id", "run_time", "processors_req", "wallclock_req")] for row in rows]
        return [(job, submit - min(submits), ran, -1, *asked) for submit, (job, ran, *asked) in zip(submits, cells, strict=True)]
    with gzip.open(TRACES / name, "rt") as file:
        fields = [line.split() for line in file if line.strip() and not line.startswith(";")]
    return [tuple(float(row[place]) for place in (0, 1, 3, 4, 7, 8)) for row in fields]


def plain_count(rows: list[tuple[float, ...]], procs: int, way: str) -> tuple[Counter, list[tuple[float, ...]]]:
    """Rules counted one job at a time, and (job, submit, runtime, processors, request) of those kept, in order of submission."""
    counts: Counter = Counter()
    kept = []
    for job, submit, runtime, allocated, wanted, requested in rows:
        size = wanted if wanted > 0 else allocated
        counts["procs-from-allocated"] += wanted <= 0 < allocated
        if size <= 0:
            counts["no-procs"] += 1
        elif runtime <= 0:
            counts["no-runtime"] += 1
        elif submit < 0:
            counts["negative-submit"] += 1
        elif requested <= 0 and way == "drop":
            counts["no-request"] += 1
        elif size > procs:
            counts["wider-than-machine"] += 1
        else:
            counts["request-from-runtime"] += requested <= 0
            limit = requested if requested > 0 else runtime
            counts["runtime-cut-to-request"] += runtime > limit
            kept.append((job, submit, min(runtime, limit), size, limit))
    return +counts, sorted(kept, key=lambda row: row[1])


ALIKE = ("KTH-SP2-1996-2.swf.gz", "SDSC-SP2-filtered.swf.gz", "LANL-CM5-1994-4.1-cln.swf.gz")
"""Traces in which all that is read and cleaned is in others too."""


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.thorough] * (name in ALIKE)) for name in EXPECTED])
def test_every_job_of_a_real_trace_is_read_and_accounted_for(name: str) -> None:
    expected, trace = EXPECTED[name], read(name)
    assert len(trace.jobs) == expected.read
    assert (trace.procs, trace.timezone, trace.origin_unix_s) == (expected.procs, expected.timezone, expected.origin)
    assert trace.jobs["user"].nunique() == expected.users
    assert trace.notes == expected.notes

    cleaned = clean(trace, missing_request=expected.way)
    counted = {action: dict(cleaned.counts()[action]) if action in cleaned.counts() else {} for action in ("dropped", "altered")}
    assert counted == {"dropped": expected.dropped, "altered": expected.altered}
    assert len(cleaned.jobs) == expected.kept == expected.read - sum(expected.dropped.values())

    counts, kept = plain_count(plain_rows(name), expected.procs, expected.way)
    assert counts == Counter(expected.dropped) + Counter(expected.altered)
    columns = ["job_id", "submit_s", "runtime_s", "procs", "requested_s"]
    assert (cleaned.jobs[columns].to_numpy(np.float64) == np.array(kept)).all()


@needs_shared
def test_a_trace_without_any_request_says_so_instead_of_coming_out_empty() -> None:
    trace = read("NASA-iPSC-1993-3.1-cln.swf.gz")
    for way in ("drop", "queue-max"):
        with pytest.raises(InputError, match=f"no job states a requested time, so --missing-request {way} cannot be applied"):
            clean(trace, missing_request=way)


@needs_shared
def test_cerits_extra_columns_say_what_jobs_ask_for() -> None:
    jobs = read("CERIT-wagap-2013.swf.gz").jobs
    with gzip.open(TRACES / "CERIT-wagap-2013.swf.gz", "rt") as file:
        specs = [line.split()[20] for line in file]
    properties = jobs["properties"].astype("str").fillna("")
    assert len(jobs) == jobs["memory_kib"].notna().sum() == 17_900
    assert (properties.str.contains("cl_zewura").sum(), properties.str.contains("cl_zegox").sum()) == (576, 320)
    assert properties.str.contains(r"\^cl_zewura").sum() == 1  # of the 576 one excludes the cluster
    assert (jobs["exclusive"] == 1).sum() == 231
    assert [sum(not text.startswith(one) for text in specs) for one in ("1:", "1:ppn")] == [341, 345]
    assert (jobs["nodes"] != 1).fillna(
        True
    ).sum() == 334  # 19 of the 341 are one node in other words, and 12 joined ones begin with 1:
    assert (jobs["nodes"].isna().sum(), jobs["nodes"].max()) == (12, 10)
    shaped = jobs["nodes"].notna()
    assert (jobs["nodes"] * jobs["procs_per_node"] == jobs["procs"])[shaped].all()
    assert sorted(jobs["queue"].cat.categories) == sorted(
        [*(["q_2h", "q_4h", "q_1d", "q_2d", "q_4d", "q_1w", "q_2w", "q_2w_plus"]), "backfill", "ops", "priority_long"]
    )
    assert jobs["memory_kib"].max() == 512 * 2**20
