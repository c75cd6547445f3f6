"""The oracle: a slow and obvious scheduling simulator in plain Python.

The compiled simulator is compared with it. One class holds the state (waiting jobs, running jobs, what was learnt), one function
an algorithm says which jobs start now, and one loop a semantics says when it is asked. Event orders: per-second after Goponenko
et al. 2022, per-event after Gaussier et al. 2015. Everything here can be checked by reading it; `test_oracle.py` checks it
against published schedules and by hand.
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf, log2, log10, sqrt
from typing import Any


@dataclass(eq=False)
class Job:
    """One job; times in seconds.

    ``submit`` is as recorded, except for a job that ``waits_for`` others: then it is ``think`` seconds after the last end of these.
    ``order_s``, ``fit_s`` and ``end_s`` are what its runtime was estimated at on submission, to place it in the queue, to see whether it
    ends before a reservation, and to foresee its end once it runs; ``estimate`` is ``end_s`` as corrected since.
    """

    index: int
    submit: int
    runtime: int
    procs: int
    requested: int
    user: Any
    order_s: int
    fit_s: int
    end_s: int
    think: int
    first: int  # the first recorded submission of all
    estimate: int = 0
    corrections: int = 0
    clamped: int = 0  # answers of the predictor about it that could not be used as they were
    waits_for: list[Job] = field(default_factory=list, repr=False)
    ended: bool = False
    planned: int | None = None  # the start it is reserved for, under Conservative
    start: int = -1
    arrival: int = -1  # how many were submitted before

    @property
    def end(self) -> int:
        return self.start + self.runtime

    @property
    def predicted_end(self) -> int:
        return self.start + self.estimate

    @property
    def since_first(self) -> int:
        return self.submit - self.first

    def waits(self, now: int) -> float:
        """How often its estimate it has waited."""
        return (now - self.submit) / self.order_s


@dataclass
class Waits:
    """What a job waits for: other jobs, by their places; when it is submitted after their last end."""

    jobs: list[int]
    think: int


ORDER, FIT, END = range(3)  # what a predictor is asked for

# Orders: the lowest score is served first; ties go to the earlier submission, then to file order.
Order = Callable[[Job, int], float]
ORDERS: dict[str, Order] = {
    "FCFS": lambda job, now: job.submit,
    "LCFS": lambda job, now: -job.submit,
    "SPF": lambda job, now: job.order_s,
    "LPF": lambda job, now: -job.order_s,
    "SQF": lambda job, now: job.procs,
    "LQF": lambda job, now: -job.procs,
    "SAF": lambda job, now: job.order_s * job.procs,
    "LAF": lambda job, now: -job.order_s * job.procs,
    "SRF": lambda job, now: job.order_s / job.procs,
    "LRF": lambda job, now: -job.order_s / job.procs,
    "SEXP": lambda job, now: (now - job.submit + job.order_s) / job.order_s,
    "LEXP": lambda job, now: -(now - job.submit + job.order_s) / job.order_s,
    "F1": lambda job, now: log10(job.order_s) * job.procs + 870 * log10(max(job.since_first, 1)),
    "F2": lambda job, now: sqrt(job.order_s) * job.procs + 25600 * log10(max(job.since_first, 1)),
    "F3": lambda job, now: job.order_s * job.procs + 6.86e6 * log10(max(job.since_first, 1)),
    "F4": lambda job, now: job.order_s * sqrt(job.procs) + 5.3e5 * log10(max(job.since_first, 1)),
    "WFP1": lambda job, now: -job.waits(now) * job.procs,
    "WFP3": lambda job, now: -job.waits(now) * job.waits(now) * job.waits(now) * job.procs,
    "UNICEF": lambda job, now: -(now - job.submit) / (log2(max(job.procs, 2)) * job.order_s),
}


def features(job: Job, now: int) -> tuple[float, ...]:
    """Return the features of mixed policies.

    Processors, estimate, wait (negative: a long wait is favoured), r/n, (wait + r)/r and r n.
    """
    n, r, wait = job.procs, job.order_s, now - job.submit
    return (n, r, -wait, r / n, (wait + r) / r, r * n)


def mixed(n: float, r: float, wait: float, ratio: float = 0, expansion: float = 0, area: float = 0) -> Order:
    """Return a mixed policy by its weights.

    A positive weight favours little of its feature, but much wait.
    """
    weights = (n, r, wait, ratio, expansion, area)
    return lambda job, now: sum(weight * feature for weight, feature in zip(weights, features(job, now), strict=True))


@dataclass(frozen=True)
class Formula:
    """An order by a formula of features, given by name; smallest first. ``midnight``: the second at which a day begins."""

    value: Callable[[dict[str, float]], float]
    midnight: int = 0

    def among(self, sim: Simulation, now: int) -> Order:
        around = {
            "free": sim.free(now),
            "queue": len(sim.waiting),
            "demand": sum(job.order_s * job.procs for job in sim.waiting),
            "procs": sim.machine,
            "hour": (now - self.midnight) % 86400 / 3600,
        }

        def score(job: Job, now: int) -> float:
            own = {
                "n": job.procs,
                "r": job.order_s,
                "requested": job.requested,
                "submit": job.since_first,
                "wait": now - job.submit,
            }
            return min(max(self.value({name: float(value) for name, value in (own | around).items()}), -1e300), 1e300)

        return score


# Corrections: the next estimate of a running job that has outlived its estimate.
TSAFRIR_S = [60, 300, 900, 1800, 3600, 7200, 18000, 36000, 72000, 180000, 360000, inf]  # added to the first
OKCM_S = [60, *(900 * 2**step for step in range(50))]  # added to the last
CORRECTIONS: dict[str, Callable[[Simulation, Job], int]] = {
    "requested": lambda sim, job: job.requested,
    "tsafrir": lambda sim, job: min(job.end_s + TSAFRIR_S[job.corrections], job.requested),
    "tsafrir(steps=okcm)": lambda sim, job: min(job.estimate + OKCM_S[job.corrections], job.requested),
    "doubling": lambda sim, job: 2 * job.estimate,
    "conditional": lambda sim, job: sim.ask_again(job, job.predicted_end),
    "conditional(when=pass)": lambda sim, job: sim.ask_again(job, job.predicted_end),
}


class Last2:
    """The mean of the user's last two ended runtimes, rounded down, at most the request.

    The request where the user has not completed two, or where there is no user.
    """

    point = True  # knows but one number, however long the job has run

    def __init__(self, jobs: list[Job]) -> None:
        self.jobs = jobs
        self.completed: dict[Any, list[int]] = {}  # runtimes of a user's jobs, in order of their ends

    def submitted(self, job: int, now: int) -> None: ...
    def started(self, job: int, now: int) -> None: ...
    def ended(self, job: int, now: int) -> None:
        self.completed.setdefault(self.jobs[job].user, []).append(self.jobs[job].runtime)

    def estimate(self, question: int, job: int, now: int, elapsed: int) -> int:
        user, request = self.jobs[job].user, self.jobs[job].requested
        past = self.completed.get(user, [])
        mean = (past[-1] + past[-2]) // 2 if user is not None and len(past) >= 2 else request
        return min(mean, request)


@dataclass
class Simulation:
    """The state of the machine and its queue, and the policy that rules them."""

    machine: int
    algorithm: str
    order: str | Order | Formula
    backfill: str | Order | Formula
    correction: str
    predictor: (
        Any  # told of submissions, starts and ends, and asked for estimates, as models.runtime.protocol says; None: they are known
    )
    reservations: int
    starvation_s: int | None
    jobs: list[Job] = field(default_factory=list)  # those that may wait for others
    waiting: list[Job] = field(default_factory=list)
    arrivals: Any = field(default_factory=itertools.count)
    running: list[Job] = field(default_factory=list)  # in order of start
    wake: int | None = None  # when a pass is due for its own sake (tests/oracle/decisions.py)
    expiry: bool = False  # a pass when an estimate expires
    every: int = 0  # a pass at each multiple of so many seconds
    may_leave_waiting: bool = False  # jobs that no node is left for

    def submit(self, job: Job) -> None:
        if self.predictor:
            self.predictor.submitted(job.index, job.submit)
            answers = [round(self.predictor.estimate(question, job.index, job.submit, 0)) for question in (ORDER, FIT, END)]
            usable = [min(max(answer, 1), job.requested) for answer in answers]
            job.clamped += answers != usable
            job.order_s, job.fit_s, job.end_s = usable
        job.estimate = job.end_s
        self.waiting.append(job)
        job.arrival = next(self.arrivals)

    def finish(self, job: Job) -> list[Job]:
        """``job`` has ended; returns its followers, whose submissions are known now."""
        self.running.remove(job)
        if self.predictor:
            self.predictor.ended(job.index, job.end)
        job.ended = True
        followers = [each for each in self.jobs if job in each.waits_for and all(other.ended for other in each.waits_for)]
        for follower in followers:
            follower.submit = job.end + follower.think
        return followers

    def correct(self, job: Job) -> None:
        """The estimate of ``job`` expires and it runs on."""
        job.estimate = CORRECTIONS[self.correction](self, job)
        job.corrections += 1

    def renew(self, now: int) -> list[Job]:
        """Before a pass, ask about each running job, if the correction does; return those asked.

        Not only about those that have outlived their estimate.
        """
        if self.correction != "conditional(when=pass)":
            return []
        asked = [job for job in self.running if job.start < now < job.predicted_end]
        for job in asked:
            job.estimate = self.ask_again(job, now)
        return asked

    def ask_again(self, job: Job, now: int) -> int:
        """Ask the predictor about a job that has run until now; the request if unusable.

        A point predictor may answer no more than the job has run already: then its first estimate holds, until that has passed
        too.
        """
        elapsed = now - job.start
        answer = round(self.predictor.estimate(END, job.index, now, elapsed))
        if getattr(self.predictor, "point", False) and answer <= elapsed:
            return job.end_s if job.end_s > elapsed else job.requested
        usable = elapsed < answer <= job.requested
        job.clamped += not usable
        return answer if usable else job.requested

    def free(self, now: int) -> int:
        """Return processors predicted to be free after ``now``; jobs that end now have ended."""
        return self.machine - sum([job.procs for job in self.running if job.start + job.estimate > now])

    def fits_now(self, job: Job, now: int) -> bool:
        return job.procs <= self.free(now)

    def nothing_fits(self, now: int) -> bool:
        """Tell that no waiting job has room now: then none starts, and Conservative alone has something to plan."""
        free = self.free(now) if self.waiting and self.algorithm != "Conservative" else inf
        return all(job.procs > free for job in self.waiting)

    def schedule(self, now: int) -> list[Job]:
        """One scheduling pass: start what the algorithm says, and return it in order of start."""
        if self.nothing_fits(now):
            return []

        def rank(order: str | Order | Formula) -> Callable[[Job], tuple[float, int, int]]:
            if isinstance(order, str):
                order = ORDERS[order]
            score = order.among(self, now) if isinstance(order, Formula) else order
            return lambda job: (score(job, now), job.arrival)

        longest = inf if self.starvation_s is None else self.starvation_s
        queue = sorted([job for job in self.waiting if now - job.submit > longest], key=rank("FCFS"))
        queue += sorted([job for job in self.waiting if now - job.submit <= longest], key=rank(self.order))
        started = self.chosen(now, queue, rank(self.backfill))
        for job in started:
            job.start = now
            self.waiting.remove(job)
            self.running.append(job)
            if self.predictor:
                self.predictor.started(job.index, now)
        return started

    def chosen(self, now: int, queue: list[Job], rank: Callable) -> list[Job]:
        """Those of ``queue`` that start now, in order of start."""
        return ALGORITHMS[self.algorithm](self, now, queue, rank)


def strict(sim: Simulation, now: int, queue: list[Job], rank: Callable) -> list[Job]:
    """In order, until one does not fit."""
    free, started = sim.free(now), []
    for job in queue:
        if job.procs > free:
            break
        started.append(job)
        free -= job.procs
    return started


def start_what_fits(sim: Simulation, now: int, queue: list[Job], rank: Callable) -> list[Job]:
    """In order, whatever fits; nothing is reserved."""
    free, started = sim.free(now), []
    for job in queue:
        if job.procs <= free:
            started.append(job)
            free -= job.procs
    return started


def easy(sim: Simulation, now: int, queue: list[Job], rank: Callable) -> list[Job]:
    """EASY: the first job that does not fit gets the only reservation.

    It is at its shadow time; the others must not delay it.
    """
    started = strict(sim, now, queue, rank)
    blocked = queue[len(started) :]
    if not blocked:
        return started
    free = sim.free(now) - sum(job.procs for job in started)
    head, others = blocked[0], [job for job in blocked[1:] if job.procs <= free]
    if not others:
        return started
    ends = [(job.predicted_end, job.procs) for job in sim.running if job.predicted_end > now]
    ends += [(now + job.estimate, job.procs) for job in started]

    def free_at(time: int) -> int:
        return free + sum(procs for end, procs in ends if end <= time)

    shadow = next(end for end, _ in sorted(ends) if free_at(end) >= head.procs)
    extra = free_at(shadow) - head.procs
    for job in sorted(others, key=rank):
        in_time = now + job.fit_s <= shadow
        if job.procs <= free and (in_time or job.procs <= extra):
            started.append(job)
            free -= job.procs
            extra -= 0 if in_time else job.procs
    return started


def plan(
    sim: Simulation, now: int, queue: list[Job], reservations: int | None = None, started: Sequence[Job] = ()
) -> tuple[list[Job], list[Job], Callable]:
    """Give each job in turn the earliest slot that delays none planned before it.

    Until so many had to be reserved for later. Returns the jobs whose slot is now, the jobs not planned, and the function that
    seats one more job and says when it starts.
    """
    moments, free = [now], {now: sim.machine}  # from each moment on, until the next, so many processors are free

    def take(begin: int, end: int, procs: int) -> None:
        for moment in (begin, end):
            if moment not in free:
                place = bisect(moments, moment)
                moments.insert(place, moment)
                free[moment] = free[moments[place - 1]]
        for moment in moments[moments.index(begin) : moments.index(end)]:
            free[moment] -= procs

    def seat(job: Job, only_now: bool = False) -> int | None:
        start = now
        for moment, following in zip(moments, [*moments[1:], inf], strict=True):
            if moment >= start + job.fit_s:
                break
            if free[moment] < job.procs:
                start = following
                if only_now:
                    return None
        take(start, start + job.fit_s, job.procs)
        job.planned = start
        return start

    for job in sim.running:
        if job.predicted_end > now:
            take(now, job.predicted_end, job.procs)
    for job in started:
        take(now, now + job.estimate, job.procs)
    seated_now, reserved, rest = [], 0, list(queue)
    while rest and reserved != reservations:
        job = rest.pop(0)
        if seat(job) == now:
            seated_now.append(job)
        else:
            reserved += 1
    return seated_now, rest, seat


def just_backfill(sim: Simulation, now: int, queue: list[Job], rank: Callable) -> list[Job]:
    """JustBF: every job gets a slot, in order, from scratch at every pass.

    Those planned for now start.
    """
    return plan(sim, now, queue)[0]


def conservative(sim: Simulation, now: int, queue: list[Job], rank: Callable) -> list[Job]:
    """Conservative: a job keeps its place in the plan of starts.

    The plan is compressed in that order, and new jobs come after it. Compressing at every pass is the same as compressing when a
    job has ended early: nothing else makes room for an earlier start. Only a job that outlives its estimate can push starts back.
    """
    old = [job for job in queue if job.planned is not None]
    new = [job for job in queue if job.planned is None]
    return plan(sim, now, sorted(old, key=lambda job: (job.planned, job.arrival)) + new)[0]


def easy_reserving(sim: Simulation, now: int, queue: list[Job], rank: Callable) -> list[Job]:
    """EASY(reservations=k): the first k jobs that do not fit hold reservations.

    Anew after each start; the rest may not delay them.
    """
    started: list[Job] = []
    while True:
        seated_now, rest, seat = plan(sim, now, [job for job in queue if job not in started], sim.reservations, started)
        if not seated_now:
            return started + [job for job in sorted(rest, key=rank) if seat(job, only_now=True) is not None]
        started.append(seated_now[0])


ALGORITHMS: dict[str, Callable[[Simulation, int, list[Job], Callable], list[Job]]] = {
    "Strict": strict,
    "List": start_what_fits,
    "EASY": lambda sim, *rest: (easy if sim.reservations == 1 else easy_reserving)(sim, *rest),
    "JustBF": just_backfill,
    "Conservative": conservative,
}


def per_second(sim: Simulation, jobs: list[Job], now: int = -1) -> None:
    """Apply all events of a second, then run one scheduling pass; of the seconds after ``now``.

    Expiries come first, then ends in order of start, then submissions in file order. An expiry between two such seconds is
    handled at the second one: nothing is learnt or decided in between. Where it is to cause a pass, and jobs wait, its second is
    one of them, and so are the multiples of ``sim.every``.
    """
    coming = [(job.submit, job.index, job) for job in jobs]
    heapq.heapify(coming)
    while coming or sim.running or sim.wake is not None:
        moments = [job.end for job in sim.running] + [time for time, _, _ in coming[:1]] + [sim.wake] * (sim.wake is not None)
        if sim.waiting and sim.expiry:
            moments += [job.predicted_end for job in sim.running]
        if sim.waiting and sim.every:
            moments.append((now // sim.every + 1) * sim.every)
        now = min(moments)
        while expired := [job for job in sim.running if job.predicted_end <= now and job.predicted_end < job.end]:
            sim.correct(min(expired, key=lambda job: job.predicted_end))
        sim.renew(now)
        for job in [job for job in sim.running if job.end == now]:
            for follower in sim.finish(job):
                heapq.heappush(coming, (follower.submit, follower.index, follower))
        while coming and coming[0][0] == now:
            sim.submit(heapq.heappop(coming)[2])
        sim.schedule(now)


def per_event(sim: Simulation, jobs: list[Job], now: int = -1) -> None:
    """Apply events one by one: at equal time expiries, submissions, ends; of the seconds after ``now``.

    Each submission and each end is followed by its own pass. Within a kind expiries go by when they came to be known, submissions
    by file order, ends by order of start. The expiries of a second may have a pass for them all, and a multiple of ``sim.every``
    one behind all other events of its second, if jobs wait.
    """
    EXPIRED, SUBMITTED, ENDED, WOKEN, TICK = range(5)
    count = itertools.count()
    events = [(job.submit, SUBMITTED, job.index, job) for job in jobs]
    heapq.heapify(events)

    def expires(job: Job) -> None:
        if job.predicted_end < job.end:
            heapq.heappush(events, (job.predicted_end, EXPIRED, next(count), job))

    for job in sim.running:
        heapq.heappush(events, (job.end, ENDED, next(count), job))
        expires(job)
    corrected, ticked = False, now
    while events:
        if sim.every and sim.waiting:
            tick = -(-max(now, ticked + 1) // sim.every) * sim.every
            if tick < events[0][0]:
                heapq.heappush(events, (tick, TICK, next(count), events[0][3]))
        now, kind, _, job = heapq.heappop(events)
        if kind == EXPIRED:
            if job.predicted_end == now:  # else it was renewed meanwhile
                sim.correct(job)
                expires(job)
                corrected = True
            if events and events[0][:2] == (now, EXPIRED):
                continue
            passes, corrected = sim.expiry and corrected and bool(sim.waiting), False
            if not passes:
                continue
        if kind == WOKEN and sim.wake != now:  # another pass came first
            continue
        if kind == TICK:
            ticked = now
        for renewed in sim.renew(now):
            expires(renewed)
        if kind == SUBMITTED:
            sim.submit(job)
            gated = (sim.algorithm, sim.order, sim.backfill, sim.reservations) == ("EASY", "FCFS", "FCFS", 1)
            if gated and not sim.fits_now(job, now):
                continue
        elif kind == ENDED:
            for follower in sim.finish(job):
                heapq.heappush(events, (follower.submit, SUBMITTED, follower.index, follower))
        for started in sim.schedule(now):
            heapq.heappush(events, (started.end, ENDED, next(count), started))
            expires(started)
        if sim.wake is not None:
            heapq.heappush(events, (sim.wake, WOKEN, next(count), job))


SEMANTICS = {"per-second": per_second, "per-event": per_event}


def simulated(
    submit: Sequence[int],
    runtime: Sequence[int],
    procs_needed: Sequence[int],
    requested: Sequence[int],
    machine: int,
    *,
    estimates: Sequence[int] | None = None,
    fit: Sequence[int] | None = None,
    end: Sequence[int] | None = None,
    user: Sequence[Any] | None = None,
    preceding: Sequence[int | None] | None = None,
    think: Sequence[int | None] | None = None,
    waits: Sequence[Waits | None] | None = None,
    algorithm: str = "EASY",
    order: str | Order | Formula = "FCFS",
    backfill: str | Order | Formula = "FCFS",
    correction: str = "requested",
    predictor: Any = None,
    reservations: int = 1,
    starvation_s: int | None = None,
    semantics: str = "per-second",
    simulation: Callable[..., Simulation] = Simulation,
) -> list[Job]:
    """Return the jobs in the order given, with their simulated submissions and starts, in s.

    ``runtime`` is at least 1 and at most ``requested``; ``estimates`` are whole and at least 1, the request where there are none;
    ``fit`` and ``end`` answer those two questions differently. ``predictor="last2"`` learns from ``user`` during the run instead,
    as may any object with the methods of :class:`Last2`. ``preceding`` says for each job the place in the list of the job it
    follows, if any, and ``think`` how long after that one's end; ``waits`` says the same of jobs that wait for several.
    """
    estimates = estimates or requested
    nothing = [None] * len(submit)
    first = min(submit, default=0)
    thinks = [pause or 0 for pause in think or nothing]
    columns = (submit, runtime, procs_needed, requested, user or nothing, estimates, fit or estimates, end or estimates, thinks)
    jobs = [Job(index, *row, first) for index, row in enumerate(zip(*columns, strict=True))]
    for job in jobs:
        assert 0 < job.runtime <= job.requested, f"cut the runtime at the request first: {job}"
        assert 0 < job.procs <= machine, f"does not fit on {machine} processors: {job}"
        assert min(job.order_s, job.fit_s, job.end_s) > 0, f"believed to end before it starts: {job}"
    for job, before, waiting in zip(jobs, preceding or nothing, waits or nothing, strict=True):
        if before is not None:
            assert before < job.index, f"follows a job below it: {job}"
            job.waits_for = [jobs[before]]
        if waiting is not None:
            job.waits_for = [jobs[row] for row in waiting.jobs]
            job.think = waiting.think
    source = Last2(jobs) if predictor == "last2" else predictor
    state = simulation(machine, algorithm, order, backfill, correction, source, reservations, starvation_s)
    name, _, given = semantics.partition("(")
    options = dict(option.split("=") for option in given.rstrip(")").split(",") if option)
    state.expiry, state.every = options.get("expiry") == "pass", int(options.get("every", 0))
    state.jobs = [job for job in jobs if job.waits_for]
    SEMANTICS[name](state, [job for job in jobs if not job.waits_for])
    assert not state.running
    assert not state.waiting
    return jobs


def simulate(*jobs: Any, **policy: Any) -> tuple[list[int], list[int], list[int]]:
    """Return starts, estimates at submission and numbers of corrections of :func:`simulated`."""
    done = simulated(*jobs, **policy)
    return [job.start for job in done], [job.order_s for job in done], [job.corrections for job in done]
