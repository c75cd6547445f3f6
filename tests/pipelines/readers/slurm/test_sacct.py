"""Slurm accounting: sacct's own output and CSV exports, local times over changes of the clocks, and what is refused."""

from __future__ import annotations

import gzip
import operator
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from features.jobs.cleaning import clean
from features.jobs.schema import Trace, UnreadLine
from pipelines.lake.tables import Lake
from pipelines.readers.canonical import read_canonical, write_canonical
from pipelines.readers.delimited import duration
from pipelines.readers.localtime import to_unix
from pipelines.readers.read import read_trace
from pipelines.readers.slurm.sacct import STATUS, UNFINISHED, parse_sacct
from pipelines.readers.slurm.times import tasks_in
from pipelines.readers.text import Source, load
from pipelines.report.inspection import inspect_trace
from tests.conftest import SHARED, needs_shared
from tests.support.refusals import refusal

ZONE = "Europe/Berlin"
COLUMNS = "JobID|JobIDRaw|User|Group|Account|Partition|QOS|JobName|State|Submit|Start|End|Elapsed|Timelimit|AllocNodes|ReqNodes|AllocCPUS|ReqCPUS"
JOB = "7|7|ann|staff|physics|batch|normal|sim|COMPLETED|2024-05-01T10:00:00|2024-05-01T10:00:30|2024-05-01T11:00:30|01:00:00|1-02:03:04|2|2|64|48"


def parse(text: str, zone: str | None = ZONE, processors: str = "cpus") -> Trace:
    return parse_sacct(Source("sacct.txt", text.encode(), ""), zone, processors)


def job(**values: str) -> str:
    """JOB with some columns replaced, by their name in lower case; JobIDRaw follows JobID unless given."""
    fields = dict(zip(COLUMNS.lower().split("|"), JOB.split("|"), strict=True))
    if "jobid" in values:
        values.setdefault("jobidraw", values["jobid"])
    return "|".join((fields | values).values())


def sacct(*jobs: str) -> str:
    return "\n".join([COLUMNS, *jobs]) + "\n"


def table(columns: str, *rows: str) -> str:
    return "\n".join([columns, *rows]) + "\n"


def unix(local: str, zone: str = ZONE, fold: int = 0) -> int:
    return int(datetime.fromisoformat(local).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp())


def test_the_columns_go_where_they_belong() -> None:
    trace = parse(sacct(JOB))
    assert trace.origin_unix_s == unix("2024-05-01T10:00:00") == datetime(2024, 5, 1, 8, tzinfo=UTC).timestamp()
    assert trace.timezone == ZONE
    assert trace.procs is None
    assert trace.notes == ()
    assert trace.jobs.iloc[0].dropna().to_dict() == {
        "job_id": 7,
        "submit_s": 0,
        "wait_s": 30,
        "runtime_s": 3600,
        "procs": 48,
        "allocated_procs": 64,
        "requested_s": ((1 * 24 + 2) * 60 + 3) * 60 + 4,
        "user": "ann",
        "group": "physics",
        "executable": "sim",
        "queue": "normal",
        "partition": "batch",
        "status": 1,
        "nodes": 2,
    }


def test_parsable_parsable2_byte_order_mark_crlf_and_blank_lines_read_alike() -> None:
    plain = sacct(JOB, job(jobid="8"))
    trailing = "".join(f"{line}|\n" for line in plain.splitlines())
    for text in (trailing, "\ufeff" + plain, plain.replace("\n", "\r\n"), "\n" + plain.replace("\n", "\n\n"), plain.rstrip()):
        assert parse(text).jobs.equals(parse(plain).jobs)
    assert parse(plain).jobs["job_id"].tolist() == [7, 8]
    assert parse(plain.replace(COLUMNS, COLUMNS.upper())).jobs.equals(parse(plain).jobs)


