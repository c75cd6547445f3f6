"""``Harm``: the oracle's starts, job by job, whatever tells the distributions, and what its options and seed do."""

from __future__ import annotations

from dataclasses import asdict, replace
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from models.runtime.distribution import LEVELS
from models.runtime.protocol import TablePredictor
from sim import evaluate, simulate
from sim.policy import SEMANTICS
from sim.schedulers.harm import Harm, uniforms
from tests.models.runtime.test_lightgbm import days
from tests.models.runtime.test_sp import SurvivalByHand
from tests.oracle.decisions import Whim
from tests.oracle.harm import CONSTANTS, starts
from tests.support.fresh import seeds
from tests.support.workloads import Moody, Workload, crowd, crowds, dependent_crowd, dependent_workloads, starvation, workloads

policies = st.fixed_dictionaries({"semantics": st.sampled_from([*SEMANTICS, "per-second(every=30)"]), "starvation_s": starvation})
rules = st.builds(
    Harm,
    scenarios=st.sampled_from([1, 4, 16]),
    short=st.sampled_from([0.0, 0.05, 1.0]),
    width_credit=st.sampled_from([0.0, 0.2]),
    fairness=st.sampled_from([0.0, 2.0, 4.0]),
    lateness=st.sampled_from([0.0, 1.0, 4.0]),
    urgency=st.sampled_from([0.0, 0.5]),
    order_urgency=st.sampled_from([0.0, 2.0]),
    packing=st.sampled_from([0.2, 1.0]),
    short_level=st.sampled_from([0.5, 0.9]),
)


def named_by(rule: Harm) -> str:
    return f"Harm({','.join(f'{option}={value}' for option, value in asdict(rule).items())})"


def kernel_starts(load: Workload, rule: Harm, predictor: Any = None, **policy: Any) -> list[int]:
    return load.schedule(named_by(rule), predictor, **policy).jobs["start_s"].tolist()


class Foggy(Moody):
    """A predictor in plain Python whose distributions depend on all it was told: out of order, of halves, out of bounds, soon outlived."""

    name = "foggy"

    def __init__(self) -> None:
        super().__init__(0)

    def begin(self, jobs: pd.DataFrame) -> None:
        super().begin(jobs)
        self.again: list[tuple[int, int]] = []

    def estimate(self, question: int, job: int, now_s: int, elapsed_s: int) -> float:
        return 1.0

    def quantiles(self, job: int, now_s: int, elapsed_s: int, levels: Any) -> Any:
        if elapsed_s:
            self.again.append((int(job), int(elapsed_s)))
        random = np.random.default_rng([self._heard % 2**31, int(job), int(now_s), int(elapsed_s)])
        far = elapsed_s + (self._requested[job] - elapsed_s) * random.random() ** 2
        return np.round(far * random.random(len(levels)) + 0.25, 2)


class SurvivalTold(SurvivalByHand):
    """SP-x in whole numbers, all levels at once; of a job that outlives them it knows the request."""

    def quantiles(self, job: int, now: int, elapsed: int, levels: Any) -> list[float]:
        if elapsed or self.keys[job][1] is None:
            return [self.requested[job]] * len(levels)
        points = sorted((runtime, weight) for runtime, weight in self.of(job) if weight)
        total, answers = sum(weight for _, weight in points), []
        for number in range(1, len(levels) + 1):
            reached = 0
            for runtime, weight in points or [(self.requested[job], 1)]:
                reached += weight
                if reached * (len(levels) + 1) >= number * total:
                    answers.append(runtime)
                    break
        return answers


class Known(Foggy):
    """Tells what another schedule was told, a row a job, and the request once that is outlived."""

    def __init__(self, runtimes: np.ndarray) -> None:
        super().__init__()
        self.runtimes = runtimes

    def quantiles(self, job: int, now_s: int, elapsed_s: int, levels: Any) -> Any:
        return [self._requested[job]] * len(levels) if elapsed_s else self.runtimes[job]


# Against the oracle


