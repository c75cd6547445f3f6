"""Control runs, probe results, application types and leaf switches of a monitored system.

Control runs are repeated runs of the same applications, from CSV or Slurm accounting, whose jobs are chosen by a
pattern of names. Canonical table: ``run_id application input nodes start_s runtime_s``, ``nodes`` a list of names, or
null if the source gives only their number. Runs left out are counted by reason. All jobs of the accounting, of any
user, are the same table with ``job_id user`` in place of ``run_id input``.

The topology is Slurm's ``topology.conf``. Probes, ``run_id,node,send_s,recv_s,allreduce_s``, are the seconds
that a node waited in the blocking calls of the two MPI probes of Nichols et al. (RUSH).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from features import limits
from features.errors import InputError, shown
from features.monitoring.samplers import PROBES, TYPES
from features.monitoring.situation import RATES
from features.node_list import expand_nodes
from pipelines.readers.delimited import NOWHERE, AccountingTable, seconds
from pipelines.readers.localtime import MISSING_TIME, zone
from pipelines.readers.slurm.sacct import FREE_TEXT, RUNTIME, refuse_several_clusters, states
from pipelines.readers.slurm.times import END, START, job_steps, job_times
from pipelines.readers.text import counted, load
from sim.slurm.lines import conf_lines, expand

COLUMNS = ("run_id", "application", "input", "nodes", "start_s", "runtime_s")
JOB_COLUMNS = ("job_id", "user", "application", "nodes", "start_s", "runtime_s")
_START = ("start_s", "start_unix")
_RUNTIME = ("runtime_s", "duration_s")


@dataclass(frozen=True)
class ControlRuns:
    """``runs`` has the columns of COLUMNS; ``left_out`` counts by reason; ``notes`` are texts."""

    runs: pd.DataFrame
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_runs(path: str | Path) -> ControlRuns:
    """Read ``run_id,application,input,nodes,start_s,runtime_s`` from CSV.

    The start may be called ``start_unix``, the runtime ``duration_s``. ``nodes`` holds names separated by spaces or
    semicolons, a Slurm node list, or on every line a count, without names. Start times are Unix seconds, rounded down.
    Raises InputError with file, line and what is wrong.
    """
    table = AccountingTable(load(path), {*COLUMNS, *_START, *_RUNTIME}, "run")
    notes: list[str] = []
    run_id, application = (texts(table, name) for name in ("run_id", "application"))
    table.refuse_repeated("run_id")
    inputs = texts(table, "input", empty=True) if "input" in table else [""] * table.rows
    start = numbers(table, *_START)
    counted(notes, "Starts are rounded down to the second", start % 1 > 0)
    runtime = numbers(table, *_RUNTIME, positive=True)
    return ControlRuns(_frame(run_id, application, inputs, _nodes(table, notes), np.floor(start), runtime), {}, tuple(notes))


def read_accounting_runs(path: str | Path, job_name: str, timezone: str | None) -> ControlRuns:
    """Read the completed jobs of ``sacct`` output whose whole name matches ``job_name``.

    Columns: JobID, JobName, NodeList, Start, Elapsed or End, State. ``job_name`` is a regular expression with the named
    groups ``application`` and, if inputs differ, ``input``. Times are local to ``timezone`` (IANA). Raises InputError
    with file, line and what is wrong, and for runs of several clusters.
    """
    table = _accounting(path, _pattern(job_name), timezone)
    return ControlRuns(table.runs[list(COLUMNS)], table.left_out, table.notes)


def read_accounting_jobs(path: str | Path, timezone: str | None) -> ControlRuns:
    """Read all jobs of ``sacct`` output that have started, with their nodes, as JOB_COLUMNS.

    The application is the name of the job; ``runtime_s`` is NaN while it runs. Columns and errors:
    :func:`read_accounting_runs`, and User.
    """
    table = _accounting(path, None, timezone)
    return ControlRuns(table.runs.rename(columns={"run_id": "job_id"})[list(JOB_COLUMNS)], table.left_out, table.notes)


def _accounting(path: str | Path, pattern: re.Pattern[str] | None, timezone: str | None) -> ControlRuns:
    """Read the jobs whose name matches ``pattern`` and that completed; without one, all that started."""
    if timezone is None:
        raise InputError(f"{path}: Slurm writes local times: name their time zone, as in --time-zone America/Denver")
    place = zone(timezone)
    wanted = {"jobid", "jobidraw", "jobname", "user", "nodelist", "state", "cluster", *START, *END, *RUNTIME}
    table = AccountingTable(load(path), wanted, free=FREE_TEXT)
    job = table.column("jobidraw", "jobid")
    name, nodes, _ = (table.column(column) for column in ("jobname", "nodelist", "state"))
    table.column("start")
    left = np.full(table.rows, "", object)
    if pattern is not None:
        left[~table.matches(name, lambda text: pattern.fullmatch(text) is not None)] = "another job name"
    left[job_steps(table)] = "job step"
    words = states(table, left == "")
    running = (words == "RUNNING") & (pattern is None)
    other = (left == "") & ((words == "PENDING") if pattern is None else (words != "COMPLETED"))
    left[other] = "state " + words[other]
    runs, notes = left == "", list[str]()
    refuse_several_clusters(table, runs)
    elapsed = table.find(*RUNTIME)
    if elapsed is None:
        table.column(*END)
    runtime = np.full(table.rows, np.nan) if elapsed is None else table.numbers(elapsed, RUNTIME[elapsed])
    times = job_times(table, None, runs, place, None if elapsed is None else runtime[runs], notes)
    start = np.full(table.rows, MISSING_TIME)
    start[runs] = times.start
    left[runs & (start == MISSING_TIME)] = "no start"
    for rule, where in times.contradictions(None if elapsed is None else runtime[runs]).items():
        left[np.flatnonzero(runs)[where]] = rule
    left[(left == "") & table.matches(nodes, lambda text: text.lower() in NOWHERE)] = "no nodes"
    if elapsed is None:
        runtime[runs] = times.between
    runtime[running] = np.nan
    left[(left == "") & ~running & ~(runtime > 0)] = "no runtime"
    left[(left == "") & (runtime > limits.SECONDS)] = "runtime beyond limits"
    kept = np.flatnonzero(left == "")
    run_id = pd.Series(table.strings(job)).where(left == "")
    table.refuse(job, (left == "") & run_id.duplicated().to_numpy(), "completed on an earlier line too")
    application, inputs = [*table.strings(name)[kept]], [""] * len(kept)
    if pattern is not None:
        matches = [pattern.fullmatch(text) for text in application]
        application, inputs = (
            [(match.groupdict().get(group) or "") for match in matches if match] for group in ("application", "input")
        )
    if pattern is not None and "" in application:
        raise table.error(name, int(kept[application.index("")]), "matches the pattern with an empty application")
    lists = node_lists(table, nodes, kept)
    reasons, counts = np.unique(left[left != ""].astype(str), return_counts=True)
    left_out = dict(zip(reasons.tolist(), counts.tolist(), strict=True))
    if table.set_aside:
        left_out["unreadable line"] = len(table.set_aside)
    frame = _frame(run_id[kept], application, inputs, lists, start[kept], runtime[kept])
    users = [*table.strings("user")[kept]] if "user" in table else [""] * len(kept)
    return ControlRuns(frame.assign(user=pd.array(users, dtype="str")), left_out, tuple(notes))


def _pattern(text: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise InputError(f"--job-name {text!r}: is not a regular expression: {error}") from error
    if "application" not in pattern.groupindex:
        raise InputError(f"--job-name {text!r}: has no group (?P<application>...)")
    return pattern


def texts(table: AccountingTable, name: str, empty: bool = False) -> list[str]:
    """Return a column's texts.

    Raises InputError if the column is missing or, unless ``empty``, one of its texts is empty.
    """
    column = table.strings(table.column(name))
    if not empty:
        table.refuse(name, column == "", "says nothing")
    return list(column)


def numbers(table: AccountingTable, *names: str, positive: bool = False) -> np.ndarray:
    """Return the first of the columns ``names``, float64 [rows].

    Raises InputError if a number is missing, beyond limits or, with ``positive``, not above 0.
    """
    name = table.column(*names)
    column_s = table.numbers(name, seconds)
    table.refuse(name, np.isnan(column_s), "says nothing")
    table.refuse(name, positive & (column_s <= 0), "is not above 0")
    table.refuse(name, column_s > limits.SECONDS, f"is more than {limits.SECONDS:,} seconds")
    return column_s


def _nodes(table: AccountingTable, notes: list[str]) -> list[list[str]] | list[None]:
    name = table.column("nodes")
    if table.matches(name, str.isdecimal).all():
        notes.append("The column nodes says how many nodes a run had, not which, so no counters can be matched to it.")
        return [None] * table.rows
    return node_lists(table, name, np.arange(table.rows))


def node_lists(table: AccountingTable, name: str, rows: np.ndarray) -> list[list[str]]:
    """Return the nodes that a column lists in ``rows``.

    Raises InputError for an unreadable or empty list, and for too many names in all.
    """
    codes, distinct = table.texts(name)
    lists: dict[int, list[str]] = {}
    total = 0
    for row in rows:
        code = int(codes[row])
        if code not in lists:
            try:
                lists[code] = list(expand_nodes(distinct[code]))
            except ValueError as error:
                raise table.error(name, int(row), f"is not {error}") from error
            if not lists[code]:
                raise table.error(name, int(row), "names no node")
            total += len(lists[code])
            if total > limits.NODE_NAMES:
                raise table.error(name, int(row), f"is too much: the lists so far name more than {limits.NODE_NAMES:,} nodes")
    return [lists[int(codes[row])] for row in rows]


def _frame(run_id, application, inputs, nodes, start, runtime) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "run_id": pd.array(run_id, dtype="str"),
            "application": pd.array(application, dtype="str"),
            "input": pd.array(inputs, dtype="str"),
            "nodes": pd.Series(nodes, dtype=object),
            "start_s": np.asarray(start, np.int64),
            "runtime_s": np.asarray(runtime, np.float64),
        }
    )


def read_topology(path: str | Path) -> pd.DataFrame:
    """Read ``node leaf``, both str, sorted by node.

    In ``topology.conf`` only lines with ``Nodes=`` count, such as ``SwitchName=s1 Nodes=n[1-16]``; higher switches are
    skipped. Raises InputError with file, line and what is wrong, such as a node under two leaf switches.
    """
    source, leaf_of = load(path), dict[str, str]()
    with source.open() as file:
        text = file.read().decode("utf-8", "replace")
    place = Path(source.path)
    for line in conf_lines({place.name: text}, place.name, str(place.parent)):
        if "switchname" not in line.pairs:
            raise line.error(f"{shown(line.text)} names no switch: SwitchName=s1 Nodes=n[1-16]")
        for node in expand(line.pairs.get("nodes", ""), line):
            if leaf_of.setdefault(node, line.pairs["switchname"]) != line.pairs["switchname"]:
                raise line.error(f"node {shown(node)} is under {leaf_of[node]} on an earlier line")
    if not leaf_of:
        raise InputError(f"{source.path}: no line names nodes of a switch: SwitchName=s1 Nodes=n[1-16]")
    return pd.DataFrame({"node": [*leaf_of], "leaf": [*leaf_of.values()]}).sort_values("node", ignore_index=True)


def read_probes(path: str | Path) -> pd.DataFrame:
    """Read probes: run_id str, node str, and float64 seconds for each of PROBES.

    The columns are those of features.monitoring.samplers.PROBES. Raises InputError with file, line and what is wrong.
    """
    table = AccountingTable(load(path), {"run_id", "node", *PROBES}, "probe result")
    frame = pd.DataFrame({name: texts(table, name) for name in ("run_id", "node")}, dtype="str")
    again = frame.duplicated().to_numpy()
    table.refuse("node", again, f"has a result of run {frame['run_id'][int(np.argmax(again))]} on an earlier line too")
    for name in PROBES:
        frame[name] = numbers(table, name)
    return frame


def read_types(path: str | Path) -> pd.DataFrame:
    """Read application str and type str, one of features.monitoring.samplers.TYPES.

    A file with any of features.monitoring.situation.RATES, float64 GB/s, must have them all; an empty cell is NaN.
    Raises InputError with file, line and what is wrong.
    """
    table = AccountingTable(load(path), {"application", "type", *RATES}, "application")
    frame = pd.DataFrame({name: texts(table, name) for name in ("application", "type")}, dtype="str")
    table.refuse("type", ~frame["type"].isin(TYPES).to_numpy(), f"is not one of {', '.join(TYPES)}")
    table.refuse_repeated("application")
    if table.find(*RATES):
        for name in RATES:
            frame[name] = table.numbers(table.column(name), seconds)
    return frame