def test_array_and_heterogeneous_jobs_without_raw_ids_are_numbered_anew() -> None:
    columns = "JobID|Submit|Elapsed|ReqCPUS"
    rows = [f"{name}|2024-05-01T10:00:00|00:00:10|1" for name in ("123_4", "123+1", "9", "123_[5-10%2]", "9.batch")]
    trace = parse(table(columns, *rows))
    assert trace.jobs["job_id"].tolist() == [1, 2, 3, 4]
    assert trace.notes[3] == (
        "Job ids are not all whole numbers (array or heterogeneous jobs, and no JobIDRaw): jobs are numbered from 1 instead."
    )
    assert parse(table(columns, rows[2], rows[2])).notes == ("Job ids that an earlier line has too: 1.",)


@given(st.integers(0, 10**7), st.sampled_from(["days", "hours", "minutes"]))
def test_a_duration_as_slurm_writes_it_is_read_back(seconds: int, largest: str) -> None:
    minutes, secs = divmod(seconds % 3600 if largest == "minutes" else seconds, 60)
    hours, mins = divmod(minutes, 60)
    written = {
        "days": f"{hours // 24}-{hours % 24:02}:{mins:02}:{secs:02}",
        "hours": f"{hours:02}:{mins:02}:{secs:02}",
        "minutes": f"{mins:02}:{secs:02}",
    }
    assert duration(written[largest]) == (hours * 60 + mins) * 60 + secs


def test_raw_columns_come_first_minutes_are_minutes_and_nodes_stand_in_for_missing_cpus() -> None:
    columns = "JobIDRaw|Submit|Elapsed|ElapsedRaw|Timelimit|TimelimitRaw|ReqNodes|NNodes"
    trace = parse(table(columns, "1|2024-05-01T10:00:00|00:01:00|61|01:00:00|90|3|4"))
    assert trace.jobs[["runtime_s", "requested_s", "procs", "allocated_procs"]].iloc[0].tolist() == [61, 5400, 3, 4]
    assert trace.notes == ("The file states no cpus: nodes are taken as processors.",)


def test_states_become_swf_status_and_what_has_not_ended_has_no_runtime() -> None:
    states = [
        "COMPLETED",
        "FAILED",
        "TIMEOUT",
        "CANCELLED by 1000",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "RUNNING",
        "PENDING",
    ]
    jobs = [job(jobid=str(number), state=state) for number, state in enumerate(states)]
    trace = parse(sacct(*jobs))
    assert trace.jobs["status"].fillna(-1).tolist() == [1, 0, 0, 5, 0, 0, 5, -1, -1]
    assert trace.jobs["runtime_s"].isna().tolist() == [False] * 7 + [True] * 2
    assert trace.notes == ("Jobs that had started and not ended, so that they have no runtime: 2.",)
    assert not set(STATUS) & set(UNFINISHED)


def test_jobs_that_never_started_have_no_wait_and_no_runtime() -> None:
    never = [
        job(jobid=str(n), state="CANCELLED by 0", start=start, elapsed="00:00:00") for n, start in enumerate(("Unknown", "None"))
    ]
    running = job(jobid="9", state="RUNNING", end="Unknown")
    trace = parse(sacct(*never, running, JOB))
    assert trace.jobs["wait_s"].isna().tolist() == [True, True, False, False]
    assert trace.jobs["runtime_s"].isna().tolist() == [True, True, True, False]
    assert trace.notes == (
        "Jobs that never started, so that they have no runtime: 2.",
        "Jobs that had started and not ended, so that they have no runtime: 1.",
    )