@pytest.mark.slow
@settings(max_examples=20)
@given(
    st.one_of(workloads(), dependent_workloads(), crowds(24)),
    rules,
    st.sampled_from([None, "requested", "clairvoyant", "last2", Foggy, Foggy]),
    policies,
    st.integers(0, 3),
    st.none() | st.integers(0, 99),
    st.integers(0, 4),
)
def test_any_small_workload(load: Workload, rule: Harm, source: Any, policy: dict, seed: int, whim: int | None, skips: int) -> None:
    """Starts are the oracle's, for points and distributions told in Python, with start decisions and without."""
    kernel, oracle = (source(), source()) if source is Foggy else (source, source)
    policy |= {"dependencies": bool(load.preceding), "seed": seed if source is Foggy else 0}
    heard, oracle_whim = (None, None) if whim is None else (Whim(whim), Whim(whim))
    name = named_by(rule) if whim is None else f"{named_by(rule)}+RUSH(skips={skips})"
    started = load.schedule(name, kernel, start_decision=heard, **policy).jobs["start_s"].tolist()
    deciding = {} if whim is None else {"decision": oracle_whim, "skips": skips}
    assert started == starts(load, rule, oracle, **deciding, **policy)
    assert heard is None or oracle_whim is None or heard.answers == oracle_whim.answers
    assert source is not Foggy or sorted(kernel.again) == sorted(oracle.again)


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("predictor", [None, Foggy()], ids=["point", "foggy"])
def test_crowds(predictor: Any, semantics: str) -> None:
    other = 0
    for seed in seeds(4):
        load = (crowd, dependent_crowd)[seed % 2](np.random.default_rng(seed), size=80, machine=16)
        policy = {"semantics": semantics, "starvation_s": 3000 if seed % 4 == 2 else None, "dependencies": seed % 2 == 1}
        expected = starts(load, Harm(), predictor, **policy)
        other += load.schedule("EASY", predictor, **policy).jobs["start_s"].tolist() != expected
        assert kernel_starts(load, Harm(), predictor, **policy) == expected
        assert not isinstance(predictor, Foggy) or predictor.again
    assert other >= 3, "as EASY's"


def test_a_starving_head_is_protected_by_requests_too() -> None:
    """All jobs seem to end at once, so that nothing seems to harm a wide job: it waits until it starves, and not much longer."""
    load = crowd(np.random.default_rng(3), size=600, machine=16, longest_s=3000)
    load = replace(load, procs=[16 if job % 20 == 0 else min(procs, 4) for job, procs in enumerate(load.procs)])
    blind = TablePredictor("blind", lambda jobs: np.ones(len(jobs)), quantiles=lambda jobs: pd.DataFrame(1.0, jobs.index, LEVELS))

    def longest(starvation_s: int | None) -> int:
        table = load.schedule("Harm(width_credit=0)", blind, starvation_s=starvation_s).jobs
        return int((table["start_s"] - table["submit_s"]).max())

    assert longest(None) > 50_000
    assert longest(20_000) <= 20_000 + max(load.requested)


@pytest.mark.parametrize("dependencies", [False, True])
def test_distributions_of_sp(dependencies: bool) -> None:
    load = (dependent_crowd if dependencies else crowd)(np.random.default_rng(7), size=150, machine=4)
    longest = max(load.requested)
    load = replace(load, requested=[longest + seconds % 2 for seconds in load.requested], procs=[min(n, 2) for n in load.procs])
    hand = SurvivalTold("20", "0.8", "0.5")
    started = load.schedule("Harm", hand.label(), dependencies=dependencies).jobs["start_s"].tolist()
    assert started == starts(load, Harm(), hand, dependencies=dependencies)
    assert started != load.schedule("Harm", "requested", dependencies=dependencies).jobs["start_s"].tolist()


@pytest.mark.slow
def test_distributions_of_quantile() -> None:
    load = days(seed=2, size=400)
    schedule = load.schedule("Harm", "quantile(fit=0.83)")
    assert schedule.quantiles is not None
    runtimes = schedule.quantiles[list(LEVELS)].to_numpy()
    assert (runtimes[:, 0] < runtimes[:, -1]).sum() > 50
    assert schedule.jobs["start_s"].tolist() == starts(load, Harm(), Known(runtimes))


FROZEN = {0: "977019dcbd77bdac", 1: "469838ad8928535a"}
"""Digests of all starts of two crowds, by seed."""


