"""The nodes and partitions of a site as arrays."""

from __future__ import annotations

import numpy as np

from sim.slurm.nodesets import as_set
from sim.slurm.site import BILLED, Site
from sim.slurm.state import Hardware


def hardware_of(site: Site, suits: np.ndarray) -> Hardware:
    """Return a site's hardware; ``suits`` are the sets of nodes that suit requests."""
    of_node, parts = {node.name: row for row, node in enumerate(site.nodes)}, list(site.partitions.values())
    members = [as_set([of_node[name] for name in part.nodes], len(of_node)) for part in parts]
    rates = [part.billing or {"cpu": 1.0} for part in parts]
    everywhere = "CR_LLN" in site.settings.get("selecttypeparameters", "").upper()
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
    )
