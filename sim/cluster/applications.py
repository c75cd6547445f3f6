"""The seven proxy applications of Nichols et al. on the simulated cluster.

Names are the paper's. Their behaviour is ours, as the paper gives no such numbers: shares of time in computation, communication
and I/O, use of links and file system, and the spread of runtimes on an undisturbed machine. The paper says which vary most
(Laghos, LBANN, sw4lite); these therefore communicate or read most here. Own noise follows the spread of the real runs that
:mod:`sim.cluster.presets` names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from math import log2
from typing import NamedTuple

from features.errors import InputError
from features.monitoring.samplers import TYPES


class Behaviour(NamedTuple):
    """An undisturbed application on some nodes: runtime in s, shares in communication and I/O.

    Also average GB/s that a node sends, reads and writes, and metadata operations per node and second.
    """

    runtime_s: float
    network: float
    io: float
    traffic: float
    read: float
    write: float
    metadata: float


@dataclass(frozen=True)
class Application:
    """An application on ``NODES`` nodes: runtime, shares, use of links and file system.

    ``burst`` is GB/s of a node while it communicates, ``read`` and ``write`` while it does I/O. ``type`` is the one-hot
    label that the site gives it, ``noise`` the relative standard deviation of its runtime on an undisturbed machine.
    """

    name: str
    type: str
    runtime_s: float
    network: float
    io: float
    burst: float
    read: float
    write: float
    metadata: float
    noise: float

    def on(self, nodes: int, scaling: str = "weak") -> Behaviour:
        """Return the behaviour on ``nodes`` nodes.

        Weak scaling keeps the work of a node and communicates longer, by a tenth each doubling; strong scaling keeps
        the total work, so that computation and I/O shrink with the nodes and communication, surface to volume, with
        their power of 2/3.
        """
        compute = 1.0 - self.network - self.io
        if scaling == "weak":
            parts = compute, self.network * (1.0 + 0.1 * log2(nodes / NODES)), self.io
        elif scaling == "strong":
            share = NODES / nodes
            parts = compute * share, self.network * share ** (2.0 / 3.0), self.io * share
        else:
            raise InputError(f"unknown scaling {scaling!r}; known: weak, strong")
        total = sum(parts)
        network, io = parts[1] / total, parts[2] / total
        return Behaviour(
            self.runtime_s * total, network, io, self.burst * network, self.read * io, self.write * io, self.metadata * (0.2 + io)
        )


NODES = 16
"""Nodes of a control run."""

APPLICATIONS = {
    application.name: application
    for application in (
        Application("AMG", "network", 240, network=0.28, io=0.01, burst=8.0, read=0.4, write=0.2, metadata=40, noise=0.0065),
        Application("Kripke", "compute", 300, network=0.20, io=0.01, burst=6.0, read=0.4, write=0.2, metadata=30, noise=0.0410),
        Application("Laghos", "network", 330, network=0.45, io=0.04, burst=9.0, read=0.3, write=0.9, metadata=60, noise=0.0105),
        Application("LBANN", "io", 360, network=0.20, io=0.38, burst=7.0, read=1.6, write=0.1, metadata=220, noise=0.0320),
        Application("PENNANT", "compute", 270, network=0.12, io=0.01, burst=5.0, read=0.3, write=0.2, metadata=20, noise=0.0030),
        Application("sw4lite", "io", 300, network=0.22, io=0.16, burst=7.0, read=0.2, write=1.4, metadata=80, noise=0.0085),
        Application("SWFFT", "network", 210, network=0.36, io=0.01, burst=10.0, read=0.3, write=0.3, metadata=25, noise=0.0060),
    )
}


INPUTS = {"-small": 0.3, "": 1.0, "-large": 2.5, "-huge": 6.0}
"""Inputs that users run beside the control runs': what they add to an application's name, and times its runtime."""


@cache
def application(name: str) -> Application:
    """Return the application called ``name``: ``AMG`` or, with another input, ``AMG-large``.

    Raises InputError with the known names for another one.
    """
    base, dash, size = name.partition("-")
    if base not in APPLICATIONS or dash + size not in INPUTS:
        inputs = ", ".join(suffix for suffix in INPUTS if suffix)
        raise InputError(f"unknown application {name!r}; known: {', '.join(APPLICATIONS)}, also with {inputs}")
    published = APPLICATIONS[base]
    return replace(published, name=name, runtime_s=published.runtime_s * INPUTS[dash + size])


def type_code(kind: str) -> int:
    """Return the index of a type in :data:`features.monitoring.samplers.TYPES`."""
    return TYPES.index(kind)
