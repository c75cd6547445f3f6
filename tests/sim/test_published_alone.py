"""Published results that need no trace from outside: a frozen slice of the generated trace, and values from the papers themselves."""

from __future__ import annotations

import numpy as np
import pytest

from features import jobs_from
from sim import simulate
from tests.golden.make_golden import CASES, SLICES, read, trace_slice


@pytest.mark.parametrize("name", SLICES)
def test_a_slice_of_the_generated_trace_is_scheduled_as_the_oracle_did(name: str) -> None:
    """Generator, cleaning and kernel together: every start, prediction and correction."""
    head, frozen = read(name)
    jobs, procs = trace_slice()
    assert int(head["machine"]) == procs
    policy = {key: head[key] for key in ("scheduler", "predictor", "correction", "semantics")}
    replayed = simulate(jobs, procs=procs, **policy).jobs
    for column in ("job_id", "submit_s", "runtime_s", "procs", "requested_s", "start_s", "predicted_s", "corrections"):
        assert replayed[column].tolist() == frozen[column].tolist(), column


@pytest.mark.parametrize("name", CASES)
def test_frozen_schedules_come_out_for_every_job(name: str) -> None:
    head, frozen = read(name)
    predictor = frozen[head["predictor"]] if head["predictor"] in frozen else head["predictor"]
    replayed = simulate(
        jobs_from(frozen[["job_id", "submit_s", "runtime_s", "procs", "requested_s", "user"]]),
        procs=int(head["machine"]),
        scheduler=head["scheduler"],
        predictor=predictor,
        correction=head["correction"],
    )
    for column in ("start_s", "predicted_s", "corrections"):
        np.testing.assert_array_equal(replayed.jobs[column], frozen[column], err_msg=column)
