"""What the campaign of mutated files reads: for each kind of file seeds, the product's reader, and a check of what it accepts.

A check compares with a second reader (:mod:`tests.oracle.readers`), counts jobs, and simulates small traces; AssertionError says what is
wrong.
"""

from __future__ import annotations

import gzip
import math
import os
import random
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from features import limits
from features.errors import InputError
from features.jobs.cleaning import clean
from features.jobs.schema import COLUMNS, TEXTS, Trace
from models.policies import dumps, loads
from pipelines.lake.registry import read_policy
from pipelines.readers.catalogue import load_catalogue
from pipelines.readers.control_runs import read_accounting_runs, read_probes, read_runs, read_types
from pipelines.readers.ldms.blocks import Block, LdmsReader
from pipelines.readers.ldms.files import Header, scan
from pipelines.readers.people_tables import read_submissions
from pipelines.readers.read import read_file, read_trace
from pipelines.readers.systems import systems
from sim import simulate
from sim.metrics.schedule_metrics import evaluate
from sim.schedule import Schedule
from tests.campaigns import seeds
from tests.campaigns.mutation import BINARY, TEXT, Mutation, mutated, packed
from tests.oracle import readers

_SMALL = 200
"""Jobs up to which what is accepted is also simulated."""

Check = Callable[[Any, bytes], None]


@dataclass(frozen=True)
class Reading:
    """One kind of file: its name and suffix, seeds, how it is mutated, read and checked."""

    suffix: str
    seeds: Callable[[], Sequence[bytes]]
    read: Callable[[Path], Any]
    check: Check
    kinds: tuple[Mutation, ...] = TEXT
    gzip: bool = False

    def case(self, r: random.Random) -> bytes:
        """Draw a mutated file."""
        seed = r.choice(self.seeds())
        if self.kinds is TEXT and len(seed) > 2500 and r.random() < 0.5:
            seed = seed[: seed.rfind(b"\n", 0, 1500) + 1]  # a mutation of few lines is more often one of a line that matters
        case = mutated(seed, r, self.kinds)
        return packed(case, r) if self.gzip else case


def _small(trace: Trace) -> None:
    """Clean and simulate a small trace: no job is lost, no processor used twice, every metric finite."""
    try:
        cleaned = clean(trace, seeds.PROCS if trace.procs is None else None, "runtime")
    except InputError as refused:
        _check_refusal(refused, trace.source)
        return
    read, kept, dropped = cleaned.jobs_read, len(cleaned.jobs), int((cleaned.rejected_jobs["action"] == "dropped").sum())
    assert read == len(trace.jobs) + len(trace.unread) == kept + dropped, f"{read} read, {kept} kept and {dropped} dropped"
    if kept > _SMALL:
        return
    try:
        schedule = simulate(cleaned.jobs, procs=cleaned.procs)
    except InputError as refused:
        if "do not fit the simulator's clock" in str(refused):
            return
        raise AssertionError(f"a cleaned trace cannot be simulated: {refused}") from refused
    wrong = impossible(schedule)
    assert not wrong, wrong


def _check_refusal(refused: InputError, name: str) -> None:
    """Hold a refusal to being one line, short, printable, and naming the file."""
    text = str(refused)
    short = "\n" not in text and len(text) <= limits.MESSAGE
    assert short, f"a refusal of {len(text)} characters, {text.count(chr(10))} line ends: {text[:200]!r}"
    assert Path(name).name in text, f"a refusal does not name its file: {text}"


def _rows(trace: Trace) -> Iterable[dict[str, Any]]:
    return (
        {name: None if value is pd.NA or value != value else value for name, value in row.items()}
        for row in trace.jobs.to_dict("records")
    )


def _compare(records: Iterable[dict[str, Any]], wanted: Sequence[dict[str, Any]]) -> None:
    rows = list(records)
    assert len(rows) == len(wanted), f"{len(rows)} rows, a second reader has {len(wanted)}"
    for place, (row, want) in enumerate(zip(rows, wanted, strict=True)):
        for name, value in want.items():
            assert row[name] == value, f"row {place}: {name} is {row[name]!r}, a second reader has {str(value)[:60]!r}"


