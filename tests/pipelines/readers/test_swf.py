"""The SWF reader: what it reads, what it says of the rest, and every way in which a file can be bad."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from features.jobs.cleaning import clean
from features.jobs.schema import COLUMNS, Trace
from pipelines.readers.canonical import read_canonical, write_canonical
from pipelines.readers.swf import parse_swf, read_swf
from pipelines.readers.text import Source, trace_name
from tests.campaigns.readings import compare_jobs
from tests.oracle import readers
from tests.support.refusals import refusal

LINE = "1 10 5 100 4 -1 -1 8 3600 -1 1 3 2 7 1 2 -1 -1"
"""A job with every field the jobs table has, but preceding job and think time."""


def parse(text: str) -> Trace:
    return parse_swf(Source("test.swf", text.encode(), ""))


def job(**fields: object) -> str:
    """LINE with some fields, named f1..f18, replaced."""
    values: list[object] = list(LINE.split())
    for name, value in fields.items():
        values[int(name[1:]) - 1] = value
    return " ".join(map(str, values))


@pytest.mark.parametrize(
    ("lines", "notes"),
    [
        (
            [job(f3=-7), job(f1=2, f3=-2, f12=-5), job(f1=3, f2=-40)],
            ["Negative values other than -1 are taken as missing: wait time (2), user (1)."],
        ),
        (
            [job(f3="1.5", f4="2.4999", f6="489.00", f7="1e400"), job(f1=2, f3="3.0")],
            ["Fractional times are rounded to the second: wait time (1), run time (1)."],
        ),
        (
            [LINE + " {1,1} q_1d 1:ppn=2#excl", job(f1=2), job(f1=3) + " 0.5"],
            ["Job lines of which columns after the 18th are not read: 2."],
        ),
        (
            [job(f17=1, f18=1), job(f17=1, f18=1), job(f1=3, f11=17, f17=1, f18=1)],
            [
                "Statuses other than 0 to 5 are taken as missing: 1.",
                "Job numbers that an earlier line has too: 1.",
                "The preceding job is 1 on all 3 lines: it means nothing.",
            ],
        ),
    ],
)
def test_what_is_doubtful_or_left_unread_is_noted_and_its_job_kept(lines: list[str], notes: list[str]) -> None:
    trace = parse("\n".join(lines))
    assert (list(trace.notes), len(trace.jobs)) == (notes, len(lines))


def test_memory_is_of_the_whole_job_and_what_is_absurd_is_left_to_cleaning() -> None:
    fields = [
        ("100", 8, 4),
        ("0.5", 8, 4),
        ("100", -1, 4),
        ("100", -1, -1),
        ("0", 8, 4),
        ("-5", 8, 4),
        ("1e400", 8, 4),
        ("9" * 30, 8, 4),
    ]
    trace = parse(
        "\n".join(job(f1=number, f5=allocated, f8=procs, f10=text) for number, (text, procs, allocated) in enumerate(fields))
    )
    kib = trace.jobs["memory_kib"]
    assert kib.isna().tolist() == [False, False, False, True, True, True, False, False]
    assert kib.dropna().tolist() == [800, 8, 400, 10**18, 10**18]
    assert trace.notes == (
        "Fractional memory is rounded to a whole number: 1.",
        "Negative values other than -1 are taken as missing: requested memory (1).",
    )
    cleaned = clean(trace, 8)
    assert cleaned.touched() == {"beyond-limits altered": 2, "procs-from-allocated altered": 1, "no-procs dropped": 1}
    assert cleaned.jobs["memory_kib"].isna().tolist() == [False, False, False, True, True, True, True]
    with pytest.raises(InputError, match=r"^test\.swf:1: field 10 \(requested memory\) is 'NaN', not a number$"):
        parse(job(f10="NaN"))


def test_parts_of_a_job_are_dropped_beside_the_line_of_the_whole_job_only(tmp_path: Path) -> None:
    statuses = [(1, 1), (1, 2), (1, 3), (2, 2), (2, 4), (3, 2), (3, 4), (3, 0), (4, 5), (4, 3), (5, -1), (5, 3)]
    trace = parse("\n".join(job(f1=number, f2=place, f11=status) for place, (number, status) in enumerate(statuses)))
    write_canonical(trace, tmp_path / "test.parquet")
    for each in (trace, read_canonical(tmp_path / "test.parquet")):
        cleaned = clean(each, 8)
        assert cleaned.jobs["submit_s"].tolist() == [0, 3, 4, 7, 8, 10, 11]
        assert cleaned.touched() == {"partial-execution dropped": 5}
        assert cleaned.rejected_jobs[["job_id", "before"]].to_numpy().tolist() == [[1, 2], [1, 3], [3, 2], [3, 4], [4, 3]]
    assert len(clean(replace(trace, summaries=False), 8).jobs) == len(statuses)


HEADER = """\
; Version: 2.2
; Information: http://www.pdc.kth.se/
;              http://www.cs.huji.ac.il/labs/parallel/workload/
; MaxProcs: 100
; UnixStartTime: 843480031
; TimeZone: 3600
; TimeZoneString: Europe/Stockholm
; Note: uses the EASY scheduler
; Queue:  0  interactive
; Queue:  1  batch
;
; Note: A CLEANED VERSION
;       filter: user=50 and submit<=2006-12-18 00:00:00
;MaxNodes:50
"""


def test_header_keys_repeat_and_continue() -> None:
    trace = parse("\ufeff" + HEADER + LINE)
    assert trace.header == {
        "Version": "2.2",
        "Information": "http://www.pdc.kth.se/\nhttp://www.cs.huji.ac.il/labs/parallel/workload/",
        "MaxProcs": "100",
        "UnixStartTime": "843480031",
        "TimeZone": "3600",
        "TimeZoneString": "Europe/Stockholm",
        "Note": "uses the EASY scheduler\nA CLEANED VERSION\nfilter: user=50 and submit<=2006-12-18 00:00:00",
        "Queue": "0  interactive\n1  batch",
        "MaxNodes": "50",
    }
    assert (trace.procs, trace.origin_unix_s, trace.timezone, trace.notes) == (100, 843480031, "Europe/Stockholm", ())


NODES_TAKEN = "The header has no MaxProcs: MaxNodes, 50, is taken as the number of processors."
OFFSET_TAKEN = "The header names no time zone: its TimeZone, {} s, is taken as {}, without daylight saving."


@pytest.mark.parametrize(
    ("header", "procs", "zone", "note"),
    [
        ("; MaxNodes: 50", 50, None, NODES_TAKEN),
        (
            "; MaxProcs: 1,024",
            None,
            None,
            "The header's MaxProcs says '1,024', which is not a whole number up to 100,000,000: not used.",
        ),
        (
            "; TimeZoneString: Mars/Olympus",
            None,
            None,
            "The header's TimeZoneString 'Mars/Olympus' is not a zone of the IANA database: not used.",
        ),
        ("; TimeZone: US/Pacific", None, "US/Pacific", "The header's TimeZone, US/Pacific, is taken as the name of the time zone."),
        ("; TimeZone: 12345", None, None, "The header's TimeZone '12345' is not a whole number of hours: not used."),
        ("; TimeZone: 3600", None, "Etc/GMT-1", OFFSET_TAKEN.format("3600", "Etc/GMT-1")),
    ],
)
def test_what_the_header_leaves_open_is_said(header: str, procs: int | None, zone: str | None, note: str | None) -> None:
    trace = parse(f"{header}\n{LINE}")
    assert (trace.procs, trace.timezone, trace.notes) == (procs, zone, (note,) if note else ())


def test_unix_submissions_make_unix_time_0_the_origin() -> None:
    for header, missing in (("", "no UnixStartTime"), ("; UnixStartTime: 0\n", "UnixStartTime 0")):
        trace = parse(header + job(f2=1356996147))
        assert (trace.origin_unix_s, trace.jobs["submit_s"][0]) == (0, 1356996147)
        assert trace.notes == (
            f"The header states {missing} and submissions look like Unix times: second 0 is taken as Unix time 0.",
        )
        assert parse(header + LINE).origin_unix_s is None
    assert parse("; UnixStartTime: 5\n" + job(f2=1356996147)).origin_unix_s == 5


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (job(f2=844065450000), "field 2 (submit time) is 844065450000: these are Unix milliseconds"),
        (f"; UnixStartTime: 1000000000\n; UnixStartTime: 1100000000\n{LINE}", "the header states several UnixStartTime"),
    ],
)
def test_a_clock_that_would_be_guessed_is_refused(text: str, line: str) -> None:
    assert line in refusal(parse, text)


@pytest.mark.parametrize(
    ("header", "origin", "note"),
    [
        (";UnixStartTime:1000000000", 10**9, None),
        (
            "; UnixStartTime: 2023-11-14 22:13:20",
            None,
            "The header's UnixStartTime says '2023-11-14 22:13:20', which is not a whole number up to 10,000,000,000: not used.",
        ),
        (
            "; UnixStartTime: 1e9",
            None,
            "The header's UnixStartTime says '1e9', which is not a whole number up to 10,000,000,000: not used.",
        ),
    ],
)
def test_an_origin_is_a_whole_number(header: str, origin: int | None, note: str | None) -> None:
    trace = parse(f"{header}\n;TimeZoneString:Europe/Stockholm\n{LINE}")
    assert (trace.origin_unix_s, trace.timezone, trace.notes) == (origin, "Europe/Stockholm", (note,) if note else ())


BAD = {
    "not a number": (f"; header\n{job(f9='1h')}\n", ":2: field 9 (requested time) is '1h', not a number"),
    "in a field that is not kept": (job(f6="x"), ":1: field 6 (average CPU time) is 'x', not a number"),
    "a long text": (job(f5="a" * 100), f":1: field 5 (allocated processors) is '{'a' * 40}...', not a number"),
    "half a processor": (job(f8="1.5"), ":1: field 8 (requested processors) is '1.5', not a whole number"),
    "more than fits": (job(f4="1" + "0" * 18), f":1: field 4 (run time) is '1{'0' * 18}', too large a number"),
    "another clock": (
        f"; UnixStartTime: 5\n{LINE}\n\n; Version: 2\n; UnixStartTime: 9\n{LINE}",
        ":5: a second header with UnixStartTime '9', where the first has 5: its jobs count from another second; split the file at this header",
    ),
    "too few fields": (f"{LINE}\n\n1 2 3\n{LINE}", ":3: 3 fields, where SWF has 18"),
    "binary rubbish": ("\x00\x01\x02\ufffd", r":1: field 1 (job number) is '\x00\x01\x02�', not a number"),
    "nothing": ("", ": is empty"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_refused_with_file_line_and_cause_and_leaves_nothing_behind(kind: str, tmp_path: Path) -> None:
    text, message = BAD[kind]
    path = tmp_path / "bad.swf"
    path.write_text(text)
    assert refusal(read_swf, path) == f"{path}{message}"
    assert list(tmp_path.iterdir()) == [path]


def test_a_bad_container_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress((LINE + "\n").encode() * 1000)
    for data, message in (
        (packed[:-20], "truncated: the gzip data end before their end mark"),
        (packed[:5], "truncated: the gzip data end before their end mark"),
        (packed[:-8] + bytes(8), "damaged gzip data: CRC check failed"),
        (packed[:12] + b"\xff" * 40, "damaged gzip data: "),
        (packed + b"more", "damaged gzip data: Not a gzipped file (b'mo')"),
    ):
        path = tmp_path / "bad.swf.gz"
        path.write_bytes(data)
        assert refusal(read_swf, path).startswith(f"{path}: {message}")
    assert refusal(read_swf, tmp_path) == f"{tmp_path}: is a directory, not a file"
    assert refusal(read_swf, tmp_path / "none.swf") == f"{tmp_path / 'none.swf'}: no such file"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/a/b/KTH-SP2-1996-2.swf.gz", "kth-sp2-1996-2"),
        ("NREL Eagle_sample.CSV", "nrel-eagle-sample"),
        ("a.txt.parquet", "a"),
        ("log.2024-01.swf", "log.2024-01"),
        ("jobs", "jobs"),
        ("Köln.swf", "k-ln"),
    ],
)
def test_a_trace_is_named_after_its_file(path: str, name: str) -> None:
    assert trace_name(path) == name


TIME = st.one_of(
    st.integers(-3, 10**15).map(str),
    st.decimals(0, 10**9, places=4).map(str),
    st.floats(0, 1e12, allow_nan=False).map(lambda value: f"{value:.3e}"),
    st.sampled_from(["1e3", "+1.5E+2", "25000e-3", "007", ".6", "5.", "-0"]),
)
WHOLE = st.one_of(st.integers(-3, 10**6).map(str), st.just("-1"))
UNREAD = st.sampled_from(["-1", "489.00", "1e400", "9" * 30])
KINDS = {**dict.fromkeys((1, 2, 3, 8, 17), TIME), **dict.fromkeys((5, 6, 9), UNREAD), 10: st.integers(-2, 7).map(str)}
BLANK = st.sampled_from([" ", "  ", "\t", " \t "])
BEHIND = st.sampled_from(["", " 7", "\tx y", " ; behind a job"])
BEFORE = st.sampled_from(["", "", "\t", "  "])
BETWEEN = st.sampled_from(["", "  ", "; note", " ;; note"])


@pytest.mark.slow
@settings(max_examples=10)
@given(
    st.lists(
        st.tuples(BEFORE, st.tuples(*[KINDS.get(place, WHOLE) for place in range(18)]), BLANK, BEHIND, BETWEEN),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_any_table_is_read_as_a_second_reader_reads_it(rows: list[tuple], end: str) -> None:
    lines = ["; MaxProcs: 64", ""]
    for before, fields, blank, behind, between in rows:
        lines += [before + blank.join(fields) + behind, between]
    text = end.join(lines) + end
    trace = parse(text)
    compare_jobs(trace, text.encode(), readers.swf)
    assert set(trace.jobs) == set(COLUMNS)
    assert (trace.procs, trace.header) == (64, {"MaxProcs": "64"})
    comments = [line for line in lines[3:] if line.lstrip().startswith(";")]
    assert (f"Comment lines between jobs are not read as header: {len(comments)}." in trace.notes) == bool(comments)
    for name, place in (("user", 11), ("partition", 15)):  # categories are strings in the order of their numbers
        used = {row[1][place] for row in rows if int(row[1][place]) >= 0}
        assert trace.jobs[name].cat.categories.tolist() == sorted(used, key=int)
