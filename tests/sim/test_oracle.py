"""The oracle itself: against published schedules job by job, and where these say nothing against tiny cases worked out by hand.

The cases are for a machine of ten processors unless they say otherwise. A job is written (submit, runtime, processors) or
(submit, runtime, processors, requested); jobs are called A, B, C, ... in file order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import SHARED, needs_shared
from tests.oracle import scheduler as oracle
from tests.support.fresh import seeds
from tests.support.workloads import crowd

PROCS = {"kth-sp2": 100, "kth-sp2-per-second": 100, "sdsc-sp2": 128}


# Against published schedules


def replay(file: str, first: int, clairvoyant: bool = False, **policy: Any) -> pd.DataFrame:
    """The first jobs of the reference table of ``file`` with the oracle's start, predicted and corrections."""
    jobs = pd.read_parquet(SHARED / "schedules" / f"{file}.parquet")[:first]
    submit, runtime, procs, requested, user = (jobs[c].tolist() for c in ("submit", "runtime", "procs", "requested", "user"))
    estimates = runtime if clairvoyant else requested
    result = oracle.simulate(submit, runtime, procs, requested, PROCS[file], estimates=estimates, user=user, **policy)
    return jobs.assign(start=result[0], predicted=result[1], corrections=result[2])


LEARNED = {"backfill": "SPF", "predictor": "last2", "correction": "tsafrir", "semantics": "per-event"}


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize(
    ("file", "name", "policy"),
    [
        ("kth-sp2-per-second", "strict_fcfs", {"algorithm": "Strict"}),
        ("kth-sp2-per-second", "list_fcfs", {"algorithm": "List"}),
        ("kth-sp2-per-second", "easy_requested", {}),
        ("kth-sp2-per-second", "sjbf_requested", {"backfill": "SPF"}),
        ("kth-sp2-per-second", "justbf_requested", {"algorithm": "JustBF"}),
        ("kth-sp2-per-second", "saf_justbf_requested", {"algorithm": "JustBF", "order": "SAF"}),
        ("kth-sp2-per-second", "saf_justbf_clairvoyant", {"algorithm": "JustBF", "order": "SAF", "clairvoyant": True}),
        ("kth-sp2", "easy_requested", {"semantics": "per-event"}),
        ("kth-sp2", "easy_clairvoyant", {"semantics": "per-event", "clairvoyant": True}),
        ("kth-sp2", "sjbf_clairvoyant", {"semantics": "per-event", "backfill": "SPF", "clairvoyant": True}),
        ("kth-sp2", "sjbf_last2_tsafrir", LEARNED),
        ("sdsc-sp2", "easy_clairvoyant", {"clairvoyant": True}),
        ("sdsc-sp2", "sjbf_last2_tsafrir", LEARNED),
    ],
)
def test_published_schedules_come_out_on_the_first_jobs(file: str, name: str, policy: dict) -> None:
    """What starts before the first job left out is submitted cannot depend on it; the compiled simulator makes the whole of them."""
    first = 1000
    jobs = replay(file, first, **policy)
    left_out = pd.read_parquet(SHARED / "schedules" / f"{file}.parquet")["submit"][first]
    before = jobs["start"] < left_out
    assert before.sum() > 0.9 * first
    np.testing.assert_array_equal(before, jobs[f"start_{name}"] < left_out)
    for column in ("start", "predicted", "corrections"):
        if f"{column}_{name}" in jobs:
            np.testing.assert_array_equal(jobs[column][before], jobs[f"{column}_{name}"][before])


# By hand


def run(*jobs: tuple[int, ...], machine: int = 10, **policy: Any) -> tuple[list[int], list[int], list[int]]:
    rows = [job if len(job) == 4 else (*job, job[1]) for job in jobs]
    submit, runtime, procs, requested = (list(column) for column in zip(*rows, strict=True))
    return oracle.simulate(submit, runtime, procs, requested, machine, **policy)


def starts(*jobs: tuple[int, ...], machine: int = 10, **policy: Any) -> list[int]:
    return run(*jobs, machine=machine, **policy)[0]


