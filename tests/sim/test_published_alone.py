"""Published results that need no trace from outside: a frozen slice of the generated trace, and values from the papers themselves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from features import jobs_from
from sim import Schedule, evaluate, simulate
from tests.golden.make_golden import CASES, SLICES, frozen_slice, read, trace_slice
from tests.sim.metrics.test_schedule_metrics import schedule_of

MINUTE_S, HOUR_S = 60, 3600


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


def test_the_oracle_makes_the_slice_anew() -> None:
    head, table = frozen_slice("slice-easy-sjbf-last2-tsafrir")
    frozen_head, frozen = read("slice-easy-sjbf-last2-tsafrir")
    assert head == frozen_head
    pd.testing.assert_frame_equal(table, frozen, check_dtype=False)


def test_predictions_grow_by_the_published_steps() -> None:
    """Tsafrir, Etsion & Feitelson 2007, in the program of Gaussier et al. 2015: 1, 5, 15, 30 min, 1, 2, 5, 10, 20, 50, 100 h, the request."""
    steps = [MINUTE_S, 5 * MINUTE_S, 15 * MINUTE_S, 30 * MINUTE_S, *(hours * HOUR_S for hours in (1, 2, 5, 10, 20, 50, 100))]
    first = 600
    ends = [first, *(first + step for step in steps)]
    runtimes = [end + late for end in ends for late in (0, 1)]  # one ends with its prediction, one a second later
    frame = pd.DataFrame({"submit_s": 0, "runtime_s": runtimes, "procs": 1, "requested_s": 200 * HOUR_S, "user": "u"})
    replayed = simulate(jobs_from(frame), procs=len(frame), predictor=np.full(len(frame), first), correction="tsafrir")
    assert replayed.jobs["corrections"].tolist() == [count for number in range(12) for count in (number, number + 1)]


def schedule(*rows: tuple[int, int, int, int]) -> Schedule:
    """Submit, start, runtime and processors of each job, on ten processors."""
    return schedule_of(*zip(*((submit, start - submit, runtime, procs) for submit, start, runtime, procs in rows), strict=True))


# two orders of the same allocation, as on the slides of Goponenko et al. 2022: a long job and a short one, each on the whole machine
LONG_FIRST = ((0, 0, 100, 10), (0, 100, 20, 10))
SHORT_FIRST = ((0, 20, 100, 10), (0, 0, 20, 10))


def test_the_order_of_jobs_moves_slowdown_and_not_packing() -> None:
    """Goponenko et al. 2022: slowdown can be bought by starting small jobs first; with the same allocation AWF and P0SF stay."""
    long, short = evaluate(schedule(*LONG_FIRST)), evaluate(schedule(*SHORT_FIRST))
    assert (long["mean_slowdown"], short["mean_slowdown"]) == (pytest.approx((1 + 6) / 2), pytest.approx((1.2 + 1) / 2))
    assert long["utilization"] == short["utilization"] == 1.0
    # units of computation, not jobs: 1,000 and 200 processor-seconds end at 100 and 120, or at 120 and 20
    assert long["awf_s"] == pytest.approx((1000 * 100 + 200 * 120) / 1200)
    assert short["awf_s"] == pytest.approx((1000 * 120 + 200 * 20) / 1200)
    for each in (long, short):
        half = (10 * 100**2 + 10 * 20**2) / (2 * 1200)
        assert each["awf_s"] - half == pytest.approx(60.0)  # P0SF: work done evenly over 120 s is 60 s old on average, in any order


def test_p2sf_of_one_unbroken_allocation_is_three_quarters_of_its_length() -> None:
    """Goponenko et al. 2022, P^alpha SF = (a+1)/(a+2) sum n(F^(a+2)-Q^(a+2)) / sum n(F^(a+1)-Q^(a+1)): for one block, (a+1)/(a+2) F."""
    for rows in (LONG_FIRST, SHORT_FIRST, ((0, 0, 120, 10),)):
        assert evaluate(schedule(*rows))["p2sf_s"] == pytest.approx(3 / 4 * 120)
    late = evaluate(schedule((0, 40, 80, 10)))["p2sf_s"]
    assert late == pytest.approx(3 / 4 * (120**4 - 40**4) / (120**3 - 40**3))
