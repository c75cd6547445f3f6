"""What a job of Slurm asks for: by accounting's columns, and by its command's options.

``ReqTRES`` (``cpu=24,mem=72000M,node=2,gres/gpu=2``) counts for the whole job. ``ReqMem`` counts for a node (``4Gn``),
for a processor (``4000Mc``), or, without these letters, for the whole job, as Slurm writes since version 21.08. Slurm
writes one node if a job left the number open, so one node is read as open.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from features.jobs.schema import masked
from models.runtime.options import pairs
from pipelines.readers.delimited import BEYOND, MISSING, UNBOUNDED, AccountingTable, whole
from pipelines.readers.text import counted
from sim.slurm.lines import seconds
from sim.slurm.site import TYPED, Site

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
        unreadable = jobs & ~table.matches(MEMORY, _is_memory)
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


def _is_memory(text: str) -> bool:
    return text.lower() in MISSING or _SIZE.fullmatch(text) is not None


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


_SHORT = {
    "N": "nodes",
    "p": "partition",
    "d": "dependency",
    "a": "array",
    "w": "nodelist",
    "x": "exclude",
    "b": "begin",
    "G": "gpus",
    "L": "licenses",
    "J": "job-name",
    "q": "qos",
    "n": "ntasks",
    "c": "cpus-per-task",
}
_FREE_OPTIONS = {
    *("contiguous", "disable-status", "exact", "exclusive", "get-user-env", "help", "hold", "ignore-pbs", "immediate", "label"),
    *("kill-on-bad-exit", "multi-prog", "nice", "no-allocate", "no-bell", "no-kill", "no-requeue", "no-shell", "overcommit"),
    *("overlap", "oversubscribe", "parsable", "preserve-env", "propagate", "pty", "quiet", "reboot", "requeue", "share"),
    *("spread-job", "test-only", "unbuffered", "use-min-nodes", "verbose", "version", "wait", "x11"),
}
"""Options without a value, or with a value only after an equals sign."""
_FREE_LETTERS = "EHIKOQVWXZhklsuv"


def words_of(line: str) -> list[str]:
    """Return the words of a command after its name."""
    try:
        return shlex.split(line)[1:]
    except ValueError:
        return line.split()[1:]


def options_of(line: str, component: int = 0) -> dict[str, str]:
    """Return the options of a command such as ``sbatch -N 2 --mem=4G job.sh`` by long name.

    Those of a heterogeneous job's components stand apart: ``sbatch -N 2 : -N 4 job.sh``.
    """
    words = words_of(line)
    for _ in range(component):
        words = words[words.index(":") + 1 :] if ":" in words else words
    options: dict[str, str] = {}
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):  # the script and its own options follow
        word, at = words[at], at + 1
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if not equals and name not in _FREE_OPTIONS and at < len(words) and not words[at].startswith("-"):
                value, at = words[at], at + 1
            options[name] = value
        elif "H" in word:
            options["hold"] = ""
        elif word[1] not in _FREE_LETTERS:
            value = word[2:].lstrip("=")
            if not value and at < len(words):
                value, at = words[at], at + 1
            options[_SHORT.get(word[1], word[1])] = value
    if at < len(words):
        options.setdefault("job-name", Path(words[at]).name)
    return options


def whole_or_0(text: str) -> int:
    return int(text) if re.fullmatch(r"-?\d{1,10}", text) else 0


def after_of(options: dict[str, str]) -> str:
    """Return the numbers of a dependency's jobs, joined by commas; for a task, its array's."""
    dependencies = re.findall(r"after(?:any|ok|notok|corr|burstbuffer)((?::\d+(?:_(?:\d+|\*))?)+)", options.get("dependency", ""))
    return ",".join(number for dependency in dependencies for number in re.findall(r":(\d+)", dependency))


def least_limit(options: dict[str, str], limit_s: int) -> int:
    """Return the shortest limit in seconds with which a job may be planned (--time-min)."""
    try:
        return min(seconds(options["time-min"]), limit_s) if "time-min" in options else limit_s
    except ValueError:
        return limit_s


def nodes_and_memory(row: dict[str, str], options: dict[str, str], cpus: int, site: Site, partition: str) -> dict[str, int]:
    """Return requested nodes, memory and GPUs.

    Memory is in MiB per node or per processor, ``gpus`` are per node, ``node_cpus`` the processors that tasks can use
    on a node.
    """
    tres = resources(field_of(row, "reqtres"))
    reqmem = field_of(row, "reqmem")
    total = tres.get("mem", memory(reqmem) if reqmem else 0) / 1024
    size = {name: size_mib for name in ("mem", "mem-per-cpu") if (size_mib := _mib(options.get(name, "")))}
    if not size and reqmem[-1:] in ("n", "c"):
        size = {"mem" if reqmem[-1] == "n" else "mem-per-cpu": _mib(reqmem[:-1])}
    nodes = max(int(tres.get("node", whole_or_0(row.get("reqnodes", "1")))), 1)
    low, _, high = options.get("nodes", "").partition("-")
    least = max(whole_or_0(low), 1) if low else nodes
    most = whole_or_0(high) or whole_or_0(low) if low else (nodes if nodes > 1 and not row.get("submitline") else 0)
    part = site.partitions.get(partition)
    default_mib = part.memory_cpu if part else 0
    node_memory, cpu_memory = int(size.get("mem", 0)), int(size.get("mem-per-cpu", 0))
    if part and not size and not reqmem and "mem" not in tres:  # not in the accounting: the partition's default
        node_memory, cpu_memory = part.memory_node, default_mib
    if not size and total:
        if round(total) == default_mib * cpus:
            cpu_memory = default_mib
        else:
            node_memory = round(total / least)
    in_gres = ",".join(part for part in options.get("gres", "").split(",") if part.split(":")[0] in ("gpu", "gres/gpu"))
    gpus = _counted(in_gres or options.get("gpus-per-node", ""))
    if not gpus:
        of_job = int(tres.get("gpu", whole_or_0(row.get("gpus", "0")) or _counted(options.get("gpus", ""))))
        gpus = -(-of_job // least)
    on_node = _cpus_of_tasks(options, cpus, least, most) if gpus else 0
    columns = {"min_nodes": least, "max_nodes": most, "memory_node": node_memory, "memory_cpu": cpu_memory, "gpus": gpus}
    return columns | {"node_cpus": on_node}


def _cpus_of_tasks(options: dict[str, str], cpus: int, least: int, most: int) -> int:
    """Return how many processors a job's tasks can use on each of its nodes, 0: any number.

    For a job with GPUs slurmctld counts no more of a node (``gres_filter_sock_core``).
    """
    of_task, on_node = (whole_or_0(options.get(name, "")) for name in ("cpus-per-task", "ntasks-per-node"))
    of_task = max(of_task, 1)
    tasks = whole_or_0(options.get("ntasks", "")) or max(cpus // of_task, 1)
    if "cpus-per-gpu" in options:
        return 0
    if on_node:
        return on_node * of_task
    if tasks == 1 or most == 1:
        return cpus
    return of_task if tasks == least == most else 0


def with_type(constraint: str, row: dict[str, str], options: dict[str, str], site: Site) -> str:
    """Return a job's constraint, with the type of GPUs that it names.

    Only a type that nodes of the site have is added.
    A job that names several types is not restricted.
    """
    requests = ",".join(options.get(name, "") for name in ("gres", "gpus", "gpus-per-node", "gpus-per-task"))
    types = {*re.split(r"[,:]", requests), *re.findall(r"gres/gpu:([^=,]+)=", field_of(row, "reqtres"))}
    site_types = {name for node in site.nodes for name in node.features if name.startswith(TYPED)}
    named = sorted(site_types & {f"{TYPED}{name}" for name in types})
    if len(named) != 1:
        return constraint
    return f"({constraint})&{named[0]}" if constraint else named[0]


def field_of(row: dict[str, str], name: str) -> str:
    return "" if row.get(name, "").lower() in MISSING | UNBOUNDED else row[name]


def _mib(text: str) -> float:
    """Return an option's memory in MiB, 0 if unreadable: then the accounting's value counts."""
    try:
        return memory(text.upper().removesuffix("B")) / 1024
    except ValueError:
        return 0


def _counted(text: str) -> int:
    """Return the sum of ``2``, ``gpu:2``, ``gpu:a100:1,gpu:b:1`` or ``a100:2``; a name without a number is one."""
    last = [part.rpartition(":")[2] for part in text.split(",") if part]
    return sum(whole_or_0(count) if count.isdecimal() else 1 for count in last)
