"""Sound files of every kind that is read, from which the campaign of mutations starts."""

from __future__ import annotations

import json
import math
import random
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from features import limits
from features.jobs.schema import Trace, UnreadLine
from features.monitoring.samplers import PROBES, TYPES
from models.policies import PolicyEvidence, Trained, dumps
from pipelines.lake.registry import make_policy
from pipelines.readers.canonical import write_canonical
from pipelines.readers.swf import parse_swf
from pipelines.readers.text import Source

PROCS = 64
JOBS = range(1, 41)
PATTERN = r"(?P<application>[a-z]+)-(?P<input>\w+)"
_HEADER = f"""; Version: 2.2
; Computer: a machine
; MaxProcs: {PROCS}
; UnixStartTime: 843480031
; TimeZoneString: Europe/Stockholm
; MaxRecords: {len(JOBS)}
;
"""
_SACCT = "JobID|JobIDRaw|User|Account|Partition|QOS|JobName|State|Submit|Start|End|Elapsed|Timelimit|AllocNodes|ReqNodes|AllocCPUS|ReqCPUS"
_RAW = "JobIDRaw|Submit|Start|End|ElapsedRaw|TimelimitRaw|ReqCPUS|AllocCPUS|State|User|Partition"
_EXPORT = "job_id,user,submit_time,start_time,end_time,run_time,wallclock_req,processors_req,state,name"


def _swf_text() -> bytes:
    r = random.Random(1)
    lines, submit = [], 0
    for job in JOBS:
        submit += r.randrange(0, 900)
        runtime, wide = r.randrange(1, 5000), r.choice((1, 2, 4, 8, 64))
        used = f"{r.randrange(100)} {runtime} {wide} {runtime}.5 -1 {wide} {runtime + r.randrange(3000)} -1"
        lines.append(
            f"{job} {submit} {used} {r.choice((0, 1, 5))} {r.randrange(5)} 1 {r.randrange(9)} 1 -1 {r.choice((-1, job - 1))} -1"
        )
    return (_HEADER + "\n".join(lines) + "\n").encode()


@cache
def swf() -> list[bytes]:
    text = _swf_text()
    end = b"; the end\n" + text.splitlines()[-1]
    return [text, text.replace(b"\n", b"\r\n"), text.replace(b"; Max", b";   Max"), text + end, b"\n".join(text.splitlines()[7:])]


@cache
def accounting() -> list[bytes]:
    long, raw, export = [_SACCT], [_RAW], [_EXPORT]
    for job in JOBS:
        at = f"2024-05-{1 + job // 3:02d}T10:{job:02d}"
        own = f"{job}|{job}|u{job % 4}|physics|batch|normal|sim {job % 3}|COMPLETED"
        long.append(f"{own}|{at}:00|{at}:30|{at}:59|00:00:29|1-02:03:04|2|2|{job}|{job}")
        raw.append(f"{job}|{at}:00|{at}:30|{at}:59|29|60|4|4|CANCELLED by 7|ann|batch")
        plain = at.replace("T", " ")
        export.append(f'{job},u{job % 4},{plain}:00,{plain}:30,{plain}:59,29.0,3600,4,COMPLETED,"a ""b"", c"')
        if job % 5 == 0:
            long.append(f"{job}.batch|{job}.batch||physics||||COMPLETED|{at}:00|{at}:30|{at}:59|00:00:29||2|2|{job}|{job}")
            waits = f"{job}_[1-9%2]|{job + 100}|ann|physics|batch|normal|a|b|PENDING"
            long.append(f"{waits}|{at}:00|Unknown|Unknown|00:00:00|UNLIMITED|1|1|1|1")
    texts = ["\n".join(lines) + "\n" for lines in (long, raw, export)]
    others = [texts[0].replace("\n", "|\n"), texts[1].replace("|", ","), "\n".join(long[:6])]
    return [text.encode() for text in (*texts, *others)]


@cache
def trace() -> Trace:
    """Return the jobs of the first seed of SWF, with a note and unreadable lines."""
    read = parse_swf(Source("seed.swf", _swf_text()))
    return replace(read, unread=(UnreadLine(3, 7, "7|x"), UnreadLine(9, None, "y")), notes=("A note.",))


@cache
def canonical() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "seed.parquet"
        write_canonical(trace(), path)
        return [path.read_bytes()]


def remade(r: random.Random) -> bytes:
    """Write the canonical table with another column, type or statement: sound Parquet with foreign content."""
    table = pq.read_table(pa.BufferReader(canonical()[0]))
    for _ in range(r.choice((1, 1, 2))):
        table = _changed(table, r)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def _changed(table: pa.Table, r: random.Random) -> pa.Table:
    names = table.column_names
    name = r.choice(names)
    match r.randrange(6):
        case 0:
            return table.set_column(names.index(name), name, r.choice(_hostile_columns(table.num_rows)))
        case 1:
            return table.append_column(name, pa.array([1] * table.num_rows))
        case 2:
            return table.remove_column(names.index(name)) if len(names) > 1 else table
        case 3:
            other = r.choice(("", "x", "overrun_s", "submit_s"))
            return table.rename_columns([other if each == name else each for each in names])
        case 4:
            return table.slice(0, r.choice((0, 1, 5)))
    metadata = table.schema.metadata or {}
    try:
        fields = json.loads(metadata.get(b"queuecast", b"{}"))
    except (ValueError, RecursionError):  # changed before
        return table
    fields = fields if isinstance(fields, dict) else {}
    at = r.choice((fields, *[fields.get("metadata") or fields] * 3))
    values = (None, 1, -1, 10**30, 1.5, "x", "../x", True, [], {}, ["a"], [[1, 2, "x"]], [[None] * 3], {"a": 1}, "9" * 5000)
    if isinstance(at, dict) and at:
        at[r.choice(list(at))] = r.choice(values)
    text = json.dumps(fields)
    content = r.choice((text, text, text, text[:-3], "[" * 100_000, "null", '{"kind": NaN}', "\udcff"))
    return table.replace_schema_metadata({**metadata, b"queuecast": content.encode("utf-8", "surrogateescape")})


