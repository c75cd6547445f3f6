"""The oracle itself: against published schedules job by job, and against tiny cases worked out by hand.

The cases are for a machine of ten processors unless they say otherwise. A job is written (submit, runtime, processors) or
(submit, runtime, processors, requested); jobs are called A, B, C, ... in file order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import SHARED, needs_shared
from tests.golden.make_golden import CASES, by_oracle, read
from tests.oracle import scheduler as oracle
from tests.support.fresh import seeds
from tests.support.workloads import crowd

PROCS = {"kth-sp2": 100, "kth-sp2-per-second": 100, "sdsc-sp2": 128}


# Against published schedules


def replay(file: str, clairvoyant: bool = False, times_requested: int = 1, first: int | None = None, **policy: Any) -> pd.DataFrame:
    """The reference table of ``file`` (its first jobs alone, if so asked) with the oracle's start, predicted and corrections."""
    jobs = pd.read_parquet(SHARED / "schedules" / f"{file}.parquet")[:first]
    submit, runtime, procs, requested, user = (jobs[c].tolist() for c in ("submit", "runtime", "procs", "requested", "user"))
    estimates = runtime if clairvoyant else [times_requested * request for request in requested]
    result = oracle.simulate(submit, runtime, procs, requested, PROCS[file], estimates=estimates, user=user, **policy)
    return jobs.assign(start=result[0], predicted=result[1], corrections=result[2])


def mean_bounded_slowdown(jobs: pd.DataFrame) -> float:
    response = jobs["start"] + jobs["runtime"] - jobs["submit"]
    return float((response / jobs["runtime"].clip(lower=10)).clip(lower=1).mean())


@needs_shared
@pytest.mark.parametrize(
    ("column", "policy", "published"),
    [
        ("start_list_fcfs", {"algorithm": "List"}, 71.4535),
        ("start_easy_requested", {}, 92.6877),
        ("start_sjbf_requested", {"backfill": "SPF"}, 69.3936),
    ],
)
def test_per_second_schedules_of_kth_sp2_come_out_for_every_job(column: str, policy: dict, published: float) -> None:
    jobs = replay("kth-sp2-per-second", **policy)
    assert (jobs["start"] == jobs[column]).all()
    assert mean_bounded_slowdown(jobs) == pytest.approx(published, abs=5e-5)


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize(("trace", "published"), [("kth-sp2", 71.7224), ("sdsc-sp2", 70.4779)])
def test_per_second_easy_with_exact_runtimes_comes_out_for_every_job(trace: str, published: float) -> None:
    jobs = replay(trace, clairvoyant=True)
    assert (jobs["start"] == jobs["start_easy_clairvoyant"]).all()
    assert mean_bounded_slowdown(jobs) == pytest.approx(published, abs=5e-5)


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize(
    ("trace", "name", "policy"),
    [
        ("kth-sp2", "easy_requested", {}),
        ("kth-sp2", "easy_clairvoyant", {"clairvoyant": True}),
        ("kth-sp2", "sjbf_clairvoyant", {"backfill": "SPF", "clairvoyant": True}),
        ("kth-sp2", "sjbf_last2_tsafrir", {"backfill": "SPF", "predictor": "last2", "correction": "tsafrir"}),
        ("sdsc-sp2", "sjbf_last2_tsafrir", {"backfill": "SPF", "predictor": "last2", "correction": "tsafrir"}),
    ],
)
def test_per_event_schedules_come_out_for_every_job(trace: str, name: str, policy: dict) -> None:
    jobs = replay(trace, semantics="per-event", **policy)
    assert (jobs["start"] == jobs[f"start_{name}"]).all()
    if f"predicted_{name}" in jobs:
        assert (jobs["predicted"] == jobs[f"predicted_{name}"]).all()
        assert (jobs["corrections"] == jobs[f"corrections_{name}"]).all()


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize(
    ("scheduler", "prediction", "correction"),
    [
        ("EASY", "2x requested", "none"),
        ("EASY", "last2", "requested"),
        ("EASY-SJBF", "last2", "requested"),
        ("EASY-SJBF", "last2", "doubling"),
    ],
)
def test_published_means_of_kth_sp2_per_event_are_reproduced(scheduler: str, prediction: str, correction: str) -> None:
    published = pd.read_csv(SHARED / "reference" / "sc15_published.csv", index_col=[0, 1, 2, 3])["mean_bounded_slowdown"]
    jobs = replay(
        "kth-sp2",
        times_requested=2 if prediction == "2x requested" else 1,
        predictor="last2" if prediction == "last2" else None,
        correction="requested" if correction == "none" else correction,
        backfill="SPF" if scheduler == "EASY-SJBF" else "FCFS",
        semantics="per-event",
    )
    assert mean_bounded_slowdown(jobs) == pytest.approx(published["kth-sp2", scheduler, prediction, correction], rel=1e-13)


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize(
    ("first", "column", "policy"),
    [
        (10_000, "start_strict_fcfs", {"algorithm": "Strict"}),
        (2000, "start_justbf_requested", {"algorithm": "JustBF"}),
        (2000, "start_saf_justbf_requested", {"algorithm": "JustBF", "order": "SAF"}),
        (2000, "start_saf_justbf_clairvoyant", {"algorithm": "JustBF", "order": "SAF", "clairvoyant": True}),
    ],
)
def test_the_slow_algorithms_come_out_on_the_first_jobs_of_kth_sp2(first: int, column: str, policy: dict) -> None:
    """What starts before the first job left out is submitted cannot depend on it."""
    jobs = replay("kth-sp2-per-second", first=first, **policy)
    left_out = pd.read_parquet(SHARED / "schedules" / "kth-sp2-per-second.parquet")["submit"][first]
    assert (jobs["start"] < left_out).sum() > 0.9 * first
    np.testing.assert_array_equal(np.minimum(jobs["start"], left_out), np.minimum(jobs[column], left_out))


