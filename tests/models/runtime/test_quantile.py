"""``quantile``: every distribution as rebuilt from scratch, levels kept to in the long run, and answers given how long a job has run.

The kernel's quantiles are inverses of sums of floating-point numbers, and a level may fall between two bins to the last digit. So each is held
between the quantiles by hand of levels a billionth lower and higher; the oracle then answers with the kernel's, lest the two schedules part.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.regression_tree import Shape, edges_of, grow
from models.runtime import quantile
from models.runtime.protocol import END, FIT, ORDER
from sim import Schedule
from sim.policy import SEMANTICS
from tests.models.runtime.test_lightgbm import days, unlike
from tests.oracle.nightly import Nightly
from tests.support.workloads import Workload, crowd, dependent_workloads, described, policy_of, workloads

STEP, BINS, REACH, TREES = 0.0625, 256, 96, 40
SHORT = [*(0.0625 * number for number in range(192, 0, -1)), 0.032, 0.016, 0.008, 0.004, 0.002, 0.001, 0.0005, 0.0]
"""Where cells begin, in ln(request / runtime); the last is the request."""
CENTRES = np.exp([-(begin + end) / 2 for begin, end in pairwise(SHORT)] + [0.0])
ACCURACY = np.minimum(CENTRES[:, None] / CENTRES, CENTRES / CENTRES[:, None])
"""Of each cell as the prediction, where a job's runtime lies in each other."""
UPPER = 0.75
NEARLY = 1e-9
KEPT = [round(0.025 * number, 3) for number in range(1, 40)]


@dataclass(eq=False)
class Tree:
    """Its splits (feature, children) and their thresholds; the leaf of each job [jobs]; how many had ended before the first job it has learned from."""

    nodes: list[list[int]]
    thresholds: list[float]
    leaf: np.ndarray
    first: int

    def find_leaf(self, job: int, x: list[float]) -> None:
        node = 0 if self.nodes[0][0] >= 0 else -1
        while node >= 0:
            feature, *children = self.nodes[node]
            node = children[x[feature] > self.thresholds[node]]
        self.leaf[job] = -1 - node


