"""Read a site, as values of :mod:`sim.slurm.site`, from the text of its files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace

from features.errors import InputError
from sim.slurm.conf import configuration
from sim.slurm.dumps import associations, every_qos, unread_limits, with_outages, with_reservations, with_usage
from sim.slurm.lines import ACCOUNTS, CONF, EPILOG, EVENTS, FILES, QOS, RESERVATIONS, SSHARE
from sim.slurm.site import Limits, Qos, Site


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
    return replace(site, warnings=(*site.warnings, *unread_limits(texts)))


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
        parts = {name: whole.get(name.partition(" ")[0]) for name in limits}
        return {
            name: most if (all_there := parts[name]) is None else min(most, 100) * all_there // 100 for name, most in limits.items()
        }

    return replace(qos, limits=Limits(*(amounts(getattr(qos.limits, kind.name)) for kind in fields(Limits))))