def _second(read: Callable[[bytes], Any], content: bytes) -> Any:
    """Return what a second reader reads; AssertionError where it refuses."""
    try:
        return read(content)
    except (ValueError, IndexError, ArithmeticError, StopIteration) as refused:
        raise AssertionError(f"a second reader refuses it: {type(refused).__name__} {str(refused)[:80]}") from refused


def _cells(content: bytes) -> list[dict[str, str]]:
    """Return the rows of a table by column, to a second reader."""
    names, rows, _ = _second(readers.accounting, content)
    return [dict(zip(reversed(names), reversed(row), strict=True)) for row in rows]


def compare_jobs(trace: Trace, content: bytes, second: Callable[[bytes], list[dict[str, Any]]]) -> None:
    """Hold the jobs of a trace to those of a second reader."""
    _compare(_rows(trace), _second(second, content))


def _check_swf(trace: Trace, content: bytes) -> None:
    compare_jobs(trace, content, readers.swf)
    _small(trace)


def _check_sacct(trace: Trace, content: bytes) -> None:
    wanted, other = _second(readers.sacct, content)
    if not other and not trace.unread:
        origin = trace.origin_unix_s
        rows = [{**row, "submit": row["submit_s"] + origin} for row in _rows(trace)]
        bounds = [
            {name: value if name in ("submit", "user", "partition") else _within(value) for name, value in row.items()}
            for row in wanted
        ]
        _compare(rows, bounds)
    else:
        jobs, unread = len(trace.jobs), len(trace.unread)
        right = len(wanted) <= jobs + unread <= len(wanted) + other
        assert right, f"{jobs} jobs and {unread} unread lines of {len(wanted)} rows and {other} other lines"
    _small(trace)


def _within(value: Any) -> Any:
    return value if value is None else min(value, 10**18)


def _check_canonical(trace: Trace, content: bytes) -> None:
    table = pq.read_table(pa.BufferReader(content))
    wanted: list[dict[str, Any]] = [{} for _ in range(table.num_rows)]
    overrun = table.column("overrun_s").to_pylist() if "overrun_s" in table.column_names else [0] * table.num_rows
    for name in COLUMNS.keys() & set(table.column_names):
        for row, value in zip(wanted, table.column(name).to_pylist(), strict=True):
            row[name] = None if value is None or value != value else str(value) if name in TEXTS else value
    for row, over in zip(wanted, overrun, strict=True):
        row["runtime_s"] = None if row["runtime_s"] is None else row["runtime_s"] + (over or 0)
    _compare(_rows(trace), wanted)
    _small(trace)


def _check_submissions(table: pd.DataFrame, content: bytes) -> None:
    rows = _second(readers.table, content)
    assert len(rows) == len(table), f"{len(table)} rows, a second reader has {len(rows)}"
    for row, job in zip(rows, table.to_dict("records"), strict=True):
        same = float(row["procs"]) == job["procs"] and float(row["requested_s"]) == job["requested_s"]
        with suppress(ValueError):
            submit = datetime.fromisoformat((row.get("submit_time") or "").strip())
            same = same and submit.replace(tzinfo=None) == job["submit_time"].to_pydatetime()
        assert same, f"{row} is read as {job}"


def _read_ldms(path: Path) -> Any:
    scanned = scan(path, {})
    reader = LdmsReader(path, sampler="s", stop=scanned.length)
    blocks = list(reader.blocks())
    return reader, blocks


def ldms_rows(blocks: Iterable[Block]) -> list[tuple[int, str, tuple[float, ...]]]:
    """Return the rows of blocks: microseconds, node and metrics."""
    return [
        (int(time), node, tuple(values))
        for block in blocks
        for time, node, values in zip(
            block.time_us, block.node.to_pylist(), np.concatenate([*block.values.values()]).T, strict=True
        )
    ]