# Against its own frozen schedules


@pytest.mark.parametrize("name", CASES)
def test_the_frozen_schedules_still_come_out(name: str) -> None:
    head, frozen = read(name)
    jobs = frozen.drop(columns=["start_s", "predicted_s", "corrections"])
    pd.testing.assert_frame_equal(by_oracle(jobs, int(head["machine"]), CASES[name][4], head["predictor"]), frozen)


# By hand


def run(*jobs: tuple[int, ...], machine: int = 10, **policy: Any) -> tuple[list[int], list[int], list[int]]:
    rows = [job if len(job) == 4 else (*job, job[1]) for job in jobs]
    submit, runtime, procs, requested = (list(column) for column in zip(*rows, strict=True))
    return oracle.simulate(submit, runtime, procs, requested, machine, **policy)


def starts(*jobs: tuple[int, ...], machine: int = 10, **policy: Any) -> list[int]:
    return run(*jobs, machine=machine, **policy)[0]


def test_an_empty_trace_has_an_empty_schedule_and_one_job_starts_when_submitted() -> None:
    assert oracle.simulate([], [], [], [], 10) == ([], [], [])
    assert starts((7, 5, 10)) == [7]


@pytest.mark.parametrize("semantics", ["per-second", "per-event"])
class TestEasy:
    def test_a_backfilled_job_may_end_exactly_at_the_shadow_time(self, semantics: str) -> None:
        # A holds 6 until 10; B needs all: shadow 10, nothing extra. C would end at 2+8 = 10: starts. Then B 10-15.
        assert starts((0, 10, 6), (1, 5, 10), (2, 8, 4), semantics=semantics) == [0, 10, 2]
        # One second longer and it would delay B: it waits for B's end.
        assert starts((0, 10, 6), (1, 5, 10), (2, 9, 4), semantics=semantics) == [0, 10, 15]

    def test_estimates_decide_not_runtimes(self, semantics: str) -> None:
        # C would run 8 seconds but asks for 9: predicted to end at 11, after the shadow time 10.
        assert starts((0, 10, 6), (1, 5, 10), (2, 8, 4, 9), semantics=semantics) == [0, 10, 15]

    def test_all_jobs_predicted_to_end_at_the_shadow_time_count_towards_the_extra_processors(self, semantics: str) -> None:
        # A (3) and B (4) both end at 10, 3 are free. C needs 5: shadow 10, where 10 are free, 5 of them extra.
        # D needs 3, far beyond the shadow time: 3 <= 5, starts. (With A's end alone 6 would be free, 1 extra: D would wait.)
        assert starts((0, 10, 3), (0, 10, 4), (1, 5, 5), (2, 20, 3), semantics=semantics) == [0, 0, 10, 2]

    def test_jobs_that_outlast_the_shadow_time_use_up_the_extra_processors(self, semantics: str) -> None:
        # A holds 7 until 10, 3 are free; B needs 8: shadow 10, 2 extra. C and D take one extra each and run until 22.
        # E finds a free processor but none extra. At 10 B takes 8, 0 are left; B ends at 15: E.
        jobs = [(0, 10, 7), (1, 5, 8), (2, 20, 1), (2, 20, 1), (2, 20, 1)]
        assert starts(*jobs, semantics=semantics) == [0, 10, 2, 2, 15]

    def test_jobs_that_end_by_the_shadow_time_leave_the_extra_processors_alone(self, semantics: str) -> None:
        # As before, but C ends at 10 = shadow time: both extra processors are there for D and E.
        jobs = [(0, 10, 7), (1, 5, 8), (2, 8, 1), (2, 20, 1), (2, 20, 1)]
        assert starts(*jobs, semantics=semantics) == [0, 10, 2, 2, 2]

    def test_an_early_end_starts_the_head_at_once(self, semantics: str) -> None:
        # A asked for 10 seconds and runs 4; B was reserved for 10 and starts at 4.
        assert starts((0, 4, 10, 10), (1, 5, 10), semantics=semantics) == [0, 4]

    def test_a_job_started_in_the_same_pass_counts_towards_the_shadow_time(self, semantics: str) -> None:
        # At 10 A ends and B starts (until 20) on 6; C needs all: shadow 20. D would end at 10+10 = 20: starts. C 20.
        jobs = [(0, 10, 10), (1, 10, 6), (2, 5, 10), (3, 10, 4)]
        assert starts(*jobs, semantics=semantics) == [0, 10, 20, 10]

    def test_only_the_first_blocked_job_is_protected(self, semantics: str) -> None:
        # A holds 6 until 10. B needs 5: shadow 10, 5 extra. C needs all and has no reservation. D needs 4 until 33: within
        # the extra ones, starts at 3. B 10-20. C must wait for D: 33.
        jobs = [(0, 10, 6), (1, 10, 5), (2, 10, 10), (3, 30, 4)]
        assert starts(*jobs, semantics=semantics) == [0, 10, 33, 3]

    def test_a_second_reservation_protects_the_second_blocked_job(self, semantics: str) -> None:
        # As before, but C is reserved for 20, after B: D would be in its way until 30, the end of C.
        jobs = [(0, 10, 6), (1, 10, 5), (2, 10, 10), (3, 30, 4)]
        assert starts(*jobs, reservations=2, semantics=semantics) == [0, 10, 20, 30]
        # E (4 processors for 5 seconds) fits into the hole before C under two reservations: 4 + 5 <= 20.
        assert starts(*jobs, (4, 5, 4), reservations=2, semantics=semantics) == [0, 10, 20, 30, 4]

    def test_the_backfill_order_decides_who_gets_the_hole(self, semantics: str) -> None:
        # A (6) runs until 10, B (4) until 2; C needs all: shadow 10. At 2 both D (8 s) and E (3 s) would end by 10 and only one
        # fits. FCFS: D 2-10, E after C at 20. SPF: E 2-5, then D would end at 13: after C.
        jobs = [(0, 10, 6), (0, 2, 4), (1, 10, 10), (1, 8, 4), (1, 3, 4)]
        assert starts(*jobs, semantics=semantics) == [0, 0, 10, 2, 20]
        assert starts(*jobs, backfill="SPF", semantics=semantics) == [0, 0, 10, 20, 2]

    def test_a_job_that_outlives_its_estimate_is_believed_to_run_for_its_request(self, semantics: str) -> None:
        # A runs 10 of 20 requested seconds and is estimated at 5. B needs all; C (4 s on 4) would end at 6 > 5: waits.
        # At 7 D (1 s on 1) comes: A is now believed to end at 20, so C would end at 11, in time: starts; A and C leave nothing
        # for D. At 10 A ends; B is reserved for 11, C's end, and D would end at 11: starts. B 11-16.
        jobs = [(0, 10, 6, 20), (1, 5, 10), (2, 4, 4), (7, 1, 1)]
        result = run(*jobs, estimates=[5, 5, 4, 1], semantics=semantics)
        assert result == ([0, 11, 7, 10], [5, 5, 4, 1], [1, 0, 0, 0])

    def test_an_expired_estimate_causes_no_pass_by_itself(self, semantics: str) -> None:
        # As before without D: nothing happens between 2 and 10, though from 5 on C could have been backfilled. B 10-15, C 15.
        result = run((0, 10, 6, 20), (1, 5, 10), (2, 4, 4), estimates=[5, 5, 4], semantics=semantics)
        assert result == ([0, 10, 15], [5, 5, 4], [1, 0, 0])

    def test_an_estimate_that_expires_exactly_at_the_end_is_no_correction(self, semantics: str) -> None:
        assert run((0, 10, 6, 20), (0, 10, 4, 20), estimates=[10, 9], semantics=semantics)[2] == [0, 1]

    def test_same_second_submissions_keep_file_order(self, semantics: str) -> None:
        # A, B and C each need more than half. First come is first in the file, also among equal estimates.
        jobs = [(0, 5, 6), (0, 5, 7), (0, 5, 8)]
        assert starts(*jobs, semantics=semantics) == [0, 5, 10]
        for order in ("SPF", "LPF", "LCFS"):
            assert starts(*jobs, order=order, semantics=semantics) == [0, 5, 10]


