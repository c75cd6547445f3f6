"""The text of a site's files: slurm.conf, and what sacctmgr, sshare and scontrol print.

Text in, values of :mod:`sim.slurm.site` out. Slurm's own rules of reading hold: keys in any case, ``DEFAULT`` lines, ranges of
names, continued lines, comments. Errors name file, line and key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from features.errors import InputError, meant
from features.node_list import expand_nodes
from sim.slurm.site import (
    BILLED,
    LIMIT_KEYS,
    PARAMETERS,
    PARTITION_KEYS,
    UNLIMITED,
    Association,
    Limits,
    Node,
    Outage,
    Partition,
    Qos,
    Reservation,
    Site,
    Switch,
)
from sim.slurm.state import OF_PARENT

CONF, GRES, TOPOLOGY, ACCOUNTS, QOS = "slurm.conf", "gres.conf", "topology.conf", "accounts.dump", "qos.txt"
SSHARE, RESERVATIONS, EVENTS, EPILOG = "sshare.txt", "reservations.txt", "events.txt", "epilog.txt"
FILES = {
    CONF: "cp /etc/slurm/slurm.conf .      # and the files that it includes",
    GRES: "cp /etc/slurm/gres.conf .",
    TOPOLOGY: "cp /etc/slurm/topology.conf .",
    ACCOUNTS: "sacctmgr dump CLUSTER file=accounts.dump",
    QOS: "sacctmgr -P show qos > qos.txt",
    SSHARE: "sshare -alP > sshare.txt      # when the accounting begins",
    RESERVATIONS: "scontrol -o show reservation > reservations.txt",
    EVENTS: "sacctmgr -P show event start=2026-01-01 > events.txt",
    EPILOG: "echo 2 > epilog.txt           # seconds that Epilog takes on a node, where slurm.conf has one",
}
"""What a site's folder holds, and the command that makes each file; all but the first may be missing."""

_FLAGS = {
    *("no_fair_tree", "fair_tree", "calculate_running", "small_relative_to_time", "accrue_always", "incr_only"),
    *("max_tres", "no_normal_all", "no_normal_assoc", "no_normal_part", "no_normal_qos", "no_normal_tres"),
}
"""PriorityFlags that are modelled, or decide nothing: priorities of running jobs."""
_WEIGHTS = ("age", "fairshare", "jobsize", "partition", "qos")
_MODELLED = {
    *("clustername", "schedulertype", "schedulerparameters", "prioritytype", "selecttype", "selecttypeparameters"),
    *("killwait", "prioritydecayhalflife", "prioritycalcperiod", "prioritymaxage", "accountingstorageenforce"),
    *("priorityfavorsmall", "licenses", "preempttype", "preemptmode", "preemptexempttime", "epilog", "completewait"),
    *("overtimelimit", "topologyplugin", "topologyparam", "priorityflags", "fairsharedampeningfactor"),
    *("priorityweighttres",),
    *(f"priorityweight{name}" for name in _WEIGHTS),
}
_DECIDES = {
    "priorityweightassoc": ("0",),
    "suspendtime": ("-1", "infinite"),
    "enforcepartlimits": ("no", "any", "all", "yes"),
    "priorityusageresetperiod": ("none",),
}
"""Keys that change decisions and are not modelled, with the values at which they do not."""
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
_GRES_COUNT = re.compile(r"gpu(?::[A-Za-z][^:,()]*)?(?::(\d{1,9}))?(?:\([^)]*\))?$")


class Line(NamedTuple):
    """A line of a file, its keys in lower case."""

    file: str
    number: int
    pairs: dict[str, str]

    def error(self, what: str) -> InputError:
        """Return an error that names the place."""
        return InputError(f"{self.file}, line {self.number}: {what}")

    def whole(self, key: str, default: int) -> int:
        """Return the whole number of ``key``; InputError for any other value."""
        text = self.pairs.get(key)
        if text is None:
            return default
        if not re.fullmatch(r"\d{1,15}", text):
            raise self.error(f"{key}={text} is no whole number")
        return int(text)

    def decimal(self, key: str) -> float:
        """Return the number of ``key``; InputError for any other value."""
        if not re.fullmatch(r"\d{1,15}(\.\d+)?", self.pairs[key]):
            raise self.error(f"{key}={self.pairs[key]} is no number")
        return float(self.pairs[key])


