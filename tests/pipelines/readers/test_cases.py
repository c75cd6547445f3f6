"""Every file of ../shared/cases gives the right answer that its README states."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

import sim
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.schema import Trace
from features.jobs.usage import doubts, usage
from pipelines.lake.counters import CountersStore
from pipelines.readers.ldms.ingest import ingest_counters
from pipelines.readers.queue_file import read_queue
from pipelines.readers.read import read_trace
from pipelines.readers.slurm.jobs import read_slurm_jobs
from pipelines.readers.slurm.site import load_site
from pipelines.report.inspection import inspect_trace, render
from pipelines.serving.asked_log import answered
from tests.conftest import SHARED, needs
from tests.support.refusals import refusal

CASES = SHARED / "cases"
pytestmark = needs(CASES)


def read(name: str, **options: str) -> Trace:
    return read_trace(CASES / name, timezone="UTC" if not name.endswith(".swf") else None, **options)


def cleaned(name: str, procs: int = 4096, **options: str) -> CleanTrace:
    trace = read(name, **options)
    return clean(trace, trace.procs or procs)


def inspected(trace: Trace) -> str:
    console = Console(file=io.StringIO(), width=300)
    render(inspect_trace(trace), console)
    return console.file.getvalue()


COPIES = {"02b-overlap.txt": (60, 10), "s5-dup-lines.swf": (400, 50), "j10-dup.json": (40, 10), "twice.txt": (244, 244)}


@pytest.mark.parametrize(("name", "jobs", "copied"), [(name, *counts) for name, counts in COPIES.items()])
def test_a_job_of_two_exports_is_one_job(name: str, jobs: int, copied: int) -> None:
    trace = read(name)
    once = replace(trace, jobs=trace.jobs.drop_duplicates(ignore_index=True))
    kept = cleaned(name)
    assert (len(kept.jobs), kept.touched()["copy-of-a-row dropped"]) == (jobs, copied)
    pd.testing.assert_frame_equal(kept.jobs, clean(once, once.procs or 4096).jobs)
    assert usage(trace.jobs) == usage(once.jobs)
    sizes = [[line for line in inspected(each).splitlines() if "--procs" in line] for each in (trace, once)]
    assert sizes[0] == sizes[1]


READ = {
    "03a-stderr-head.txt": (60, {}, "sacct's messages before the header are not read: 1"),
    "05-reqmem-q.txt": (60, {}, "ReqMem 16?"),
    "14a-end-before-start.txt": (57, {"end-before-start dropped": 2, "elapsed-beyond-end dropped": 1}, "contradict themselves"),
    "19-array-range-ended.txt": (61, {"no-runtime dropped": 1}, "Array tasks that ended together share a line"),
    "24-ncpus-tres.txt": (54, {"no-runtime dropped": 6, "procs-from-allocated altered": 48}, "taken from ReqTRES: 12"),
    "30-semicolons.csv": (60, {}, ""),
    "30b-tabs.tsv": (60, {}, ""),
    "comma_two.csv": (244, {"runtime-cut-to-request altered": 10}, ""),
    "h1-timezone-name.swf": (60, {}, "TimeZone, US/Pacific, is taken as the name"),
    "s8b-epoch-and-unixstart.swf": (400, {}, "second 0 is taken as Unix time 0"),
    "s2-early-outliers.swf": (397, {"behind-file-clock dropped": 3}, ""),
    "behind.swf": (1189, {"behind-file-clock dropped": 11, "runtime-cut-to-request altered": 11}, ""),
    "bom_blank.swf": (60, {}, ""),
}


@pytest.mark.parametrize(("name", "jobs", "touched", "note"), [(name, *right) for name, right in READ.items()])
def test_a_file_is_read_with_what_was_odd_counted(name: str, jobs: int, touched: dict[str, int], note: str) -> None:
    kept = cleaned(name)
    assert (len(kept.jobs), kept.touched()) == (jobs, touched)
    assert note in " ".join(kept.notes)


REFUSED = {
    "j6-errors.json": 'is a partial dump: run sacct again, which reported [{"error": "Unable to query database", "error_number": 1}]',
    "swap_start_end.txt": "holds no job whose times agree: end-before-start 244, elapsed-beyond-end 0",
    "elapsed_huge.txt": "holds no job whose times agree: end-before-start 0, elapsed-beyond-end 244",
    "s1-concat-two-clocks.swf": "a second header with UnixStartTime '1700200000', where the first has 1700000000",
    "s8-epoch-ms.swf": "field 2 (submit time) is 1700006668000: these are Unix milliseconds",
    **dict.fromkeys(("pubbin.parquet", "pubdup.parquet", "pubtz.parquet"), "that Queuecast did not write"),
}
"""Published tables other than Eagle's are no longer read."""


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_cannot_be_right_is_refused_in_one_line(name: str) -> None:
    assert REFUSED[name] in refusal(read, name)


