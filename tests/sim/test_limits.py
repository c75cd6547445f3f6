"""At the limits of what is taken in nothing wraps: schedules are those of the oracle, whose integers have no end."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from features.clock import Clock
from features.errors import InputError
from features.limits import PROCESSORS, SECONDS
from sim import simulate
from sim.kernel.corrections import CORRECTIONS
from sim.kernel.queue import width_classes
from sim.metrics.schedule_metrics import evaluate
from sim.schedule import busy_procs
from sim.settings import ALL
from tests.support.workloads import TABLE_CORRECTIONS, Workload, columns, crowd, policy_of

CLOCK = Clock(SECONDS, "Europe/Stockholm")
"""Simulated times go on for millennia after it."""


def extreme(seed: int, size: int = 40) -> Workload:
    """Jobs of a second and of 300 years, of one processor and of all, submitted at once and centuries later."""
    rng = np.random.default_rng(seed)
    far = [1, 2, SECONDS // 2, SECONDS - 1, SECONDS]
    requested = rng.choice(far, size)
    runtime = np.minimum(rng.choice(far, size), requested)
    return Workload(
        machine=PROCESSORS,
        submit=np.sort(rng.choice([0, 1, SECONDS - 1, SECONDS], size)).tolist(),
        runtime=runtime.tolist(),
        procs=rng.choice([1, 2, PROCESSORS // 2, PROCESSORS - 1, PROCESSORS], size).tolist(),
        requested=requested.tolist(),
        user=rng.choice(["ann", "bob", "eve"], size).tolist(),
        estimates=np.minimum(rng.choice(far, size), requested).tolist(),
    )


@pytest.mark.parametrize("algorithm", ["Strict", "List", "EASY", "EASY(reservations=3)", "JustBF", "Conservative"])
@pytest.mark.parametrize("correction", TABLE_CORRECTIONS)
def test_schedules_at_the_limits_are_the_oracles(algorithm: str, correction: str) -> None:
    load = extreme(7)
    scheduler, semantics = f"FCFS-{algorithm}", "per-event" if correction == "tsafrir" else "per-second"
    schedule = load.schedule(scheduler, correction=correction, semantics=semantics)
    assert columns(schedule) == load.by_oracle(
        **policy_of(scheduler), estimates=load.estimates, correction=correction, semantics=semantics
    )


@pytest.mark.slow
@pytest.mark.parametrize("correction", [each for each in CORRECTIONS if each not in TABLE_CORRECTIONS])
def test_jobs_that_outlive_predictions_end_at_the_limits(correction: str) -> None:
    load = extreme(10, size=50)
    schedule = simulate(load.table(), procs=load.machine, predictor="quantile", correction=correction, clock=CLOCK)
    assert (schedule.jobs["start_s"] >= schedule.jobs["submit_s"]).all()


def test_metrics_at_the_limits_are_those_of_exact_arithmetic() -> None:
    schedule = extreme(11, size=120).schedule("FCFS-EASY-FCFS")
    jobs = [
        {name: int(row[name]) for name in ("submit_s", "start_s", "end_s", "procs", "runtime_s")}
        for _, row in schedule.jobs.iterrows()
    ]
    area = [job["procs"] * job["runtime_s"] for job in jobs]
    span = max(job["end_s"] for job in jobs) - min(job["submit_s"] for job in jobs)
    response = [job["end_s"] - job["submit_s"] for job in jobs]
    metrics = evaluate(schedule)
    assert sum(area) > 2**63, "no sum here would have wrapped"
    assert metrics["utilization"] == pytest.approx(float(Fraction(sum(area), PROCESSORS * span)), rel=1e-12)
    weighed = sum(work * seconds for work, seconds in zip(area, response, strict=True))
    assert metrics["awf_s"] == pytest.approx(float(Fraction(weighed, sum(area))), rel=1e-12)


@pytest.mark.parametrize(
    ("column", "value", "refusal"),
    [
        ("requested", 9 * 10**15, "requested_s 9,000,000,000,000,000 of job 2 is beyond the limit of 10,000,000,000"),
        ("submit", 10**18, "submit_s 1,000,000,000,000,000,000 of job 2 is beyond"),
        ("submit", SECONDS + 1, "beyond the limit"),
        ("requested", SECONDS + 1, "beyond the limit"),
        ("think", SECONDS + 1, "think_s"),
    ],
)
def test_a_job_beyond_a_limit_is_refused_by_name(column: str, value: int, refusal: str) -> None:
    load = Workload(2, [0, 1], [1, 1], [1, 1], [1, 1], [None, None], [1, 1], preceding=[None, 1], think=[None, 0])
    getattr(load, column)[1] = value
    with pytest.raises(InputError, match=refusal):
        load.schedule("EASY", dependencies=True)


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({"starvation_s": 10**30}, r"10,?000,?000,?000"),
        ({"shake_s": 10**30}, r"10,?000,?000,?000"),
        ({"procs": 2**31 - 1}, "at most 100,000,000 processors"),
    ],
    ids=str,
)
def test_settings_and_machines_beyond_a_limit_are_refused(given: dict, refusal: str) -> None:
    load = Workload(2, [0], [1], [1], [1], [None], [1])
    with pytest.raises(InputError, match=refusal):
        simulate(load.table(), **{"procs": 2} | given)


COUNT = 1100
LONGEST = Workload(1, [0] * COUNT, [1] * COUNT, [1] * COUNT, [SECONDS] * COUNT, [None] * COUNT, [SECONDS] * COUNT)


def test_times_beyond_the_clock_are_refused() -> None:
    """An event is one integer, time and sequence number; multiples of requests are not cut at requests."""
    with pytest.raises(InputError, match="do not fit the simulator's clock"):
        LONGEST.schedule("EASY", "requested*900000")


def peak_bytes(load: Workload, scheduler: str, predictor: str) -> int:
    """Return the most memory that a simulation, and its metrics hold at a time."""
    table = load.table()
    width_classes.cache_clear()
    tracemalloc.start()
    try:
        schedule = simulate(table, procs=load.machine, scheduler=scheduler, predictor=predictor)
        evaluate(schedule)
        busy_procs(schedule)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("scheduler", "predictor"),
    [*((name, "requested") for name in ("Strict", "List", "EASY-SJBF", "EASY(reservations=3)", "JustBF", "Conservative"))]
    + [("EASY-SJBF", predictor) for predictor in ALL],
)
def test_memory_grows_with_jobs_and_not_with_processors(scheduler: str, predictor: str) -> None:
    load = crowd(np.random.default_rng(12), size=60)
    wide = replace(load, machine=PROCESSORS, procs=[procs * (PROCESSORS // load.machine) for procs in load.procs])
    peak_bytes(load, scheduler, predictor)  # what is loaded once
    assert peak_bytes(wide, scheduler, predictor) < peak_bytes(load, scheduler, predictor) + 2**20