def _check_ldms(parsed: Any, content: bytes) -> None:
    reader, blocks = parsed
    rows = ldms_rows(blocks)
    assert len(rows) == reader.rows, f"{len(rows)} rows and {reader.rows} counted"
    assert all(0 < time < 2 * 10**6 * 2**33 for time, _, _ in rows), "a time is out of range"
    headers = {ldms_places(block.header) for block in blocks}
    if len(headers) != 1 or reader.damaged:
        return
    wanted = _second(lambda text: readers.ldms_rows(text, *next(iter(headers))), content)
    assert len(wanted) == len(rows), f"{len(rows)} rows, a second reader has {len(wanted)}"
    for row, want in zip(rows, wanted, strict=True):
        same = abs(row[0] - want[0]) <= 1 and row[1] == want[1] and np.array_equal(row[2], want[2], equal_nan=True)
        assert same, f"{row} is {want} to a second reader"


def ldms_places(header: Header) -> tuple[int, int, int, int | None, tuple[int, ...]]:
    """Return what :func:`tests.oracle.readers.ldms_rows` wants to know of a header."""
    return len(header.columns), header.time, header.node, header.microseconds, tuple(header.metrics)


def _check_runs(table: Any, content: bytes) -> None:
    cells, runs = _cells(content), table.runs
    assert (np.isfinite(runs["runtime_s"]) & (runs["runtime_s"] > 0)).all(), "a runtime is not above 0"
    starts = [math.floor(float(row["start_s"] if "start_s" in row else row["start_unix"])) for row in cells]
    wanted = [{"run_id": row["run_id"], "application": row["application"]} for row in cells]
    _compare(runs.to_dict("records"), [{**row, "start_s": start} for row, start in zip(wanted, starts, strict=True)])


def _check_accounting_runs(table: Any, content: bytes) -> None:
    _, rows, other = _second(readers.accounting, content)
    left, least, most = sum(table.left_out.values()), len(rows), len(rows) + other
    assert least <= len(table.runs) + left <= most, f"{len(table.runs)} runs and {left} left out of {least} to {most} lines"


def _check_table(table: pd.DataFrame, content: bytes) -> None:
    wanted = [
        {name: float(row[name]) if table[name].dtype.kind == "f" else row[name] for name in table.columns}
        for row in _cells(content)
    ]
    _compare(table.to_dict("records"), wanted)


def _read_catalogue(path: Path) -> Any:
    os.environ["QUEUECAST_CATALOGUE"] = str(path)
    entries = load_catalogue()
    for entry in entries.values():
        if entry.stated_in != path or entry.remote:
            continue
        if entry.format != "generated" or entry.options.get("jobs", 10_000) <= 2000:
            try:
                read_trace(entry.name, catalogue={entry.name: entry})
            except InputError as refused:
                _check_refusal(refused, "" if entry.format != "generated" else str(path))
    return entries


def _check_catalogue(entries: Any, content: bytes) -> None:
    tables = tomllib.loads(content.decode().replace("\r\n", "\n")).get("traces", {})
    for name, table in tables.items():
        for key, value in table.items():
            assert repr(getattr(entries[name], key)) == repr(value), f"{name} is not {table}"


def _read_systems(path: Path) -> Any:
    home = path.parent / "home"
    home.mkdir(exist_ok=True)
    (home / "systems.toml").write_bytes(path.read_bytes())
    try:
        return systems(home)
    except InputError as refused:
        raise InputError(str(refused).replace(str(home / "systems.toml"), str(path))) from refused


def _check_systems(catalogue: Any, content: bytes) -> None:
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name) for name in catalogue), f"systems are called {list(catalogue)}"


def _check_policy(policy: Any, content: bytes) -> None:
    """Write a policy, read it back, and simulate it: the same again, and every job has a start."""
    assert loads(dumps(policy), "again") == policy, "is not read back as it was written"
    jobs = clean(seeds.trace(), seeds.PROCS, "runtime").jobs
    schedule = simulate(jobs, procs=seeds.PROCS, scheduler=f"SCORE({policy.score}){policy.behind}")
    assert len(schedule.jobs) == len(jobs), "loses jobs"


