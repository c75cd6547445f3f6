"""Read slurm.conf and gres.conf: nodes, partitions, settings.

Slurm's own rules apply: keys in any case, ``DEFAULT`` lines, ranges of names, continued lines, comments. Errors name
file, line and key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from features.errors import InputError, meant
from models.runtime.options import pairs
from sim.slurm.lines import (
    CONF,
    CONFIG,
    EPILOG,
    GRES,
    KeyedLine,
    conf_lines,
    expand,
    natural,
    seconds,
    tres_weights,
)
from sim.slurm.releases import read_release
from sim.slurm.site import PARAMETERS, PARTITION_KEYS, TYPED, UNLIMITED, Node, Partition, Site

_FLAGS = {
    *("fair_tree", "calculate_running", "small_relative_to_time", "accrue_always", "max_tres", "no_normal_assoc"),
}
"""PriorityFlags that are modelled, or that only affect priorities of running jobs."""
_WEIGHTS = ("age", "fairshare", "jobsize", "partition", "qos")
_MODELLED = {
    *("clustername", "schedulertype", "schedulerparameters", "prioritytype", "selecttype", "selecttypeparameters"),
    *("killwait", "prioritydecayhalflife", "prioritycalcperiod", "prioritymaxage", "accountingstorageenforce"),
    *("priorityfavorsmall", "licenses", "preempttype", "preemptmode", "epilog", "topologyplugin", "priorityflags"),
    "preemptparameters",
    *(f"priorityweight{name}" for name in (*_WEIGHTS, "tres")),
}
_DECIDES = {
    "priorityweightassoc": ("0",),
    "suspendtime": ("-1", "infinite"),
    "enforcepartlimits": ("no", "any", "all", "yes"),
    "priorityusageresetperiod": ("none",),
    "completewait": ("0",),
    "overtimelimit": ("0",),
    "preemptexempttime": ("0", "-1", "00:00:00"),
}
"""Keys that are not modelled, with the values at which they do not change decisions."""
_NODE = {
    *("nodename", "cpus", "sockets", "boards", "socketsperboard", "corespersocket", "threadspercore", "realmemory"),
    *("gres", "procs", "feature", "features", "weight", "memspeclimit", "corespeccount"),
}
_PARTITION = {
    *("partitionname", "nodes", "priority", "defmempercpu", "defmempernode", "oversubscribe", "shared", "qos", "default"),
    *("state", "preemptmode", "gracetime", "tresbillingweights", "lln"),
    *map(str.lower, PARTITION_KEYS),
}
_HARMLESS = {"nodehostname", "nodeaddr", "port", "state", "cores", "reason", "tmpdisk", "cpubind", "alloc", "defaulttime", "hidden"}
OPEN = {
    **dict.fromkeys(
        ("allowaccounts", "denyaccounts", "allowgroups", "allowqos", "denyqos"), "jobs that it keeps out may run there"
    ),
    **dict.fromkeys(("exclusiveuser", "rootonly", "reqresv", "allocnodes"), "jobs of all users may run there"),
    **dict.fromkeys(("minnodes", "maxcpuspernode", "maxcpuspersocket"), "jobs beyond it may run there"),
    **dict.fromkeys(("maxmempernode", "maxmempercpu"), "jobs that ask for more memory take no more processors"),
    **dict.fromkeys(("defcpupergpu", "defmempergpu", "jobdefaults"), "jobs ask only for what the accounting says"),
    "powerdownonidle": "nodes start at once",
}
"""Keys that are not modelled and change which jobs may run where, with what replays do instead."""
_FORMS = {
    "licenses": (r"(\s*[\w.@-]+(:\d{1,9})?\s*,?)*", "of the form NAME:COUNT,..."),
    **dict.fromkeys(("killwait", "messagetimeout"), (r"\d{1,9}", "a whole number")),
    **dict.fromkeys((f"priorityweight{name}" for name in _WEIGHTS), (r"\d{1,10}", "a whole number")),
}
"""Patterns of the values of keys, and their names."""
_GRES_COUNT = re.compile(r"gpu(?::([A-Za-z][^:,()]*))?(?::(\d{1,9}))?(?:\([^)]*\))?$")


def configuration(texts: Mapping[str, str], name: str) -> Site:
    """Return the site of slurm.conf and gres.conf; raises InputError for wrong lines."""
    settings: dict[str, str] = {}
    defaults: dict[str, dict[str, str]] = {"nodename": {}, "partitionname": {}}
    nodes: dict[str, Node] = {}
    sets: dict[str, KeyedLine] = {}
    partition_lines: list[KeyedLine] = []
    ignored = set[str]()
    for line in conf_lines(texts, CONF, name):
        first = next(iter(line.pairs))
        if (kind := line.pairs.pop("exclusive", "NO").lower()) != "no":  # since 26.05
            line.pairs.update({"oversubscribe": "EXCLUSIVE"} if kind == "node" else {f"exclusive{kind}": "YES"})
        if first in defaults:
            named, modelled = line.pairs[first], _NODE if first == "nodename" else _PARTITION
            ignored |= line.pairs.keys() - modelled - _HARMLESS - {key for key in OPEN if line.pairs.get(key, "").upper() == "NO"}
            if named.upper() == "DEFAULT":
                defaults[first] |= {key: value for key, value in line.pairs.items() if key != first}
                continue
            whole = line._replace(pairs={**defaults[first], **line.pairs})
            if first == "nodename":
                for node in expand(named, line):
                    if node in nodes:
                        raise line.error(f"describes the node {node} a second time")
                    nodes[node] = _node(whole, node)
            elif any(named == part.pairs[first] for part in partition_lines):
                raise line.error(f"describes the partition {named} a second time")
            else:
                partition_lines.append(whole)
        elif first == "nodeset":
            sets[line.pairs[first]] = line
        else:
            settings |= line.pairs
    if not nodes:
        raise InputError(f"{name}/{CONF}: no line NodeName=... describes a node")
    if GRES in texts:
        _add_gres(nodes, texts, name)
    ordered = tuple(sorted(nodes.values(), key=lambda node: natural(node.name)))
    partitions = {line.pairs["partitionname"]: _partition(line, nodes, sets) for line in partition_lines}
    if not partitions:
        raise InputError(f"{name}/{CONF}: no line PartitionName=... describes a partition")
    scheduler = _parameters(settings.get("schedulerparameters", ""))
    # a key of its own since 23.02, whose names need no prefix
    for key, value in _parameters(settings.get("preemptparameters", "")).items():
        scheduler[key if key.startswith("preempt_") else f"preempt_{key}"] = value
    _check_numbers(scheduler, settings, name)
    unknown = [key for key in settings if key not in _MODELLED] + [
        f"SchedulerParameters {key}" for key in scheduler if key not in PARAMETERS
    ]
    warnings = [f"{key}={settings[key]}" for key, idle in _DECIDES.items() if settings.get(key, idle[0]).lower() not in idle]
    warnings += [
        f"PriorityFlags={flag}"
        for flag in settings.get("priorityflags", "").split(",")
        if flag.strip().lower() not in _FLAGS | {""}
    ]
    warnings += [
        f"{key}={settings[key]}"
        for key, pattern in (
            *(("topologyplugin", r"topology/(none|default|flat)"), ("selecttypeparameters", r"(?!.*cr_lln).*")),
            *(("selecttype", r"select/(cons_res|cons_tres|linear)"), ("schedulertype", r"sched/(backfill|builtin)")),
            ("prioritytype", r"priority/(basic|multifactor)"),
        )
        if key in settings and not re.fullmatch(pattern, settings[key].lower())
    ]
    least_loaded = [line.pairs["partitionname"] for line in partition_lines if line.pairs.get("lln", "").upper() == "YES"]
    warnings += [f"LLN=YES of {', '.join(least_loaded)}"] if least_loaded else []
    if "suspend" in settings.get("preemptmode", "").lower():
        warnings.append(f"PreemptMode={settings['preemptmode']}")
    if "epilog" in settings:
        warnings += [] if EPILOG in texts else [f"Epilog={settings['epilog']}: how long it takes, in {EPILOG},"]
    warnings += [
        f"SchedulerParameters {key}"
        for key in scheduler
        if key not in PARAMETERS
        and key.startswith(("bf_", "sched", "preempt", "assoc", "defer", "time_min", "partition", "reduce"))
    ]
    return Site(
        settings.get("clustername", name), ordered, partitions, settings, scheduler,
        not_modelled=tuple(sorted([*unknown, *ignored])), warnings=tuple(warnings), release=read_release(texts.get(CONFIG, "")),
    )  # fmt: skip


def _parameters(text: str) -> dict[str, str]:
    """Return ``NAME=VALUE,NAME,...`` as values by name, in lower case."""
    return {key.lower(): value for key, value in pairs(text)}


def _check_numbers(scheduler: Mapping[str, str], settings: Mapping[str, str], name: str) -> None:
    """Raise InputError for a value that is not of its key's form."""
    for key in PARAMETERS:
        if not re.fullmatch(r"\d{0,9}", scheduler.get(key, "")):
            raise InputError(f"{name}/{CONF}: SchedulerParameters {key}={scheduler[key]} is not a whole number")
    for key, (pattern, form) in _FORMS.items():
        if key in settings and not re.fullmatch(pattern, settings[key]):
            raise InputError(f"{name}/{CONF}: {key}={settings[key]} is not {form}")
    try:
        tres_weights(settings.get("priorityweighttres", ""))
    except ValueError as error:
        raise InputError(f"{name}/{CONF}: PriorityWeightTRES={settings['priorityweighttres']}: {error}") from None
    for key in ("prioritydecayhalflife", "prioritycalcperiod", "prioritymaxage"):
        try:
            seconds(settings.get(key, "1"))
        except ValueError:
            raise InputError(f"{name}/{CONF}: {key}={settings[key]} is not a time such as 7-0 or 5") from None