def read_site(texts: Mapping[str, str], name: str, timezone: str = "UTC") -> Site:
    """Return the site that ``texts`` describe, by file name; ``name`` stands in errors.

    Times of reservations and outages are local to ``timezone``.

    InputError for what Slurm would refuse: nodes or a QOS that nothing defines, values that are no numbers, no node at all.
    """
    if CONF not in texts:
        raise InputError(f"{name}: holds no {CONF}: {FILES[CONF]}")
    site = _configuration(texts, name)
    if QOS in texts:
        site = replace(site, qos={each.name: each for each in _qos(texts[QOS], f"{name}/{QOS}")})
        if not site.qos:
            raise InputError(f"{name}/{QOS}, line 1: no line after it names a QOS")
    for partition in site.partitions.values():
        if partition.qos and QOS in texts and partition.qos not in site.qos:
            raise InputError(f"{name}/{CONF}: partition {partition.name} has QOS={partition.qos}, which {QOS} does not name")
    if (
        site.settings.get("topologyplugin", "").lower() == "topology/tree"
        and "topooptional" not in site.settings.get("topologyparam", "").lower()
    ):
        site = replace(site, switches=_switches(texts, name, site))
    if ACCOUNTS in texts:
        site = replace(site, associations=_associations(texts[ACCOUNTS], f"{name}/{ACCOUNTS}"))
    if SSHARE in texts:
        site = replace(site, associations=_with_usage(site.associations, texts[SSHARE], f"{name}/{SSHARE}"))
    if RESERVATIONS in texts:
        site = replace(site, reservations=_reservations(texts[RESERVATIONS], f"{name}/{RESERVATIONS}", site, timezone))
    if EVENTS in texts:
        site = replace(site, outages=_outages(texts[EVENTS], f"{name}/{EVENTS}", site, timezone))
    if EPILOG in texts:
        if not re.fullmatch(r"\d{1,5}(\.\d+)?\s*", texts[EPILOG]):
            raise InputError(f"{name}/{EPILOG}, line 1: is no number of seconds")
        site = replace(site, epilog_s=float(texts[EPILOG]))
    return site


def expand(names: str, line: Line) -> tuple[str, ...]:
    """Return the names that ``n[1-3,07],b1`` stands for, in that order.

    InputError for a list that cannot be read.
    """
    try:
        return expand_nodes(names)
    except ValueError as error:
        raise line.error(f"{names} is not {error}") from error


def seconds(text: str) -> int:
    """Return Slurm's ``minutes``, ``H:M:S``, ``D-H`` or ``D-H:M:S`` in seconds.

    ValueError for another form.
    """
    if text.upper() in ("INFINITE", "UNLIMITED", "-1"):
        return UNLIMITED
    if not re.fullmatch(r"(\d{1,9}-)?\d{1,9}(:\d{1,9}){0,2}", text):
        raise ValueError(text)
    days, dash, rest = text.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if dash:
        return int(days) * 86_400 + sum(part * each for part, each in zip(parts, (3600, 60, 1), strict=False))
    if len(parts) == 3:
        return parts[0] * 3600 + parts[1] * 60 + parts[2]
    return parts[0] * 60 + (parts[1] if len(parts) == 2 else 0)


def tres_weights(text: str) -> dict[str, float]:
    """Return ``CPU=1.0,Mem=0.25G,GRES/gpu=2`` as weights of a processor, a MiB, a GPU.

    ValueError for another form.
    """
    found = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.strip().lower().partition("=")
        unit = {"k": 1024.0, "g": 1 / 1024, "t": 1 / 1024**2}.get(value[-1:], 1.0)
        if name not in BILLED:
            raise ValueError(f"{part} is not one of {', '.join(BILLED)}")
        if not re.fullmatch(r"\d{0,9}\.?\d{0,9}(?<=.)[kmgt]?", value):
            raise ValueError(f"{part} says no number")
        found[name] = float(value.rstrip("kmgt")) * (unit if name == "mem" else 1.0)
    return found