def test_strict_lets_nobody_pass() -> None:
    # B (6) waits for A (6) until 10. C would fit at 2 all along and waits behind B.
    assert starts((0, 10, 6), (1, 10, 6), (2, 1, 1), algorithm="Strict") == [0, 10, 10]


def test_list_starts_whatever_fits_and_lets_wide_jobs_wait() -> None:
    # B needs all at once. C (4) fits beside A until 22: B waits for it.
    assert starts((0, 10, 6), (1, 10, 10), (2, 20, 4), algorithm="List") == [0, 22, 2]


def test_justbf_protects_every_job_planned_before() -> None:
    # B is planned for 10, C for 20; D (4 until 33) would be in C's way: 30. E ends at 9: in the hole at once.
    jobs = [(0, 10, 6), (1, 10, 5), (2, 10, 10), (3, 30, 4), (4, 5, 4)]
    assert starts(*jobs, algorithm="JustBF") == [0, 10, 20, 30, 4]


def test_justbf_forgets_the_plan_at_every_pass() -> None:
    # A (asked 10, runs 4) keeps B planned for 10, C for 15. At 4 all is planned anew: B at 4, C at 9.
    assert starts((0, 4, 10, 10), (1, 5, 10), (2, 5, 10), algorithm="JustBF") == [0, 4, 9]


