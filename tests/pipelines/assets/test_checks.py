"""Every check of a trace's tables can fail, and fails for what it names."""

from __future__ import annotations

from dataclasses import replace

import dagster as dg
import numpy as np
import pandas as pd
import pytest

from features.jobs.cleaning import CleanTrace, clean
from pipelines.assets.checks import (
    JOBS,
    SCHEDULES,
    SIMULATED,
    check_jobs,
    check_schedules,
    check_simulated_model,
)
from sim import Schedule, simulate
from sim.workloads.workload import Workload, generate


@pytest.fixture(scope="module")
def trace() -> CleanTrace:
    return clean(generate(Workload(jobs=600, procs=64)))


@pytest.fixture(scope="module")
def schedule(trace: CleanTrace) -> Schedule:
    return simulate(trace.jobs, procs=trace.procs, scheduler="EASY")


def failed(results: list[dg.AssetCheckResult]) -> set[str]:
    return {str(result.check_name) for result in results if not result.passed}


def test_a_sound_trace_passes(trace, schedule):
    jobs, schedules = check_jobs(trace, trace), check_schedules([schedule])
    assert failed([*jobs, *schedules]) == set()
    for results, claims in ((jobs, JOBS), (schedules, SCHEDULES)):
        assert {str(result.check_name) for result in results} == set(claims)


def test_a_table_that_reads_back_otherwise(trace):
    other = replace(trace, jobs=trace.jobs.assign(runtime_s=trace.jobs["runtime_s"].to_numpy() + (np.arange(600) == 7)))
    assert failed(check_jobs(trace, other)) == {"reads_back_as_written"}


@pytest.mark.parametrize("procs", [6_400_000, 3])
def test_a_wrong_number_of_processors_shows_in_the_load(trace, procs):
    wrong = replace(trace, procs=procs)
    assert "load_is_plausible" in failed(check_jobs(wrong, wrong))


def test_many_dropped_jobs(trace):
    gone = pd.DataFrame({"action": ["dropped"] * 60})
    poor = replace(trace, rejected_jobs=gone, jobs_read=660)
    assert failed(check_jobs(poor, poor)) == {"few_jobs_dropped"}


def test_recorded_waits_that_the_machine_could_not_have_given(trace):
    together = trace.jobs.assign(wait_s=pd.array(trace.jobs["submit_s"].max() - trace.jobs["submit_s"], dtype="Int64"))
    wrong = replace(trace, jobs=together)
    assert failed(check_jobs(wrong, wrong)) == {"recorded_schedule_fits"}


def test_learning_that_does_not_help():
    accuracy = pd.Series({"requested": 0.5, "registry:runtime-t": 0.6, "lightgbm": 0.6})
    assert failed([check_simulated_model("registry:runtime-t", accuracy)]) == set()
    accuracy["registry:runtime-t"] = 0.4
    assert failed([check_simulated_model("registry:runtime-t", accuracy)]) == {*SIMULATED}


def test_a_schedule_that_cannot_be(schedule):
    early = replace(schedule, jobs=schedule.jobs.assign(start_s=schedule.jobs["submit_s"] - 1))
    assert "no_start_before_submission" in failed(check_schedules([early]))
    narrow = replace(schedule, procs=3)
    assert failed(check_schedules([narrow])) == {"never_more_processors_than_there_are"}
