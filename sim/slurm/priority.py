"""The parts of a priority other than age and fair share.

From priority_multifactor.c, ``set_priority_factors``.
"""

from __future__ import annotations

from collections.abc import Mapping
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
        self._largest = max(part.factor for part in site.partitions.values()) or 1
        self._best = max(qos.priority for qos in site.qos.values()) or 1
        weights = tres_weights(settings.get("priorityweighttres", ""), type_shares(site.nodes))
        self._tres = {name: _per_unit(weights, part, site) for name, part in site.partitions.items()}

    @property
    def of_a_cpu(self) -> float:
        """Return what each processor of a job adds to its priority by size."""
        return 0.0 if self._by_time else self._size / 2 / self._procs * (-1 if self._small else 1)

    def of(self, row: Any, partition: Partition) -> float:
        """Return a job's fixed priority in ``partition``; TRES count in its first partition."""
        return sum(self.parts(row, partition).values())

    def parts(self, row: Any, partition: Partition) -> dict[str, float]:
        """Return the parts of :meth:`of` by name."""
        cpus, nodes = row.cpus / self._procs, max(row.min_nodes, 1) / self._nodes
        size = max(nodes, cpus) / max(row.limit_s // 60, 1) if self._by_time else (cpus + nodes) / 2
        size = min(1.0, max(0.0, 1 - size if self._small else size))
        part, qos = partition.factor / self._largest, self._site.qos[row.qos].priority / self._best
        amounts = wanted(row)
        tres = sum(weight * amounts[name] for name, weight in self._tres[row.partition.partition(",")[0]].items())
        return {"size": size * self._size, "partition": part * self._part, "QOS": qos * self._qos, "TRES": tres, "nice": -row.nice}


def _per_unit(weights: Mapping[str, float], partition: Partition, site: Site) -> dict[str, float]:
    """Return PriorityWeightTRES per unit of each resource: a weight is that of all that the partition has."""
    nodes = [node for node in site.nodes if node.name in partition.nodes] if weights else []
    total = {"cpu": sum(node.cpus for node in nodes), "mem": sum(node.memory for node in nodes), "node": len(nodes)}
    total["gres/gpu"] = sum(node.gpus for node in nodes)
    return {name: weight / (total[name] or 1) for name, weight in weights.items()}