@dataclass(eq=False)
class QuantileByHand(Nightly):
    """The oracle: the ended jobs in a leaf are found, and their histograms drawn, anew for every job submitted."""

    order: float | str = 0.5
    fit: float = 0.8
    end: float = 0.7
    rate: float = 0.02
    seed: int = 0
    learned: int = 5_000  # most recent ended jobs that trees are grown from
    kernel: Schedule | None = None  # whose answers are looked into and then given
    name: str = "quantile-by-hand"

    def label(self) -> str:
        return f"quantile(order={self.order},fit={self.fit},end={self.end},rate={self.rate},seed={self.seed})"

    def begin(self, jobs: pd.DataFrame) -> None:
        super().begin(jobs)
        asked = {self.fit, self.end} | ({self.order} if isinstance(self.order, float) else set())
        self.levels = sorted({*KEPT, *asked})
        self.calibrated, self.tilt = list(self.levels), [0.0] * len(self.levels)
        self.trees: list[Tree] = []
        self.bin, self.steps, self.cell = (np.zeros(len(jobs), np.int64) for _ in range(3))
        self.oldest = self.edges = self.edged = 0
        assert self.kernel is not None
        assert self.kernel.quantiles is not None
        assert list(self.kernel.quantiles.columns) == self.levels
        self.by_level = self.kernel.quantiles.to_numpy()
        self.predicted = self.kernel.jobs["predicted_s"].to_numpy()

    # the forest

    def retrain(self) -> None:
        if len(self.ended_jobs) < 100:
            return
        rows = self.ended_jobs[-self.learned :]
        new: list[Tree] = []
        x, target = self.x(rows), np.log([self.runtime[job] for job in rows])
        if len(self.ended_jobs) - self.edged > 0.04 * len(rows):
            self.binned_by, self.edged = edges_of(x), len(self.ended_jobs)
        bins = np.column_stack([np.searchsorted(ends, values) for ends, values in zip(self.binned_by, x.T, strict=True)])
        random = np.array([self.seed * 1_000_003 + len(rows) + self.arrived.index(rows[-1])], np.uint64)
        first = len(self.ended_jobs) - len(rows)
        for _ in range(2 if self.trees else TREES):
            nodes, thresholds = np.empty((128, 3), np.int64), np.empty(128)
            grow(bins.astype(np.uint8), self.binned_by, target, Shape(128, 8, 0.6, 0.6), random, nodes, thresholds)
            tree = Tree(nodes.tolist(), thresholds.tolist(), np.full(len(self.runtime), -1), first)
            for job in self.arrived:
                tree.find_leaf(job, list(self.inputs[job].values()))
            new.append(tree)
        if not self.trees:
            self.trees = new
            return
        for tree in new:
            self.trees[self.oldest] = tree
            self.oldest = (self.oldest + 1) % TREES

    def distribution(self, job: int, shares: tuple[float, float, float, float]) -> np.ndarray | None:
        """Shares of cells, from the shortest runtimes to the request; None where no leaf knows a job."""
        mass = np.zeros(len(SHORT))
        request, alike = np.log(self.requested[job]), self.inputs[job]["alike"]
        ended = np.array(self.ended_jobs, np.int64)
        members = [ended[t.first :][t.leaf[ended[t.first :]] == t.leaf[job]] for t in self.trees] if self.trees else [ended]
        members = [jobs for jobs in members if len(jobs)]
        if not members:
            return None
        weight = np.concatenate([np.full(len(jobs), 1.0 / (len(jobs) * len(members))) for jobs in members])
        jobs = np.concatenate(members)
        np.add.at(mass, cells(request - (self.bin[jobs] + 0.5) * STEP), shares[0] * weight)
        np.add.at(mass, cells(request - alike - self.steps[jobs] * STEP), shares[1] * weight)
        np.add.at(mass, self.cell[jobs], shares[2] * weight)
        learned = ended[self.trees[0].first :] if self.trees else ended
        np.add.at(mass, cells(request - (self.bin[learned] + 0.5) * STEP), shares[3] / len(learned))
        return mass

    def taken(self, column: int, smaller: float) -> float:
        """The level taken for one of the levels kept, of a job than which smaller ones took that share of the processor-seconds."""
        level, calibrated = self.levels[column], self.calibrated[column]
        return calibrated + self.tilt[column] * smaller if level >= UPPER and 0 < calibrated < 1 else calibrated

    def smaller(self, job: int) -> float:
        size, work = self.size(job), {other: self.work(other) for other in self.ended_jobs}
        less = sum(done for other, done in work.items() if self.size(other) < size)
        same = sum(done for other, done in work.items() if self.size(other) == size)
        return (less + same / 2) / sum(work.values()) if work else 0.5

    def work(self, job: int) -> int:
        return self.procs[job] * self.runtime[job]

    def size(self, job: int) -> int:
        """Half octaves of the processor-seconds requested."""
        return int(2 * np.log2(self.procs[job] * self.requested[job]) + NEARLY)

    # what is checked

    def submitted(self, job: int, now: int) -> None:
        super().submitted(job, now)
        for tree in self.trees:
            tree.find_leaf(job, list(self.inputs[job].values()))
        mass, request = self.distribution(job, (0.16, 0.16, 0.65, 0.03)), self.requested[job]
        place = now % (7 * 86_400) * (5**0.5 - 1) / 2 % 1
        low, high, smaller = 1.0, 1.0, self.smaller(job)
        for column in range(len(self.levels)):
            level = self.taken(column, smaller)
            low = max(low, inverse(mass, level - NEARLY, request, place + NEARLY))
            high = max(high, inverse(mass, level + NEARLY, request, place - NEARLY))
            seconds = self.by_level[job, column]
            assert np.rint(low - NEARLY) <= seconds <= np.rint(high + NEARLY), (job, self.levels[column])
            self.edges += np.rint(low - NEARLY) != np.rint(high + NEARLY)
        if self.order == "accuracy":
            self.check_accurate(job)
        else:
            assert self.predicted[job] == self.by_level[job, self.levels.index(self.order)]

    def check_accurate(self, job: int) -> None:
        """The kernel's prediction is one of those of the highest expected accuracy, by trying all."""
        mass, request, alike = self.distribution(job, (0.3, 0.2, 0.5, 0.0)), self.requested[job], self.inputs[job]["alike"]
        if mass is None:
            assert self.predicted[job] == request
            return
        accuracy = ACCURACY @ mass
        answers = set()
        for best in np.flatnonzero(accuracy > accuracy.max() - NEARLY):
            seconds = np.log(request * CENTRES[best])
            near = best < len(SHORT) - 1 and abs(seconds - alike) <= STEP
            answers.add(max(np.rint(np.exp(alike if near else seconds)), 1))
        assert self.predicted[job] in answers

    def ended(self, job: int, now: int) -> None:
        super().ended(job, now)
        runtime, request = np.log(self.runtime[job]), np.log(self.requested[job])
        self.bin[job] = min(int(runtime // STEP), BINS - 1)
        self.steps[job] = np.clip(np.floor((runtime - self.inputs[job]["alike"]) / STEP + 0.5), -REACH, REACH)
        self.cell[job] = cells(np.array([request - runtime]))[0]
        mean = sum(self.work(other) for other in self.ended_jobs) / len(self.ended_jobs)
        weight = min(self.work(job) / mean, 20)
        for column, level in enumerate(self.levels):
            error = bool(self.runtime[job] > self.by_level[job, column]) - (1 - level)
            self.calibrated[column] += self.rate * error
            if level >= UPPER:
                self.tilt[column] += 0.5 * self.rate * weight * error

    def estimate(self, question: int, job: int, now: int, elapsed: int) -> float:
        assert question in (ORDER, FIT, END)
        if elapsed:
            return given_elapsed(self.levels, self.by_level[job].tolist(), self.requested[job], self.end, elapsed)
        if question == ORDER:
            return self.predicted[job]
        return self.by_level[job, self.levels.index(self.fit if question == FIT else self.end)]


def cells(short: np.ndarray) -> np.ndarray:
    """Where runtimes lie of which these are ln(request / runtime); a billionth is rounding."""
    at_least = len(SHORT) - np.searchsorted(SHORT[::-1], short - NEARLY)  # cells that begin there or before
    return np.where(short > NEARLY, np.maximum(at_least - 1, 0), len(SHORT) - 1)


def inverse(mass: np.ndarray | None, level: float, request: int, place: float) -> float:
    """The quantile in seconds: uniform logarithms within a cell; on the request it or, for as many jobs as the level does not need, a second less."""
    if mass is None or level >= 1:
        return request
    if level <= 0:
        return 1
    reached = np.cumsum(mass)
    cell = int(np.searchsorted(reached[:-1], level))
    below = reached[cell] - mass[cell]
    if cell == len(mass) - 1:
        return request if level - below > place * mass[cell] else max(request - 1, 1)
    share = (level - below) / mass[cell] if mass[cell] else 0.0
    short = SHORT[cell] + np.clip(share, 0, 1) * (SHORT[cell + 1] - SHORT[cell])
    return max(min(request * np.exp(-short), request - 1), 1)


def given_elapsed(levels: list[float], quantiles: list[float], request: int, level: float, elapsed: int) -> int:
    """The quantile ``level`` of the runtimes longer than ``elapsed``; between a second, the quantiles and the request logarithms are uniform."""
    shares, seconds = [0.0, *levels, 1.0], [1.0, *quantiles, float(request)]
    after = bisect_right(seconds, elapsed)
    passed = np.interp(np.log(elapsed), np.log(seconds[after - 1 : after + 1]), shares[after - 1 : after + 1])
    wanted = passed + level * (1 - passed)
    after = bisect_left(shares, wanted)
    answer = np.exp(np.interp(wanted, shares[after - 1 : after + 1], np.log(seconds[after - 1 : after + 1])))
    return max(int(np.rint(answer)), elapsed + 1)


def agree(load: Workload, hand: QuantileByHand, scheduler: str = "FCFS-EASY-SPF", **policy: Any) -> QuantileByHand:
    hand.kernel = schedule = load.schedule(scheduler, hand.label(), **policy)
    jobs = load.jobs_by_oracle(**policy_of(scheduler), predictor=hand, **policy)
    assert schedule.jobs["start_s"].tolist() == [job.start for job in jobs]
    assert schedule.jobs["corrections"].tolist() == [job.corrections for job in jobs]
    assert schedule.clamped_predictions == sum(job.clamped for job in jobs) == 0
    return hand


corrections = st.sampled_from(["requested", "tsafrir", "conditional", "conditional(when=pass)"])
schedulers = st.sampled_from(["FCFS-EASY", "FCFS-EASY-SPF", "SPF-EASY(reservations=2)-SPF", "SAF-JustBF", "FCFS-Conservative"])
hands = st.builds(
    QuantileByHand,
    order=st.sampled_from([0.5, 0.33, "accuracy"]),
    fit=st.sampled_from([0.8, 0.99, 0.1]),
    end=st.sampled_from([0.7, 0.31]),
    rate=st.sampled_from([0.0, 0.02, 0.5, 1.0]),
)


@pytest.mark.slow
@settings(max_examples=10)
@given(described(st.one_of(workloads(), dependent_workloads())), hands, schedulers, st.sampled_from(SEMANTICS), corrections)
def test_on_any_small_workload_as_in_plain_python(
    load: Workload, hand: QuantileByHand, scheduler: str, semantics: str, correction: str
) -> None:
    """So few jobs are one leaf."""
    agree(load, hand, scheduler, semantics=semantics, correction=correction, dependencies=bool(load.preceding))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hand", "policy"),
    [
        (QuantileByHand(), {"correction": "conditional"}),
        (QuantileByHand(order="accuracy"), {"correction": "tsafrir", "dependencies": True}),
        (QuantileByHand(0.3, 0.9, 0.45, rate=0.1, seed=5), {"correction": "conditional(when=pass)", "semantics": "per-event"}),
    ],
    ids=["usual", "accurate", "asked-each-pass"],
)
def test_over_ten_days_of_new_trees_as_in_plain_python(hand: QuantileByHand, policy: dict[str, Any]) -> None:
    load = days(policy.get("dependencies", False), size=260)
    agree(load, hand, **policy)
    assert hand.oldest >= 8, "trees have to make room for others"
    assert len(set(hand.predicted)) > 60
    assert hand.edges <= 0.01 * hand.by_level.size, "bounds that are apart would let anything pass"


@pytest.mark.slow
@pytest.mark.parametrize("order", [0.5, "accuracy"])
def test_months_and_seconds_side_by_side_as_in_plain_python(order: float | str) -> None:
    """Runtimes ten million times those of jobs alike, and beyond the last bin."""
    rng = np.random.default_rng(1)
    requested = rng.choice([3000, 4 * 10**6, 3 * 10**7], 120).tolist()
    runtime = np.minimum(rng.choice([1, 2, 500, 3000, 9 * 10**6, 2 * 10**7, 3 * 10**7], 120), requested).tolist()
    submit = np.cumsum(rng.integers(1, 10**6, 120)).tolist()
    agree(Workload(4, submit, runtime, [1] * 120, requested, ["ann"] * 120, requested), QuantileByHand(order=order))


@pytest.mark.slow
def test_new_trees_learn_from_the_most_recent_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantile, "LEARNED_JOBS", 120)
    hand = agree(days(size=240), QuantileByHand(learned=120))
    assert max(tree.first for tree in hand.trees) > 50


