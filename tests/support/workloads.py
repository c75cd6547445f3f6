"""Small workloads for the simulator's tests, as canonical tables and for the oracle.

Drawn by hypothesis or from a seed. A workload is scheduled by the compiled simulator (:meth:`Workload.schedule`) or by the oracle
(:meth:`Workload.by_oracle`), and so are the predictors in plain Python here, made to reveal what they were told and when.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pandas as pd
from hypothesis import assume, reject
from hypothesis import strategies as st

from features.clock import WEEK_S
from features.jobs.schema import REQUIRED, conform
from models.runtime.protocol import END, FIT, ORDER
from sim import Schedule, simulate
from sim.kernel.corrections import CORRECTIONS
from sim.kernel.orders import ORDERS
from sim.policy import SEMANTICS
from tests.oracle import scheduler as oracle

PURE = [order for order in ORDERS if order != "MIXED"]
EASY_NAMES = [f"{order}-EASY-{backfill}" for order in PURE for backfill in PURE]
OTHER_NAMES = [f"{order}-{algorithm}" for algorithm in ("JustBF", "List", "Strict") for order in PURE]
CONSERVATIVE = "FCFS-Conservative"
schedulers = st.one_of(st.sampled_from(EASY_NAMES), st.sampled_from(OTHER_NAMES), st.just(CONSERVATIVE))
"""Every scheduler there is, by its full name; mixed policies aside."""
reserving = st.builds(
    lambda name, k: name.replace("EASY", f"EASY(reservations={k})"), st.sampled_from(EASY_NAMES), st.integers(2, 5)
)
any_scheduler = st.one_of(schedulers, reserving)
eighths = st.integers(-8, 8).map(lambda number: number / 8)  # sums of them are exact, so that ties are ties
mixed = st.tuples(eighths, eighths, eighths).filter(any).map(lambda weights: f"MIXED({','.join(map(str, weights))})-EASY-FCFS")

TABLE_CORRECTIONS = [correction for correction in CORRECTIONS if not correction.startswith("conditional")]
"""Corrections for predictions known beforehand, which cannot be asked for again."""

starvation = st.sampled_from([None, 0, 3, 50])
policies = st.fixed_dictionaries(
    {"semantics": st.sampled_from(SEMANTICS), "correction": st.sampled_from(TABLE_CORRECTIONS), "starvation_s": starvation}
)

Result = tuple[list[int], list[int], list[int]]


@dataclass(frozen=True)
class Workload:
    """Jobs in order of submission, and their machine; ``estimates`` are in 1..requested.

    ``preceding`` holds numbers of jobs as a trace has them, good or bad: None, 1 for the first job, the job itself, one further down or none
    there is. Both are empty where no job follows another. ``wait`` are recorded waits. ``executable`` and ``group`` are empty where the trace does not tell.
    """

    machine: int
    submit: list[int]
    runtime: list[int]
    procs: list[int]
    requested: list[int]
    user: list[str | None]
    estimates: list[int]
    preceding: list[int | None] = field(default_factory=list)
    think: list[int | None] = field(default_factory=list)
    executable: list[str | None] = field(default_factory=list)
    group: list[str | None] = field(default_factory=list)
    wait: list[int] = field(default_factory=list)

    def table(self) -> pd.DataFrame:
        """The canonical jobs table, as cleaning leaves it; jobs are numbered from 1."""
        return self._table.copy(deep=False)  # of which a changed column is its own

    @cached_property
    def _table(self) -> pd.DataFrame:
        columns = {
            "job_id": range(1, len(self.submit) + 1),
            "submit_s": self.submit,
            "runtime_s": self.runtime,
            "procs": self.procs,
            "requested_s": self.requested,
            "user": self.user,
            "preceding_job": self.preceding or None,
            "think_s": self.think or None,
            "executable": self.executable or None,
            "group": self.group or None,
            "wait_s": self.wait or None,
        }
        cleaned = {name: np.array(columns[name], np.int64) for name in REQUIRED}
        return conform(columns, len(self.submit)).assign(**cleaned)

    def first(self, count: int) -> Workload:
        """The first ``count`` jobs."""
        cut = {column.name: getattr(self, column.name)[:count] for column in fields(self) if column.name != "machine"}
        return replace(self, **cut)

    def schedule(self, scheduler: str, predictor: Any = None, **policy: Any) -> Schedule:
        """Return the compiled simulator's schedule, by default with the workload's ``estimates``."""
        source = self.estimates if predictor is None else predictor
        return simulate(self.table(), procs=self.machine, scheduler=scheduler, predictor=source, **policy)

    def predecessors(self) -> list[int | None]:
        """The row of the job that each waits for, where that is a row above its own."""
        numbers = self.preceding or [None] * len(self.submit)
        return [None if number is None or not 1 <= number <= row else number - 1 for row, number in enumerate(numbers)]

    def jobs_by_oracle(self, dependencies: bool = False, **policy: Any) -> list[oracle.Job]:
        """Return the jobs as the oracle submits and starts them; predictor objects begin anew."""
        if dependencies:
            policy |= {"preceding": self.predecessors(), "think": self.think or None}
        if hasattr(policy.get("predictor"), "begin"):
            policy["predictor"].begin(self.table())
        return oracle.simulated(self.submit, self.runtime, self.procs, self.requested, self.machine, user=self.user, **policy)

    def by_oracle(self, **policy: Any) -> Result:
        """The oracle's starts, predictions and numbers of corrections."""
        jobs = self.jobs_by_oracle(**policy)
        return [job.start for job in jobs], [job.order_s for job in jobs], [job.corrections for job in jobs]


