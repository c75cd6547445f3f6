"""A record of events as the arrays that :mod:`sim.slurm.recorded` follows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from features.node_list import expand_nodes
from sim.slurm.recorded import follow
from sim.slurm.site import Site
from sim.slurm.state import Slurm

_NOTHING = np.empty(0, np.int64)


def held_nodes(site: Site, jobs: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return where each job's nodes begin, int64 [jobs + 1], and the nodes.

    A job without a node known to the site holds all of the site's nodes.
    """
    names = {node.name: number for number, node in enumerate(site.nodes)}
    codes, texts = pd.factorize(jobs["nodes"].astype(str))
    node_numbers = [[names[name] for name in expand_nodes(text) if name in names] if text else [] for text in texts]
    held = [np.array(numbers or [*names.values()], np.int64) for numbers in node_numbers]
    first = np.concatenate(([0], np.cumsum(np.array([len(nodes) for nodes in held], np.int64)[codes])))
    return first, np.concatenate([np.empty(0, np.int64), *(held[code] for code in codes)])


def follow_events(
    events: Sequence[tuple[int, int, int]], slurm: Slurm, first: np.ndarray = _NOTHING, node: np.ndarray = _NOTHING
) -> None:
    """Handle ``events``, each (millisecond, kind, job), in order.

    ``first`` and ``node`` are those of :func:`held_nodes`; only a START reads them.
    """
    ms, kind, job = np.array(events, np.int64).T.copy()
    follow(ms, kind, job, first, node, _NOTHING, _NOTHING, slurm)
