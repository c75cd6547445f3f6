"""Queues run ahead: with the true runtimes the schedule itself goes on; nothing of the future is read."""

import numpy as np
import pandas as pd
import pytest

from features.clock import DAY_S, WEEK_S, Clock
from features.jobs.schema import codes, jobs_from
from models.packed.queue_state import NOT_YET, QueueJobs
from models.runtime.distribution import LEVELS
from sim.policy import Policy
from sim.simulation import simulate
from sim.starts.ahead import Ahead, Coming, PresentQueue, arrivals
from sim.starts.closings import Closed
from sim.starts.questions import AGES_S, ask, moments, queues

PROCS = 16


def workload(seed: int, count: int = 120, slow: int = 1) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    requested = draw.integers(100, 4000, count) * slow
    return jobs_from(
        pd.DataFrame(
            {
                "submit_s": np.sort(draw.integers(0, 20_000, count)) * slow,
                "procs": draw.integers(1, 13, count),
                "requested_s": requested,
                "runtime_s": np.maximum(requested * draw.uniform(0.1, 1.0, count), 1).astype(np.int64),
                "user": draw.integers(0, 5, count).astype(str),
            }
        )
    )


def scheduled(table: pd.DataFrame, scheduler: str = "EASY", pool: Closed | None = None) -> QueueJobs:
    """Return jobs as they start on the machine, each of whose quantiles is the runtime itself."""
    start = simulate(table, procs=PROCS, scheduler=scheduler, machine=pool).jobs["start_s"].to_numpy(np.int64)
    submit, runtime, procs, requested = (
        table[name].to_numpy(np.int64) for name in ("submit_s", "runtime_s", "procs", "requested_s")
    )
    same = np.zeros(len(table), np.int64)
    return QueueJobs(
        submit, start, start + runtime, procs, requested, codes(table, "user"), same, same, np.repeat(runtime[:, None], 3, axis=1)
    )


@pytest.mark.parametrize("scheduler", ["EASY", "SAF-EASY", "JustBF", "Conservative"])
def test_with_true_runtimes_waiting_jobs_start_as_in_the_schedule(scheduler: str) -> None:
    jobs = scheduled(workload(1), scheduler)
    last = np.array([len(jobs.submit) - 1])  # the last submission: nothing comes after it
    ahead = Ahead(PROCS, Policy(scheduler, "requested"), scenarios=3)
    for _, queue in queues(jobs, last, jobs.submit[last]):
        waits, now = queue.waiting, queue.now_s
        assert len(queue.running) > 1
        assert len(waits) > 3
        delays = ahead.starts(queue)
        assert (delays == jobs.start[waits] - now).all()
        assert (ahead.plan(queue, jobs.end - jobs.start) == jobs.start[waits] - now).all()


DRAINED = tuple(day * DAY_S + hour * 3600 for day in range(5) for hour in (8, 17))
POOLS = {
    "open": Closed(PROCS),
    "closings": Closed(PROCS, closings=DRAINED, origin_s=5 * 3600),
    "another order": Closed(PROCS, "EASY-SPF", DRAINED),
}


@pytest.mark.parametrize("name", POOLS)
def test_with_closings_and_what_truly_comes_waiting_jobs_start_as_in_the_schedule(name: str) -> None:
    closed, table = POOLS[name], workload(2, 200, slow=10)
    jobs = scheduled(table, closed.algorithm, closed)
    runtime, asked, compared = jobs.end - jobs.start, np.arange(40, 200, 9), 0
    ahead, pool = Ahead(PROCS, scenarios=3, pool=closed), Ahead(PROCS, scenarios=3)
    for job, queue in queues(jobs, asked, jobs.submit[asked]):
        waits, now = queue.waiting, queue.now_s
        later = np.arange(job + 1, len(jobs.submit))
        coming = Coming(jobs.submit[later] - now, jobs.procs[later], jobs.requested[later], runtime[later], later)
        assert (ahead.plan(queue, runtime, coming) == jobs.start[waits] - now).all()
        compared += int((jobs.start[waits] > now).sum())
        delays = ahead.starts(queue)
        for place in (0, -1):
            alone = waits[[place]]
            assert (ahead.starts(queue, alone)[:, 0] == delays[:, place]).all()
            assert ahead.plan(queue, runtime, coming, alone).tolist() == [jobs.start[waits[place]] - now]
        assert (ahead.starts(queue) == delays).all()  # nothing is left of the last question
        assert name != "open" or (pool.starts(queue) == delays).all()
    assert compared > 100


