"""The simulated cluster: size, links, disturbances, sensors; and its preset ``congested``.

``congested`` resembles figure 1 of Nichols et al.: within two months of two to three runs a day, several of the seven
applications took over twice their min runtime, some up to 14 times. Its largest runs take 4 to 5 times the min.

A figure of runtimes does not show how long disturbances last and where they act; this is assumed. In ``congested`` the
cluster is one pod of a fat tree, as in the paper's experiments, so no outside job uses its switches. The network is
disturbed by the noise job, which is always a little busy and very busy for about ten minutes an hour, and by the jobs
themselves. The file system is shared with the rest of the machine, which loads it by a quarter and, twice a day for
twenty minutes, by far more. The noise job, whose place is not stated, holds eight nodes under each of four leaf
switches. Effective uplinks are 40 % of their nominal bandwidth, what static routing leaves of it (Hoefler, Schneider &
Lumsdaine 2008).

Each background, the noise job's too, is a wandering level (an Ornstein-Uhlenbeck process of its logarithm) with bursts
on top, which come after exponential pauses, have lognormal lengths and lognormal heights. The simulated jobs do not
influence it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from features.errors import InputError


@dataclass(frozen=True)
class Level:
    """Parameters of one background level.

    ``level`` is the median in shares of capacity, ``spread`` the standard deviation of its logarithm, ``memory_s`` its
    correlation time. Bursts: ``pause_s`` is the mean time between them (0: none), ``lasting_s`` and ``lasting_spread``
    median and logarithmic deviation of their length, ``height`` and ``height_spread`` those of what they add. ``most``
    is the max sum.
    """

    level: float = 0.0
    spread: float = 0.0
    memory_s: float = 1800.0
    pause_s: float = 0.0
    lasting_s: float = 600.0
    lasting_spread: float = 0.8
    height: float = 0.0
    height_spread: float = 0.5
    most: float = np.inf

    def drawn(self, ticks: int, tick_s: int, random: np.random.Generator) -> np.ndarray:
        """Draw the level over each ``tick_s`` seconds, float64 [ticks].

        More ticks continue the same course.
        """
        from scipy.signal import lfilter  # slow to import, and every command imports this module

        keep = np.exp(-tick_s / self.memory_s)
        shocks = random.standard_normal(ticks)
        shocks[1:] *= np.sqrt(1.0 - keep * keep)  # the first is of the stationary distribution
        drawn = self.level * np.exp(self.spread * lfilter([1.0], [1.0, -keep], shocks))
        if self.pause_s > 0.0:
            drawn = drawn + self._bursts(ticks, tick_s, random.spawn(4))
        return np.minimum(drawn, self.most)

    def _bursts(self, ticks: int, tick_s: int, random: list[np.random.Generator]) -> np.ndarray:
        usual = self.pause_s + self.lasting_s * np.exp(self.lasting_spread**2 / 2.0)
        count = int(2.0 * ticks * tick_s / usual) + 50
        pauses = random[0].exponential(self.pause_s, count)
        lasting = self.lasting_s * np.exp(self.lasting_spread * random[1].standard_normal(count))
        height = self.height * np.exp(self.height_spread * random[2].standard_normal(count))
        ends = np.cumsum(pauses + lasting) - random[3].uniform(0.0, usual)  # the first may have begun already
        begins = ends - lasting
        steps = np.zeros(ticks + 1)
        inside = (begins < ticks * tick_s) & (ends > 0.0)
        np.add.at(steps, np.clip(begins[inside] / tick_s, 0, ticks).astype(np.int64), height[inside])
        np.add.at(steps, np.clip(ends[inside] / tick_s, 0, ticks).astype(np.int64), -height[inside])
        return np.maximum(np.cumsum(steps)[:-1], 0.0)


NOTHING = Level()
"""No disturbance."""


PLACEMENTS = ("first-fit", "best-fit")
"""How nodes are chosen: see :mod:`sim.cluster.contention`."""


@dataclass(frozen=True)
class SimulatedCluster:
    """Size, bandwidths, disturbances and sensors of a simulated cluster.

    Bandwidths are effective GB/s: of a leaf's uplinks, of the core, of the file system; ``network_gain``,
    ``storage_gain`` and ``power`` are those of :mod:`sim.cluster.contention`. The noise job holds ``noise_share`` of
    the nodes, spread over ``noise_leaves`` leaf switches, and sends up to ``noise_traffic`` GB/s a node. ``own_noise``
    multiplies the applications' own noise. Sensors are read every ``interval_s``, with ``sensor_noise`` relative to the
    value, and can be read ``lag_s`` later; the background changes every ``tick_s``. ``placement`` is one of
    :data:`PLACEMENTS`.
    """

    name: str = "custom"
    nodes: int = 512
    nodes_per_leaf: int = 32
    uplink: float = 80.0
    core: float = 1600.0
    storage: float = 80.0
    network_gain: float = 2.0
    storage_gain: float = 0.3
    power: float = 3.0
    noise_share: float = 1.0 / 16.0
    noise_leaves: int = 4
    noise_traffic: float = 12.0
    storage_background: Level = NOTHING
    core_background: Level = NOTHING
    noise_background: Level = NOTHING
    own_noise: float = 1.0
    sensor_noise: float = 0.1
    probe_noise: float = 0.05
    interval_s: int = 30
    lag_s: int = 30
    tick_s: int = 10
    warm_s: int = 900
    placement: str = "best-fit"

    def __post_init__(self) -> None:
        if self.nodes % self.nodes_per_leaf or self.noise_nodes % max(self.noise_leaves, 1):
            raise InputError(
                f"cluster {self.name}: {self.nodes} nodes, {self.noise_nodes} of them noise, cannot be divided evenly over its leaf switches"
            )
        if (
            self.noise_leaves > self.leaves
            or self.interval_s % self.tick_s
            or self.warm_s % self.interval_s
            or min(self.interval_s, self.tick_s) < 1
        ):
            raise InputError(f"cluster {self.name}: more noise leaves than leaves, or intervals that do not divide each other")

        if self.placement not in PLACEMENTS:
            raise InputError(f"cluster {self.name}: placement {self.placement!r} is unknown; known: {', '.join(PLACEMENTS)}")

    @property
    def leaves(self) -> int:
        """Return the number of leaf switches."""
        return self.nodes // self.nodes_per_leaf

    @property
    def noise_nodes(self) -> int:
        """Return the number of nodes that the noise job holds."""
        return round(self.nodes * self.noise_share)

    @property
    def procs(self) -> int:
        """Return the number of nodes that the scheduler has."""
        return self.nodes - self.noise_nodes

    def but(self, **changed: Any) -> SimulatedCluster:
        """Return a copy with some fields changed."""
        return replace(self, **changed)


CONGESTED = SimulatedCluster(
    "congested",
    storage_background=Level(
        0.25, spread=0.4, memory_s=3600, pause_s=43_200, lasting_s=1200, height=0.9, height_spread=1.0, most=5.0
    ),
    noise_background=Level(0.3, spread=0.6, memory_s=1800, pause_s=3600, lasting_s=600, height=0.7, height_spread=0.5, most=1.3),
)

CONGESTED_SMALL = CONGESTED.but(
    name="congested-small",
    nodes=CONGESTED.nodes // 4,
    nodes_per_leaf=CONGESTED.nodes_per_leaf // 2,
    uplink=CONGESTED.uplink / 2,
    noise_leaves=CONGESTED.noise_leaves // 2,
    core=CONGESTED.core / 4,
    storage=CONGESTED.storage / 4,
    interval_s=120,
    warm_s=960,
)
"""A quarter of ``congested``'s nodes, core and file system; half as many leaf switches of half the size."""