def test_ended_runs_of_requeued_jobs_are_jobs() -> None:
    """sacct --duplicates has a line for every run of a job that was requeued; jobs that wait again have no end."""
    again = job(jobid="9", state="REQUEUED", start="Unknown", end="Unknown", elapsed="00:00:00")
    resized = job(jobid="9", state="RESIZING", elapsed="00:10:00", end="2024-05-01T10:10:30")
    trace = parse(sacct(job(jobid="8", state="REQUEUED"), again, resized, job(jobid="9")))
    assert trace.jobs["runtime_s"].fillna(-1).tolist() == [3600, -1, 600, 3600]
    assert trace.jobs["status"].fillna(-1).tolist() == [5, -1, 2, 1]
    assert trace.notes == (
        "Job ids that an earlier line has too: 2.",
        "Ended runs of jobs that were requeued or resized are read as jobs of their own: 2.",
        "Jobs that never started, so that they have no runtime: 1.",
    )


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("123_[7-100%4]", ([*range(7, 101)], True)),
        ("123_[7]", ([7], True)),
        ("123_[0-15:4,20,30-31]", ([0, 4, 8, 12, 20, 30, 31], True)),
        ("123_[1-5,...]", ([1, 2, 3, 4, 5], False)),
        ("123_4", None),
        ("123", None),
    ],
)
def test_a_line_of_waiting_array_tasks_names_its_tasks(text: str, tasks: tuple[list[int], bool] | None) -> None:
    shared = tasks_in(text)
    assert (shared and ([number for numbers in shared[0] for number in numbers], shared[1])) == tasks
    waiting = {"state": "PENDING", "start": "Unknown", "end": "Unknown", "elapsed": "00:00:00"}
    notes = parse(sacct(JOB, job(jobid=text, jobidraw="123", **waiting))).notes
    if tasks is not None:
        count = f"{len(tasks[0])}" if tasks[1] else f"at least {len(tasks[0])}"
        assert notes[0] == f"Array tasks that had not started share a line, which is read as one job: 1 for {count} tasks."
    else:
        assert len(notes) == 1


# Lines with the delimiter in a name


TIME = "2024-05-01T10:00:00"
ROW = f"COMPLETED|{TIME}|00:00:10|1"


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        ("JobID|JobName|State|Submit|Elapsed|ReqCPUS", f"8|a|b|{ROW}"),
        ("JobID|JobName|State|Submit|Elapsed|ReqCPUS|Comment", f"8|a|b|{ROW}|c"),
        ("JobID|State|Submit|Elapsed|ReqCPUS|JobName|Comment", f"8|{ROW}|a|b|"),
        ("JobID|State|Submit|Elapsed|ReqCPUS|Constraints|SubmitLine", f"8|{ROW}|a|b|sbatch x"),
    ],
)
def test_a_line_with_the_delimiter_in_another_column_is_set_aside(columns: str, row: str) -> None:
    sound = row.replace("a|b", "a").replace("8|", "9|", 1)
    trace = parse(table(columns, sound, row))
    assert trace.jobs["job_id"].tolist() == [9]
    assert [(line.line, line.rule, line.text) for line in trace.unread] == [(3, "unreadable-line", row)]


# Quotes and other delimiters


@pytest.mark.parametrize("delimiter", ["|", ",", ";", "\t", "^", "\x1f"])
def test_any_character_separates_columns(delimiter: str) -> None:
    text = sacct(JOB, job(jobid="8"))
    pd.testing.assert_frame_equal(parse(text.replace("|", delimiter)).jobs, parse(text).jobs)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_name_that_begins_with_a_quote_takes_no_row_in(delimiter: str) -> None:
    rows = [f"{number}|{ROW}|{name}" for number, name in enumerate(['"x', "a", "b", '"y', 'c"', '"', 'say "hi"'], start=1)]
    trace = parse(table("JobID|State|Submit|Elapsed|ReqCPUS|JobName", *rows).replace("|", delimiter))
    assert trace.jobs["executable"].tolist() == ['"x', "a", "b", '"y', 'c"', '"', 'say "hi"']


@pytest.mark.parametrize(("name", "jobs"), [("comma_two.csv", 244), ("30-semicolons.csv", 60), ("30b-tabs.tsv", 60)])
@needs_shared
def test_no_job_of_an_export_is_lost(name: str, jobs: int) -> None:
    trace = read_trace(SHARED / "cases" / name, timezone="UTC")
    assert (len(trace.jobs), trace.unread) == (jobs, ())


