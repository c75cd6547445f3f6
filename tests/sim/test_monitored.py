"""Start decisions on recorded counters know what runs in the replay, and ask no more than they say."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest

from sim import Schedule
from sim.monitored import Recorded, beside
from tests.support.workloads import Workload

LOAD = Workload(10, [0, 0, 5, 40, 300], [100, 500, 70, 50, 90], [4, 4, 4, 4, 10], [100, 500, 70, 50, 90], [None] * 5, [200] * 5)
PATIENT = "EASY+RUSH(patience=120,every=30)"


def replay(decision: Recorded) -> Schedule:
    return LOAD.schedule(PATIENT, decision, start_decision=decision)


def test_a_decision_that_never_waits_leaves_easy_and_sees_at_every_start_what_runs() -> None:
    seen: dict[int, set[int]] = {}

    def chance(row: int, now_s: int, running: Collection[int]) -> float:
        seen[row] = {*running}
        return 0.9

    replayed = replay(Recorded(chance, range(5), np.inf)).jobs
    assert replayed["start_s"].tolist() == LOAD.schedule("EASY", None).jobs["start_s"].tolist()
    start, end = replayed["start_s"].to_numpy(), replayed["end_s"].to_numpy()
    for row, running in seen.items():
        assert running == {*beside(start, end, row)}
    assert seen == {0: set(), 1: {0}, 2: {1}, 3: {1}, 4: set()}


def test_jobs_not_asked_about_start_at_once_and_others_wait_for_the_chance_or_their_patience() -> None:
    decision = Recorded(lambda row, now_s, running: {0: 0.5, 1: 0.4, 2: np.nan}[row], {0, 1, 2}, 0.5)
    starts = replay(decision).jobs["start_s"].tolist()
    assert starts[:3] == [125, 0, 5]
    assert [each[:2] for each in decision.answers if each[0] == 0] == [(0, 0), (0, 75)]  # and others run from 5 to 75 and to 125
    assert {row for row, *_ in decision.answers} == {0, 1, 2}


@pytest.mark.parametrize("cutoff", [0.0, 0.3])
def test_a_second_replay_begins_with_an_empty_machine(cutoff: float) -> None:
    decision = Recorded(lambda row, now_s, running: 0.1 * len(running), range(5), cutoff)
    first = replay(decision).jobs["start_s"].tolist()
    assert replay(decision).jobs["start_s"].tolist() == first