def _node(line: KeyedLine, name: str) -> Node:
    sockets = line.whole("sockets", line.whole("boards", 1) * line.whole("socketsperboard", 1))
    cpus = sockets * line.whole("corespersocket", 1) * line.whole("threadspercore", 1)
    gpus, types = 0, set[str]()
    for part in filter(None, line.pairs.get("gres", "").split(",")):
        if part.startswith("gpu"):
            match = _GRES_COUNT.fullmatch(part)
            if match is None:
                raise line.error(f"Gres={part} is not of the form gpu[:TYPE]:NUMBER")
            gpus += int(match[2] or 1)
            types |= {f"{TYPED}{match[1]}"} if match[1] else set()
    features = line.pairs.get("features", line.pairs.get("feature", ""))
    return Node(
        name,
        line.whole("cpus", line.whole("procs", cpus)),
        max(line.whole("realmemory", 1) - line.whole("memspeclimit", 0), 1),
        gpus,
        frozenset(filter(None, features.split(","))) | types,
        line.whole("weight", 1),
    )


def _partition(line: KeyedLine, nodes: Mapping[str, Node], sets: Mapping[str, KeyedLine]) -> Partition:
    pairs, members = line.pairs, set[str]()
    for part in re.findall(r"[^,\[\]]+(?:\[[^\]]*\][^,\[]*)*", pairs.get("nodes", "")):
        if part.upper() == "ALL":
            members |= set(nodes)
        elif part in sets:
            described = sets[part].pairs
            members |= set(expand(described.get("nodes", ""), line)) | {
                node.name for node in nodes.values() if described.get("feature", "\0") in node.features
            }
        else:
            members |= set(expand(part, line))
    if unknown := sorted(members - set(nodes), key=natural):
        hint = meant(unknown[0], nodes)
        raise line.error(
            f"partition {pairs['partitionname']} has the unknown node {unknown[0]}; {hint or 'no line NodeName describes it'}"
        )
    priority = line.whole("priority", 1)
    try:
        longest = seconds(pairs.get("maxtime", "UNLIMITED"))
    except ValueError:
        raise line.error(f"MaxTime={pairs['maxtime']} is not a time such as 1-0, 30 or 12:00:00") from None
    try:
        billing = tres_weights(pairs.get("tresbillingweights", ""), type_shares(nodes[name] for name in members))
    except ValueError as error:
        raise line.error(f"TRESBillingWeights={pairs['tresbillingweights']}: {error}") from None
    return Partition(
        pairs["partitionname"],
        frozenset(members),
        line.whole("prioritytier", priority),
        line.whole("priorityjobfactor", priority),
        longest,
        line.whole("defmempercpu", 0),
        line.whole("defmempernode", 0),
        pairs.get("oversubscribe", pairs.get("shared", "NO")).upper() == "EXCLUSIVE",
        pairs.get("qos", ""),
        pairs.get("default", "NO").upper() == "YES",
        pairs.get("preemptmode", "").lower(),
        line.whole("gracetime", 0),
        UNLIMITED if pairs.get("maxnodes", "UNLIMITED").upper() == "UNLIMITED" else line.whole("maxnodes", 0),
        billing,
        line.text,
    )


def _add_gres(nodes: dict[str, Node], texts: Mapping[str, str], name: str) -> None:
    """Read types of GPUs from gres.conf, and their number for nodes without GPUs in slurm.conf."""
    for line in conf_lines(texts, GRES, name):
        if line.pairs.get("name") != "gpu" or "nodename" not in line.pairs:
            continue
        files = len(expand(line.pairs.get("file", ""), line)) or 1
        for node in expand(line.pairs["nodename"], line):
            if node in nodes and nodes[node].gpus == 0:
                nodes[node] = replace(nodes[node], gpus=line.whole("count", files))
            if node in nodes and "type" in line.pairs:
                nodes[node] = replace(nodes[node], features=nodes[node].features | {f"{TYPED}{line.pairs['type']}"})


def type_shares(nodes: Iterable[Node]) -> dict[str, float]:
    """Return the share of each type of GPUs, a node's types alike, in the GPUs of ``nodes``."""
    gpus: dict[str, float] = {}
    for node in nodes:
        types = [name for name in node.features if name.startswith(TYPED)]
        gpus |= {name: gpus.get(name, 0.0) + node.gpus / len(types) for name in types}
    return {name.lower(): count / (sum(gpus.values()) or 1) for name, count in gpus.items()}
