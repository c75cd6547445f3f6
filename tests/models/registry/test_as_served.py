"""Predictions as served: nothing that ended after the night is known, and which jobs judge them."""

from __future__ import annotations

import numpy as np
import pytest

from features.clock import DAY_S
from models.packed.methods import Last2, Requested
from models.registry.as_served import judged_window, predict_served
from models.registry.candidates import TRAINERS, accounting
from models.registry.promotion import FEWEST_JOBS, JUDGED_DAYS
from tests.support.learning import ORIGIN_S, ZONE, workload


@pytest.fixture(scope="module")
def records():
    jobs, start = workload(1500, weeks=3)
    return accounting(jobs, start, ORIGIN_S, ZONE)


def some(records, days=2):
    instants = [records.until_s - number * DAY_S for number in range(days, 0, -1)]
    return np.flatnonzero(records.jobs["submit_s"].to_numpy() >= instants[0]), instants


@pytest.mark.slow
def test_no_model_and_no_history_knows_what_ended_after_the_night(records):
    rows, instants = some(records)
    before = predict_served(records, rows, instants)
    late = records.end_s > instants[0]
    # what ends after the first night ends at another time, but after that night still
    runtime = records.jobs["runtime_s"].to_numpy().copy()
    least = np.maximum(instants[0] + 1 - records.start_s, 1)
    runtime[late] = np.maximum(runtime[late] // 3, least[late])
    jobs = records.jobs.assign(runtime_s=runtime, requested_s=np.maximum(records.jobs["requested_s"], runtime))
    other = predict_served(accounting(jobs, records.start_s, ORIGIN_S, ZONE), rows, instants)
    assert (runtime != records.jobs["runtime_s"]).sum() > 100
    first = before["at_s"] == instants[0]
    same = first & (jobs["requested_s"].to_numpy()[rows] == records.jobs["requested_s"].to_numpy()[rows])
    assert same.sum() > 30
    for name in TRAINERS:
        np.testing.assert_array_equal(before.loc[same, name], other.loc[same, name])
    assert (before.loc[~first, "last2"] != other.loc[~first, "last2"]).any()  # later nights do know


def test_last2_as_served_is_the_mean_of_the_last_two_that_had_ended_by_the_night(records):
    rows, instants = some(records, days=4)
    served = predict_served(records, rows, instants, names=("last2",))
    user, runtime, requested = (records.jobs[name].to_numpy() for name in ("user", "runtime_s", "requested_s"))
    for place, row in enumerate(rows):
        at = max(instant for instant in instants if instant <= records.jobs["submit_s"].iloc[row])
        ended = [j for j in range(len(user)) if user[j] == user[row] and records.end_s[j] <= at]
        ended.sort(key=lambda j: (records.end_s[j], records.start_s[j], j))
        last = [runtime[j] for j in ended[-2:]]
        expected = min(sum(last) // 2, requested[row]) if len(last) == 2 else requested[row]
        assert served["last2"].iloc[place] == expected
        assert served["at_s"].iloc[place] == at


def test_the_champion_answers_what_it_served(records):
    rows, instants = some(records, days=4)

    def champion(at_s, asked):
        if at_s == instants[1]:
            yield records.jobs["procs"].to_numpy()[asked] > 4, "7", Requested()
            yield records.jobs["procs"].to_numpy()[asked] <= 4, "8", Last2()

    served = predict_served(records, rows, instants, names=("last2",), champion=champion)
    second = served["at_s"] == instants[1]
    wide = records.jobs["procs"].to_numpy()[rows] > 4
    assert served.loc[~second, "champion"].isna().all()
    assert (served.loc[second & wide, "champion"] == served.loc[second & wide, "requested"]).all()
    assert (served.loc[second & ~wide, "champion"] == served.loc[second & ~wide, "last2"]).all()
    assert set(served.loc[second & wide, "champion_version"]) == {"7"}


def test_before_anything_has_ended_the_request_answers(records):
    rows = np.arange(5)
    served = predict_served(records, rows, [int(records.jobs["submit_s"].iloc[0])])
    for name in TRAINERS:
        assert (served[name] == served["requested"]).all()


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
