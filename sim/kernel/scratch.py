"""The arrays of a simulation, allocated once and reused by many short simulations.

Allocating new memory pages would otherwise take most of the time of a campaign.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sim.kernel.clusters import NUMBERS, UNKNOWN, Clusters, Line, Refusals, ShadowRoom
from sim.kernel.outside import CHOSEN_JOBS, SLOTS, UNASKED, Outside
from sim.kernel.planning_seats import Planner
from sim.kernel.profile import SIZE, Profile, blocks_for, nothing_searched
from sim.kernel.queue import BLOCK_BITS, CLASSES, GROUP_BITS, Queue, queue_capacity, width_classes
from sim.kernel.scenarios import Scenarios
from sim.kernel.state import CHOICE, COUNTERS, EVENTS, FREE, NEVER, State
from sim.machine.nodes import NO_LAYOUT, NOWHERE, Layout, Nodes, Requests, kinds_of, levels, rooms
from sim.machine.plan import Plan


class WorkArrays(NamedTuple):
    """Queues (one if that suffices), profile of planning algorithms, state of a simulation.

    ``clusters`` is None on a single pool, ``outside`` is None without a policy outside. They are not part of the state:
    otherwise every function that takes the state would be compiled once more.
    """

    front: Queue
    back: Queue
    profile: Profile
    state: State
    clusters: Clusters | None
    outside: Outside | None = None


class Scratch:
    """Arrays that grow to the largest simulation so far, for one simulation at a time."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}
        self._last: tuple[int, int, bool, bool] | None = None
        self._works: dict[bool, WorkArrays] = {}

    def _take(self, name: str, length: int, dtype: type = np.int64) -> np.ndarray:
        held = self._arrays.get(name)
        if held is None or len(held) < length:
            held = self._arrays[name] = np.empty(length, dtype)
        return held[:length]

    def take(self, name: str, *shape: int, dtype: type = np.int64) -> np.ndarray:
        """Return an uninitialised array of ``shape`` for the use called ``name``."""
        return self._take(name, math.prod(shape), dtype).reshape(shape)

    def _queue(self, name: str, jobs: int, procs: int, gaps: bool) -> Queue:
        entries = queue_capacity(jobs)
        classes = width_classes(procs)
        numbers = 2 * procs.bit_length() if gaps else 0
        return Queue(
            np.zeros(4, np.int64),
            self._take(f"{name} key", entries, np.float64),
            self._take(f"{name} job", entries),
            self._take(f"{name} procs", entries),
            self._take(f"{name} fit", entries),
            self._take(f"{name} least", ((entries >> BLOCK_BITS) + 1) * numbers),
            self._take(f"{name} group_least", ((entries >> GROUP_BITS) + 1) * numbers),
            classes,
        )

    def work(
        self,
        jobs: int,
        procs: int,
        *,
        plans: bool = False,
        gaps: bool = True,
        two: bool = True,
        decides: bool = False,
        scenarios: Scenarios | None = None,
        clusters: Clusters | None = None,
    ) -> WorkArrays:
        """Return reset arrays for ``jobs`` jobs on ``procs`` processors.

        The arrays of the last call are reused if it asked for the same. ``plans`` adds a profile, ``decides`` the
        arrays of start decisions; queues have ``gaps`` or are packed, and are one or ``two``. No more jobs run than
        there are processors, except that in the second of their predicted ends per-event semantics may start as many
        again before the ends are handled. Each job, running or planned, adds at most two steps to a profile.
        """
        sizes = (jobs, procs, plans, gaps)
        if sizes != self._last or two not in self._works:
            self._works = self._works if sizes == self._last else {}
            self._last, self._works[two] = sizes, self._room(*sizes, two)
        work = self._works[two]
        state, profile = work.state, work.profile
        state.counters[:] = 0
        state.counters[FREE], state.counters[EVENTS], state.counters[CHOICE] = procs, NEVER, NEVER
        state.start[:] = -1
        state.corrections[:] = 0
        if plans:
            profile.order[:] = np.arange(len(profile.order))
            profile.ahead[:] = 0
        for queue in (work.front, work.back):
            queue.bounds[:] = 0
            queue.bounds[CLASSES] = 2 * procs.bit_length() if gaps else 0
        if decides:
            skips = np.zeros(jobs, np.int64)
            state = state._replace(held=np.zeros(jobs, np.int64), verdict=np.full(jobs, -1), skips=skips)
        if not decides and scenarios is None and clusters is None:
            return work
        return work._replace(state=state._replace(scenarios=scenarios), clusters=clusters)

    @staticmethod
    def outside(jobs: int) -> Outside:
        """Return new arrays for a policy outside, with no waiting job."""
        table = np.zeros(SLOTS, np.int64)
        table[CHOSEN_JOBS] = UNASKED
        return Outside(table, np.zeros(jobs, np.int64), np.zeros(jobs + 1, np.int64), np.full(jobs + 1, NOWHERE))

    def _room(self, jobs: int, procs: int, plans: bool, gaps: bool, two: bool) -> WorkArrays:
        """Return uninitialised arrays for a simulation."""
        most, nothing = min(jobs, 2 * procs), np.zeros(0, np.int64)
        state = State(
            np.zeros(COUNTERS, np.int64),
            self._take("ends", most),
            self._take("plan", most),
            self._take("plan_procs", most),
            self._take("running", jobs),
            self._take("ended", jobs),
            self._take("start", jobs),
            self._take("planned", jobs),
            self._take("corrections", jobs),
            held=nothing,
            verdict=nothing,
            skips=nothing,
            scenarios=None,
        )
        front = self._queue("front", jobs, procs, gaps)
        back = self._queue("back", jobs, procs, gaps) if two else front
        return WorkArrays(front, back, self._profile(jobs, procs) if plans else self._profile(0, 0), state, None)

    def nodes(self, layout: Layout, requests: Requests, row: np.ndarray) -> Nodes:
        """Return reset arrays of a machine on which no job runs; ``row`` as in Nodes."""
        jobs, begin = len(row), rooms(layout, requests)
        cluster = self._take("cluster", jobs)
        cluster[:] = NOWHERE
        return Nodes(
            layout.first,
            layout.capacity,
            layout.capacity.copy(),
            layout.properties,
            layout.left.copy(),
            requests,
            row,
            cluster,
            begin,
            self._take("nodes held", jobs),
            self._take("node", int(begin[-1])),
            self._take("chunk", int(begin[-1])),
        )

    def clusters(self, nodes: Nodes, planner: Planner, *, two: bool, origin: int = 0, layout: Layout = NO_LAYOUT) -> Clusters:
        """Return the state of a machine on which no job runs or waits.

        Jobs may start at the hours of its ``layout``, whose seconds become seconds from ``origin``.
        """
        jobs, hours = len(nodes.row), layout.hours
        front = self._line("front", jobs)
        back = self._line("back", jobs) if two else front
        ahead = ShadowRoom(
            np.empty_like(nodes.free),
            np.empty_like(nodes.left),
            np.zeros(len(nodes.first), np.int64),
        )
        kind, kinds = kinds_of(nodes.requests)
        refused, fitted, room, looked, most, begin, beside = np.full((7, kinds), UNKNOWN)
        refusals = Refusals(kind, refused, fitted, room, looked, most, begin, beside, self._take("gained", max(jobs, 1)))
        return Clusters(
            nodes,
            front,
            back,
            self._plan(nodes, jobs),
            nothing_searched(),
            ahead,
            refusals,
            np.zeros(NUMBERS, np.int64),
            planner,
            hours._replace(time=hours.time - origin, until=hours.until - origin, latest=hours.latest.copy()),
        )

    def _line(self, name: str, jobs: int) -> Line:
        return Line(
            self._take(f"{name} line", jobs),
            self._take(f"{name} line key", jobs, np.float64),
            self._take(f"{name} line kind", jobs),
        )

    def _plan(self, nodes: Nodes, jobs: int) -> Plan:
        """Return an empty plan with room for two events of each job, its start and its end."""
        clusters, entries, most = len(nodes.first) - 1, 2 * jobs + 2, levels(nodes, nodes.requests)
        size = self.take("plan size", clusters)
        size[:] = 0
        return Plan(
            size,
            self.take("plan when", clusters, entries),
            self.take("plan row", clusters, entries),
            self.take("plan free", *nodes.free.shape),
            np.zeros(nodes.requests.limit.shape[1], np.int64),
            *(self.take(f"plan {name}", len(nodes.free), most) for name in ("room", "since")),
            *(self.take(f"plan {name}", len(nodes.free)) for name in ("levels", "kept", "least")),
        )

    def _profile(self, jobs: int, procs: int) -> Profile:
        blocks = blocks_for(2 * jobs + 2)
        order = self._take("order", blocks)
        time, free = (self._take(name, blocks * SIZE) for name in ("time", "free"))
        first, count, shift, least, most = (self._take(name, blocks) for name in ("first", "count", "shift", "least", "most"))
        searched, longest = nothing_searched(), self.take("longest", 2, 2 * procs.bit_length() + 1)
        planned, ahead = self._take("planned start", queue_capacity(jobs)), np.zeros(3, np.int64)
        return Profile(time, free, order, first, count, shift, least, most, searched, ahead, longest, planned)
