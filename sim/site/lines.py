"""Lines of slurm.conf, commands and scripts that make a change of a site, with values.

A line of slurm.conf replaces the present one. Other lines begin with what they are: a command with its program, a
script for Slurm's plugin lua with :data:`SCRIPT`, a change that no setting makes with :data:`NO_SETTING`. A value is as
stated, or a multiple of today's such as ``x2``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from features.clock import DAY_S
from features.errors import InputError
from sim.slurm.lines import seconds
from sim.slurm.site import LIMIT_KEYS, PARTITION_KEYS, TYPED, UNLIMITED, Node, Partition, Qos, Site

NO_SETTING, SCRIPT = "# no setting: ", "-- job_submit.lua"
_EXAMPLE = "docs/examples/job_submit.lua"
_ALONE = """
function slurm_job_modify(job, record, partitions, uid)
   return slurm.SUCCESS
end
"""
_ASKING = """
dofile("/etc/slurm/queuecast.lua")
local ask = slurm_job_submit
"""


def length(seconds: int) -> str:
    """Return seconds as Slurm writes them."""
    days, rest = divmod(seconds, DAY_S)
    return "UNLIMITED" if seconds >= UNLIMITED else f"{days}-{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def _stating(line: str, values: Mapping[str, object]) -> str:
    """Return a line of slurm.conf in which these keys are replaced or added."""
    for key, value in values.items():
        line, replacements = re.subn(rf'(?i)\b({key})\s*=\s*("[^"]*"|\S+)', lambda old, value=value: f"{old[1]}={value}", line)  # type: ignore[misc]
        line += "" if replacements else f" {key}={value}"
    return line.strip()


def partition_lines(part: Partition, before: Partition) -> list[str]:
    """Return the whole line of a changed partition, else an empty list."""
    new = {key: getattr(part, name) for key, name in PARTITION_KEYS.items() if getattr(part, name) != getattr(before, name)}
    shown = {key: length(value) if key == "MaxTime" or value >= UNLIMITED else value for key, value in new.items()}
    line = before.line or f"PartitionName={part.name} Nodes={','.join(sorted(before.nodes))}"
    nodes = re.search(r"(?i)\bNodes\s*=\s*(\S+)", line)
    node_text = nodes[1] if nodes else ",".join(sorted(before.nodes))
    if (added := part.nodes - before.nodes) and node_text.upper() != "ALL":
        shown["Nodes"] = ",".join([node_text, *sorted(added)])
    return [_stating(line, shown)] if shown else []


def qos_lines(qos: Qos, before: Qos) -> list[str]:
    """Return the command that changes the values of a QOS, if any differ."""
    shown = [f"Priority={qos.priority}"] if qos.priority != before.priority else []
    for name, (resources, running) in LIMIT_KEYS.items():
        new: Mapping[str, int] = getattr(qos.limits, name)
        old: Mapping[str, int] = getattr(before.limits, name)
        differ = {key: count for key, count in new.items() if count != old.get(key)}
        jobs = [f"{running}={differ.pop('jobs')}"] if "jobs" in differ else []
        shown += [f"{resources}={','.join(f'{key}={count}' for key, count in differ.items())}"] * bool(differ) + jobs
    return [f"sacctmgr modify qos {qos.name} set {' '.join(shown)}"] if shown else []


def node_lines(nodes: Iterable[Node]) -> list[str]:
    """Return the lines of new nodes, one for each kind."""
    kinds: dict[Node, list[str]] = {}
    for node in nodes:
        kinds.setdefault(replace(node, name=""), []).append(node.name)
    lines = [f"{NO_SETTING}nodes to buy: {sum(map(len, kinds.values()))}"]
    for kind, names in kinds.items():
        types = sorted(name for name in kind.features if name.startswith(TYPED))
        features = ",".join(sorted(kind.features - {*types}))
        gpus = types[0] if len(types) == 1 else TYPED.removesuffix(":")  # of several types no count each is known
        more = f" Gres={gpus}:{kind.gpus}" * (kind.gpus > 0) + f" Feature={features}" * bool(features)
        lines.append(f"NodeName={','.join(names)} CPUs={kind.cpus} RealMemory={kind.memory} Weight={kind.weight}{more}")
    return lines


def with_prediction(site: Site, level: float, *body: str) -> list[str]:
    """Return lines for a Lua ``body`` in which ``s`` is a served runtime quantile, seconds."""
    lua_lines = (
        "ask(job, partitions, uid)",
        f'local s = tonumber((job.admin_comment or ""):match("p{100 * level:g}_s=(%d+)"))',
        "if s then",
        *(f"   {line}" for line in body),
        "end",
    )
    return [
        f"{NO_SETTING}a registered model that tells quantiles answers: queuecast serve NAME",
        f"sed 's/0.5,0.95/{level:g}/' {_EXAMPLE} > /etc/slurm/queuecast.lua",
        *_script(site, _ASKING, lua_lines),
    ]


def limit_lines(text: str, site: Site) -> list[str]:
    """Return lines that make Slurm set time limits by ``text``."""
    kind, _, level = text.rpartition(" ")
    kept = "if job.time_min < slurm.NO_VAL then job.time_min = math.min(job.time_min, job.time_limit) end"
    if kind:
        predicted = "job.time_limit = math.min(job.time_limit, math.max(math.ceil(s / 60), 1))"
        return with_prediction(site, float(level), predicted, kept)
    multiple = f"math.max(math.ceil(job.time_limit * {text.removeprefix('x')}), 1)"
    return _script(site, _ALONE, (f"if job.time_limit < slurm.NO_VAL then job.time_limit = {multiple} end", kept))


def _script(site: Site, before: str, body: Iterable[str]) -> list[str]:
    plugins = [plugin for plugin in site.settings.get("jobsubmitplugins", "").split(",") if plugin]
    line = [] if "lua" in plugins else [f"JobSubmitPlugins={','.join([*plugins, 'lua'])}"]
    inside = "\n".join(f"   {line_of_body}" for line_of_body in (*body, "return slurm.SUCCESS"))
    return [*line, f"{SCRIPT}{before}\nfunction slurm_job_submit(job, partitions, uid)\n{inside}\nend\n\nreturn slurm.SUCCESS"]


def value_of(value: Any, today: str, key: str) -> str:
    """Return a new value as text: as stated, or a multiple of today's."""
    text = str(value)
    if not text.startswith("x"):
        return text
    factor = factor_of(text, key)
    if today.isdecimal():
        return str(round(factor * int(today)))
    try:
        return length(round(factor * seconds(today)))
    except ValueError:
        raise InputError(f"{key} is {today or 'not stated'}, so {text} cannot be applied to it") from None


def factor_of(text: str, key: str) -> float:
    """Return the number in a text such as x0.5; InputError for any other text."""
    try:
        factor = float(str(text).removeprefix("x"))
    except ValueError:
        factor = -1.0
    if not (str(text).startswith("x") and factor >= 0):
        raise InputError(f"{key} = {text!r} is not a factor such as x0.5")
    return factor


def number_of(value: Any, today: int, key: str) -> int:
    """Return a count as stated or as a multiple of today's, at least 1 if there is one today."""
    text = value_of(value, str(today), key)
    if not text.removeprefix("-").isdecimal():
        raise InputError(f"{key} = {value!r} is not a whole number")
    return max(int(text), min(today, 1))
