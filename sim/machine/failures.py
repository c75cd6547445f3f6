"""Nodes that fail and come back at given times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from features import limits
from features.deferred import pd
from features.errors import InputError
from sim.machine.nodes import Layout

Then = Literal["requeued", "lost"]
COLUMNS = ("time_s", "cluster", "node", "up")


@dataclass(frozen=True)
class Failures:
    """When which nodes fail and come back, and what becomes of the ``jobs`` on a failed node.

    ``time_s`` int64 [events] are seconds of the trace, ascending. ``cluster`` and ``node`` int64 [events] count clusters of the
    machine, and nodes of a cluster, from 0. ``up`` is bool [events]. Requeued jobs wait again and start from the beginning; lost
    jobs end when their node fails.
    """

    time_s: np.ndarray
    cluster: np.ndarray
    node: np.ndarray
    up: np.ndarray
    jobs: Then = "requeued"

    def check(self, layout: Layout) -> None:
        """Raise InputError for a node that the machine does not have."""
        sizes = layout.sizes
        exists = (self.cluster >= 0) & (self.cluster < len(sizes)) & (self.node >= 0)
        exists &= self.node < sizes[np.where(exists, self.cluster, 0)]
        if not exists.all():
            bad = int(np.argmin(exists))
            raise InputError(
                f"failure {bad + 1} is of node {self.node[bad]} of cluster {self.cluster[bad]}, "
                f"and the machine has {len(sizes)} clusters of {', '.join(map(str, sizes))} nodes, both counted from 0"
            )


_NOTHING = np.zeros(0, np.int64)
NO_FAILURES = Failures(_NOTHING, _NOTHING, _NOTHING, np.zeros(0, bool))


def failures(table: pd.DataFrame, jobs: Then = "requeued") -> Failures:
    """Return the failures of a table with the columns ``time_s cluster node up``.

    Its rows are in any order. Raises InputError for other columns or values.
    """
    if jobs not in get_args(Then):
        raise InputError(f"unknown way to treat jobs on nodes that fail {jobs!r}; known: {', '.join(get_args(Then))}")
    if lacking := [name for name in COLUMNS if name not in table]:
        raise InputError(f"the table of failures has no column {lacking[0]}; it takes {' '.join(COLUMNS)}")
    columns = []
    for name in COLUMNS:
        values = pd.to_numeric(table[name], errors="coerce").to_numpy(np.float64)
        most = limits.SECONDS if name == "time_s" else 1 if name == "up" else limits.PROCESSORS
        if (bad := ~((values % 1 == 0) & (np.abs(values) <= most) & (values >= (-most if name == "time_s" else 0)))).any():
            row = int(np.argmax(bad))
            raise InputError(f"{name} of failure {row + 1} is {table[name].iloc[row]}, not a whole number of at most {most:,}")
        columns.append(values.astype(np.int64))
    order = np.argsort(columns[0], kind="stable")
    time_s, cluster, node, up = (column[order] for column in columns)
    return Failures(time_s, cluster, node, up == 1, jobs)