def columns(schedule: Schedule) -> Result:
    """Starts, predictions and numbers of corrections of the compiled simulator."""
    return schedule.jobs["start_s"].tolist(), schedule.jobs["predicted_s"].tolist(), schedule.jobs["corrections"].tolist()


class Outcome(NamedTuple):
    """All that a simulation says: each job's values, and the number of clamped answers."""

    submit: list[int]
    start: list[int]
    predicted: list[int]
    corrections: list[int]
    clamped: int


def by_kernel(load: Workload, scheduler: str = "FCFS-EASY", predictor: Any = None, **policy: Any) -> Outcome:
    schedule = load.schedule(scheduler, predictor, **policy)
    return Outcome(schedule.jobs["submit_s"].tolist(), *columns(schedule), schedule.clamped_predictions)


def by_oracle(load: Workload, scheduler: str = "FCFS-EASY", predictor: Any = None, **policy: Any) -> Outcome:
    jobs = load.jobs_by_oracle(**policy_of(scheduler), **source_of(load, predictor), **policy)
    of_each = [(job.submit, job.start, job.order_s, job.corrections) for job in jobs]
    return Outcome(*map(list, zip(*of_each, strict=True)), sum(job.clamped for job in jobs))


def agree(load: Workload, scheduler: str, predictor: Any = None, **policy: Any) -> Outcome:
    """Return what the oracle makes of a workload, and see that the compiled simulator makes the same of it."""
    if scheduler == CONSERVATIVE and policy.get("starvation_s") is not None:
        reject()  # refused: there no job starves
    expected = by_oracle(load, scheduler, predictor, **policy)
    assert by_kernel(load, scheduler, predictor, **policy) == expected
    return expected


def policy_of(scheduler: str) -> dict[str, Any]:
    """Return the oracle's names for a scheduler by its full name.

    Of pure and mixed policies, ``EASY(reservations=k)`` among them.
    """
    order, algorithm, *backfill = re.split("-(?=[A-Z])", scheduler)
    reservations = int(algorithm[len("EASY(reservations=") : -1]) if "(" in algorithm else 1
    ranked = oracle.mixed(*map(float, order[len("MIXED(") : -1].split(","))) if order.startswith("MIXED") else order
    policy = {"order": ranked, "algorithm": algorithm.split("(")[0], "reservations": reservations}
    return policy | {"backfill": backfill[0] if backfill else "FCFS"}


PREDICTORS = [None, "requested", "clairvoyant", "last2", "requested*2"]


def source_of(load: Workload, predictor: Any) -> dict[str, Any]:
    """Return the oracle's name for a predictor: one of ``PREDICTORS``, or an object.

    None: the workload's ``estimates``.
    """
    tables = {
        None: load.estimates,
        "requested": load.requested,
        "clairvoyant": load.runtime,
        "requested*2": [2 * seconds for seconds in load.requested],
    }
    by_name = predictor is None or isinstance(predictor, str)
    return {"estimates": tables[predictor]} if by_name and predictor in tables else {"predictor": predictor}


@st.composite
def workloads(draw: st.DrawFn, most: int = 30) -> Workload:
    """Draw up to ``most`` jobs that come faster than the machine can run them.

    Often in the same second and of the same size.
    """
    machine = draw(st.integers(1, 12))
    unit = draw(st.sampled_from([1, 40, 400]))  # 40, 400: as long as the steps by which Tsafrir corrects
    seconds = st.integers(1, 12).map(unit.__mul__)
    job = st.tuples(
        st.integers(0, 4).map(unit.__mul__),
        seconds,
        seconds,
        seconds,
        st.integers(1, machine),
        st.sampled_from(["ann", "bob", None]),
    )
    gaps, requested, runtime, estimates, procs, user = map(list, zip(*draw(st.lists(job, min_size=1, max_size=most)), strict=True))
    return Workload(
        machine=machine,
        submit=np.cumsum(gaps).tolist(),
        runtime=np.minimum(runtime, requested).tolist(),
        procs=procs,
        requested=requested,
        user=user,
        estimates=np.minimum(estimates, requested).tolist(),
    )


