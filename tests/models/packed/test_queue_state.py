"""States of a queue: against a description in plain Python, and blind to what comes later."""

import numpy as np
import pytest

from models.packed.queue_state import FEATURES, NOT_YET, QueueJobs, by_priority, states

_BY_RANK = ("ahead", "queue_ahead", "account_ahead", "oldest_s", "oldest_width")


def some_jobs(seed: int, count: int = 40) -> QueueJobs:
    """Return jobs of a few users on a machine of 16 processors, which may overlap in any way."""
    draw = np.random.default_rng(seed)
    submit = np.sort(draw.integers(0, 4000, count))
    start = submit + draw.integers(0, 1500, count) * draw.integers(0, 2, count)
    requested = draw.integers(60, 2000, count)
    end = start + np.minimum(draw.integers(30, 2000, count), requested)
    runtimes = np.sort(draw.integers(1, 2000, (count, 5)), axis=1)
    quantiles = np.minimum(runtimes, requested[:, None])
    user, queue, account = (draw.integers(0, most, count) for most in (3, 2, 2))
    return QueueJobs(submit, start, end, draw.integers(1, 9, count), requested, user, queue, account, quantiles)


def left(jobs: QueueJobs, job: int, ran: int) -> int:
    """Return the median of what is left of a runtime."""
    more = [each for each in jobs.quantiles[job] if each > ran]
    return (
        max(more[(len(more) - 1) // 2 if len(more) % 2 else len(more) // 2 - 1] - ran, 1)
        if more
        else max(jobs.requested[job] - ran, 1)
    )


def described(jobs: QueueJobs, job: int, now: int, procs: int) -> dict[str, float]:
    """Describe the state that ``job`` finds at ``now``, from lists."""
    everyone = [each for each in range(len(jobs.submit)) if jobs.submit[each] < now or (jobs.submit[each] == now and each <= job)]
    runs = [each for each in everyone if jobs.start[each] < now < jobs.end[each]]
    waits = [each for each in everyone if jobs.start[each] >= now and each != job]
    width, alike = jobs.procs[job], lambda each: jobs.procs[each] <= 2 * jobs.procs[job] <= 4 * jobs.procs[each]
    free = procs - sum(jobs.procs[each] for each in runs)

    def area(of: list[int]) -> float:
        return sum(jobs.procs[each] * left(jobs, each, 0) for each in of) / procs

    def share(of: list[int]) -> float:
        return sum(jobs.procs[each] for each in of) / procs

    def mean_wait(of: list[int]) -> float:
        return float(np.mean([jobs.start[each] - jobs.submit[each] for each in of])) if of else -1.0

    def oldest(of: list[int]) -> float:
        return max((now - jobs.submit[each] for each in of), default=-1)

    def fits(ends: list[tuple[int, int]]) -> int:
        there, when = free, 0
        for end, wide in sorted(ends):
            if there >= width:
                break
            there, when = there + wide, end
        return when

    ahead = [each for each in waits if each < job]
    narrow = [each for each in waits if jobs.procs[each] <= width]
    short = [each for each in waits if jobs.requested[each] <= jobs.requested[job]]
    same = {name: [each for each in waits if column[each] == column[job]] for name, column in (("q", jobs.queue), ("u", jobs.user))}
    own = {name: [each for each in runs if column[each] == column[job]] for name, column in (("q", jobs.queue), ("u", jobs.user))}
    by_request = [(max(jobs.requested[each] - (now - jobs.start[each]), 1), jobs.procs[each]) for each in runs]
    by_prediction = [(left(jobs, each, now - jobs.start[each]), jobs.procs[each]) for each in runs]
    first = min(waits, default=None)
    return {
        "width": width / procs,
        "log_requested": np.log(jobs.requested[job]),
        "log_predicted": np.log(left(jobs, job, 0)),
        "elapsed_s": now - jobs.submit[job],
        "free": free / procs,
        "spare": (free - width) / procs,
        "running": len(runs),
        "running_requested": sum(end * wide for end, wide in by_request) / procs,
        "running_predicted": sum(end * wide for end, wide in by_prediction) / procs,
        "waiting": len(waits),
        "waiting_procs": share(waits),
        "waiting_requested": sum(jobs.procs[each] * jobs.requested[each] for each in waits) / procs,
        "waiting_predicted": area(waits),
        "ahead": len(ahead),
        "ahead_predicted": area(ahead),
        "ahead_no_wider": len([each for each in ahead if each in narrow]),
        "no_wider": len(narrow),
        "no_wider_predicted": area(narrow),
        "no_longer": len(short),
        "no_longer_predicted": area(short),
        "queue_waiting": len(same["q"]),
        "queue_predicted": area(same["q"]),
        "queue_running": share(own["q"]),
        "user_waiting": len(same["u"]),
        "user_predicted": area(same["u"]),
        "user_running": share(own["u"]),
        "oldest_s": now - jobs.submit[first] if first is not None else 0,
        "oldest_width": jobs.procs[first] / procs if first is not None else 0,
        "oldest_no_wider_s": max(oldest(narrow), 0),
        "oldest_alike_s": oldest([each for each in waits if alike(each)]),
        "oldest_queue_s": oldest(same["q"]),
        "alike_waits_s": mean_wait([each for each in runs if alike(each)]),
        "queue_waits_s": mean_wait(own["q"]),
        "user_waits_s": mean_wait(own["u"]),
        "since_start_s": min((now - jobs.start[each] for each in runs), default=1e7),
        "since_alike_s": min((now - jobs.start[each] for each in runs if alike(each)), default=1e7),
        "started_hour": len([each for each in runs if now - jobs.start[each] < 3600]),
        "submitted_hour": len([each for each in runs + waits if now - jobs.submit[each] < 3600]),
        "submitted_day": len([each for each in runs + waits if now - jobs.submit[each] < 86400]),
        "fits_requested_s": fits(by_request),
        "fits_predicted_s": fits(by_prediction),
        "queue_ahead": len([each for each in ahead if each in same["q"]]),
        "queue_ahead_predicted": area([each for each in ahead if each in same["q"]]),
        "account_ahead": len([each for each in ahead if jobs.account[each] == jobs.account[job]]),
        "account_ahead_predicted": area([each for each in ahead if jobs.account[each] == jobs.account[job]]),
        "account_running": share([each for each in runs if jobs.account[each] == jobs.account[job]]),
    }


@pytest.mark.parametrize("seed", range(6))
def test_states_are_those_that_lists_of_running_and_waiting_jobs_describe(seed: int) -> None:
    jobs = some_jobs(seed)
    row = np.arange(len(jobs.submit))
    later = row[jobs.start > jobs.submit + 600]
    asked, at = np.concatenate((row, later)), np.concatenate((jobs.submit, jobs.submit[later] + 600))
    matrix = states(jobs, asked, at, at + 7200, 16)
    for number, (job, now) in enumerate(zip(asked, at, strict=True)):
        state = dict(zip(FEATURES, matrix[number], strict=True))
        wanted = described(jobs, job, now, 16)
        assert {name: state[name] for name in wanted} == pytest.approx(wanted), (job, now)
        assert (state["hour"], state["weekday"]) == ((now + 7200) % 86400 / 3600, (now + 7200) // 86400 % 7)


def test_what_starts_ends_or_is_submitted_later_changes_no_state() -> None:
    jobs, now = some_jobs(7), 2000
    asked = np.flatnonzero((jobs.submit <= now) & (jobs.start >= now))
    at = np.full(len(asked), now)
    before = states(jobs, asked, at, at, 16)
    submitted = jobs.submit <= now
    hidden = QueueJobs(
        jobs.submit[submitted],
        np.where(jobs.start >= now, NOT_YET, jobs.start)[submitted],
        np.where(jobs.end > now, NOT_YET, jobs.end)[submitted],
        *(each[submitted] for each in jobs[3:]),
    )
    assert (states(hidden, asked, at, at, 16) == before).all()
    assert len(asked) > 1


@pytest.mark.parametrize("seed", range(2))
def test_jobs_of_a_higher_priority_are_ahead_and_without_priorities_those_submitted_before(seed: int) -> None:
    jobs = some_jobs(seed)
    row = np.arange(len(jobs.submit))
    priority = np.random.default_rng(seed).permutation(len(row)).astype(np.float64)
    priority[::7] = np.nan  # unknown: behind all
    ahead = list(FEATURES).index("ahead")
    ranked = states(jobs, row, jobs.submit, jobs.submit, 16, by_priority(priority, jobs.submit, np.zeros(len(row), bool)))
    for job in row:
        now, value = jobs.submit[job], np.nan_to_num(priority, nan=-1.0)
        waits = (jobs.submit <= now) & (row < job) & (jobs.start >= now)
        assert ranked[job, ahead] == (waits & ((value > value[job]) | ((value == value[job]) & (row < job)))).sum()
    by_submission = states(jobs, row, jobs.submit, jobs.submit, 16)
    unknown, none = np.full(len(row), np.nan), np.zeros(len(row), bool)
    assert np.array_equal(by_submission, states(jobs, row, jobs.submit, jobs.submit, 16, by_priority(unknown, jobs.submit, none)))
    held = row % 3 == 0
    behind = states(jobs, row, jobs.submit, jobs.submit, 16, by_priority(priority, jobs.submit, held))
    assert (behind[~held, ahead] <= ranked[~held, ahead]).all()
    assert (behind[held, ahead] >= ranked[held, ahead]).all()
    others = [number for number, name in enumerate(FEATURES) if not name.startswith(_BY_RANK)]
    assert np.array_equal(ranked[:, others], by_submission[:, others])
