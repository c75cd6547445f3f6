"""Sets of nodes as bits, and the nodes that suit a job.

A job's constraint, --nodelist, --exclude and memory decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from features.errors import InputError
from features.node_list import expand_nodes
from sim.slurm.site import BILLED, Site
from sim.slurm.state import LOW, SHIFT, Hardware

_FEATURE = re.compile(r"\0\d+|[^&|()\[\]*,\s\0]+(\*\d+)?")
_BRACKET = re.compile(r"\(([^()\[\]]*)\)|\[([^()\[\]]*)\]")


class Suits(NamedTuple):
    """The parts of a request that decide which nodes suit a job.

    ``memory`` is in MiB per node, the others are as in sbatch.
    """

    features: str
    nodelist: str
    exclude: str
    memory: int


def as_set(nodes: Iterable[int], size: int) -> np.ndarray:
    """Return a set of nodes, out of ``size`` nodes, as bits: int64 [words]."""
    bits = np.zeros((size >> SHIFT) + 1, np.uint64)
    for node in nodes:
        bits[node >> SHIFT] |= np.uint64(1 << (node & LOW))
    return bits.view(np.int64)


def suitable(site: Site, wish: Suits) -> frozenset[str]:
    """Return the names of the nodes that a job may run on.

    Raises InputError for a constraint or a list of nodes that cannot be read.
    """
    names = with_features(site, wish.features)
    if "MEMORY" in site.settings.get("selecttypeparameters", "").upper():
        names &= {node.name for node in site.nodes if node.memory >= wish.memory}
    try:
        within = frozenset(expand_nodes(wish.nodelist)) if wish.nodelist else names
        without = frozenset(expand_nodes(wish.exclude)) if wish.exclude else frozenset[str]()
    except ValueError as error:
        raise InputError(f"a job's list of nodes {wish.nodelist or wish.exclude!r} is not {error}") from None
    return names & within - without


def with_features(site: Site, constraint: str) -> frozenset[str]:
    """Return the nodes that a constraint such as ``gpu&(a|b)`` admits.

    As in slurmctld, it is read from left to right, without precedence of ``&`` (node_scheduler.c,
    ``valid_feature_counts``). For ``[a|b]``, which asks for nodes of one kind, and ``a*2``, all nodes with any of the
    features count. InputError if unreadable.
    """
    inside: dict[str, frozenset[str]] = {}

    def admitted(text: str, counted: bool = False) -> frozenset[str]:
        """Return the nodes that a part without brackets admits."""
        features, operators = re.split(r"[&|,]", text), re.findall(r"[&|,]", text)
        if not all(map(_FEATURE.fullmatch, features)):
            raise InputError(f"the constraint {constraint!r} cannot be read")
        names = [feature.partition("*")[0] for feature in features]
        sets = [inside.get(name) or frozenset(node.name for node in site.nodes if name in node.features) for name in names]
        nodes = sets[0]
        for operator, more in zip(operators, sets[1:], strict=True):
            # between counts, [a*2&b*1] asks for some nodes of each
            nodes = nodes | more if operator == "|" or counted else nodes & more
        return nodes

    if not constraint:
        return frozenset(node.name for node in site.nodes)
    text = constraint
    while bracket := _BRACKET.search(text):
        counted = bracket[0][0] == "[" and "*" in constraint
        inside[f"\0{len(inside)}"] = admitted(bracket[1] or bracket[2] or "", counted)
        text = f"{text[: bracket.start()]}\0{len(inside) - 1}{text[bracket.end() :]}"
    return admitted(text)


def hardware_of(site: Site, suits: np.ndarray) -> Hardware:
    """Return a site's hardware; ``suits`` are the sets of nodes that suit requests."""
    of_node, parts = {node.name: row for row, node in enumerate(site.nodes)}, list(site.partitions.values())
    members = [as_set([of_node[name] for name in part.nodes], len(of_node)) for part in parts]
    rates = [part.billing or {"cpu": 1.0} for part in parts]
    return Hardware(
        cpus=np.array([node.cpus for node in site.nodes]),
        memory=np.array([node.memory for node in site.nodes]),
        gpus=np.array([node.gpus for node in site.nodes]),
        suits=suits,
        weight=np.array([node.weight for node in site.nodes]),
        member=np.array(members),
        tier=np.array([part.tier for part in parts]),
        billing=np.array([[rate.get(name, 0.0) for name in BILLED] for rate in rates], np.float64),
    )
