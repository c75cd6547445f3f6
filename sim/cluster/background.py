"""Background load on file system, network core and some leaf switches (the noise job).

Each of the three is a wandering level (an Ornstein-Uhlenbeck process of its logarithm) with bursts on top, which come after
exponential pauses, have lognormal lengths and lognormal heights. The simulated jobs do not influence it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Level:
    """Parameters of one background level.

    ``level`` is the median in shares of capacity, ``spread`` the standard deviation of its logarithm, ``memory_s`` its
    correlation time. Bursts: ``pause_s`` is the mean time between them (0: none), ``lasting_s`` and ``lasting_spread`` median and
    logarithmic deviation of their length, ``height`` and ``height_spread`` those of what they add. ``most`` is the max sum.
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
