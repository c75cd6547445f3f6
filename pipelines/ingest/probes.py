"""A site's probe waits of control runs, and the types of its applications.

Probes, ``run_id,node,send_s,recv_s,allreduce_s``: seconds that a node waited in the blocking calls of the two MPI probes of
Nichols et al. (RUSH). Application types, ``application,type``, with the GB/s that a node of each application usually reads,
writes and sends, if the site knows them.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from features.monitoring.samplers import PROBES, TYPES
from features.monitoring.situation import RATES
from pipelines.ingest.accounting import AccountingTable, seconds
from pipelines.ingest.control_runs import numbers, texts
from pipelines.ingest.source import load


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
