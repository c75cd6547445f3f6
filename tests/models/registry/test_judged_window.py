"""Which jobs judge: counted back from the last submission, so that a long job at the tail, or a silence, leaves jobs to judge by."""

from __future__ import annotations

import numpy as np
import pytest

from features.clock import DAY_S
from models.registry.as_served import judged_window
from models.registry.promotion import FEWEST_JOBS, JUDGED_DAYS


def test_the_window_counts_back_from_the_last_submission() -> None:
    submit = np.arange(0, 60 * DAY_S, 3600)
    end = submit + 600
    end[-1] += 90 * DAY_S
    window = judged_window(submit, end)
    assert window.last_s == submit[-1]
    assert window.since_s == submit[-1] - JUDGED_DAYS * DAY_S
    assert window.jobs(end).sum() == JUDGED_DAYS * 24 + 1
    assert window.nights[-1] == submit[-1] - DAY_S
    assert window.nights[0] <= window.first_s <= window.since_s


def test_after_a_silence_the_window_reaches_back_to_enough_jobs() -> None:
    submit = np.sort(np.concatenate([np.arange(0, 30 * DAY_S, 3600), [300 * DAY_S, 301 * DAY_S]]))
    end = submit + 600
    window = judged_window(submit, end)
    inside = window.jobs(end) & (submit >= window.nights[0])
    assert inside.sum() == FEWEST_JOBS


@pytest.mark.parametrize("runtime_s", [1, 400 * DAY_S])
def test_few_jobs_all_judge(runtime_s: int) -> None:
    submit = np.array([5, 7 * DAY_S])
    window = judged_window(submit, submit + runtime_s)
    assert window.jobs(submit + runtime_s).all()
    assert window.nights[0] <= 5
