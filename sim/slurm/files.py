"""Read a site, as values of :mod:`sim.slurm.site`, from the text of its files.

Beside slurm.conf that is what sacctmgr, sshare and scontrol print: QOS, associations, usage, reservations and outages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from features.errors import InputError
from models.runtime.options import pairs
from sim.slurm.conf import configuration
from sim.slurm.lines import ACCOUNTS, CONF, EPILOG, EVENTS, FILES, QOS, RESERVATIONS, SSHARE, KeyedLine, dropped, expand, seconds
from sim.slurm.site import LIMIT_KEYS, UNLIMITED, Association, Limits, Outage, Qos, Reservation, Site
from sim.slurm.state import OF_PARENT


def read_site(texts: Mapping[str, str], name: str, timezone: str = "UTC") -> Site:
    """Return the site that ``texts``, by file name, describe; errors mention ``name``.

    Times of reservations and outages are local to ``timezone``, the site's zone.

    Raises InputError for what Slurm would refuse: undefined nodes or QOS, values that are not numbers, no node at all.
    """
    if CONF not in texts:
        raise InputError(f"{name}: holds no {CONF}: {FILES[CONF]}")
    site = replace(configuration(texts, name), timezone=timezone, files=frozenset(texts))
    if QOS in texts:
        site = replace(site, qos={qos.name: qos for qos in every_qos(texts[QOS], f"{name}/{QOS}")})
        if not site.qos:
            raise InputError(f"{name}/{QOS}, line 1: no line after it names a QOS")
        site = replace(site, qos={qos.name: _absolute(qos, site) for qos in site.qos.values()})
    for partition in site.partitions.values():
        if partition.qos and QOS in texts and partition.qos not in site.qos:
            raise InputError(f"{name}/{CONF}: partition {partition.name} has QOS={partition.qos}, which {QOS} does not name")
    if ACCOUNTS in texts:
        site = replace(site, associations=associations(texts[ACCOUNTS], f"{name}/{ACCOUNTS}"))
    if SSHARE in texts:
        site = replace(site, associations=with_usage(site.associations, texts[SSHARE], f"{name}/{SSHARE}"))
    if RESERVATIONS in texts:
        site = with_reservations(site, texts[RESERVATIONS], f"{name}/{RESERVATIONS}")
    if EVENTS in texts:
        site = with_outages(site, texts[EVENTS], f"{name}/{EVENTS}")
    if EPILOG in texts:
        if not re.fullmatch(r"\d{1,5}(\.\d+)?\s*", texts[EPILOG]):
            raise InputError(f"{name}/{EPILOG}, line 1: is not a number of seconds")
        site = replace(site, epilog_s=float(texts[EPILOG]))
    owners = (owner.limits for owner in (*site.qos.values(), *site.associations))
    of_nodes = any("node" in {*limits.group, *limits.user, *limits.account} for limits in owners)
    shared = ["a limit of nodes, as a node counts for each of its jobs,"] * of_nodes
    return replace(site, warnings=(*site.warnings, *unread_limits(texts), *shared))


def _absolute(qos: Qos, site: Site) -> Qos:
    """Return a QOS with the flag Relative (since 23.11) with its limits as amounts, not percent.

    They are parts of the whole cluster or, for the QOS of a partition, of that partition.
    """
    if "Relative" not in qos.flags:
        return qos
    parts = [part.nodes for part in site.partitions.values() if part.qos == qos.name]
    nodes = [node for node in site.nodes if not parts or node.name in frozenset[str]().union(*parts)]
    whole = {"cpu": sum(node.cpus for node in nodes), "mem": sum(node.memory for node in nodes), "node": len(nodes)}
    whole["gres/gpu"] = sum(node.gpus for node in nodes)

    def amounts(limits: Mapping[str, int]) -> dict[str, int]:
        return {name: min(most, 100) * whole[name] // 100 if name in whole else most for name, most in limits.items()}

    return replace(qos, limits=Limits(*(amounts(getattr(qos.limits, kind.name)) for kind in fields(Limits))))


def _table(text: str, file: str, needed: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield line number and fields of each row of a table printed by Slurm's commands with -P."""
    lines = text.splitlines()
    head = lines[0].split("|") if lines else []
    for column in needed:
        if column not in head:
            raise InputError(f"{file}, line 1: has no column {column}; make it with {FILES[file.rsplit('/', 1)[-1]]}")
    for number, line in enumerate(lines[1:], start=2):
        fields = line.split("|")
        if line.strip() and len(fields) < len(head):
            raise InputError(f"{file}, line {number}: has {len(fields)} fields, and the header {len(head)}: is the file cut?")
        if line.strip():
            yield number, dict(zip(head, fields, strict=False))


