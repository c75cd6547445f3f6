"""Limits of QOS and associations, as counters of jobs' amounts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sim.slurm.releases import BOTH_QOS
from sim.slurm.site import Limits, Site

FACTORS = ("cpu", "node", "mem", "gres/gpu", "jobs")
PER_START = ("jobs", "license")
"""Limits that are checked before nodes are chosen."""


def wanted(row: Any) -> dict[str, int]:
    """Return the amounts that a job asks for, by resource; memory in MiB."""
    nodes = max(row.min_nodes, 1)
    memory = row.memory_node * nodes or row.memory_cpu * row.cpus
    return {"cpu": row.cpus, "node": nodes, "jobs": 1, "gres/gpu": row.gpus * nodes, "mem": memory}


class Slots:
    """Limits as counters: each (owner, resource) is a slot with its max value.

    QOS come before associations, and the first that sets a limit counts. ``keys`` say whose jobs a slot counts: they
    begin with the name of a QOS or the row of an association, and end with the resource.
    """

    def __init__(self, site: Site) -> None:
        self.most: list[int] = []
        self.keys: list[tuple[object, ...]] = []
        self._site = site
        self._rows: dict[tuple[object, ...], int] = {}

    def of(self, row: Any) -> list[tuple[str, int, int]]:
        """Return (kind, slot, amount) for each limit that a job counts against.

        The limits are those of licenses, the QOS of partition and job, and the job's associations.
        """
        site = self._site
        held = set[tuple[str, str]]()
        slots: list[tuple[str, int, int]] = []
        for part in filter(None, row.licenses.split(",")):
            name, _, count = part.replace("=", ":").partition(":")
            amount = int(count) if re.fullmatch(r"\d{1,9}", count) else 1
            slots.append(("license", self._slot(("license", name), site.licenses.get(name, 0)), amount))
        if not site.enforces_limits:
            return slots
        whose = {"group": "", "user": row.user, "account": row.account}
        amounts, both_count = wanted(row), site.known_release >= BOTH_QOS
        for qos in self._qos_of(row):
            for scope in whose:
                limits = getattr(qos.limits, scope)
                for name in FACTORS:
                    both = both_count and scope != "account" and name != "jobs"
                    if name in limits and (both or (scope, name) not in held):
                        held.add((scope, name))
                        slots.append((name, self._slot((qos.name, scope, whose[scope], name), limits[name]), amounts[name]))
        by_qos = frozenset(held)
        for at, limits in self._associated(row):
            for scope, values, key in (("group", limits.group, at), ("user", limits.user, self._site.rows[row.account, row.user])):
                for name in FACTORS:
                    if name in values and (scope, name) not in (by_qos if scope == "group" else held):
                        held.add((scope, name))  # an account's limit per user holds for users without their own
                        slots.append((name, self._slot((key, scope, name), values[name]), amounts[name]))
        most_of_one, wanted_of_one = dict[str, int](), {**amounts, "wall": row.limit_s // 60}
        for limits in (*(qos.limits for qos in self._qos_of(row)), *(limits for _, limits in self._associated(row))):
            most_of_one = {**limits.job, **most_of_one}  # the first that sets a limit counts
        never = [name for name, most in most_of_one.items() if wanted_of_one.get(name, 0) > most]
        return slots + [("jobs" if "wall" in never else "job", self._slot(("never",), 0), 1)] * bool(never)

    def owner(self, slot: int) -> str:
        """Return in words whose jobs a slot counts, and by what."""
        key = self.keys[slot]
        if key[0] in ("license", "never"):
            return f"licence {key[1]}" if key[0] == "license" else "limits of one job"
        whose, scope = key[0], str(key[1])
        if isinstance(whose, str):
            return f"QOS {whose}, {'all jobs' if scope == 'group' else f'{scope} {key[2]}'}"
        association = self._site.associations[int(str(whose))]
        return f"user {association.user} of {association.account}" if association.user else f"account {association.account}"

    def _qos_of(self, row: Any) -> list[Any]:
        own, of_partition = self._site.qos[row.qos], self._site.qos.get(self._site.partitions[row.partition.split(",")[0]].qos)
        both = (own, of_partition) if own.over_partition else (of_partition, own)
        return [own] if of_partition is own else [qos for qos in both if qos is not None]

    def _associated(self, row: Any) -> Iterator[tuple[int, Limits]]:
        """Yield row and limits of a job's association and of all above it."""
        at = self._site.rows.get((row.account, row.user))
        while at is not None and at >= 0:
            yield at, self._site.associations[at].limits
            at = self._site.rows.get((self._site.associations[at].parent, "")) if at else None

    def _slot(self, key: tuple[object, ...], most: int) -> int:
        if key not in self._rows:
            self._rows[key] = len(self.most)
            self.most.append(most)
            self.keys.append(key)
        return self._rows[key]