def natural(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key in which n2 goes before n10, as in slurmctld's table of nodes."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.findall(r"\d+|\D+", name)]


def _lines(texts: Mapping[str, str], file: str, name: str, depth: int = 0) -> Iterator[Line]:
    """Return the lines of a configuration file with those that it includes, continued lines as one."""
    held, begun = "", 0
    for number, raw in enumerate(texts[file].splitlines(), start=1):
        text = re.sub(r"(?<!\\)#.*", "", raw).rstrip()
        begun = begun or number
        if text.endswith("\\"):
            held += text[:-1]
            continue
        text, held, at, begun = held + text, "", begun, 0
        if not text.strip():
            continue
        if found := re.match(r"\s*include\s+(\S+)", text, re.IGNORECASE):
            other = found[1].rsplit("/", 1)[-1]
            if other not in texts or depth > 3:
                raise InputError(f"{name}/{file}, line {at}: includes {found[1]}, which is not there")
            yield from _lines(texts, other, name, depth + 1)
            continue
        pairs = {key.lower(): value.strip('"') for key, value in re.findall(r'([\w./-]+)\s*=\s*("[^"]*"|\S*)', text)}
        if not pairs:
            raise InputError(f"{name}/{file}, line {at}: {text.strip()!r} is no KEY=VALUE")
        yield Line(f"{name}/{file}", at, pairs)


def _configuration(texts: Mapping[str, str], name: str) -> Site:
    """Read slurm.conf and gres.conf."""
    settings: dict[str, str] = {}
    defaults: dict[str, dict[str, str]] = {"nodename": {}, "partitionname": {}}
    nodes: dict[str, Node] = {}
    sets: dict[str, Line] = {}
    stated: list[Line] = []
    ignored: dict[str, int] = {}
    for line in _lines(texts, CONF, name):
        first = next(iter(line.pairs))
        if first in defaults:
            named, known = line.pairs[first], _NODE if first == "nodename" else _PARTITION
            for key in line.pairs.keys() - known - _HARMLESS:
                ignored[key] = ignored.get(key, 0) + 1
            if named.upper() == "DEFAULT":
                defaults[first] |= {key: value for key, value in line.pairs.items() if key != first}
                continue
            whole = line._replace(pairs={**defaults[first], **line.pairs})
            if first == "nodename":
                for each in expand(named, line):
                    if each in nodes:
                        raise line.error(f"describes the node {each} a second time")
                    nodes[each] = _node(whole, each)
            elif any(named == each.pairs[first] for each in stated):
                raise line.error(f"describes the partition {named} a second time")
            else:
                stated.append(whole)
        elif first == "nodeset":
            sets[line.pairs[first]] = line
        else:
            settings |= line.pairs
    if not nodes:
        raise InputError(f"{name}/{CONF}: no line NodeName=... describes a node")
    if GRES in texts:
        _add_gres(nodes, texts, name)
    ordered = tuple(sorted(nodes.values(), key=lambda node: natural(node.name)))
    partitions = {line.pairs["partitionname"]: _partition(line, nodes, sets) for line in stated}
    if not partitions:
        raise InputError(f"{name}/{CONF}: no line PartitionName=... describes a partition")
    parts = [part.partition("=") for part in settings.get("schedulerparameters", "").split(",") if part]
    scheduler = {key.strip().lower(): value for key, _, value in parts}
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
        for key, known in (
            *(("topologyplugin", r"topology/(none|default|tree)"), ("topologyparam", r"(?!.*dragonfly).*")),
            *(("selecttype", r"select/(cons_res|cons_tres|linear)"), ("schedulertype", r"sched/(backfill|builtin)")),
            ("prioritytype", r"priority/(basic|multifactor)"),
        )
        if key in settings and not re.fullmatch(known, settings[key].lower())
    ]
    if "suspend" in settings.get("preemptmode", "").lower():
        warnings.append(f"PreemptMode={settings['preemptmode']}")
    if "epilog" in settings:
        warnings += [] if EPILOG in texts else [f"Epilog={settings['epilog']}: how long it takes, in {EPILOG},"]
    warnings += [
        f"SchedulerParameters {key}"
        for key in scheduler
        if key not in PARAMETERS and key.startswith(("bf_", "sched", "preempt", "assoc", "defer"))
    ]
    return Site(
        settings.get("clustername", name), ordered, partitions, settings, scheduler,
        not_modelled=tuple(sorted([*unknown, *ignored])), warnings=tuple(warnings),
    )  # fmt: skip