def _hostile_columns(rows: int) -> list[pa.Array]:
    cells = ("x", 2**63 - 1, -(2**63), 1.5, math.nan, math.inf, 1e300, [1], {"a": 1}, True, b"\xff", limits.SECONDS + 1, 7.0)
    columns = [pa.array([cell] * rows) for cell in (*cells, datetime(2024, 1, 1, tzinfo=UTC))]
    columns += [pa.array([None] * rows, kind) for kind in (pa.int64(), pa.null(), pa.string())]
    columns += [pa.array([2**64 - 1] * rows, pa.uint64()), pa.array([float(n) for n in range(rows)])]
    return columns + [pa.array([cell] * rows).dictionary_encode() for cell in ("=1+1", 7, b"\xff\xfe")]


@cache
def submissions() -> list[bytes]:
    rows = "".join(f"u{job},{job},{job * 60},2026-03-0{1 + job % 9} 09:{job:02d}:00,g,a\n" for job in JOBS)
    return [f"user,procs,requested_s,submit_time,group,executable\n{rows}".encode()]


@cache
def ldms() -> list[bytes]:
    store = ["#Time,Time_usec,ProducerName,component_id,job_id,a,b,c"]
    own = ["node_id,timestamp,x::s,y::s,z::t"]
    functions = ["#Time,Time_usec,DT,DT_usec,ProducerName,component_id,a"]
    for row in range(30):
        time = 1507711419 + row
        store.append(f"{time}.{row:06d},{row},quartz{row % 3},1,0,{row * 10**15},{row}.25,{'' if row % 4 else 'nan'}")
        own.append(f"node-{row % 3},{time},{row}e3,-{row}.5,{row}")
        functions.append(f"{time}.5,500000,1,0,quartz1,1,1844674407370955161{row % 6}")
    texts = ["\n".join(lines) + "\n" for lines in (store, own, functions)]
    return [text.encode() for text in (*texts, texts[0] + texts[0].replace(",c\n", ",d\n"))]


@cache
def runs() -> list[bytes]:
    names = "".join(f"r{n},app{n % 3},in,n{n} n{n + 1},{1507711419 + n},{n + 0.5}\n" for n in range(1, 20))
    lists = "".join(f"r{n},app,n[{n}-{n + 3}],{n}.5,{n + 10}.5,10\n" for n in range(1, 20))
    counts = "".join(f"r{n},app,{n},{n},{n + 10}\n" for n in range(1, 20))
    heads = (
        "run_id,application,input,nodes,start_s,runtime_s",
        "run_id,application,nodes,start_unix,end_unix,duration_s",
        "run_id,application,nodes,start_s,end_s",
    )
    return [f"{head}\n{rows}".encode() for head, rows in zip(heads, (names, lists, counts), strict=True)]


@cache
def accounting_runs() -> list[bytes]:
    rows = ""
    for n in range(1, 30):
        state = "FAILED" if n % 7 == 0 else "COMPLETED"
        rows += f"{n}|amg-in{n % 2}|quartz[{n}-{n + 1}]|2024-05-01T10:{n:02d}:00|00:{n:02d}:30|{state}\n"
    return [f"JobID|JobName|NodeList|Start|Elapsed|State\n{rows}".encode()]


@cache
def probes() -> list[bytes]:
    rows = "".join(f"r{n},n{n}{',0.5' * len(PROBES)}\n" for n in range(20))
    return [f"run_id,node,{','.join(PROBES)}\n{rows}".encode()]


@cache
def types() -> list[bytes]:
    rows = "".join(f"app{n},{TYPES[n % len(TYPES)]}\n" for n in range(12))
    return [f"application,type\n{rows}".encode()]


@cache
def catalogue() -> list[bytes]:
    text = f"""[traces.one]
title = "A trace"
place = "one.swf"
sha256_content = "{"a" * 64}"
procs = 64
timezone = "Europe/Stockholm"
missing_request = "runtime"

[traces."two.2"]
place = "https://example.org/logs/two.swf.gz"
grows = true
since = "2026-03-01"

[traces.made]
format = "generated"
options = {{jobs = 500, procs = 64, users = 10, load = 0.6, seed = 3}}
"""
    return [text.encode()]


@cache
def policies() -> list[bytes]:
    learned = make_policy(
        "kth-sp2",
        "where(wait<a,r**b*n,-wait)+log(queue)/hour;a=3600;b=2",
        starvation_s=200_000,
        trained=Trained("kth-sp2", (1, 2, 22), "sum of weekly means", 60.0, 7, 1000, "0123456789abcdef"),
        evidence=PolicyEvidence("SAF-EASY-SPF", -0.12, -0.2, -0.05, (23, 45), 30, max_wait_s=9e5, baseline_max_wait_s=1e6),
    )
    return [dumps(learned).encode(), dumps(make_policy("area", "r*n")).encode(), b'{"format": 1, "name": "a", "formula": "r"}']


@cache
def systems() -> list[bytes]:
    text = r"""[systems.quartz]
counters = ["/data/ldms", "/data/more/*.csv"]
sampler = "sysclassib"
accounting = "/data/sacct.txt"
job_name = "(?P<application>\\w+)-.*"
time_zone = "America/Los_Angeles"
lag_s = 60.0
scope = "own"
elimination = true
"""
    return [text.encode()]
