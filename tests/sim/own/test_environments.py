"""Environments make the kernel's schedules from the same decisions, and keep later weeks to themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import queuecast as qc
import sim.own.environments
from features import CleanTrace
from features.clock import WEEK_S
from features.errors import InputError
from sim import evaluate, simulate
from sim.own.environments import OF_JOB, Agent, Backfilling, Ordering
from sim.policy import Policy
from sim.simulation import simulate_policy
from tests.support.machines import one_node
from tests.support.workloads import TABLE_CORRECTIONS, Workload, columns, workloads

assert sim.own.environments
ALGORITHMS = ("Strict", "List", "EASY")
PREDICTORS = [None, "requested", "last2"]


@pytest.fixture(scope="module")
def kth() -> CleanTrace:
    return qc.read("kth-sp2")


def environment(kind: str, trace: CleanTrace, **given: Any) -> Any:
    return gymnasium.make(f"queuecast/{kind}-v0", trace=trace, **given).unwrapped


def played(env: Any, pick: Callable[[dict], int], first: int, **given: Any) -> tuple[list[dict], float, dict]:
    """Play window ``first``; return what was observed, the sum of rewards, and the last info."""
    seen, total, over, info = [env.reset(options={"first": first}, **given)[0]], 0.0, False, {}
    while not over:
        observed, reward, over, _, info = env.step(pick(seen[-1]))
        seen.append(observed)
        total += reward
    return seen, total, info


def shortest(observed: dict) -> int:
    """The job of least prediction; the first submitted of several."""
    count = int(observed["mask"].sum())
    return int(np.argmin(observed["jobs"][:count, OF_JOB.index("predicted")]))


class Shortest(Ordering):
    """The same without an agent."""

    def take(self, place: int) -> None:
        super().take(int(np.argmin(self.inputs.estimates.order[self.candidates])))


@pytest.mark.thorough
@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(workloads(), st.sampled_from(PREDICTORS), st.sampled_from(TABLE_CORRECTIONS))
def test_first_candidates_are_easy_and_shortest_ones_the_kernels_orders(
    load: Workload, predictor: str | None, correction: str
) -> None:
    policy = Policy("List", load.estimates if predictor is None else predictor, correction)
    for decider, scheduler in (
        (Backfilling(), "EASY"),
        *((Shortest(algorithm=each), f"SPF-{each}") for each in ("Strict", "List")),
    ):
        schedule = simulate_policy(load.table(), policy, procs=load.machine, decider=decider)
        assert columns(schedule) == columns(load.schedule(scheduler, predictor, correction=correction)), scheduler


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "algorithm", "scheduler"), [("Backfill", "EASY", "EASY"), *(("Order", e, f"SPF-{e}") for e in ALGORITHMS)]
)
def test_an_agent_that_decides_as_the_kernel_makes_its_schedule(kth: CleanTrace, kind: str, algorithm: str, scheduler: str) -> None:
    first, jobs = 1_234, kth.jobs.iloc[1_234 : 1_234 + 320].reset_index(drop=True)
    env = environment(
        kind,
        kth,
        algorithm=algorithm,
        slots=320,
        warm_up=64 if kind == "Backfill" else 0,
        length=256 if kind == "Backfill" else 320,
    )
    seen, total, info = played(env, shortest if kind == "Order" else lambda _: 0, first)
    kernel = simulate(jobs, procs=100, scheduler=scheduler)
    assert len(seen) > 40
    assert (env._decisions.work.state.start + int(jobs["submit_s"].iloc[0]) == kernel.jobs["start_s"]).all()
    easy = simulate(jobs, procs=100)
    counted = [replace(each, jobs=each.jobs.iloc[-env._length + env._warm_up :]) for each in (kernel, easy)]
    slowdowns = [evaluate(each)["mean_bounded_slowdown"] for each in counted]
    assert info["relative"] == pytest.approx(slowdowns[0] / slowdowns[1], rel=1e-9)
    assert total == pytest.approx(-info["relative"], rel=1e-9)


@pytest.mark.parametrize("kind", ["Backfill", "Order"])
@pytest.mark.filterwarnings("error")
def test_gymnasium_finds_nothing_wrong(kth: CleanTrace, kind: str) -> None:
    check_env(environment(kind, kth, slots=16, length=64))


def test_no_agent_sees_later_weeks(kth: CleanTrace) -> None:
    weeks = (kth.jobs["submit_s"] - kth.jobs["submit_s"].iloc[0]) // WEEK_S
    later = weeks >= round(0.4 * (weeks.max() + 1))
    jobs = kth.jobs.copy()
    for column, value in (("runtime_s", 7), ("procs", 3), ("requested_s", 11)):
        jobs.loc[later, column] = value
    rng = np.random.default_rng(0)

    def coin(seen: dict) -> int:
        return int(rng.choice(np.flatnonzero(seen["mask"])))

    same = []
    for trace in (kth, replace(kth, jobs=jobs)):
        env, rng = environment("Backfill", trace, length=100), np.random.default_rng(0)
        assert env.windows == (~later).sum() - 163
        same.append([played(env, coin, env.windows - 1), [env.reset(seed=s)[0] for s in range(5)]])
    np.testing.assert_equal(same[0], same[1])
    test = environment("Backfill", replace(kth, jobs=jobs), split="test", length=100)
    assert {*test._jobs["procs"]} == {3}
    assert len(test._jobs) == (weeks >= round(0.5 * (weeks.max() + 1))).sum()


@pytest.mark.thorough
@pytest.mark.slow
def test_what_is_wrong_is_told(kth: CleanTrace) -> None:
    for wrong, words in (
        ({"split": "tests"}, "unknown split 'tests'; did you mean test"),
        ({"algorithm": "FIFO"}, "unknown algorithm"),
        ({"shares": (0.5, 0.6, 0.1)}, "with sum 1"),
        ({"length": 50_000}, "are fewer than the 50,064 of a window"),
    ):
        with pytest.raises(InputError, match=words):
            environment("Backfill", kth, **wrong)
    with pytest.raises(InputError, match="unknown kind 'backfill'"):
        sim.own.environments.Environment(kth, "backfill")
    with pytest.raises(InputError, match="unknown algorithm 'Easy'"):
        qc.decide(kth, Agent(lambda _: 0, "Order", algorithm="Easy"))
    with pytest.raises(InputError, match="window 99999: the windows are numbered from 0 to"):
        environment("Backfill", kth).reset(options={"first": 99_999})
    with pytest.raises(InputError, match="nothing to decide in window 0"):
        environment("Backfill", kth, warm_up=0, length=1).reset(options={"first": 0})
    two = kth.jobs.iloc[:2].reset_index(drop=True)
    with pytest.raises(InputError, match="one pool of processors"):
        simulate_policy(two, Policy("List"), procs=100, machine=one_node(100), decider=Backfilling())