def _check_numbers(scheduler: Mapping[str, str], settings: Mapping[str, str], name: str) -> None:
    if not re.fullmatch(r"(\s*[\w.@-]+(:\d{1,9})?\s*,?)*", settings.get("licenses", "")):
        raise InputError(f"{name}/{CONF}: Licenses={settings['licenses']} is not of the form NAME:COUNT,...")
    for key in PARAMETERS:
        if not re.fullmatch(r"\d{0,9}", scheduler.get(key, "")):
            raise InputError(f"{name}/{CONF}: SchedulerParameters {key}={scheduler[key]} is no whole number")
    if not re.fullmatch(r"[1-9]\d{0,8}", settings.get("fairsharedampeningfactor", "1")):
        raise InputError(
            f"{name}/{CONF}: FairShareDampeningFactor={settings['fairsharedampeningfactor']} is no whole number from 1 on"
        )
    for weight in _WEIGHTS:
        if not re.fullmatch(r"\d{1,10}", settings.get(f"priorityweight{weight}", "0")):
            raise InputError(f"{name}/{CONF}: PriorityWeight{weight}={settings[f'priorityweight{weight}']} is no whole number")
    for key in ("completewait", "killwait", "messagetimeout"):
        if not re.fullmatch(r"\d{1,9}", settings.get(key, "0")):
            raise InputError(f"{name}/{CONF}: {key}={settings[key]} is no whole number")
    try:
        tres_weights(settings.get("priorityweighttres", ""))
    except ValueError as error:
        raise InputError(f"{name}/{CONF}: PriorityWeightTRES={settings['priorityweighttres']}: {error}") from None
    for key in ("prioritydecayhalflife", "prioritycalcperiod", "prioritymaxage", "overtimelimit", "preemptexempttime"):
        try:
            seconds(settings.get(key, "1"))
        except ValueError:
            raise InputError(f"{name}/{CONF}: {key}={settings[key]} is no time such as 7-0 or 5") from None


def _node(line: Line, name: str) -> Node:
    sockets = line.whole("sockets", line.whole("boards", 1) * line.whole("socketsperboard", 1))
    cpus = sockets * line.whole("corespersocket", 1) * line.whole("threadspercore", 1)
    gpus = 0
    for part in filter(None, line.pairs.get("gres", "").split(",")):
        if part.startswith("gpu"):
            found = _GRES_COUNT.fullmatch(part)
            if found is None:
                raise line.error(f"Gres={part} is not of the form gpu[:TYPE]:NUMBER")
            gpus += int(found[1] or 1)
    features = line.pairs.get("features", line.pairs.get("feature", ""))
    return Node(
        name,
        line.whole("cpus", line.whole("procs", cpus)),
        max(line.whole("realmemory", 1) - line.whole("memspeclimit", 0), 1),
        gpus,
        frozenset(filter(None, features.split(","))),
        line.whole("weight", 1),
    )


def _partition(line: Line, nodes: Mapping[str, Node], sets: Mapping[str, Line]) -> Partition:
    pairs, members = line.pairs, set[str]()
    for part in re.findall(r"[^,\[\]]+(?:\[[^\]]*\][^,\[]*)*", pairs.get("nodes", "")):
        if part.upper() == "ALL":
            members |= set(nodes)
        elif part in sets:
            of = sets[part].pairs
            members |= set(expand(of.get("nodes", ""), line)) | {
                each.name for each in nodes.values() if of.get("feature", "\0") in each.features
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
        raise line.error(f"MaxTime={pairs['maxtime']} is no time such as 1-0, 30 or 12:00:00") from None
    try:
        billing = tres_weights(pairs.get("tresbillingweights", ""))
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
        pairs.get("lln", "NO").upper() == "YES",
    )


def _add_gres(nodes: dict[str, Node], texts: Mapping[str, str], name: str) -> None:
    """Take the GPUs of nodes whose line in slurm.conf states none from gres.conf."""
    for line in _lines(texts, GRES, name):
        if line.pairs.get("name") != "gpu" or "nodename" not in line.pairs:
            continue
        files = len(expand(line.pairs.get("file", ""), line)) or 1
        for each in expand(line.pairs["nodename"], line):
            if each in nodes and nodes[each].gpus == 0:
                nodes[each] = replace(nodes[each], gpus=line.whole("count", files))


def _switches(texts: Mapping[str, str], name: str, site: Site) -> tuple[Switch, ...]:
    if TOPOLOGY not in texts:
        raise InputError(f"{name}: has TopologyPlugin=topology/tree, and holds no {TOPOLOGY}: {FILES[TOPOLOGY]}")
    found: dict[str, Switch] = {}
    known = {node.name for node in site.nodes}
    lines = [line for line in _lines(texts, TOPOLOGY, name) if "switchname" in line.pairs]
    names = {each for line in lines for each in expand(line.pairs["switchname"], line)}
    for line in lines:
        members = frozenset(known if line.pairs.get("nodes", "").upper() == "ALL" else expand(line.pairs.get("nodes", ""), line))
        below = expand(line.pairs.get("switches", ""), line)
        if unknown := sorted((members - known) | (set(below) - names)):
            raise line.error(f"switch {line.pairs['switchname']} joins the unknown node or switch {unknown[0]}")
        for each in expand(line.pairs["switchname"], line):
            found[each] = Switch(each, members, below)
    return tuple(found.values())


