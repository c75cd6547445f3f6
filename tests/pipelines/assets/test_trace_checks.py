"""Every check of a trace's tables can fail, and fails for what it names."""

from __future__ import annotations

from dataclasses import replace

import dagster as dg
import numpy as np
import pandas as pd
import pytest

from features.jobs.cleaning import CleanTrace, clean
from pipelines.assets.trace_checks import (
    FEATURES,
    JOBS,
    SCHEDULES,
    SIMULATED,
    check_features,
    check_jobs,
    check_schedules,
    check_simulated_model,
)
from pipelines.lake.runtime_features import features_of
from pipelines.training.served import ServedModel
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
    history = features_of(trace)
    end = history.start_s + trace.jobs["runtime_s"].to_numpy(np.int64)
    jobs, schedules = check_jobs(trace, trace), check_schedules([schedule], [schedule])
    counted = check_features(trace.jobs, history.table, end)
    assert failed([*jobs, *schedules, *counted]) == set()
    for results, claims in ((jobs, JOBS), (schedules, SCHEDULES), (counted, FEATURES)):
        assert {str(result.check_name) for result in results} == set(claims)


def test_a_table_that_reads_back_otherwise(trace, schedule):
    other = replace(trace, jobs=trace.jobs.assign(runtime_s=trace.jobs["runtime_s"].to_numpy() + (np.arange(600) == 7)))
    assert failed(check_jobs(trace, other)) == {"reads_back_as_written"}
    moved = replace(schedule, jobs=schedule.jobs.assign(start_s=schedule.jobs["start_s"] + 1))
    assert failed(check_schedules([schedule], [moved])) == {"reads_back_as_written"}
    assert failed(check_schedules([schedule], [])) == {"reads_back_as_written"}


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


def test_a_history_that_miscounts(trace):
    history = features_of(trace)
    end = history.start_s + trace.jobs["runtime_s"].to_numpy(np.int64)
    shifted = history.table.assign(completed_jobs=history.table["completed_jobs"].shift(1, fill_value=0))
    assert failed(check_features(trace.jobs, shifted, end)) == {"recounted_by_hand"}
    future = history.table.assign(last_runtime_s=trace.jobs["runtime_s"].to_numpy(np.float64))
    assert failed(check_features(trace.jobs, future, end)) == {"recounted_by_hand"}


def test_a_registered_model_that_consumers_get_otherwise_and_learning_that_does_not_help():
    model, shown = ServedModel("runtime-t", "1", "last2", 0, asked=7, off_s=0.0), "registry:runtime-t"
    accuracy = pd.Series({"requested": 0.5, "registry:runtime-t": 0.6, "lightgbm": 0.6})
    assert failed(check_simulated_model(model, shown, accuracy)) == set()
    assert failed(check_simulated_model(replace(model, off_s=3.0), shown, accuracy)) == {"consumers_get_what_is_simulated"}
    accuracy["registry:runtime-t"] = 0.4
    assert failed(check_simulated_model(model, shown, accuracy)) == {"learning_helps"}
    assert {str(result.check_name) for result in check_simulated_model(model, shown, accuracy)} == set(SIMULATED)


def test_a_schedule_that_cannot_be(schedule):
    early = replace(schedule, jobs=schedule.jobs.assign(start_s=schedule.jobs["submit_s"] - 1))
    assert "no_start_before_submission" in failed(check_schedules([early], [early]))
    narrow = replace(schedule, procs=3)
    assert failed(check_schedules([narrow], [narrow])) == {"never_more_processors_than_there_are"}
