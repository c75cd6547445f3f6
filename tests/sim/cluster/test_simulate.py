"""The simulated cluster: what the plain-Python oracle makes of the same jobs, and what is conserved whatever the draw."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from features.errors import InputError
from features.jobs.schema import conform
from sim import simulate
from sim.cluster.applications import APPLICATIONS
from sim.cluster.presets import Level, SimulatedCluster
from sim.cluster.simulate import ClusterRun, Observed, StartAdvice, simulate_on
from sim.policy import Policy
from tests.oracle.cluster import Foreseeing, Run, drawn, simulated
from tests.oracle.decisions import Whim

BUSY = Level(0.3, spread=0.5, memory_s=600, pause_s=900, lasting_s=300, height=0.5, most=1.5)
SMALL = SimulatedCluster(
    "small",
    nodes=64,
    nodes_per_leaf=16,
    uplink=40.0,
    core=150.0,
    storage=12.0,
    noise_leaves=2,
    storage_background=BUSY,
    core_background=BUSY,
    noise_background=Level(0.5, spread=0.6, memory_s=600, most=1.0),
    warm_s=300,
)
CLUSTERS = {
    "small": SMALL,
    "wide": SMALL.but(nodes=128, nodes_per_leaf=16, noise_leaves=4, uplink=25.0, core=250.0, storage=30.0, power=2.0),
    "narrow leaves": SMALL.but(nodes=32, nodes_per_leaf=4, noise_leaves=2, uplink=12.0, core=60.0, storage=6.0, power=1.0),
    "slow ticks": SMALL.but(tick_s=60, interval_s=60, own_noise=3.0),
    "no noise job": SMALL.but(noise_share=0.0, noise_leaves=0),
    "first fit": SMALL.but(nodes=96, nodes_per_leaf=8, noise_leaves=3, uplink=12.0, placement="first-fit"),
}


def jobs_of(seed: int, count: int = 40, *, widest: int = 32, over_s: int = 2000, requested_s: int = 36_000) -> pd.DataFrame:
    """Jobs of any application, on 8, 16 or 32 nodes, many of them submitted in the same second."""
    random = np.random.default_rng(seed)
    names = random.choice(list(APPLICATIONS), count)
    return conform(
        {
            "job_id": np.arange(1, count + 1),
            "submit_s": 100_000 + np.sort(random.integers(0, over_s // 50, count)) * 50,
            "runtime_s": np.ones(count, np.int64),
            "procs": random.choice([nodes for nodes in (8, 16, 32) if nodes <= widest], count),
            "requested_s": np.full(count, requested_s),
            "user": ["control"] * count,
            "executable": names,
        },
        count,
    )


def by_oracle(cluster: SimulatedCluster, jobs: pd.DataFrame, seed: int, scaling: str = "weak", **policy: Any) -> list[Run]:
    return simulated(cluster, jobs, *drawn(cluster, jobs, seed, scaling), scaling, **policy)


def agree(kernel: ClusterRun, runs: Iterable[Run]) -> None:
    """Starts to the second, everything else to rounding."""
    table, runs = kernel.runs, list(runs)
    first = table["submit_s"].min()
    assert (table["start_s"] - first).tolist() == [run.job.start for run in runs]
    assert kernel.schedule.jobs["runtime_s"].tolist() == [run.job.runtime for run in runs]
    expected = {
        "runtime_s": [run.runtime_s for run in runs],
        "work_s": [run.work for run in runs],
        "contention": [run.runtime_s / run.work for run in runs],
        "start_network": [run.start_network for run in runs],
        "start_io": [run.start_io for run in runs],
        "mean_network": [run.network_sum / run.job.runtime for run in runs],
        "mean_io": [run.io_sum / run.job.runtime for run in runs],
        "cut": [run.done - run.job.start > run.job.requested for run in runs],
    }
    for column, values in expected.items():
        np.testing.assert_allclose(table[column].to_numpy(np.float64), np.array(values, np.float64), rtol=1e-9, err_msg=column)


# Against the oracle


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("name", CLUSTERS)
def test_starts_and_runtimes_are_the_oracles(name: str, seed: int) -> None:
    cluster = CLUSTERS[name]
    jobs = jobs_of(seed, widest=min(32, cluster.procs))
    kernel = simulate_on(cluster, jobs, Policy(seed=seed), observed=Observed(places=True))
    runs = by_oracle(cluster, jobs, seed)
    agree(kernel, runs)
    assert [nodes.tolist() for nodes in kernel.places] == [run.nodes for run in runs]
    assert kernel.runs["contention"].max() > 1.2  # there is something to agree on


@pytest.mark.parametrize(
    ("scheduler", "scaling", "policy"),
    [
        ("EASY-SJBF", "strong", {"backfill": "SPF"}),
        ("SQF-List", "weak", {"algorithm": "List", "order": "SQF"}),
        ("FCFS-JustBF", "strong", {"algorithm": "JustBF"}),
        ("Conservative", "weak", {"algorithm": "Conservative"}),
    ],
)
def test_under_any_scheduler_and_scaling(scheduler: str, scaling: str, policy: dict) -> None:
    jobs = jobs_of(7)
    kernel = simulate_on(SMALL, jobs, Policy(scheduler, seed=7), scaling=scaling)
    agree(kernel, by_oracle(SMALL, jobs, 7, scaling, **policy))


def test_a_cluster_is_not_simulated_for_centuries() -> None:
    late = jobs_of(1).assign(submit_s=lambda jobs: np.where(jobs["job_id"] == len(jobs), 10**10, jobs["submit_s"]))
    with pytest.raises(InputError, match="a simulation lasts at most 86,400,000 s"):
        simulate_on(SMALL, late)


def test_jobs_that_ask_for_too_little_are_cut() -> None:
    jobs = jobs_of(3, requested_s=300)
    kernel = simulate_on(SMALL, jobs, Policy(seed=3))
    agree(kernel, by_oracle(SMALL, jobs, 3))
    assert 0 < kernel.runs["cut"].sum() < len(jobs)
    assert (kernel.runs.loc[kernel.runs["cut"], "runtime_s"] == 300.0).all()


@pytest.mark.parametrize("scheduler", ["EASY", "Conservative", "FCFS-JustBF"])
def test_with_start_decisions(scheduler: str) -> None:
    jobs, whim, heard = jobs_of(11), Whim(1, 40), Whim(1, 40)
    kernel = simulate_on(SMALL, jobs, Policy(f"{scheduler}+RUSH(skips=3)", seed=11), advice=StartAdvice(callback=heard))
    runs = by_oracle(SMALL, jobs, 11, algorithm=scheduler.split("-")[-1], decision=Shifted(whim), skips=3)
    agree(kernel, runs)
    assert heard.answers == whim.answers
    assert kernel.runs["skips"].tolist() == [
        sum(answer.skipped for answer in whim.answers if answer.job == row) for row in range(len(jobs))
    ]
    assert kernel.runs["skips"].max() == 3


FIRST_FIT = SMALL.but(nodes=128, noise_leaves=4, uplink=25.0, storage=30.0, placement="first-fit")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cluster", "jobs", "factor", "model"),
    [(SMALL, jobs_of(13, 30, over_s=600), 1.15, "oracle"), (FIRST_FIT, jobs_of(17, 45), 1.3, "nowcast")],
)
def test_waiting_with_patience_is_the_oracles(cluster: SimulatedCluster, jobs: pd.DataFrame, factor: float, model: str) -> None:
    """Also where nodes are placed when it decides and when it starts."""
    work, background = drawn(cluster, jobs, 13)
    kinds = list(zip(jobs["executable"].astype(str), jobs["procs"], strict=True))
    limits = {kind: factor * min(work[row] for row, other in enumerate(kinds) if other == kind) for kind in kinds}
    name = f"EASY+RUSH(model={model},patience=200,every=7)"
    kernel = simulate_on(cluster, jobs, Policy(name, seed=13), advice=StartAdvice(limits=limits), observed=Observed(places=True))
    foresight = Foreseeing(limits, model == "oracle", 200, 7)
    runs = simulated(cluster, jobs, work, background, decision=foresight, skips=10**9)
    agree(kernel, runs)
    assert [nodes.tolist() for nodes in kernel.places] == [run.nodes for run in runs]
    assert kernel.decisions == foresight.asked
    assert kernel.runs["skips"].max() > 3
    assert len(foresight.first) > 3


class Shifted:
    """The oracle counts seconds from the first submission; decisions are asked in the trace's time."""

    def __init__(self, whim: Whim) -> None:
        self.whim, self.name = whim, whim.name

    def skip(self, row: int, now_s: int) -> bool:
        return self.whim.skip(row, now_s + 100_000)