def _table(text: str, file: str, needed: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """Return line number and fields of a table as Slurm's commands print it with -P."""
    lines = text.splitlines()
    head = lines[0].split("|") if lines else []
    for each in needed:
        if each not in head:
            raise InputError(f"{file}, line 1: has no column {each}; make it with {FILES[file.rsplit('/', 1)[-1]]}")
    for number, line in enumerate(lines[1:], start=2):
        fields = line.split("|")
        if line.strip() and len(fields) < len(head):
            raise InputError(f"{file}, line {number}: has {len(fields)} fields, and the header {len(head)}: is the file cut?")
        if line.strip():
            yield number, dict(zip(head, fields, strict=False))


def _amounts(text: str, file: str, number: int) -> dict[str, int]:
    """Return ``cpu=4,node=2,gres/gpu=1,mem=4G`` as numbers, memory in MiB; limits of -1 hold nothing back."""
    found = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        scale = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}.get(value[-1:].upper(), 1)
        digits = value.rstrip("KMGTkmgt")
        if not re.fullmatch(r"-?\d{1,15}(\.\d+)?", digits):
            raise InputError(f"{file}, line {number}: {part} is no limit such as cpu=100")
        if float(digits) >= 0:
            found["gres/gpu" if name.startswith("gres/gpu") else name] = int(float(digits) * scale)
    return found


