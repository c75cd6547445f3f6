"""The arrays of a simulation, allocated once and reused by many short simulations.

New memory pages would otherwise take most of the time of a campaign.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sim.kernel.queue import BLOCK_BITS, GROUP_BITS, Queue, queue_capacity, width_classes
from sim.kernel.state import COUNTERS, FREE, Profile, State


class Work(NamedTuple):
    """Queues (one where it suffices), profile of planning algorithms, state of a simulation."""

    front: Queue
    back: Queue
    profile: Profile
    state: State


class Scratch:
    """Arrays that grow to the largest simulation so far; one simulation at a time."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}

    def _take(self, name: str, length: int, dtype: type = np.int64) -> np.ndarray:
        held = self._arrays.get(name)
        if held is None or len(held) < length:
            held = self._arrays[name] = np.empty(length, dtype)
        return held[:length]

    def _queue(self, name: str, jobs: int, procs: int, gaps: bool) -> Queue:
        entries = queue_capacity(jobs)
        classes = width_classes(procs)
        numbers = int(classes[-1]) + 1 if gaps else 0
        return Queue(
            np.zeros(3, np.int64),
            self._take(f"{name} key", entries, np.float64),
            self._take(f"{name} job", entries),
            self._take(f"{name} procs", entries),
            self._take(f"{name} fit", entries),
            self._take(f"{name} least", ((entries >> BLOCK_BITS) + 1) * numbers),
            self._take(f"{name} group_least", ((entries >> GROUP_BITS) + 1) * numbers),
            classes,
        )

    def work(
        self, jobs: int, procs: int, *, plans: bool = False, gaps: bool = True, two: bool = True, decides: bool = False
    ) -> Work:
        """Return fresh arrays for ``jobs`` jobs on ``procs`` processors.

        With a profile if ``plans``, queues with gaps or packed, one queue or ``two``, with the arrays of start decisions if
        ``decides``. No more jobs run at a time than there are processors, but in the second in which they are predicted to end,
        per-event semantics may start as many again before their ends are handled. Each job, running or planned, adds at most two
        steps to a profile.
        """
        most = min(jobs, 2 * procs)
        steps = 2 * jobs + 2 if plans else 2
        counters = np.zeros(COUNTERS, np.int64)
        counters[FREE] = procs
        start, corrections = self._take("start", jobs), self._take("corrections", jobs)
        start[:] = -1
        corrections[:] = 0
        decided = jobs if decides else 0
        state = State(
            counters,
            self._take("ends", most),
            self._take("plan", most),
            self._take("plan_procs", most),
            self._take("running", jobs),
            self._take("ended", jobs),
            start,
            self._take("planned", jobs),
            corrections,
            np.zeros(decided, np.int64),
            np.full(decided, -1),
            np.zeros(decided, np.int64),
            True if decides else None,
        )
        front = self._queue("front", jobs, procs, gaps)
        back = self._queue("back", jobs, procs, gaps) if two else front
        return Work(front, back, Profile(self._take("time", steps), self._take("free", steps)), state)