# What is conserved


CALM = SMALL.but(network_gain=0.0, storage_gain=0.0)


@pytest.mark.parametrize("semantics", ["per-second", "per-event"])
@pytest.mark.parametrize("scheduler", ["EASY", "SAF-EASY-SPF", "EASY(reservations=3)", "LQF-JustBF", "Conservative", "Strict"])
def test_without_gains_schedules_are_those_of_a_trace_of_fixed_runtimes(scheduler: str, semantics: str) -> None:
    jobs = jobs_of(4, 80)
    on_cluster = simulate_on(CALM, jobs, Policy(scheduler, seed=4, semantics=semantics))
    fixed = jobs.assign(runtime_s=np.ceil(on_cluster.runs["work_s"]).astype(np.int64))
    as_trace = simulate(fixed, procs=CALM.procs, scheduler=scheduler, semantics=semantics)
    assert on_cluster.schedule.jobs["start_s"].tolist() == as_trace.jobs["start_s"].tolist()
    assert on_cluster.schedule.jobs["end_s"].tolist() == as_trace.jobs["end_s"].tolist()


@pytest.mark.parametrize("which", ["storage_background", "core_background", "noise_background"])
def test_more_background_makes_no_run_faster(which: str) -> None:
    jobs = jobs_of(6, 5, widest=8).assign(submit_s=0)  # all start at once: no other order can make up for it
    longest = np.zeros(len(jobs))
    for level in (0.0, 0.3, 0.6, 1.0):
        runs = simulate_on(SMALL.but(**{which: Level(level)}), jobs, Policy(seed=6)).runs
        assert (runs["wait_s"] == 0).all()
        assert (runs["runtime_s"] >= longest).all()
        longest = runs["runtime_s"].to_numpy()