def _minutes(values: Mapping[str, str], file: str, number: int) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Return limits of one job, of used and of running minutes; keys as in ``show qos`` and ``sacctmgr dump``, in lower case."""

    def read(*keys: str) -> dict[str, int]:
        return _amounts(next(filter(None, (values.get(key) for key in keys)), ""), file, number)

    def wall(*keys: str) -> dict[str, int]:
        text = next(filter(None, (values.get(key) for key in keys)), "")
        try:
            return {"wall": seconds(text) // 60} if text and text != "-1" else {}
        except ValueError:
            raise InputError(f"{file}, line {number}: {text} is no time such as 1-0, 30 or 12:00:00") from None

    job = read("maxtres", "maxtresperjob") | wall("maxwall", "maxwalldurationperjob")
    job |= {f"{name} minutes": most for name, most in read("maxtresmins", "maxtresminsperjob").items()}
    return job, read("grptresmins") | wall("grpwall"), read("grptresrunmins")


def _qos(text: str, file: str) -> Iterator[Qos]:
    for number, row in _table(text, file, ("Name", "Priority")):

        def held(name: str, row: Mapping[str, str] = row, number: int = number) -> dict[str, int]:
            resources, jobs = LIMIT_KEYS[name]
            return _amounts(row.get(resources, ""), file, number) | _amounts(
                f"jobs={row[jobs]}" if row.get(jobs) else "", file, number
            )

        minutes = _minutes({key.lower(): value for key, value in row.items()}, file, number)
        limits = Limits(held("group"), held("user"), held("account"), *minutes)
        preempts = tuple(filter(None, row.get("Preempt", "").split(",")))
        mode = row.get("PreemptMode", "").lower().replace("cluster", "")
        try:
            grace, exempt = (seconds(row.get(name) or "0") for name in ("GraceTime", "PreemptExemptTime"))
        except ValueError:
            raise InputError(f"{file}, line {number}: GraceTime or PreemptExemptTime is no time such as 00:00:10") from None
        place = Line(file, number, {"priority": row["Priority"] or "0", "usagefactor": row.get("UsageFactor") or "1"})
        yield Qos(
            row["Name"], place.whole("priority", 0), place.decimal("usagefactor"), limits,
            frozenset(row.get("Flags", "").split(",")), preempts, mode, grace, exempt,
        )  # fmt: skip


def _associations(text: str, file: str) -> tuple[Association, ...]:
    """Read ``sacctmgr dump``: lines ``Parent - 'x'``, ``Account - 'y':KEY=VALUE:...``, ``User - 'z':...``."""
    found, parent, accounts = [Association("root")], "root", {"root"}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith(("#", "Cluster")):
            continue
        form = re.match(r"(Parent|Account|User) - '([^']*)'(.*)", line)
        if form is None:
            raise InputError(f"{file}, line {number}: is no line Parent, Account or User of sacctmgr dump")
        kind, name = form[1], form[2]
        if kind == "Parent" and name not in accounts:  # so no account stands above itself
            raise InputError(f"{file}, line {number}: no line above it describes the account {name}")
        if kind == "Parent":
            parent = name
            continue
        if kind == "Account" and name in accounts:
            raise InputError(f"{file}, line {number}: describes the account {name} a second time")
        if kind == "Account":
            accounts.add(name)
        values = {key.lower(): value.strip("'") for key, value in re.findall(r":(\w+)=('[^']*'|[^:]*)", form[3])}
        share = values.get("fairshare", "1")
        group = _amounts(values.get("grptres", ""), file, number) | _amounts(
            f"jobs={values['grpjobs']}" if "grpjobs" in values else "", file, number
        )
        own = _amounts(f"jobs={values['maxjobs']}" if "maxjobs" in values else "", file, number)
        limits = Limits(group, own, {}, *_minutes(values, file, number))
        shares = OF_PARENT if share == "parent" else Line(file, number, {"fairshare": share}).decimal("fairshare")
        found.append(Association(parent if kind == "User" else name, name if kind == "User" else "", parent, shares, limits=limits))
    return tuple(found)


def _with_usage(associations: tuple[Association, ...], text: str, file: str) -> tuple[Association, ...]:
    """Return the associations with the usage that ``sshare -alP`` shows."""
    usage = {}
    for number, row in _table(text, file, ("Account", "User", "RawUsage")):
        if not re.fullmatch(r"\d{0,18}", row["RawUsage"]):
            raise InputError(f"{file}, line {number}: RawUsage {row['RawUsage']} is no number")
        usage[row["Account"].strip(), row["User"].strip()] = float(row["RawUsage"] or 0)
    return tuple(replace(each, usage=usage.get((each.account, each.user), 0.0)) for each in associations)


def _reservations(text: str, file: str, site: Site, timezone: str) -> tuple[Reservation, ...]:
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        pairs = dict(re.findall(r"(\w+)=(\S*)", line))
        if not line.strip() or line.startswith("No reservations"):
            continue
        line_of = Line(file, number, {})
        if not {"ReservationName", "Nodes"} <= pairs.keys():
            raise line_of.error(f"is no whole reservation; make it with {FILES[RESERVATIONS]}")
        members = frozenset(expand(pairs["Nodes"].replace("(null)", ""), line_of))
        if unknown := members - {node.name for node in site.nodes}:
            raise line_of.error(f"reservation {pairs['ReservationName']} has the unknown node {min(unknown)}")
        start, end = (_unix(pairs.get(key, ""), line_of, timezone) for key in ("StartTime", "EndTime"))
        if end < start:
            raise line_of.error(f"reservation {pairs['ReservationName']} ends before it starts")
        flags = frozenset(pairs.get("Flags", "").upper().split(","))
        found.append(Reservation(pairs["ReservationName"], start, end, members, flags, timezone))
    return tuple(found)


def _outages(text: str, file: str, site: Site, timezone: str) -> tuple[Outage, ...]:
    """Read ``sacctmgr -P show event``: each row of a node is a time in which it started nothing.

    One that was down lost its jobs.
    """
    names, found = {node.name for node in site.nodes}, []
    for number, row in _table(text, file, ("NodeName", "TimeStart", "TimeEnd", "State")):
        if row["NodeName"] not in names or row["State"].upper().startswith("UNK"):
            continue
        line = Line(file, number, {})
        end = UNLIMITED if row["TimeEnd"] in ("Unknown", "None", "") else _unix(row["TimeEnd"], line, timezone)
        start, down = _unix(row["TimeStart"], line, timezone), bool(re.search("DOWN|FAIL", row["State"].upper()))
        if end < start:
            raise line.error(f"the event of {row['NodeName']} ends before it starts")
        found.append(Outage(row["NodeName"], start, end, down))
    return tuple(found)


def _unix(text: str, line: Line, timezone: str) -> int:
    try:
        time = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=ZoneInfo(timezone))
        if not 1970 <= time.year <= 2261:
            raise ValueError
        return int(time.timestamp())
    except ValueError:
        raise line.error(f"{text!r} is no time such as 2026-11-21T21:17:42") from None