def _amounts(text: str, file: str, number: int) -> dict[str, int]:
    """Return ``cpu=4,gres/gpu=1,mem=4G`` as numbers, memory in MiB; drop limits of -1.

    GPUs have no types here: limits of types add up to a limit of all GPUs, unless that is stated too.
    """
    amounts = {}
    for name, value in pairs(text):
        scale = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}.get(value[-1:].upper(), 1)
        digits = value.rstrip("KMGTkmgt")
        if not re.fullmatch(r"-?\d{1,15}(\.\d+)?", digits):
            raise InputError(f"{file}, line {number}: {name}={value} is not a limit such as cpu=100")
        if float(digits) >= 0:
            amounts[name] = int(float(digits) * scale)
    typed = [amounts.pop(name) for name in [*amounts] if name.startswith("gres/gpu:")]
    return {"gres/gpu": sum(typed), **amounts} if typed else amounts


def _of_one_job(values: Mapping[str, str], file: str, number: int) -> dict[str, int]:
    """Return the limits of one job; Slurm's keys in lower case."""
    limits = _amounts(values.get("maxtres") or values.get("maxtresperjob") or "", file, number)
    wall = values.get("maxwall") or values.get("maxwalldurationperjob") or "-1"
    try:
        return limits if wall == "-1" else {**limits, "wall": seconds(wall) // 60}
    except ValueError:
        raise InputError(f"{file}, line {number}: {wall} is not a time such as 1-0, 30 or 12:00:00") from None


def _with_jobs(resources: str | None, jobs: str | None, file: str, number: int) -> dict[str, int]:
    """Return limits of resources, and of running jobs."""
    return _amounts(",".join(filter(None, (resources, f"jobs={jobs}" if jobs else ""))), file, number)


def every_qos(text: str, file: str) -> Iterator[Qos]:
    """Yield the QOS of ``sacctmgr -P show qos``."""
    for number, row in _table(text, file, ("Name", "Priority")):
        held = {name: _with_jobs(row.get(resources), row.get(jobs), file, number) for name, (resources, jobs) in LIMIT_KEYS.items()}
        own = _of_one_job({key.lower(): value for key, value in row.items()}, file, number)
        limits = Limits(held["group"], held["user"], held["account"], own)
        preempts = tuple(filter(None, row.get("Preempt", "").split(",")))
        mode = row.get("PreemptMode", "").lower().replace("cluster", "")
        try:
            grace = seconds(row.get("GraceTime") or "0")
        except ValueError:
            raise InputError(f"{file}, line {number}: GraceTime is not a time such as 00:00:10") from None
        place = KeyedLine(file, number, {"priority": row["Priority"] or "0", "usagefactor": row.get("UsageFactor") or "1"})
        yield Qos(
            row["Name"], place.whole("priority", 0), place.decimal("usagefactor"), limits,
            frozenset(row.get("Flags", "").split(",")), preempts, mode, grace,
        )  # fmt: skip


_UNREAD = (
    *("GrpTRESMins", "GrpTRESRunMins", "GrpWall", "MaxTRESMins", "MaxTRESMinsPerJob", "MaxTRESRunMinsPU", "MaxTRESRunMinsPA"),
    "PreemptExemptTime",
)
"""Limits of a QOS or an account that are not modelled: of minutes that are used or may be, and of preemption."""


def unread_limits(texts: Mapping[str, str]) -> list[str]:
    """Return limits of QOS and accounts that are not modelled, for warnings."""
    rows = [row for _, row in _table(texts[QOS], QOS, ("Name",))] if QOS in texts else []
    of_qos = [f"{name} in {QOS}" for name in _UNREAD if any((row.get(name) or "-1") not in ("-1", "00:00:00") for row in rows)]
    dump = "\n".join(line for line in texts.get(ACCOUNTS, "").splitlines() if not line.startswith("#"))
    return of_qos + [f"{name} in {ACCOUNTS}" for name in _UNREAD if f":{name}=" in dump]


def associations(text: str, file: str) -> tuple[Association, ...]:
    """Read ``sacctmgr dump``, the root account first.

    Its lines are ``Parent - 'x'``, ``Account - 'y':KEY=VALUE:...`` and ``User - 'z':...``.
    """
    entries, parent, accounts = [Association("root")], "root", {"root"}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith(("#", "Cluster", "QOS")):  # QOS: since 25.05
            continue
        form = re.match(r"(Parent|Account|User) - '([^']*)'(.*)", line)
        if form is None:
            raise InputError(f"{file}, line {number}: is not a line Parent, Account or User of sacctmgr dump")
        kind, name = form[1], form[2]
        if kind == "Parent" and name not in accounts:  # so no account is above itself
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
        group = _with_jobs(values.get("grptres"), values.get("grpjobs"), file, number)
        own = _with_jobs("", values.get("maxjobs"), file, number)
        limits = Limits(group, own, {}, _of_one_job(values, file, number))
        above = next((association.qos for association in entries if (association.account, association.user) == (parent, "")), ())
        qos = tuple(values["qos"].split(",")) if "qos" in values else above
        shares = OF_PARENT if share == "parent" else KeyedLine(file, number, {"fairshare": share}).decimal("fairshare")
        entries.append(
            Association(parent if kind == "User" else name, name if kind == "User" else "", parent, shares, limits=limits, qos=qos)
        )
    return tuple(entries)


def with_usage(associations: tuple[Association, ...], text: str, file: str) -> tuple[Association, ...]:
    """Return the associations with the usage that ``sshare -alP`` shows."""
    usage = {}
    for number, row in _table(text, file, ("Account", "User", "RawUsage")):
        if not re.fullmatch(r"\d{0,18}", row["RawUsage"]):
            raise InputError(f"{file}, line {number}: RawUsage {row['RawUsage']} is not a number")
        usage[row["Account"].strip(), row["User"].strip()] = float(row["RawUsage"] or 0)
    return tuple(replace(whose, usage=usage.get((whose.account, whose.user), 0.0)) for whose in associations)


def with_reservations(site: Site, text: str, file: str) -> Site:
    """Return the site with the reservations that ``scontrol show reservation`` prints.

    A line may also say ``CreateTime``, which Slurm does not print.
    """
    entries, names, unknown, kept_for = [], {node.name for node in site.nodes}, set[str](), set[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        pairs = dict(re.findall(r"(\w+)=(\S*)", line))
        if not line.strip() or line.startswith("No reservations"):
            continue
        line_of = KeyedLine(file, number, {})
        if not {"ReservationName", "Nodes"} <= pairs.keys():
            raise line_of.error(f"is not a whole reservation; make it with {FILES[RESERVATIONS]}")
        members = frozenset(expand(pairs["Nodes"].replace("(null)", ""), line_of))
        unknown |= members - names
        start, end = (_unix(pairs.get(key, ""), line_of, site.timezone) for key in ("StartTime", "EndTime"))
        if end < start:
            raise line_of.error(f"reservation {pairs['ReservationName']} ends before it starts")
        kept_for |= {key for key, value in pairs.items() if key.startswith("Allow") and value not in ("", "(null)")}
        flags = frozenset(pairs.get("Flags", "").upper().split(","))
        created = _unix(pairs["CreateTime"], line_of, site.timezone) if "CreateTime" in pairs else None
        entries.append(Reservation(pairs["ReservationName"], start, end, members & names, flags, site.timezone, created))
    notes = [*dropped(unknown, RESERVATIONS), *(f"Not modelled: {key} in {RESERVATIONS}" for key in sorted(kept_for))]
    return replace(site, reservations=tuple(entries), notes=(*site.notes, *notes))


def with_outages(site: Site, text: str, file: str) -> Site:
    """Return the site with the outages that ``sacctmgr -P show event`` prints.

    Each row is a time in which a node started no jobs. A node that was down also lost its jobs.
    """
    names, unknown, entries = {node.name for node in site.nodes}, set[str](), []
    for number, row in _table(text, file, ("NodeName", "TimeStart", "TimeEnd", "State")):
        if row["NodeName"] not in names:
            unknown |= {row["NodeName"]} - {""}  # an event of the whole cluster has no node
            continue
        if row["State"].upper().startswith("UNK"):
            continue
        line = KeyedLine(file, number, {})
        end = UNLIMITED if row["TimeEnd"] in ("Unknown", "None", "") else _unix(row["TimeEnd"], line, site.timezone)
        start, down = _unix(row["TimeStart"], line, site.timezone), bool(re.search("DOWN|FAIL", row["State"].upper()))
        if end < start:
            raise line.error(f"the event of {row['NodeName']} ends before it starts")
        entries.append(Outage(row["NodeName"], start, end, down))
    return replace(site, outages=tuple(entries), notes=(*site.notes, *dropped(unknown, EVENTS)))


def _unix(text: str, line: KeyedLine, timezone: str) -> int:
    try:
        time = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=ZoneInfo(timezone))
        if not 1970 <= time.year <= 2261:
            raise ValueError
        return int(time.timestamp())
    except ValueError:
        raise line.error(f"{text!r} is not a time such as 2026-11-21T21:17:42") from None