def test_the_same_seed_is_the_same_run_byte_for_byte_and_another_seed_is_not() -> None:
    jobs, wanted = jobs_of(8), np.ones(40, bool)
    one, same, other = (simulate_on(SMALL, jobs, Policy(seed=seed), observed=Observed(wanted)) for seed in (8, 8, 9))
    for left, right in ((one.runs, same.runs), (one.own, same.own), (one.all, same.all), (one.schedule.jobs, same.schedule.jobs)):
        assert left.to_numpy().tobytes() == right.to_numpy().tobytes() or left.equals(right)
    assert not one.runs.equals(other.runs)


def test_a_coin_that_never_skips_leaves_the_schedule_as_it_is() -> None:
    jobs = jobs_of(10)
    plain = simulate_on(SMALL, jobs, Policy(seed=10))
    asked = simulate_on(SMALL, jobs, Policy("EASY+RUSH(model=coin)", seed=10), advice=StartAdvice(coin=0.0))
    assert (asked.decisions, asked.skipped) == (len(jobs), 0)
    pd.testing.assert_frame_equal(asked.runs, plain.runs, check_exact=True)


# Refusals


@pytest.mark.parametrize(
    ("scheduler", "given", "says"),
    [
        ("EASY+RUSH(model=nobody)", {}, "+RUSH(model=nobody); known models: oracle, nowcast, coin"),
        ("EASY+RUSH", {}, "+RUSH(model=); known models: oracle, nowcast, coin"),
        ("EASY", {"advice": StartAdvice(callback=Whim())}, "scheduler 'EASY' asks no model whether a job may start"),
        ("EASY", {"scaling": "odd"}, "unknown scaling 'odd'; known: weak, strong"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(scheduler: str, given: dict, says: str) -> None:
    with pytest.raises(InputError) as refused:
        simulate_on(SMALL, jobs_of(0), Policy(scheduler), **given)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_application_nobody_knows_is_refused() -> None:
    with pytest.raises(InputError, match="unknown application 'HPL'; known: AMG, Kripke"):
        simulate_on(SMALL, jobs_of(0).assign(executable="HPL"))


def test_jobs_wider_than_what_the_noise_job_leaves_are_refused() -> None:
    with pytest.raises(InputError, match="wider than the machine's 60 processors"):
        simulate_on(SMALL, jobs_of(0).assign(procs=61))
