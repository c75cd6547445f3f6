"""What replaces a prediction that a job has outlived: the steps of Tsafrir et al. as Li & Zhang state them, and asking the predictor again.

Cases worked out by hand, told to the oracle and to the compiled simulator alike, then both on random workloads. The machine of the cases
has ten processors; a job is written (submit, runtime, processors, requested).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from features.errors import InputError
from models.runtime.protocol import END
from sim.semantics import SEMANTICS
from tests.support.workloads import (
    CONSERVATIVE,
    EASY_NAMES,
    Moody,
    Outcome,
    Told,
    Workload,
    by_kernel,
    by_oracle,
    crowd,
    schedulers,
    workloads,
)

SIMULATORS: dict[str, Callable[..., Outcome]] = {"oracle": by_oracle, "kernel": by_kernel}


@pytest.fixture(params=SIMULATORS)
def simulator(request: pytest.FixtureRequest) -> Callable[..., Outcome]:
    return SIMULATORS[request.param]


def workload(*jobs: tuple[int, int, int, int], estimates: list[int] | None = None, user: str | None = None) -> Workload:
    submit, runtime, procs, requested = (list(column) for column in zip(*jobs, strict=True))
    return Workload(10, submit, runtime, procs, requested, [user] * len(jobs), estimates or requested)


class Asked(Told):
    """Predicts ``first[job]`` at submission and ``again(elapsed)`` for a running job; remembers what it was asked for then."""

    name = "asked"

    def __init__(self, first: list[int], again: Callable[[int], float]) -> None:
        super().__init__(first, first, first)
        self._first, self._again = first, again
        self.asked: list[tuple[int, int, int, int]] = []

    def estimate(self, question: int, job: int, now_s: int, elapsed_s: int) -> float:
        if elapsed_s == 0:
            return self._first[job]
        self.asked.append((question, job, now_s, elapsed_s))
        return self._again(elapsed_s)


# Steps


@pytest.mark.parametrize(
    ("runtime", "requested", "corrections"),
    [
        (10, 10_000, 0),
        (11, 10_000, 1),  # 10 + 60 = 70
        (70, 10_000, 1),
        (71, 10_000, 2),  # 70 + 900 = 970
        (971, 10_000, 3),  # 970 + 1800 = 2770
        (2771, 10_000, 4),  # 2770 + 3600 = 6370
        (6371, 10_000, 5),  # 13570, more than the request: that
        (71, 900, 2),  # 970 is more than the request
        (50, 50, 1),  # and so is 70
    ],
)
def test_okcm_steps_add_a_minute_then_a_quarter_of_an_hour_and_twice_as_much_each_time(
    simulator: Callable, runtime: int, requested: int, corrections: int
) -> None:
    load = workload((5, runtime, 1, requested), estimates=[10])
    assert simulator(load, correction="tsafrir(steps=okcm)").corrections == [corrections]


def test_okcm_steps_are_counted_from_the_last_prediction_and_the_programs_from_the_first(simulator: Callable) -> None:
    # A (6) runs 400 of 5000 s, predicted 10, then 70; then 10 + 300 = 310 and 910, or 70 + 900 = 970. B needs all; C (4) comes at 350 for 600 s
    # and would end at 950: before 970, not before 910.
    load = workload((0, 400, 6, 5000), (1, 5, 10, 5), (350, 600, 4, 600), estimates=[10, 5, 600])
    assert simulator(load, correction="tsafrir(steps=okcm)").start == [0, 950, 350]
    assert simulator(load, correction="tsafrir").start == [0, 400, 405]


# The predictor asked again


@pytest.mark.parametrize("semantics", SEMANTICS)
class TestConditional:
    policy = {"correction": "conditional"}  # noqa: RUF012

    def test_the_predictor_is_asked_for_the_end_when_its_prediction_expires(self, simulator: Callable, semantics: str) -> None:
        # Start 100, predicted 5, then 5 more each time: asked at 105, 110 and 115, not at 117, its end. Nothing else happens meanwhile.
        source = Asked([5], lambda elapsed: elapsed + 5)
        made = simulator(workload((100, 17, 1, 50)), predictor=source, semantics=semantics, **self.policy)
        assert source.asked == [(END, 0, 105, 5), (END, 0, 110, 10), (END, 0, 115, 15)]
        assert (made.predicted, made.corrections, made.clamped) == ([5], [3], 0)

    def test_an_answer_is_a_total_runtime(self, simulator: Callable, semantics: str) -> None:
        # A (6) is predicted 5, and at 5 to take 12 in all (or 10). B needs all. At 7 C (4 s on 4) comes and would end at 11: by 12, not by 10.
        for answer, starts in [(12, [0, 11, 7]), (10, [0, 10, 15])]:
            load = workload((0, 10, 6, 20), (1, 5, 10, 5), (7, 4, 4, 4))
            source = Asked([5, 5, 4], lambda elapsed, answer=answer: answer)
            made = simulator(load, predictor=source, semantics=semantics, **self.policy)
            assert (made.start, made.corrections) == (starts, [1, 0, 0])

    @pytest.mark.parametrize(
        ("answer", "corrections", "clamped"),
        [
            (6, 2, 1),  # one second more; then 6 is not longer than 6: the request
            (5, 1, 1),  # nothing new: the request
            (3, 1, 1),
            (0, 1, 1),
            (-7, 1, 1),
            (20, 1, 0),  # the request itself
            (21, 1, 1),  # beyond the request: the request
            (1e18, 1, 1),
            (10, 1, 0),  # the truth
            (5.4, 1, 1),  # rounded to 5: nothing new
            (9.6, 1, 0),  # rounded to 10
            (20.3, 1, 0),  # rounded to the request
            (20.7, 1, 1),
        ],
    )
    def test_answers_that_are_not_longer_or_beyond_the_request_are_the_request_and_counted(
        self, simulator: Callable, semantics: str, answer: float, corrections: int, clamped: int
    ) -> None:
        # A as above; C would end at 11, D (14 s on 4) at 21: only with A believed to run until its request, 20, C starts, and never D.
        load = workload((0, 10, 6, 20), (1, 5, 10, 5), (7, 4, 4, 4), (7, 14, 4, 14))
        made = simulator(load, predictor=Asked([5, 5, 4, 14], lambda elapsed: answer), semantics=semantics, **self.policy)
        assert (made.corrections[0], made.clamped) == (corrections, clamped)
        assert made.start[2] == (15 if round(answer) == 10 else 7)

    def test_a_prediction_that_expires_exactly_at_the_end_is_not_asked_for_again(self, simulator: Callable, semantics: str) -> None:
        source = Asked([10], lambda elapsed: elapsed + 1)
        made = simulator(workload((0, 10, 6, 20)), predictor=source, semantics=semantics, **self.policy)
        assert (source.asked, made.corrections) == ([], [0])

    def test_a_correction_may_need_the_next_at_once(self, simulator: Callable, semantics: str) -> None:
        # Second by second, though nothing happens between 0 and 5, the end of A.
        source = Asked([1], lambda elapsed: elapsed + 1)
        made = simulator(workload((0, 5, 6, 20)), predictor=source, semantics=semantics, **self.policy)
        assert [elapsed for *_, elapsed in source.asked] == [1, 2, 3, 4]
        assert made.corrections == [4]

    @pytest.mark.parametrize("nonsense", [math.nan, math.inf, -math.inf, None, "5"])
    def test_an_answer_that_is_no_number_is_refused(self, semantics: str, nonsense: Any) -> None:
        source = Asked([5], lambda elapsed: nonsense)
        with pytest.raises(InputError, match=f"asked: predicts {nonsense!r} for job 1, not a number of seconds"):
            by_kernel(workload((0, 10, 6, 20)), predictor=source, semantics=semantics, **self.policy)

    @pytest.mark.parametrize(
        ("runtime", "corrections"),
        [
            (7, 2),  # A, B, then D: at 8 (4 + 7)/2 = 5 is longer than 3; at 10 the 5 are over and there is nothing new: the request
            (8, 1),  # D ends as C's prediction expires: not known yet, (2 + 4)/2 = 3 is not longer than 3: the request
        ],
    )
    def test_last2_answers_with_what_has_ended_since(
        self, simulator: Callable, semantics: str, runtime: int, corrections: int
    ) -> None:
        # One user. A and B take 2 and 4 s, so C, submitted at 5, is predicted 3, until 8. D runs since 0.
        load = workload((0, 2, 1, 100), (0, 4, 1, 100), (0, runtime, 1, 100), (5, 20, 1, 100), user="u")
        made = simulator(load, predictor="last2", semantics=semantics, **self.policy)
        assert (made.predicted, made.corrections) == ([100, 100, 100, 3], [0, 0, 0, corrections])
        assert made.clamped == 0

    def test_last2_rounds_down_and_is_capped_at_the_request(self, simulator: Callable, semantics: str) -> None:
        # Of one user, A 2 s, B 4 s; C from 5 on is predicted 3. D has ended at 7: (4 + 7)/2 rounded down is 5: E, at 9, would end at 10 for 1 s.
        load = workload((0, 2, 1, 100), (0, 4, 1, 100), (0, 7, 1, 100), (5, 5, 6, 100), (6, 5, 10, 5), (9, 1, 4, 1), user="u")
        made = simulator(load, predictor="last2", semantics=semantics, **self.policy)
        assert (made.predicted[3], made.corrections[3]) == (3, 1)  # 5 is what it takes
        capped = workload((0, 2, 1, 100), (0, 4, 1, 100), (0, 7, 1, 100), (5, 4, 6, 4), user="u")
        made = simulator(capped, predictor="last2", semantics=semantics, **self.policy)
        assert (made.predicted[3], made.corrections[3]) == (3, 1)

    def test_a_table_of_which_a_prediction_is_too_short_is_refused(self, semantics: str) -> None:
        load = workload((0, 10, 6, 20), (0, 10, 6, 20), estimates=[10, 9])
        with pytest.raises(InputError, match="conditional asks the predictor again"):
            by_kernel(load, semantics=semantics, **self.policy)

    @pytest.mark.parametrize("predictor", [None, "requested", "clairvoyant", "requested*2"])
    def test_a_table_that_is_never_too_short_is_never_asked(
        self, simulator: Callable, semantics: str, predictor: str | None
    ) -> None:
        load = workload((0, 10, 6, 20), (0, 10, 6, 20), estimates=[10, 20])
        made = simulator(load, predictor=predictor, semantics=semantics, **self.policy)
        assert (made.start, made.corrections) == ([0, 10], [0, 0])


# The oracle and the compiled simulator

semantics = st.sampled_from(SEMANTICS)
starvation = st.sampled_from([None, 0, 3, 50])


def agree(load: Workload, scheduler: str, predictor: Any = None, **policy: Any) -> Outcome:
    if scheduler == CONSERVATIVE and policy.get("starvation_s") is not None:
        reject()  # refused: there no job starves
    expected = by_oracle(load, scheduler, predictor, **policy)
    assert by_kernel(load, scheduler, predictor, **policy) == expected
    return expected


@pytest.mark.slow
@settings(max_examples=100)
@given(workloads(), schedulers, semantics)
def test_okcm_steps_on_any_small_workload(load: Workload, scheduler: str, semantics: str) -> None:
    agree(load, scheduler, semantics=semantics, correction="tsafrir(steps=okcm)")


@pytest.mark.slow
@settings(max_examples=75)
@given(workloads(most=50), schedulers, semantics, starvation)
def test_last2_asked_again_on_any_small_workload(load: Workload, scheduler: str, semantics: str, starvation_s: int | None) -> None:
    agree(load, scheduler, "last2", semantics=semantics, starvation_s=starvation_s, correction="conditional")


@pytest.mark.slow
@settings(max_examples=75)
@given(workloads(), schedulers, semantics, starvation, st.integers(0, 99))
def test_a_predictor_that_changes_its_mind_on_any_small_workload(
    load: Workload, scheduler: str, semantics: str, starvation_s: int | None, seed: int
) -> None:
    agree(load, scheduler, Moody(seed), semantics=semantics, starvation_s=starvation_s, correction="conditional")


@pytest.mark.slow
@settings(max_examples=100)
@given(workloads(), st.sampled_from(EASY_NAMES), st.integers(2, 4), semantics, st.integers(0, 99))
def test_several_reservations_under_a_predictor_that_changes_its_mind(
    load: Workload, scheduler: str, reservations: int, semantics: str, seed: int
) -> None:
    scheduler = scheduler.replace("EASY", f"EASY(reservations={reservations})")
    agree(load, scheduler, Moody(seed), semantics=semantics, correction="conditional")


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["FCFS-EASY", "FCFS-EASY-SPF", "SAF-JustBF", CONSERVATIVE, "LEXP-EASY-SPF", "FCFS-List"])
@pytest.mark.parametrize("semantics", SEMANTICS)
def test_crowds_are_asked_again_and_often(scheduler: str, semantics: str) -> None:
    load = crowd(np.random.default_rng(11), longest_s=3000)
    learnt = agree(load, scheduler, "last2", semantics=semantics, correction="conditional")
    moody = agree(load, scheduler, Moody(3), semantics=semantics, correction="conditional")
    assert max(learnt.corrections) > 1
    assert max(moody.corrections) > 2
    assert moody.clamped > 0


@pytest.mark.parametrize("correction", ["tsafrir(steps=okcm)", "conditional"])
def test_the_schedule_says_which_correction_was_used(correction: str) -> None:
    assert workload((0, 5, 1, 5)).schedule("EASY", "requested", correction=correction).correction == correction
