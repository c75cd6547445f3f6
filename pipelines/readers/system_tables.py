"""Tables of a monitored system: probes, application types, leaf switches.

The topology is Slurm's ``topology.conf`` or CSV ``node,leaf``, the others are CSV. Probes, ``run_id,node,send_s,recv_s,allreduce_s``,
are the seconds that a node waited in the blocking calls of the two MPI probes of Nichols et al. (RUSH).
"""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from features.errors import InputError, shown
from features.monitoring.samplers import PROBES, TYPES
from features.monitoring.situation import RATES
from pipelines.readers.control_runs import numbers, texts
from pipelines.readers.delimited import AccountingTable, seconds
from pipelines.readers.source import Source, load
from sim.slurm.lines import conf_lines, expand

_SWITCH = re.compile(r"\s*switchname\s*=", re.IGNORECASE)


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
    path, leaf_of = Path(source.path), dict[str, str]()
    with source.open() as file:
        text = file.read().decode("utf-8", "replace")
    for line in conf_lines({path.name: text}, path.name, str(path.parent)):
        if "switchname" not in line.pairs:
            raise line.error(f"{shown(line.text)} names no switch: SwitchName=s1 Nodes=n[1-16]")
        for node in expand(line.pairs.get("nodes", ""), line):
            if leaf_of.setdefault(node, line.pairs["switchname"]) != line.pairs["switchname"]:
                raise line.error(f"node {shown(node)} is under {leaf_of[node]} on an earlier line")
    if not leaf_of:
        raise InputError(f"{source.path}: no line names nodes of a switch: SwitchName=s1 Nodes=n[1-16]")
    return pd.DataFrame({"node": [*leaf_of], "leaf": [*leaf_of.values()]})


def _csv(source: Source) -> pd.DataFrame:
    table = AccountingTable(source, {"node", "leaf"}, "node")
    frame = pd.DataFrame({name: texts(table, name) for name in ("node", "leaf")})
    table.refuse_repeated("node")
    return frame


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