def test_conservative_keeps_the_reservation_made_on_arrival() -> None:
    # A holds all, predicted until 10; B (6) is planned for 10-15, C (5) for 15, D (4) beside B for 10. A ends at 4: all six seconds earlier.
    jobs = [(0, 4, 10, 10), (1, 5, 6), (2, 5, 5), (3, 5, 4)]
    assert starts(*jobs, algorithm="Conservative") == [0, 4, 9, 4]
    # SAF-JustBF would plan anew by area and serve D (20), C (25), then B (30); Conservative keeps B, D, C.
    assert starts(*jobs, algorithm="JustBF", order="SAF") == [0, 9, 4, 4]


def test_conservative_compresses_in_order_of_planned_starts() -> None:
    # A (6) runs until 4, asked until 10. B (10) is planned for 10-12, C (4, 20 s) for 12, D (4, 8 s) fits the hole until 10: at 2. At 4, A
    # gone: B must wait for D (10); C (planned for 12) cannot pass B: 12. E (6, 6 s; planned for 12 beside C) takes the hole 4-10.
    jobs = [(0, 4, 6, 10), (1, 2, 10), (1, 20, 4), (2, 8, 4), (3, 6, 6)]
    assert starts(*jobs, algorithm="Conservative") == [0, 10, 12, 2, 4]


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


def test_jobs_over_the_threshold_are_served_first_come_first() -> None:
    # At 10 B has waited 9 and C 8, both over 5: B first, though C is shorter; D (waited 1) after both, though shortest.
    jobs = [(0, 10, 10), (1, 9, 10), (2, 8, 10), (9, 1, 10)]
    assert starts(*jobs, order="SPF", starvation_s=5) == [0, 10, 19, 27]


