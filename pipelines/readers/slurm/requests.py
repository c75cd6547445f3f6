"""Requests of jobs in Slurm accounting: nodes, memory and GPUs.

``ReqTRES`` (``cpu=24,mem=72000M,node=2,gres/gpu=2``) counts for the whole job. ``ReqMem`` counts for a node (``4Gn``), for a
processor (``4000Mc``), or, without these letters, for the whole job, as Slurm writes since version 21.08. Slurm writes one node
if a job left the number open, so one node is read as open.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pandas as pd

from features.jobs.schema import masked
from models.runtime.options import pairs
from pipelines.readers.delimited import BEYOND, AccountingTable, tells, whole
from pipelines.readers.notes import counted

TRES, ALLOCATED_TRES, MEMORY = "reqtres", "alloctres", "reqmem"
NODES, ALLOCATED, GPUS = ("reqnodes", "nodes_req"), ("nnodes", "allocnodes"), ("gpus_req",)
CPUS, ALLOCATED_CPUS = ("reqcpus", "processors_req"), ("alloccpus", "ncpus")
"""Names of the columns, sacct's and those of exports, in lower case: the first present one is read."""
_SIZE = re.compile(r"(\d{1,15}(?:\.\d*)?)([KMGTPE]?)([nc]?)", re.ASCII)
_UNITS = {"K": 2**0, "": 2**10, "M": 2**10, "G": 2**20, "T": 2**30, "P": 2**40, "E": 2**50}


def memory(text: str) -> float:
    """Parse a size such as ``16G`` or ``4000Mn`` to KiB; without a unit it is in MiB."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError("a size of memory such as 16G, 4000Mc or 4Gn")
    return float(match[1]) * _UNITS[match[2]]


def resources(text: str) -> dict[str, float]:
    """Parse a list of resources to numbers of ``cpu node gpu`` and KiB of ``mem``."""
    amounts: dict[str, float] = {}
    for name, value in pairs(text):
        if not value:
            raise ValueError("a list of resources such as cpu=4,mem=16G,node=1")
        if name == "mem":
            amounts["mem"] = memory(value)
        elif name in ("cpu", "node"):
            amounts[name] = whole(value)
        elif name == "gres/gpu":
            amounts["gpu"] = whole(value)
        elif name.startswith("gres/gpu:"):
            amounts["typed"] = amounts.get("typed", 0.0) + whole(value)
    return {"gpu": amounts.pop("typed"), **amounts} if "typed" in amounts else amounts


def asked(table: AccountingTable, jobs: np.ndarray, notes: list[str]) -> dict[str, object]:
    """Return those of the columns ``nodes memory_kib gpus`` that the file has, of ``jobs``."""
    nodes = _first(table, jobs, "node", *NODES)
    allocated = _first(table, jobs, "", *ALLOCATED)
    if np.isnan(nodes).all() and (allocated > 1).any():
        notes.append("The file states no requested nodes: where a job had several nodes, it is taken to have requested these.")
        nodes = allocated
    kib = _first(table, jobs, "mem")
    if MEMORY in table:
        unreadable = jobs & ~table.matches(MEMORY, tells(memory))
        if unreadable.any():
            first = table.describe(int(np.argmax(unreadable)), [MEMORY])
            counted(notes, f"Memory requests that cannot be read, such as {first}, are taken as missing", unreadable)
        sizes, unit = table.numbers(MEMORY, _memory_or_nan)[jobs], pd.Series(table.strings(MEMORY)[jobs]).str[-1:]
        parts = [np.fmax(np.fmax(nodes, allocated), 1), _first(table, jobs, "", *CPUS, *ALLOCATED_CPUS)]
        factor = np.select([unit == "n", unit == "c"], parts, 1.0)
        kib = np.where(np.isnan(kib), sizes * factor, kib)
    columns = {"nodes": (nodes, 2), "memory_kib": (np.ceil(kib), 1), "gpus": (_first(table, jobs, "gpu", *GPUS), 1)}
    return {
        name: masked(np.minimum(np.nan_to_num(values), BEYOND).astype(np.int64), values >= least)
        for name, (values, least) in columns.items()
        if not np.isnan(values).all()
    }


def _memory_or_nan(text: str) -> float:
    try:
        return memory(text)
    except ValueError:
        return np.nan


def _first(table: AccountingTable, jobs: np.ndarray, resource: str, *names: str) -> np.ndarray:
    """Return a resource of ReqTRES, else a column of ``names``: float64 [jobs], or NaN."""
    if resource and TRES in table:
        return table.numbers(TRES, lambda text: resources(text).get(resource, np.nan))[jobs]
    name = table.find(*names)
    return np.full(int(jobs.sum()), np.nan) if name is None else table.numbers(name, whole)[jobs]


READ: dict[str, Callable[[str], float]] = {
    TRES: lambda text: len(resources(text)),
    MEMORY: memory,
    **dict.fromkeys((*GPUS, *NODES, *ALLOCATED), whole),
}
"""Columns that are read, with their parsers."""