@st.composite
def dependent_workloads(draw: st.DrawFn, most: int = 30) -> Workload:
    """Draw workloads whose jobs follow others: chains (often), trees, at once or later.

    Some name no job above theirs.
    """
    load = draw(workloads(most))
    size = len(load.submit)
    rows_up = st.one_of(st.none(), st.just(1), st.integers(1, 6), st.integers(-1, most))  # 0: itself, -1: the next, many: none
    think = st.one_of(st.none(), st.just(0), st.integers(0, 9), st.sampled_from([40, 80]))
    up, thinks = (draw(st.lists(one, min_size=size, max_size=size)) for one in (rows_up, think))
    preceding = [None if rows is None else number - rows for number, rows in enumerate(up, start=1)]
    named = [number for number in preceding if number is not None and number > 0]
    assume(
        size == 1 or len(named) < size or len(set(named)) > 1 or named[0] > size
    )  # a column that says one thing of all is refused
    return replace(load, preceding=preceding, think=thinks)


@st.composite
def described(draw: st.DrawFn, loads: st.SearchStrategy[Workload]) -> Workload:
    """Workloads whose jobs name executables and groups: all, some or none."""
    load = draw(loads)
    size = len(load.submit)
    given = [draw(st.lists(st.sampled_from(names), min_size=size, max_size=size)) for names in (["a", "b", None], ["g", "h", None])]
    kept = [names if draw(st.booleans()) else [] for names in given]
    return replace(load, executable=kept[0], group=kept[1])


def crowd(rng: np.random.Generator, size: int = 200, machine: int = 64, longest_s: int = 600, origin_s: int = 0) -> Workload:
    """Return ``size`` jobs in bursts, a tenth more than the machine can take.

    Mostly of few processors and round requests.
    """
    requested = np.ceil(longest_s * rng.random(size) ** 2 / 30).astype(int).clip(1) * 30
    runtime = np.ceil(requested * rng.random(size)).astype(int).clip(1)
    procs = np.ceil(machine * rng.random(size) ** 3).astype(int).clip(1)
    gap_s = float((runtime * procs).mean()) / (1.1 * machine)
    bursts = rng.random(size) < 0.5
    submit = origin_s + np.cumsum(np.where(bursts, 0, rng.exponential(2 * gap_s, size))).astype(int)
    return Workload(
        machine=machine,
        submit=submit.tolist(),
        runtime=runtime.tolist(),
        procs=procs.tolist(),
        requested=requested.tolist(),
        user=[f"u{number}" for number in rng.integers(1, 8, size)],
        estimates=np.ceil(requested * rng.random(size)).astype(int).clip(1).tolist(),
    )


def weekly_crowds(weeks: int, size: int) -> Iterator[tuple[int, ...]]:
    """Yield number, submission, runtime, processors, request and user of the jobs of a crowd in each of some weeks."""
    rng, number = np.random.default_rng(2), 0
    for week in range(weeks):
        load = crowd(rng, size, origin_s=week * WEEK_S + (week > 0) * 1000)
        for submit, runtime, procs, requested, user in zip(
            load.submit, load.runtime, load.procs, load.requested, load.user, strict=True
        ):
            yield (number := number + 1), submit, runtime, procs, requested, int(str(user)[1:])


def dependent_crowd(rng: np.random.Generator, size: int = 200, machine: int = 64) -> Workload:
    """Return a :func:`crowd` of which half follow one of the ten jobs above theirs.

    A third of these at once.
    """
    load = crowd(rng, size, machine)
    preceding = np.arange(1, size + 1) - rng.integers(1, 11, size)
    think = np.where(rng.random(size) < 0.3, 0, rng.exponential(60, size)).astype(int)
    return replace(
        load,
        preceding=[int(number) if follows else None for number, follows in zip(preceding, rng.random(size) < 0.5, strict=True)],
        think=think.tolist(),
    )


def crowds(size: int, machines: Sequence[int] = (4, 12, 40)) -> st.SearchStrategy[Workload]:
    """Draw crowds by their seeds, of which half follow others."""
    rng = st.integers(0, 10**6).map(np.random.default_rng)
    return st.builds(
        lambda make, rng, machine: make(rng, size=size, machine=machine),
        st.sampled_from([crowd, dependent_crowd]),
        rng,
        st.sampled_from(machines),
    )