@pytest.mark.parametrize(("count", "grown"), [(99, 0), (100, 40)])
def test_a_hundred_ended_jobs_are_enough(count: int, grown: int) -> None:
    assert len(agree(unlike(count), QuantileByHand()).trees) == grown


# Properties


def pending(jobs: pd.DataFrame) -> int:
    """The most jobs that were submitted and had not ended at a time."""
    times = pd.concat([pd.Series(1, jobs["submit_s"]), pd.Series(-1, jobs["end_s"])])
    return int(times.groupby(level=0).sum().sort_index().cumsum().max())


@pytest.mark.parametrize("rate", [0.02, 0.1])
@pytest.mark.parametrize("liars", [False, True])
def test_the_share_that_outlives_a_quantile_is_kept_to_whatever_happens(rate: float, liars: bool) -> None:
    """Gibbs & Candes 2021, Proposition 4.1, with answers that come late: at most 1 - level + (1 - level + rate d) / (rate T) of T jobs are longer, for
    where a level is calibrated to 1 and more, the quantile is the request, and only the up to d jobs that are under way can raise it further.
    As no job is a second long, at least 1 - level - (level + rate (d + 1)) / (rate T) are, unless the quantile of a lower level stands in."""
    rng = np.random.default_rng(6)
    load = crowd(rng, size=1500, longest_s=7200)
    load = replace(load, runtime=[max(runtime, 2) for runtime in load.runtime])
    if liars:  # the second half has nothing in common with the first
        half = [max(2, asked - 1) if job > 750 else 2 + job % 5 for job, asked in enumerate(load.requested)]
        load = replace(load, runtime=half)
    schedule = load.schedule("EASY", f"quantile(rate={rate})")
    assert schedule.quantiles is not None
    levels, ended, late = schedule.quantiles.columns.to_numpy(float), len(schedule.jobs), pending(schedule.jobs)
    shares = (schedule.jobs["runtime_s"].to_numpy()[:, None] > schedule.quantiles.to_numpy()).mean(axis=0)
    assert (shares <= 1 - levels + (1 - levels + rate * late) / (rate * ended)).all()
    assert (shares >= 1 - levels - (levels + rate * (late + 1)) / (rate * ended)).all()
    if liars:
        frozen = load.schedule("EASY-SJBF", "quantile(rate=0)").quantiles
        assert (
            abs((np.array(load.runtime)[:, None] > np.array(frozen)).mean(axis=0) - (1 - levels)).max()
            > abs(shares - (1 - levels)).max()
        )


