"""A record as the arrays that :mod:`sim.slurm.recorded` follows."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from features.node_list import expand_nodes
from sim.slurm.recorded import follow
from sim.slurm.site import Site
from sim.slurm.state import Slurm


def held_nodes(site: Site, jobs: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return where each job's nodes begin, int64 [jobs + 1], and the nodes.

    A job of which the record names none holds all of the site's.
    """
    names = {node.name: number for number, node in enumerate(site.nodes)}
    codes, texts = pd.factorize(jobs["nodes"].astype(str))
    known = [[names[name] for name in expand_nodes(text) if name in names] if text else [] for text in texts]
    held = [np.array(each or [*names.values()], np.int64) for each in known]
    first = np.concatenate(([0], np.cumsum(np.array([len(each) for each in held], np.int64)[codes])))
    return first, np.concatenate([np.empty(0, np.int64), *(held[code] for code in codes)])


def follow_events(events: Iterable[tuple[int, int, int]], first: np.ndarray, node: np.ndarray, slurm: Slurm) -> None:
    """Handle ``events`` in order, each a millisecond, a kind and a job.

    ``first`` and ``node`` are those of :func:`held_nodes`.
    """
    ms, kind, job = np.array([*events], np.int64).reshape(-1, 3).T.copy()
    nothing = np.empty(0, np.int64)
    follow(ms, kind, job, first, node, nothing, nothing, slurm)
