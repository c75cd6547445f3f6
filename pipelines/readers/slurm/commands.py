"""What a job asks for: by ``sbatch -N 2 --mem=4G job.sh``, and by accounting's ReqTRES."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from pipelines.readers.delimited import MISSING, UNBOUNDED
from pipelines.readers.slurm.requests import memory, resources
from sim.slurm.lines import seconds
from sim.slurm.site import TYPED, Site

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

    Memory is in MiB per node or per processor, ``gpus`` are per node, ``node_cpus`` the processors that tasks can use on a node.
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