def _sacct(path: Path) -> Trace:
    return read_file(path, timezone="UTC")


READINGS: dict[str, Reading] = {
    "swf": Reading(".swf", seeds.swf, read_file, _check_swf),
    "swf-gz": Reading(".swf.gz", seeds.swf, read_file, _check_swf, gzip=True),
    "sacct": Reading(".txt", seeds.accounting, _sacct, _check_sacct),
    "sacct-gz": Reading(".txt.gz", seeds.accounting, _sacct, _check_sacct, gzip=True),
    "canonical": Reading(".parquet", seeds.canonical, read_file, _check_canonical, BINARY),
    "canonical-remade": Reading(".parquet", seeds.canonical, read_file, _check_canonical, BINARY),
    "submissions": Reading(".csv", seeds.submissions, read_submissions, _check_submissions),
    "ldms": Reading("", seeds.ldms, _read_ldms, _check_ldms),
    "ldms-gz": Reading(".gz", seeds.ldms, _read_ldms, _check_ldms, gzip=True),
    "runs": Reading(".csv", seeds.runs, read_runs, _check_runs),
    "runs-sacct": Reading(
        ".txt", seeds.accounting_runs, lambda path: read_accounting_runs(path, seeds.PATTERN, "UTC"), _check_accounting_runs
    ),
    "probes": Reading(".csv", seeds.probes, read_probes, _check_table),
    "types": Reading(".csv", seeds.types, read_types, _check_table),
    "catalogue": Reading(".toml", seeds.catalogue, _read_catalogue, _check_catalogue),
    "systems": Reading(".toml", seeds.systems, _read_systems, _check_systems),
    "policies": Reading(".json", seeds.policies, read_policy, _check_policy),
}
WEIGHTS = {"swf": 4, "sacct": 4, "ldms": 3, "canonical": 3}
"""How often kinds come, 1 where it is not said."""


def drawn(kind: str, r: random.Random) -> bytes:
    """Draw a mutated file of a kind."""
    return seeds.remade(r) if kind == "canonical-remade" else READINGS[kind].case(r)


def judged(kind: str, content: bytes, folder: Path) -> tuple[str, str | None]:
    """Read a file; return the outcome, ``accepted`` or ``refused``, and what is wrong, if anything."""
    path = folder / f"case{READINGS[kind].suffix}"
    path.write_bytes(content)
    try:
        parsed = READINGS[kind].read(path)
    except InputError as refused:
        outcome, check = "refused", partial(_check_refusal, refused, str(path))
    else:
        text = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
        outcome, check = "accepted", partial(READINGS[kind].check, parsed, text)
    try:
        check()
    except AssertionError as wrong:
        return outcome, str(wrong) or "an assertion of the product's own fails"
    return outcome, None


def impossible(schedule: Schedule) -> str:
    """Return what no schedule may be, or "": jobs out of time, processors used twice, metrics that are not finite."""
    submit, start, end, procs = (schedule.jobs[name].to_numpy(np.int64) for name in ("submit_s", "start_s", "end_s", "procs"))
    if (start < submit).any() or (end - start != schedule.jobs["runtime_s"]).any():
        return "a job starts before its submission, or ends at another time than its runtime says"
    held = np.repeat(procs, 2)
    held[1::2] *= -1
    when = np.column_stack([start, end]).ravel()
    order = np.lexsort((held, when))  # ends of a second first
    if np.cumsum(held[order]).max() > schedule.procs:
        return "more processors in use than there are"
    metrics = evaluate(schedule).drop(["nuwt_mean", "nuwt_sd"], errors="ignore")
    bad = [name for name, value in metrics.items() if isinstance(value, (int, float)) and not math.isfinite(value)]
    return f"metrics {bad} are not finite" if bad else ""
