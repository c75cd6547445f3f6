"""What baselines of the study of inferred rules know, and what decides its generated logs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from benchmarks.studies.known_rules import PROCS, truths
from benchmarks.studies.recorded_rules import baselines, past_waits
from features.clock import Clock
from features.jobs.cleaning import clean
from features.jobs.frames import jobs_from
from pipelines.ingest.workload import Workload, generate
from sim.rules.infer import Recorded, replayed


def test_past_waits_are_the_users_own_that_are_known_at_submission() -> None:
    user = np.array([0, 0, 1, 0, 0, 1, 2])
    submit = np.array([0, 1, 2, 10, 20, 30, 30])
    start = submit + np.array([4, 12, 5, 0, 3, 2, 2])  # at 4, 13, 7, 10, 23, 32, 32
    waits_s = past_waits(user, submit, start, 2)
    # nothing is known three times; the first wait; of 4, 0, 12 the last two; its own; of anyone the last two
    assert waits_s.tolist() == [0, 0, 0, 4, 6, 5, 7.5]


def test_no_baseline_sees_what_starts_later() -> None:
    rng = np.random.default_rng(1)
    count, cut = 200, 150
    submit = np.sort(rng.integers(0, 5000, count))
    table = {
        "submit_s": submit,
        "procs": rng.integers(1, 9, count),
        "requested_s": 60,
        "runtime_s": 50,
        "user": rng.integers(0, 4, count),
    }
    jobs = jobs_from(pd.DataFrame(table))
    start = submit + rng.integers(0, 500, count)
    later = np.where(start >= submit[cut], start + rng.integers(0, 900, count), start)

    def guesses(start_s: np.ndarray) -> dict[str, np.ndarray]:
        return baselines(Recorded(jobs, 8, Clock(0), start_s, start_s + 50, cut))

    before, after = guesses(start), guesses(later)
    assert all((before[name][: cut + 1] == after[name][: cut + 1]).all() for name in before)
    assert not all((before[name] == after[name]).all() for name in before)


def test_a_known_truth_holds_jobs_and_runs_others_that_the_log_does_not_list() -> None:
    jobs = clean(generate(Workload(jobs=100, procs=PROCS, users=9)), PROCS).jobs
    logs = {name: make() for name, make in truths(jobs, np.random.default_rng(0)).items()}
    plain = logs["EASY"].waits(jobs, logs["EASY"].rule)
    assert (plain == replayed(logs["EASY"].rule, jobs)).all()
    held = logs["holds"]
    assert held.held_s.any()
    assert (held.waits(jobs, held.rule) >= held.held_s).all()
    wide = replace(logs["EASY"], unlisted=jobs.iloc[[0]].assign(job_id=101, procs=PROCS, runtime_s=10**8, requested_s=10**8))
    assert wide.waits(jobs, wide.rule)[-1] > 10**7 > plain.max()