def digest(scheduler: str, seed: int = 0) -> str:
    """Return a digest of the starts of two crowds, of jobs of up to an hour and more, and of minutes, whose runtimes are uncertain."""
    starts = sha256()
    for drawn, size, machine, longest_s in ((0, 1000, 64, 5000), (2, 600, 32, 900)):
        load = crowd(np.random.default_rng(drawn), size, machine, longest_s)
        table = pd.DataFrame(np.outer(load.requested, np.square(LEVELS)), columns=LEVELS)
        source = TablePredictor("table", lambda jobs, table=table: table[0.5], quantiles=lambda jobs, table=table: table)
        starts.update(load.schedule(scheduler, source, seed=seed).jobs["start_s"].to_numpy("<i8").tobytes())
    return starts.hexdigest()[:16]


@pytest.mark.parametrize("seed", FROZEN)
def test_frozen_schedules(seed: int) -> None:
    """A change here is a change of the rule, of its constants, of the scenarios that a seed draws, or of what a distribution means."""
    assert digest("Harm", seed) == FROZEN[seed]


def test_each_constant_decides_and_the_oracle_states_them_all() -> None:
    assert asdict(Harm()) == CONSTANTS
    for name, usual in CONSTANTS.items():
        for other in (usual - 1, usual + 1) if name == "scenarios" else (0.9 * usual, 1.1 * usual):
            assert digest(f"Harm({name}={other})") != FROZEN[0], name


# Distributions


def test_a_table_tells_its_quantiles_as_a_predictor_in_python_does() -> None:
    load = crowd(np.random.default_rng(4), size=120, machine=16)
    requested = np.array(load.requested, np.float64)
    table = pd.DataFrame({0.5: 0.3 * requested, 0.8: 0.5 * requested, 0.95: 0.9 * requested})
    source = TablePredictor("served", lambda jobs: 0.3 * requested, quantiles=lambda jobs: table)
    runtimes = np.column_stack([np.interp(level, [0.5, 0.8, 0.95], [0.3, 0.5, 0.9]) * requested for level in LEVELS])
    assert kernel_starts(load, Harm(), source) == starts(load, Harm(), Known(runtimes))
    assert kernel_starts(load, Harm(), source) != kernel_starts(load, Harm(), "requested")


@pytest.mark.parametrize("answer", [[1.0, 2.0], [float("nan")] * len(LEVELS)], ids=["too few", "no numbers"])
def test_quantiles_that_cannot_be_used(answer: list[float]) -> None:
    source = Known(np.array([answer] * 20))
    with pytest.raises(InputError, match="predictor foggy: lacks 39 finite quantiles for job 1"):
        crowd(np.random.default_rng(5), size=20, machine=16).schedule("Harm", source)


# Seeds and options


def test_draws_are_stratified_and_depend_on_nothing_but_row_and_seed() -> None:
    drawn = uniforms(5000, 16, seed=3)
    assert (np.sort((drawn * 16).astype(int), axis=1) == np.arange(16)).all()
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1] + 1 / 15) < 0.05  # as of draws without replacement
    assert abs(np.corrcoef(drawn[:-1, 0], drawn[1:, 0])[0, 1]) < 0.05
    assert (np.abs(np.mean(drawn * 16 % 1, axis=0) - 0.5) < 0.02).all()
    assert (uniforms(70, 16, seed=3) == drawn[:70]).all()
    assert not (uniforms(70, 16, seed=4) == drawn[:70]).any()


def test_the_seed_decides_where_runtimes_are_uncertain_and_only_there() -> None:
    load = crowd(np.random.default_rng(6), size=150, machine=16)
    first, again, other = (kernel_starts(load, Harm(), Known(np.outer(load.requested, LEVELS)), seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert kernel_starts(load, Harm(), "clairvoyant", seed=1) == kernel_starts(load, Harm(), "clairvoyant", seed=2)
    with pytest.raises(InputError, match="seed 1 changes nothing"):
        load.schedule("EASY", "requested", seed=1)


def test_slowdown_falls_and_packing_does_not_suffer() -> None:
    load = crowd(np.random.default_rng(10), size=2000, machine=64, longest_s=30_000)
    easy, harm = (evaluate(simulate(load.table(), procs=64, scheduler=name)) for name in ("EASY", "Harm"))
    assert harm["mean_bounded_slowdown"] < 0.9 * easy["mean_bounded_slowdown"]
    assert harm["awf_s"] < 1.02 * easy["awf_s"]