def test_other_separators_give_the_same_jobs() -> None:
    bar = read("03a-stderr-head.txt").jobs
    for name in ("30-semicolons.csv", "30b-tabs.tsv"):
        pd.testing.assert_frame_equal(read(name).jobs, bar)


def test_a_waiting_job_is_no_job_with_eight_processors_by_chance() -> None:
    procs = cleaned("24-ncpus-tres.txt").jobs.set_index("job_id")["procs"]
    assert procs.loc[[1001, 1005]].tolist() == [8, 1]  # NCPUS, and where that is empty ReqTRES


def test_times_of_a_header_are_those_of_its_clock() -> None:
    for name, zone in (("h1-timezone-name.swf", "US/Pacific"), ("s8b-epoch-and-unixstart.swf", "Europe/Berlin")):
        trace = read(name)
        first = trace.origin_unix_s + int(trace.jobs["submit_s"].min())
        assert (trace.timezone, first) == (zone, 1_700_000_145)


def test_few_early_jobs_do_not_switch_off_the_check_of_processors() -> None:
    text = inspected(read("s2-early-outliers.swf"))
    assert "64, stated; records that overlap have up to 132 in use" in text


@pytest.mark.parametrize("name", ["22-hyperthreads.txt", "15-exclusive.txt", "s14-req-nodes-alloc-cores.swf"])
def test_jobs_that_occupy_more_than_they_ask_for_are_warned_of(name: str) -> None:
    kept = cleaned(name)
    lines = doubts(kept.jobs, kept.procs, kept.rejected_jobs)
    assert [line.startswith("jobs were allocated") for line in lines] == [True]
    shown = inspected(read(name))
    assert "--procs-from allocated" in shown
    assert "records that overlap" not in shown


@pytest.mark.slow
@pytest.mark.parametrize(("procs_from", "wait_s"), [("requested", 127.2), ("allocated", 644.8)])
def test_easy_waits_as_the_processors_say(procs_from: str, wait_s: float) -> None:
    jobs = cleaned("22-hyperthreads.txt", 64, procs_from=procs_from).jobs
    schedule = sim.simulate(jobs, procs=64, scheduler="EASY")
    assert sim.evaluate(schedule)["mean_wait_s"] == pytest.approx(wait_s, rel=0.01)  # the file rounds limits to minutes


def test_a_log_of_perfect_answers_is_judged_perfect() -> None:
    row = answered(cleaned("noraw2.txt", 300), CASES / "asked3")
    assert row is not None
    assert (row["answers"], row["judged"], row["accuracy"]) == (200, 200, 1.0)


def test_queues_are_read_or_refused_by_line() -> None:
    cut = refusal(read_queue, CASES / "q1-trunc-tres.txt", "UTC")
    assert "tres-alloc:|" in cut
    assert refusal(read_queue, CASES / "q_procs5000.txt", "UTC").startswith(f"{CASES / 'q_procs5000.txt'}, line 3: ")
    assert len(read_queue(CASES / "q_manyquote.txt", "UTC").jobs) == 59
    assert "heterogeneous jobs are predicted apart" in " ".join(read_queue(CASES / "q7-het.txt", "UTC").notes)


@pytest.mark.parametrize(("name", "rows", "damaged", "text"), [("ldms/l1", 180, 0, {}), ("ldms/l4", 179, 1, {"devname": 1})])
def test_counters_are_read_with_what_was_odd_counted(
    name: str, rows: int, damaged: int, text: dict[str, int], tmp_path: Path
) -> None:
    store = CountersStore(tmp_path, "site")
    report = ingest_counters(store, [CASES / name])
    assert (report.damaged, report.text_columns, report.quarantined) == (damaged, text, [])
    times = pd.concat([batch.to_pandas() for batch in store.batches("sysclassib")])["time_s"]
    assert (len(times), times.min()) == (rows, 1_700_000_000.25)


def test_no_case_is_left_out() -> None:
    text = Path(__file__).read_text()
    cases = {*CASES.iterdir(), *(CASES / "ldms").iterdir()} - {CASES / "README.md", CASES / "ldms"}
    assert [case for case in cases if str(case.relative_to(CASES)) not in text] == []


def test_parity_reads_each_job_of_two_exports_once() -> None:
    site = load_site(SHARED / "slurm" / "sites" / "micro")
    twice, once = (read_slurm_jobs(path, site).table for path in (CASES / "twice.txt", SHARED / "slurm" / "micro-1.sacct.txt"))
    pd.testing.assert_frame_equal(twice, once)
