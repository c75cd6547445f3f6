"""The parts of a priority other than age and fair share.

From priority_multifactor.c, ``set_priority_factors``.
"""

from __future__ import annotations

from typing import Any

from sim.slurm.conf import type_shares
from sim.slurm.limits import wanted
from sim.slurm.lines import tres_weights
from sim.slurm.site import Partition, Site


class Fixed:
    """The part of a site's priorities that does not change while a job waits."""

    def __init__(self, site: Site) -> None:
        settings, flags = site.settings, site.priority_flags
        self._size, self._part, self._qos = (
            float(settings.get(f"priorityweight{name}", 0)) for name in ("jobsize", "partition", "qos")
        )
        self._site, self._procs, self._nodes = site, site.procs, len(site.nodes)
        self._by_time = "small_relative_to_time" in flags
        self._small = settings.get("priorityfavorsmall", "no").lower() == "yes"
        plain = {name for name in ("part", "qos", "tres") if {"no_normal_all", f"no_normal_{name}"} & flags}
        largest = max(part.factor for part in site.partitions.values())
        best = max(qos.priority for qos in site.qos.values())
        self._largest, self._best = 1 if "part" in plain else largest or 1, 1 if "qos" in plain else best or 1
        weights = tres_weights(settings.get("priorityweighttres", ""), type_shares(site.nodes))
        self._tres = {
            name: {} if not weights else _weights(site, part, weights, "tres" in plain) for name, part in site.partitions.items()
        }

    @property
    def of_a_cpu(self) -> float:
        """Return what each processor of a job adds to its priority by size."""
        return 0.0 if self._by_time else self._size / 2 / self._procs * (-1 if self._small else 1)

    def of(self, row: Any, partition: Partition) -> float:
        """Return a job's fixed priority in ``partition``; TRES weights are its first partition's."""
        return sum(self.parts(row, partition).values())

    def parts(self, row: Any, partition: Partition) -> dict[str, float]:
        """Return the parts of :meth:`of` by name."""
        cpus, nodes = row.cpus / self._procs, max(row.min_nodes, 1) / self._nodes
        size = max(nodes, cpus) / max(row.limit_s // 60, 1) if self._by_time else (cpus + nodes) / 2
        size = min(1.0, max(0.0, 1 - size if self._small else size))
        part, qos = partition.factor / self._largest, self._site.qos[row.qos].priority / self._best
        tres = 0.0
        if weights := self._tres[row.partition.partition(",")[0]]:
            amounts = wanted(row)
            tres = sum(weight * amounts[name] for name, weight in weights.items())
        return {"size": size * self._size, "partition": part * self._part, "QOS": qos * self._qos, "TRES": tres, "nice": -row.nice}


def _weights(site: Site, partition: Partition, weights: dict[str, float], plain: bool) -> dict[str, float]:
    """Return PriorityWeightTRES per unit of each resource of a partition."""
    nodes = [node for node in site.nodes if node.name in partition.nodes]
    totals = {"cpu": sum(node.cpus for node in nodes), "mem": sum(node.memory for node in nodes), "node": len(nodes)}
    totals["gres/gpu"] = sum(node.gpus for node in nodes)
    return {name: weight / (1 if plain else totals[name] or 1) for name, weight in weights.items()}
