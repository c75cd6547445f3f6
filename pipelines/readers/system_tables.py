"""Tables of a monitored system: probes, application types, leaf switches, running jobs.

The topology is Slurm's ``topology.conf`` or CSV ``node,leaf``, the others are CSV. Probes, ``run_id,node,send_s,recv_s,allreduce_s``,
are the seconds that a node waited in the blocking calls of the two MPI probes of Nichols et al. (RUSH).
"""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from features.errors import InputError, shown
from features.monitoring.samplers import PROBES, TYPES
from features.monitoring.situation import RATES, PlacedJob
from features.node_list import expand_nodes
from pipelines.readers.control_runs import node_lists, numbers, texts
from pipelines.readers.delimited import AccountingTable, seconds
from pipelines.readers.source import Source, load

_SWITCH = re.compile(r"\s*switchname\s*=", re.IGNORECASE)
_FIELD = re.compile(r"(\w+)\s*=\s*(\S+)")


def read_topology(path: str | Path) -> pd.DataFrame:
    """Read ``node leaf``, both str, sorted by node.

    In ``topology.conf`` only lines with ``Nodes=`` count, such as ``SwitchName=s1 Nodes=n[1-16]``; higher switches are skipped.
    Raises InputError with file, line and what is wrong, such as a node under two leaf switches.
    """
    source = load(path)
    with source.open() as file:
        is_conf = any(_SWITCH.match(line.decode("utf-8", "replace")) for line in file)
    topology = _conf(source) if is_conf else _csv(source)
    return topology.sort_values("node", ignore_index=True)


def _conf(source: Source) -> pd.DataFrame:
    leaf_of: dict[str, str] = {}
    with source.open() as file:
        lines = file.read().decode("utf-8", "replace").splitlines()
    begun = ""
    for number, line in enumerate(lines, 1):
        line = begun + line.partition("#")[0].rstrip()
        continues, line = line.endswith("\\"), line.removesuffix("\\")
        begun = line if continues and number < len(lines) else ""
        if begun or not line.strip():
            continue
        where = f"{source.path}:{number}"
        named = {key.lower(): value for key, value in _FIELD.findall(line)}
        if "switchname" not in named:
            raise InputError(f"{where}: {shown(line.strip())} names no switch: SwitchName=s1 Nodes=n[1-16]")
        if "nodes" not in named:
            continue
        try:
            nodes = expand_nodes(named["nodes"])
        except ValueError as error:
            raise InputError(f"{where}: Nodes {shown(named['nodes'])} is not {error}") from error
        for node in nodes:
            if leaf_of.setdefault(node, named["switchname"]) != named["switchname"]:
                raise InputError(f"{where}: node {shown(node)} is under {leaf_of[node]} on an earlier line")
    if not leaf_of:
        raise InputError(f"{source.path}: no line names nodes of a switch: SwitchName=s1 Nodes=n[1-16]")
    return pd.DataFrame({"node": [*leaf_of], "leaf": [*leaf_of.values()]})


def _csv(source: Source) -> pd.DataFrame:
    table = AccountingTable(source, {"node", "leaf"}, "node")
    frame = pd.DataFrame({name: texts(table, name) for name in ("node", "leaf")})
    table.refuse_repeated("node")
    return frame


def read_running(path: str | Path, at_s: float) -> list[PlacedJob]:
    """Read the jobs that run at ``at_s`` (Unix s), in the order of the file.

    Raises InputError with file, line and what is wrong, such as a job that starts later.
    """
    table = AccountingTable(load(path), {"job_id", "application", "nodes", "start_s"}, "job")
    names, applications = texts(table, "job_id"), texts(table, "application")
    start = numbers(table, "start_s")
    table.refuse("start_s", start > at_s, f"is after the moment asked about, {at_s:.0f}")
    table.refuse_repeated("job_id")
    lists = node_lists(table, "nodes", np.arange(table.rows))
    rows = zip(names, applications, lists, start, strict=True)
    return [PlacedJob(name, application, tuple(nodes), float(at)) for name, application, nodes, at in rows]


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

    A file with any of features.monitoring.situation.RATES, float64 GB/s, must have them all; an empty cell is NaN. Raises
    InputError with file, line and what is wrong.
    """
    table = AccountingTable(load(path), {"application", "type", *RATES}, "application")
    frame = pd.DataFrame({name: texts(table, name) for name in ("application", "type")}, dtype="str")
    table.refuse("type", ~frame["type"].isin(TYPES).to_numpy(), f"is not one of {', '.join(TYPES)}")
    table.refuse_repeated("application")
    if table.find(*RATES):
        for name in RATES:
            frame[name] = table.numbers(table.column(name), seconds)
    return frame