def test_tsafrir_adds_more_and_more_to_the_first_estimate() -> None:
    # Estimate 10, runtime 400: 10, then 10+60 = 70, 10+300 = 310, 10+900 = 910.
    assert run((0, 400, 1, 1000), estimates=[10], correction="tsafrir")[2] == [3]
    assert run((0, 100, 1, 100), estimates=[10], correction="tsafrir")[2] == [2]  # 70, then the request and not 310
    # After 11 steps (the last adds 360,000) the request.
    assert run((0, 400_000, 1, 500_000), estimates=[10], correction="tsafrir")[2] == [12]


def test_doubling_doubles_the_last_estimate() -> None:
    # 10, 20, 40, 80, 160, 320, 640: six corrections to outlast 400.
    assert run((0, 400, 1, 1000), estimates=[10], correction="doubling")[2] == [6]
    # Exactly 320 needs five: it does not outlive 320. To the request is one step.
    assert run((0, 320, 1, 1000), estimates=[10], correction="doubling")[2] == [5]
    assert run((0, 400, 1, 1000), estimates=[10], correction="requested")[2] == [1]


def test_last2_is_the_mean_of_the_users_last_two_runtimes() -> None:
    # All start at once. u: A ends at 10 (10 s), B at 21 (21 s), D at 40 (15 s). v: C ends at 21 (1 s), E at 31 (5 s).
    jobs = [(0, 10, 1, 100), (0, 21, 1, 100), (20, 1, 1, 100), (25, 15, 1, 100), (26, 5, 1, 100), (50, 1, 1, 100)]
    # D at 25: A and B, floor(31/2) = 15. E at 26: C alone, its request. F of v at 50: C and E, 3; of u: B and D, 18.
    assert run(*jobs, user=list("uuvuvv"), predictor="last2")[1] == [100, 100, 100, 15, 100, 3]
    assert run(*jobs, user=list("uuvuvu"), predictor="last2")[1] == [100, 100, 100, 15, 100, 18]
    # At most the request.
    assert run((0, 10, 1, 100), (0, 20, 1, 100), (30, 1, 1, 12), user=list("uuu"), predictor="last2")[1] == [100, 100, 12]


def test_jobs_that_end_together_are_learnt_in_order_of_their_starts() -> None:
    # A runs 0-30, B 10-30, C 20-30; all end at 30, in this order: the last two are B (20 s) and C (10 s).
    jobs = [(0, 30, 1, 100), (10, 20, 1, 100), (20, 10, 1, 100), (31, 1, 1, 100)]
    assert run(*jobs, user=list("uuuu"), predictor="last2")[1] == [100, 100, 100, 15]


def test_last2_leaves_jobs_without_a_user_at_their_request() -> None:
    jobs = [(0, 1, 1, 100), (1, 1, 1, 100), (5, 1, 1, 100)]
    assert run(*jobs, user=[None] * 3, predictor="last2")[1] == [100, 100, 100]
    assert run(*jobs, user=["u"] * 3, predictor="last2")[1] == [100, 100, 1]


def test_an_end_is_learnt_before_the_submissions_of_its_second_per_second_and_after_them_per_event() -> None:
    jobs = [(0, 5, 1, 100), (0, 10, 1, 100), (10, 1, 1, 100)]
    assert run(*jobs, user=["u"] * 3, predictor="last2")[1] == [100, 100, 7]
    assert run(*jobs, user=["u"] * 3, predictor="last2", semantics="per-event")[1] == [100, 100, 100]


# Where the semantics differ


def test_a_second_of_submissions_is_ordered_as_a_whole_per_second_and_one_by_one_per_event() -> None:
    # A (8 s) and B (3 s) come together to an idle machine, shortest first; per-event A is alone when it comes.
    assert starts((0, 8, 6), (0, 3, 6), order="SPF") == [3, 0]
    assert starts((0, 8, 6), (0, 3, 6), order="SPF", semantics="per-event") == [0, 8]


def test_two_ends_in_a_second_make_one_pass_per_second_and_two_per_event() -> None:
    # A and B (5 each) end at 10, B asked for 20. C needs all, D 5 for 5 s. Per-second both are gone: C 10, D 15. Per-event A's
    # end comes first: B is believed to run until 20, D would end at 15: D 10-15, C 15.
    jobs = [(0, 10, 5), (0, 10, 5, 20), (1, 5, 10), (1, 5, 5)]
    assert starts(*jobs) == [0, 0, 10, 15]
    assert starts(*jobs, semantics="per-event") == [0, 0, 15, 10]