@pytest.mark.parametrize("semantics", ["per-second", "per-event"])
def test_a_second_reservation_protects_the_second_blocked_job(semantics: str) -> None:
    # A holds 6 until 10. B needs 5 and is reserved for 10, C needs all and is reserved for 20: D (4 until 33) would be in its way until 30.
    jobs = [(0, 10, 6), (1, 10, 5), (2, 10, 10), (3, 30, 4)]
    assert starts(*jobs, semantics=semantics) == [0, 10, 33, 3]
    assert starts(*jobs, reservations=2, semantics=semantics) == [0, 10, 20, 30]
    # E (4 processors for 5 seconds) fits into the hole before C under two reservations: 4 + 5 <= 20.
    assert starts(*jobs, (4, 5, 4), reservations=2, semantics=semantics) == [0, 10, 20, 30, 4]


def test_conservative_keeps_the_reservation_made_on_arrival() -> None:
    # A holds all, predicted until 10; B (6) is planned for 10-15, C (5) for 15, D (4) beside B for 10. A ends at 4: all six seconds earlier.
    jobs = [(0, 4, 10, 10), (1, 5, 6), (2, 5, 5), (3, 5, 4)]
    assert starts(*jobs, algorithm="Conservative") == [0, 4, 9, 4]
    # SAF-JustBF would plan anew by area and serve D (20), C (25), then B (30); Conservative keeps B, D, C.
    assert starts(*jobs, algorithm="JustBF", order="SAF") == [0, 9, 4, 4]


@pytest.mark.parametrize(
    ("order", "served"),
    [
        # B 6 s on 9: area 54, ratio 0.667; C 4 s on 8: 32, 0.5; D 5 s on 6: 30, 0.833; E 7 s on 7: 49, 1.0.
        ("FCFS", "BCDE"),
        ("LCFS", "EDCB"),
        ("SPF", "CDBE"),
        ("LPF", "EBDC"),
        ("SQF", "DECB"),
        ("LQF", "BCED"),
        ("SAF", "DCEB"),
        ("LAF", "BECD"),
        ("SRF", "CBDE"),
        ("LRF", "EDBC"),
        # Expansions (wait + estimate)/estimate at 10: B 15/6, C 12/4, D 12/5, E 13/7: E first. At 17: B 22/6, C 19/4, D 19/5: B.
        # At 23: C 25/4, D 25/5: D.
        ("SEXP", "EBDC"),
        # Largest first: C at 10. At 14: B 19/6, D 16/5, E 17/7: D. At 19: B 24/6, E 22/7: B.
        ("LEXP", "CDBE"),
    ],
)
def test_orders_serve_as_they_are_named(order: str, served: str) -> None:
    # A holds the machine until 10; no two of the others fit at once, so the starts show the order.
    jobs = [(0, 10, 10), (1, 6, 9), (2, 4, 8), (3, 5, 6), (4, 7, 7)]
    start = dict(zip("ABCDE", starts(*jobs, order=order, algorithm="Strict"), strict=True))
    assert "".join(sorted("BCDE", key=lambda name: start[name])) == served


def test_a_job_that_waited_longer_than_the_threshold_goes_to_the_head() -> None:
    # SPF serves C (10 s) at 10. At 20 B has waited 19 and D (5 s) is shorter: D first, unless B is over the threshold.
    jobs = [(0, 10, 10), (1, 20, 10), (2, 10, 10), (12, 5, 10)]
    assert starts(*jobs, order="SPF") == [0, 25, 10, 20]
    assert starts(*jobs, order="SPF", starvation_s=18) == [0, 20, 10, 40]
    assert starts(*jobs, order="SPF", starvation_s=19) == [0, 25, 10, 20]


@pytest.mark.parametrize("seed", seeds(4))
def test_reservations_for_everybody_are_justbf(seed: int) -> None:
    load = crowd(np.random.default_rng(seed), size=60)
    assert load.by_oracle(reservations=60) == load.by_oracle(algorithm="JustBF")