def test_lines_that_cannot_be_split_are_dropped_counted_named_and_kept(tmp_path: Path) -> None:
    long = "|".join(["8", *["x"] * 20])
    columns = "JobID|Submit|Elapsed|Timelimit|JobName|ReqCPUS"
    good = "1|2024-05-01T10:00:00|00:00:10|10:00|a|1"
    text = table(columns, good, "8|2024-05-01", "", long, "8.batch|x", good.replace("|a|1", "|a|2"))
    trace = parse(text)
    assert trace.jobs["procs"].tolist() == [1, 2]
    assert trace.unread == (UnreadLine(3, 8, "8|2024-05-01"), UnreadLine(5, 8, long))
    assert "Lines that cannot be split into the header's columns are dropped, as unreadable-line: 2 (3, 5)." in trace.notes
    cleaned = clean(trace, procs=4)
    assert cleaned.touched() == {"unreadable-line dropped": 2}
    assert cleaned.jobs_read == 4 == len(cleaned.jobs) + len(cleaned.rejected_jobs)
    assert cleaned.rejected_jobs[["job_id", "line", "text"]].values.tolist() == [[8, 3, "8|2024-05-01"], [8, 5, long]]
    facts = dict(inspect_trace(trace, procs=4).facts)
    assert facts["missing or odd"] == "2 of 4 jobs (50.0%) are dropped, 0 values altered"
    Lake(tmp_path).write_clean(cleaned)
    assert Lake(tmp_path).read_clean("sacct").rejected_jobs.equals(cleaned.rejected_jobs)
    write_canonical(trace, tmp_path / "sacct.parquet")
    assert read_canonical(tmp_path / "sacct.parquet").unread == trace.unread


def test_errors_name_the_line_behind_dropped_ones() -> None:
    with pytest.raises(InputError, match=r"^sacct\.txt:6: Elapsed 'x' is not a duration"):
        parse(sacct(JOB, "8|8", " ", job(jobname="a|b"), job(elapsed="x")))
    with pytest.raises(InputError, match=r"^sacct\.txt:2: 2 fields between '\|', where the header has 18$"):
        parse(sacct("8|8", "9|9"))


