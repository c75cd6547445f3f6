"""A long simulation pauses to report how far it is, and goes on as if it had not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim import outcome
from sim.policy import Policy
from sim.simulation import simulate_policy
from tests.oracle.decisions import Whim
from tests.support.workloads import Moody, crowd


@pytest.mark.parametrize(
    ("policy", "decision"),
    [
        (Policy("JustBF"), None),
        (Policy("Conservative"), None),
        (Policy("EASY-SJBF", "last2", "tsafrir", "per-event"), None),
        (Policy("EASY", Moody(3), "conditional"), None),
        (Policy("EASY-SJBF", semantics="per-second(expiry=pass,every=30)", starvation_s=600), None),
        (Policy("SAF-EASY+RUSH(skips=2)"), Whim()),
        (Policy("EASY", dependencies=True), None),
    ],
    ids=lambda each: str(each.scheduler) if isinstance(each, Policy) else type(each).__name__,
)
def test_pauses_report_the_ended_jobs_and_change_nothing(policy: Policy, decision: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    load = crowd(np.random.default_rng(4))
    jobs = load.table().assign(preceding_job=np.where(np.arange(200) % 3, np.arange(200), 0))
    without = simulate_policy(jobs, policy, procs=load.machine, start_decision=decision)
    monkeypatch.setattr(outcome, "FIRST_LEG", 1)
    monkeypatch.setattr(outcome, "LEG_S", 0.0)  # a pause before each event
    reports: list[tuple[int, int]] = []
    paused = simulate_policy(
        jobs, policy, procs=load.machine, start_decision=decision, progress=lambda done, total: reports.append((done, total))
    )
    assert paused.jobs.equals(without.jobs)
    ended = [done for done, _ in reports]
    assert ended == sorted(ended)
    assert {total for _, total in reports} == {200}
    assert len(set(ended)) > 100


def test_an_interruption_ends_a_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python handles a signal where the kernel pauses; a report may raise, too."""
    load = crowd(np.random.default_rng(4))
    monkeypatch.setattr(outcome, "FIRST_LEG", 1)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate_policy(load.table(), Policy(), procs=load.machine, progress=interrupt)
