"""The nodes, partitions and switches of a site as arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from features.errors import InputError
from sim.slurm.nodesets import as_set
from sim.slurm.site import BILLED, Site
from sim.slurm.state import Hardware
from sim.slurm.topology import FAR


def hardware_of(site: Site, suits: np.ndarray) -> Hardware:
    """Return a site's hardware; ``suits`` are the sets of nodes that suit requests."""
    of_node, parts = {node.name: row for row, node in enumerate(site.nodes)}, list(site.partitions.values())
    members = [as_set([of_node[name] for name in part.nodes], len(of_node)) for part in parts]
    rates = [part.billing or {"cpu": 1.0} for part in parts]
    everywhere = "CR_LLN" in site.settings.get("selecttypeparameters", "").upper()
    switch_nodes, level, parent, distance = _network(site, of_node)
    return Hardware(
        cpus=np.array([node.cpus for node in site.nodes]),
        memory=np.array([node.memory for node in site.nodes]),
        gpus=np.array([node.gpus for node in site.nodes]),
        suits=suits,
        weight=np.array([node.weight for node in site.nodes]),
        member=np.array(members),
        tier=np.array([part.tier for part in parts]),
        billing=np.array([[rate.get(name, 0.0) for name in BILLED] for rate in rates], np.float64),
        least_loaded=np.array([everywhere or part.least_loaded for part in parts], np.int64),
        switch_nodes=switch_nodes,
        switch_level=level,
        switch_parent=parent,
        switch_distance=distance,
    )


def _network(site: Site, of_node: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return for each switch its nodes, its level, the switch above, and hops to each switch.

    Raises InputError if switches form a circle.
    """
    every, count = {switch.name: switch for switch in site.switches}, len(site.switches)
    rows = {name: row for row, name in enumerate(every)}
    parent, hops = np.arange(count), np.where(np.eye(count, dtype=bool), 0, FAR)

    def reach(name: str, above: tuple[str, ...] = ()) -> tuple[frozenset[str], int]:
        if name in above:
            raise InputError(f"site {site.name}: the switch {name} joins itself through {', '.join(above)}")
        below = [reach(joined, (*above, name)) for joined in every[name].switches]
        return every[name].nodes.union(*(nodes for nodes, _ in below)), max((level + 1 for _, level in below), default=0)

    reached = [reach(name) for name in every]
    for name, switch in every.items():
        for joined in switch.switches:
            parent[rows[joined]] = rows[name]
            hops[rows[joined], rows[name]] = hops[rows[name], rows[joined]] = 1
    for middle in range(count):
        hops = np.minimum(hops, hops[:, [middle]] + hops[[middle], :])
    words = len(as_set([], len(of_node)))
    nodes = np.array([as_set([of_node[name] for name in names], len(of_node)) for names, _ in reached], np.int64)
    return nodes.reshape(count, words), np.array([level for _, level in reached], np.int64), parent, np.minimum(hops, FAR)