def test_a_pool_with_closings_runs_ahead_what_a_job_asks_for_after_a_change() -> None:
    closed = POOLS["closings"]
    jobs = scheduled(workload(1), closed.algorithm, closed)
    ahead, last = Ahead(PROCS, scenarios=3, pool=closed), np.array([len(jobs.submit) - 1])
    for job, queue in queues(jobs, last, jobs.submit[last]):
        other = jobs._replace(procs=np.where(np.arange(len(jobs.procs)) == job, 1, jobs.procs))
        before = ahead.starts(queue)
        changed = ahead.starts(queue._replace(jobs=other))
        assert (changed == Ahead(PROCS, scenarios=3, pool=closed).starts(queue._replace(jobs=other))).all()
        assert (changed[:, -1] < before[:, -1]).all()


def test_arrivals_are_those_of_the_same_hour_of_an_earlier_week_that_have_ended() -> None:
    count = 400
    submit = np.arange(count) * (4 * WEEK_S // count)
    end = submit + 2000
    end[-120:] = NOT_YET
    jobs = QueueJobs(submit, submit + 1000, end, *(np.full(count, each) for each in (4, 5000, 0, 0, 0)), np.full((count, 1), 900))
    now = int(submit[-1])
    for coming in arrivals(jobs, now, 20, seed=3):
        back = now + coming.after_s - jobs.submit[coming.row]
        assert len(set(back.tolist())) <= 1
        assert (back % WEEK_S == 0).all()
        assert (back > 0).all()
        assert (jobs.end[coming.row] <= now).all()
        assert (coming.after_s > 0).all()
    assert sum(len(each.after_s) for each in arrivals(jobs, now, 20, seed=3)) > 100


def test_jobs_that_are_taken_out_leave_the_runtimes_of_all_others() -> None:
    quantiles = np.tile(np.linspace(100, 4_000, len(LEVELS)).astype(np.int64), (3, 1))
    quantiles[0] = 60  # ends before the other in any case, so only the other decides when the third fits
    jobs = QueueJobs(
        submit=np.array([0, 1, 2]),
        start=np.array([0, 1, NOT_YET]),
        end=np.full(3, NOT_YET),
        procs=np.array([1, 1, 2]),
        requested=np.array([60, 5_000, 5_000]),
        user=np.zeros(3, np.int64),
        queue=np.zeros(3, np.int64),
        account=np.zeros(3, np.int64),
        quantiles=quantiles,
    )
    ahead, queue = Ahead(2, scenarios=64), PresentQueue(jobs, np.array([0, 1]), np.array([2]), 50)
    with_all = ahead.starts(queue)
    assert len(np.unique(with_all)) > 20
    assert (ahead.starts(queue, without=np.array([True, False, False])) == with_all).all()
    alone = ahead.starts(queue, without=np.array([True, True, False]))
    assert (alone == 0).all()


@pytest.mark.slow
def test_questions_read_nothing_of_later_moments() -> None:
    jobs = scheduled(workload(3, 30))
    row, at = moments(jobs.submit, jobs.start, 0, 10_000)
    assert {*(at - jobs.submit[row])} <= {0, *AGES_S}
    assert (np.diff(at) >= 0).all()
    assert (jobs.start[row] >= at).all()
    before = ask(jobs, row, at, Ahead(PROCS), Clock())
    now = 10_000
    hidden = jobs._replace(
        start=np.where(jobs.start >= now, NOT_YET, jobs.start),
        end=np.where(jobs.end > now, NOT_YET, jobs.end),
        procs=np.where(jobs.submit > now, 1, jobs.procs),
        requested=np.where(jobs.submit > now, 77, jobs.requested),
    )
    after = ask(hidden, row, at, Ahead(PROCS), Clock())
    assert (after.states == before.states).all()
    assert (after.scenarios == before.scenarios).all()
    waited, waits = before.waited(jobs.start, now)
    assert (waited[~waits] == (jobs.start[row] - at)[~waits]).all()
    assert (waited[waits] == (now - at)[waits]).all()