@pytest.mark.parametrize(
    ("first", "what"),
    [
        (f"7;ann;{TIME};{TIME}", "has no header line that names the columns: run sacct without --noheader"),
        ("JobID    User   Submit", "is a table aligned by spaces, which cuts values short"),
    ],
)
def test_what_is_not_slurms_is_named_for_what_it_is(first: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "export.txt"
    path.write_text(f"{first}\n{first}\n")
    assert refusal(read_trace, path, timezone="UTC").startswith(f"{path}:1: {what}")


# Lines that contradict themselves


def test_lines_whose_times_contradict_each_other_are_dropped_by_rule(tmp_path: Path) -> None:
    backwards = job(jobid="8", end="2024-05-01T10:00:20")
    endless = job(jobid="9", elapsed="01:00:02")
    trace = parse(sacct(JOB, backwards, endless, job(jobid="10", elapsed="01:00:01")))
    assert trace.jobs["job_id"].tolist() == [7, 10]
    assert trace.unread[0] == UnreadLine(
        3, 8, "Start 2024-05-01T10:00:30, End 2024-05-01T10:00:20, Elapsed 01:00:00", "end-before-start"
    )
    assert clean(trace, procs=64).touched() == {"end-before-start dropped": 1, "elapsed-beyond-end dropped": 1}
    assert "Lines that contradict themselves are dropped, as elapsed-beyond-end: 1 (4)." in trace.notes
    write_canonical(trace, tmp_path / "sacct.parquet")
    assert read_canonical(tmp_path / "sacct.parquet").unread == trace.unread
    with pytest.raises(InputError, match=r"^sacct\.txt: holds no job whose times agree: end-before-start 1, elapsed-beyond-end 1$"):
        parse(sacct(backwards, endless))


def test_an_export_with_quoted_values_and_seconds_with_fractions() -> None:
    columns = "job_id,user,wallclock_req,processors_req,submit_time,start_time,end_time,run_time,state,name,work_dir"
    first = '5,ann,3600.0,8,2024-05-01 10:00:00,2024-05-01 10:00:01,2024-05-01 10:00:05,3.5,COMPLETED,"a, ""b""",/x'
    second = "4,,600.0,1.0,2024-05-01 09:00:00,,,,PENDING,d,/y"
    trace = parse(table(columns, first, second))
    assert trace.jobs["submit_s"].tolist() == [3600, 0]
    assert trace.jobs["runtime_s"].fillna(-1).tolist() == [4, -1]
    assert trace.jobs["executable"].tolist() == ['a, "b"', "d"]
    assert trace.jobs["user"].isna().tolist() == [False, True]
    assert "Fractional times are rounded to the second: run_time (1)." in trace.notes


def test_the_hour_that_autumn_repeats_is_told_apart_by_order() -> None:
    """On 2024-10-27 Berlin showed 02:00 to 03:00 twice, from 00:00 and from 01:00 UTC."""
    rows = [
        ("02:50:00", "02:55:00", "02:58:00"),  # all first
        ("02:50:00", "02:10:00", "02:20:00"),  # started in the repetition
        ("02:50:00", "02:55:00", "02:05:00"),  # ended in the repetition
        ("01:59:00", "02:30:00", "03:30:00"),
    ]
    columns = "JobID|Submit|Start|End|ReqCPUS"
    trace = parse(table(columns, *(f"{n}|" + "|".join(f"2024-10-27T{time}" for time in row) + "|1" for n, row in enumerate(rows))))
    first, second = unix("2024-10-27T02:50:00", fold=0), unix("2024-10-27T02:50:00", fold=1)
    assert second - first == 3600
    assert trace.origin_unix_s == unix("2024-10-27T01:59:00")
    assert (trace.origin_unix_s + trace.jobs["submit_s"]).tolist() == [first, first, first, trace.origin_unix_s]
    assert trace.jobs["wait_s"].tolist() == [300, 1200, 300, 1860]
    assert trace.jobs["runtime_s"].tolist() == [180, 600, 600, 2 * 3600]
    assert trace.notes == ("Jobs with a local time that the clocks showed twice, told apart by elapsed times or by order: 4.",)


def test_the_hour_that_spring_skips_is_the_moment_of_the_change() -> None:
    """On 2024-03-31 Berlin went from 02:00 to 03:00, at 01:00 UTC."""
    columns = "JobID|Submit|Start|Elapsed|ReqCPUS"
    trace = parse(
        table(columns, "1|2024-03-31T01:30:00|2024-03-31T02:30:00|10:00|1", "2|2024-03-31T01:59:59|2024-03-31T03:00:01|10:00|1")
    )
    assert trace.jobs["wait_s"].tolist() == [1800, 2]
    assert trace.notes == ("Jobs with a local time that the clocks never showed, taken as the moment of the change: 1.",)


def test_the_elapsed_time_settles_starts_and_ends_where_the_clocks_change() -> None:
    """On 2024-10-27 Berlin showed 02:00 to 03:00 twice; on 2024-03-31 never."""
    columns = "JobID|Submit|Start|End|ElapsedRaw|State|ReqCPUS"
    rows = [
        # started in the repetition: by order alone an hour early
        ("10-27T01:00:00", "10-27T02:30:00", "10-27T04:00:00", 5400, 9000),
        ("10-27T01:00:00", "10-27T02:30:00", "10-27T04:00:00", 9000, 5400),
        # ended in the repetition
        ("10-27T01:00:00", "10-27T01:30:00", "10-27T02:20:00", 6600, 1800),
        ("10-27T01:00:00", "10-27T02:10:00", "10-27T02:20:00", 4200, 4200),
        ("10-27T01:00:00", "10-27T02:10:00", "10-27T02:20:00", 600, 4200),
        # the moment of the change would be 3600 s before its end
        ("03-31T01:00:00", "03-31T02:30:00", "03-31T04:00:00", 2700, 4500),
    ]
    lines = [f"{n}|2024-{a}|2024-{b}|2024-{c}|{ran}|COMPLETED|1" for n, (a, b, c, ran, _) in enumerate(rows)]
    trace = parse(table(columns, *lines))
    assert trace.jobs["wait_s"].tolist() == [wait for *_, wait in rows]
    assert trace.jobs["runtime_s"].tolist() == [ran for *_, ran, _ in rows]
    assert trace.notes == (
        "Jobs with a local time that the clocks showed twice, told apart by elapsed times or by order: 5.",
        "Jobs with a local time that the clocks never showed, taken as the moment of the change: 1.",
    )


CHANGES = [int(datetime.fromisoformat(f"2024-{text}:00Z").timestamp()) for text in ("03-31T01", "10-27T01", "11-03T08", "04-06T15")]
"""When clocks were put forward and back in Berlin and Dublin, and back in Denver and on Lord Howe, there by half an hour."""


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/Denver", "Europe/Dublin", "Australia/Lord_Howe", "UTC", "Asia/Kolkata"])
@settings(max_examples=10)
@given(second=st.integers(0, 4 * 10**9) | st.builds(operator.add, st.sampled_from(CHANGES), st.integers(-9000, 9000)))
def test_local_times_find_their_way_back(zone: str, second: int) -> None:
    """Unix to local by the standard library, and back by ours: the same, or the earlier of two when the clocks repeat."""
    place = ZoneInfo(zone)
    local = datetime.fromtimestamp(second, place).replace(tzinfo=None)
    times = to_unix(np.array([local], "datetime64[s]"), place)
    earlier = int(local.replace(tzinfo=place, fold=0).timestamp())
    later = int(local.replace(tzinfo=place, fold=1).timestamp())
    assert times.unix_s.tolist() == [earlier]
    assert second in (earlier, later)
    assert times.repeated.tolist() == [earlier != later]
    assert not times.skipped.any()
    assert to_unix(np.array([local], "datetime64[s]"), place, np.array([second])).unix_s.tolist() == [second]


BAD = {
    "no zone": (
        sacct(JOB),
        None,
        ": Slurm writes local times: name their time zone, as in --time-zone America/Denver",
    ),
    "no job column": (table("User|Submit", "x|y"), ZONE, ": the header line has no column JobID, only User, Submit"),
    "no processors": (
        table("JobID|Submit|Elapsed", "1|2024-05-01T10:00:00|10:00"),
        ZONE,
        ": the header line has no column of processors or nodes: ReqCPUS, AllocCPUS, ReqNodes or AllocNodes",
    ),
    "too many fields on every line": (
        sacct("", f"{JOB}|"),
        ZONE,
        ":3: 19 fields between '|', where the header has 18; is there one in a job's name?",
    ),
    "a duration": (sacct(JOB, "", job(elapsed="1:2:3:4")), ZONE, ":4: Elapsed '1:2:3:4' is not a duration [D-]HH:MM:SS"),
    "a time": (
        sacct(JOB, job(start="yesterday")),
        ZONE,
        ":3: Start 'yesterday' is not a time YYYY-MM-DDTHH:MM:SS: run sacct with SLURM_TIME_FORMAT=standard",
    ),
    "no submission": (sacct(JOB, job(submit="Unknown")), ZONE, ":3: Submit 'Unknown' states no time of submission"),
    "a count": (sacct(JOB, JOB, job(reqcpus="4K")), ZONE, ":4: ReqCPUS '4K' is not a whole number"),
    "a state": (
        sacct(JOB, job(state="EXPLODED")),
        ZONE,
        ":3: State 'EXPLODED' is not a state of Slurm's, such as COMPLETED, FAILED, TIMEOUT, NODE_FAIL or RUNNING",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_refused_with_file_line_and_cause(kind: str, tmp_path: Path) -> None:
    text, zone, message = BAD[kind]
    path = tmp_path / "sacct.txt"
    path.write_text(text)
    cause = refusal(lambda: parse_sacct(load(path), zone)).removeprefix(str(path))
    assert cause == message
    assert list(tmp_path.iterdir()) == [path]


def test_lines_that_are_not_utf8_are_read_as_latin1_and_counted_and_gzip_is_read(tmp_path: Path) -> None:
    path = tmp_path / "sacct"
    path.write_bytes(sacct(JOB, job(jobname="Köln")).encode("latin-1"))
    read = parse_sacct(load(path), ZONE)
    assert read.jobs["executable"].iloc[1] == "Köln"
    assert "Lines with bytes that are not UTF-8 are read as Latin-1: 1 (3)." in read.notes
    path.write_bytes(gzip.compress(sacct(JOB, job(jobname="Köln")).encode()))
    assert parse_sacct(load(path), ZONE).jobs["executable"].tolist() == ["sim", "Köln"]