def held(schedule: Schedule, level: float) -> float:
    """The share of processor-seconds of jobs that run no longer than their quantile."""
    assert schedule.quantiles is not None
    work = schedule.jobs["procs"] * schedule.jobs["runtime_s"]
    return float(work[schedule.jobs["runtime_s"] <= schedule.quantiles[level]].sum() / work.sum())


@pytest.mark.parametrize("to_the_request", [0.0, 0.5])
def test_upper_quantiles_hold_for_as_much_work_as_for_jobs(to_the_request: float) -> None:
    """Also where half of the jobs run to their request, at which a level can be kept to only if some of them get a second less."""
    rng = np.random.default_rng(3)
    load = crowd(rng, size=2500, longest_s=7200)
    to_it = (rng.random(2500) < to_the_request).tolist()
    load = replace(
        load,
        runtime=[asked if all_of_it else run for asked, run, all_of_it in zip(load.requested, load.runtime, to_it, strict=True)],
    )
    schedule = load.schedule("EASY", "quantile(rate=0.01)")
    assert schedule.quantiles is not None
    for level in (0.8, 0.9, 0.95):
        assert abs((schedule.jobs["runtime_s"] <= schedule.quantiles[level]).mean() - level) < 0.015
        assert abs(held(schedule, level) - level) < 0.02
    assert held(schedule, 0.7) < 0.67, "below, jobs count alone"


@pytest.mark.slow
def test_the_seed_decides_which_trees_grow() -> None:
    load = days(size=400)
    one, again, other = (load.schedule("EASY-SJBF", f"quantile(seed={seed})") for seed in (1, 1, 2))
    assert one.quantiles is not None
    assert one.quantiles.equals(again.quantiles)
    assert not one.quantiles.equals(other.quantiles)
    starts = [each.jobs["start_s"].tolist() for each in (one, again, other)]
    assert starts[0] == starts[1] != starts[2]