def test_per_event_a_job_predicted_to_end_now_is_gone_though_its_end_is_still_to_come() -> None:
    # As before, but B too is predicted to end at 10: at A's end the machine is empty for C.
    assert starts((0, 10, 5), (0, 10, 5), (1, 5, 10), (1, 5, 5), semantics="per-event") == [0, 0, 10, 15]


def test_per_event_a_submission_wakes_fcfs_easy_only_if_the_job_fits() -> None:
    # A (estimated 5, asked 20) runs 10 on 6; B needs all; C (4 s on 4) could be backfilled from 5 on, if asked. D comes at 7 and
    # needs all: FCFS-EASY is not woken and B starts at 10, C and then D after it. EASY-SJBF has no such gate: C 7, B 11, D 16.
    jobs = [(0, 10, 6, 20), (1, 5, 10), (2, 4, 4), (7, 1, 10)]
    policy: dict[str, Any] = {"estimates": [5, 5, 4, 1], "semantics": "per-event"}
    assert starts(*jobs, **policy) == [0, 10, 15, 19]
    assert starts(*jobs, backfill="SPF", **policy) == [0, 11, 7, 16]


# Two ways to say EASY


@pytest.mark.parametrize("seed", seeds(30))
def test_shadow_time_and_extra_processors_are_one_reservation_in_the_profile(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    load = crowd(np.random.default_rng(seed), size=60)
    policies = [{"order": order, "backfill": backfill} for order in ("FCFS", "SAF") for backfill in ("FCFS", "SPF")]
    by_shadow_time = [load.by_oracle(estimates=load.estimates, **policy) for policy in policies]
    monkeypatch.setitem(oracle.ALGORITHMS, "EASY", oracle.easy_reserving)
    assert [load.by_oracle(estimates=load.estimates, **policy) for policy in policies] == by_shadow_time


@pytest.mark.parametrize("seed", seeds(10))
def test_reservations_for_everybody_are_justbf(seed: int) -> None:
    load = crowd(np.random.default_rng(seed), size=60)
    assert load.by_oracle(reservations=60) == load.by_oracle(algorithm="JustBF")


# Standardised mixed policies


def test_standardised_features_count_in_standard_deviations_of_the_jobs_waiting() -> None:
    # At 10, behind A: B 2 processors 40 s, C 4 and 30 s, D 6 and 20 s; deviations 1.63 and 8.16. Raw, a weight of 1 on n and 0.5 on r is
    # 22, 19 and 16: D first; in deviations 1.22 + 2.45, 2.45 + 1.84 and 3.67 + 1.22 are 3.67, 4.29 and 4.90: B first.
    jobs = [(0, 10, 10), (1, 40, 2), (1, 30, 4), (1, 20, 6)]
    wide = [(submit, runtime, procs + 4) if submit else (submit, runtime, 10) for submit, runtime, procs in jobs]  # one at a time
    assert starts(*wide, algorithm="Strict", order=oracle.mixed(1, 0.5, 0)) == [0, 60, 30, 10]
    assert starts(*wide, algorithm="Strict", order=oracle.Standardised((1, 0.5, 0))) == [0, 10, 50, 80]


def test_a_standardised_feature_that_all_waiting_jobs_share_counts_as_nothing() -> None:
    # All ratios r/n are 1/3, which is no exact number: shared, they must not outweigh the estimates, shortest first.
    jobs = [(0, 10, 18), (1, 6, 18), (1, 4, 12), (1, 5, 15)]
    assert starts(*jobs, machine=18, algorithm="Strict", order=oracle.Standardised((0, 0.5, 0, 0.5, 0, 0))) == [0, 19, 10, 14]


def test_one_standardised_feature_alone_orders_as_it_does_raw() -> None:
    load = crowd(np.random.default_rng(3), size=60)
    same = {"order": oracle.Standardised((0, 1, 0)), "backfill": oracle.Standardised((0, 0.25, 0))}
    assert load.by_oracle(**same) == load.by_oracle(order="SPF", backfill="SPF")