def perturbed(load: Workload, schedule: Any, row: int, rng: np.random.Generator) -> Workload:
    """Return ``load`` with everything unknown at the submission of ``row`` changed.

    All of later submissions, and the runtimes of jobs that had not ended by then.
    """
    now = load.submit[row]
    start, end = schedule.jobs["start_s"].to_numpy(), schedule.jobs["end_s"].to_numpy()
    ran = np.maximum(now - start, 0)
    unknown = end > now
    longest = np.array(load.requested)
    other = np.where(unknown, np.minimum(ran + 1 + rng.integers(0, 5000, len(end)), longest), load.runtime)
    later = np.arange(len(end)) > row
    requested = np.where(later, rng.integers(1, 7200, len(end)), longest)
    procs = np.where(later, rng.integers(1, load.machine + 1, len(end)), load.procs)
    submit = np.where(later, np.sort(rng.integers(now + 1, load.submit[-1] + 9000, len(end))), load.submit)
    user = np.where(later, rng.permutation(load.user), load.user)
    return replace(
        load,
        submit=submit.tolist(),
        runtime=np.minimum(other, requested).tolist(),
        procs=procs.tolist(),
        requested=requested.tolist(),
        user=user.tolist(),
    )


class Told:
    """A predictor in plain Python that has an answer of its own to each question."""

    name = "told"

    def __init__(self, order: list[int], fit: list[int], end: list[int]) -> None:
        self._answers = {ORDER: order, FIT: fit, END: end}

    def begin(self, jobs: pd.DataFrame) -> None: ...

    def submitted(self, job: int, now_s: int) -> None: ...

    def started(self, job: int, now_s: int) -> None: ...

    def ended(self, job: int, now_s: int) -> None: ...

    def estimate(self, question: int, job: int, now_s: int, elapsed_s: int) -> float:
        return self._answers[question][job]


def drawn_apart(load: Workload, seed: int) -> Told:
    """Return a predictor whose answers to the three questions have nothing to do with each other."""
    rng = np.random.default_rng(seed)
    order, fit, end = (np.ceil(np.array(load.requested) * rng.random(len(load.requested))).astype(int).clip(1) for _ in range(3))
    return Told(order.tolist(), fit.tolist(), end.tolist())


class Moody:
    """A plain-Python predictor whose answers depend on all it was told, when and what.

    Answers are multiples of a quarter between just below nothing and just beyond the request: some have to be rounded, some clamped.
    """

    name = "moody"

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def begin(self, jobs: pd.DataFrame) -> None:
        self._requested = jobs["requested_s"].tolist()
        self._heard = 0  # whatever the order within a second

    def _hear(self, *what: object) -> None:
        self._heard += crc32(repr(what).encode())

    def submitted(self, job: int, now_s: int) -> None:
        self._hear("submitted", int(job), int(now_s))

    def started(self, job: int, now_s: int) -> None:
        self._hear("started", int(job), int(now_s))

    def ended(self, job: int, now_s: int) -> None:
        self._hear("ended", int(job), int(now_s))

    def estimate(self, question: int, job: int, now_s: int, elapsed_s: int) -> float:
        asked = (self._seed, self._heard, int(question), int(job), int(now_s), int(elapsed_s))
        return crc32(repr(asked).encode()) % (4 * (self._requested[job] + 3)) / 4 - 1


@st.composite
def cases(draw: st.DrawFn, loads: st.SearchStrategy[Workload]) -> tuple[Workload, str, Any, dict[str, Any]]:
    """Draw a workload, a scheduler, a predictor and all else that the simulator offers; jobs follow others where they name some.

    A timer of the semantics is due so often while the longest job runs that no simulation takes long.
    """
    literature = st.sampled_from(["FCFS-EASY-FCFS", "FCFS-EASY-SPF"])
    load, scheduler, seed = draw(loads), draw(st.one_of(literature, any_scheduler, mixed)), draw(st.integers(0, 99))
    predictor = draw(st.sampled_from([*PREDICTORS, *2 * [Moody(seed), drawn_apart(load, seed)]]))
    again = ["conditional", "conditional(when=pass)"] if predictor == "last2" else ["conditional"] * isinstance(predictor, Moody)
    options = draw(st.sampled_from(["", "", "(expiry=pass)", "(every={})", "(expiry=pass,every={})"]))
    every_s = 1 + max(load.requested) // draw(st.sampled_from([1, 3, 10, 19]))
    return (
        load,
        scheduler,
        predictor,
        {
            "semantics": draw(st.sampled_from(SEMANTICS)) + options.format(every_s),
            "correction": draw(st.sampled_from([*TABLE_CORRECTIONS, *3 * again])),
            "starvation_s": None if scheduler == CONSERVATIVE else draw(starvation),
            "dependencies": bool(load.preceding),
        },
    )
