"""Algorithms that plan, against slow simulators that look at every second that matters: JustBF, EASY with k reservations, Conservative.

Kept apart from :mod:`tests.oracle.scheduler`: here every algorithm is written out by itself, from its definition, on lists of occupied intervals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from features.errors import InputError
from features.jobs.schema import conform
from sim import simulate
from tests.support.fresh import seeds


class Workload(NamedTuple):
    submit: list[int]
    runtime: list[int]
    procs: list[int]
    requested: list[int]
    machine: int


def random_workload(seed: int) -> Workload:
    """Up to 40 jobs on up to 11 processors within a minute: queues form, many events share a second, a third of the jobs runs to its limit."""
    rng = np.random.default_rng(seed)
    jobs, machine = int(rng.integers(5, 40)), int(rng.integers(2, 12))
    requested = rng.integers(1, 30, jobs)
    runtime = np.maximum(1, (requested * rng.random(jobs) ** 0.5).astype(int))
    runtime = np.where(rng.random(jobs) < 0.3, requested, runtime)
    columns = (np.sort(rng.integers(0, 60, jobs)), runtime, rng.integers(1, machine + 1, jobs), requested)
    return Workload(*(column.tolist() for column in columns), machine)


def table(work: Workload) -> pd.DataFrame:
    jobs = len(work.submit)
    columns = {"job_id": np.arange(jobs), "submit_s": work.submit, "runtime_s": work.runtime, "procs": work.procs}
    filled = conform({**columns, "requested_s": work.requested}, jobs)
    return filled.astype({"runtime_s": "int64", "procs": "int64", "requested_s": "int64"})


def earliest(occupied: list[tuple[int, int, int]], now: int, seconds: int, procs: int, machine: int) -> int:
    """First second from ``now`` on at which ``procs`` processors are free for ``seconds``, given (from, to, processors) intervals."""

    def free(at: int) -> int:
        return machine - sum(taken for start, end, taken in occupied if start <= at < end)

    for candidate in sorted({now} | {end for _, end, _ in occupied if end > now}):
        moments = [candidate] + [start for start, _, _ in occupied if candidate < start < candidate + seconds]
        if all(free(moment) >= procs for moment in moments):
            return candidate
    raise AssertionError("the machine is empty in the end")


def replay(work: Workload, one_pass) -> list[int]:  # type: ignore[no-untyped-def]
    """Apply all events of a second, then ``one_pass(now, queue, occupied)``, which returns the jobs to start."""
    start: dict[int, int] = {}
    queue: list[int] = []
    running: set[int] = set()
    arrived = 0
    while arrived < len(work.submit) or running:
        moments = [work.submit[arrived]] if arrived < len(work.submit) else []
        now = min(moments + [start[job] + work.runtime[job] for job in running])
        running -= {job for job in running if start[job] + work.runtime[job] == now}
        while arrived < len(work.submit) and work.submit[arrived] == now:
            queue.append(arrived)
            arrived += 1
        occupied = [(start[job], start[job] + work.requested[job], work.procs[job]) for job in running]
        for job in one_pass(now, list(queue), occupied):
            start[job] = now
            running.add(job)
            queue.remove(job)
    return [start[job] for job in range(len(work.submit))]


def just_backfill(work: Workload, key) -> list[int]:  # type: ignore[no-untyped-def]
    def one_pass(now: int, queue: list[int], occupied: list) -> list[int]:
        starting = []
        for job in sorted(queue, key=lambda job: (key(job), job)):
            at = earliest(occupied, now, work.requested[job], work.procs[job], work.machine)
            occupied.append((at, at + work.requested[job], work.procs[job]))
            if at == now:
                starting.append(job)
        return starting

    return replay(work, one_pass)


def easy(work: Workload, reservations: int, shortest_first: bool) -> list[int]:
    def one_pass(now: int, queue: list[int], occupied: list) -> list[int]:
        starting, holding = [], []
        for job in queue:
            if len(holding) == reservations:
                break
            at = earliest(occupied, now, work.requested[job], work.procs[job], work.machine)
            occupied.append((at, at + work.requested[job], work.procs[job]))
            (starting if at == now else holding).append(job)
        others = [job for job in queue if job not in starting and job not in holding]
        if shortest_first:
            others.sort(key=lambda job: (work.requested[job], job))
        for job in others:
            if earliest(occupied, now, work.requested[job], work.procs[job], work.machine) == now:
                occupied.append((now, now + work.requested[job], work.procs[job]))
                starting.append(job)
        return starting

    return replay(work, one_pass)


def conservative(work: Workload) -> list[int]:
    """The classic form: take one job's reservation out, leave all others in, move it forward as far as it goes."""
    reserved: dict[int, int] = {}

    def one_pass(now: int, queue: list[int], occupied: list) -> list[int]:
        def others(job: int) -> list:
            held = [(at, at + work.requested[k], work.procs[k]) for k, at in reserved.items() if k != job]
            return occupied + held

        for job in sorted(reserved, key=lambda job: (reserved[job], job)):
            moved = earliest(others(job), now, work.requested[job], work.procs[job], work.machine)
            assert moved <= reserved[job]
            reserved[job] = moved
        for job in queue:
            if job not in reserved:
                reserved[job] = earliest(others(job), now, work.requested[job], work.procs[job], work.machine)
        starting = [job for job in queue if reserved[job] == now]
        for job in starting:
            del reserved[job]
        return starting

    return replay(work, one_pass)


def starts(work: Workload, scheduler: str) -> list[int]:
    return simulate(table(work), procs=work.machine, scheduler=scheduler).jobs["start_s"].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(60))
def test_just_backfill_plans_everyone_anew_in_queue_order(seed: int) -> None:
    work = random_workload(seed)
    assert starts(work, "JustBF") == just_backfill(work, lambda job: 0)
    assert starts(work, "SPF-JustBF") == just_backfill(work, lambda job: work.requested[job])
    area = [n * r for n, r in zip(work.procs, work.requested, strict=True)]
    assert starts(work, "SAF-JustBF") == just_backfill(work, lambda job: area[job])
    assert starts(work, "LAF-JustBF") == just_backfill(work, lambda job: -area[job])


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(60))
@pytest.mark.parametrize("reservations", [1, 2, 3, 100])
def test_easy_gives_as_many_reservations_as_asked_for(seed: int, reservations: int) -> None:
    work = random_workload(seed)
    assert starts(work, f"EASY(reservations={reservations})") == easy(work, reservations, shortest_first=False)
    assert starts(work, f"EASY(reservations={reservations})-SJBF") == easy(work, reservations, shortest_first=True)


@pytest.mark.parametrize("seed", seeds(60))
def test_easy_with_a_reservation_for_everyone_is_just_backfill(seed: int) -> None:
    work = random_workload(1000 + seed)
    assert starts(work, "EASY(reservations=100)") == starts(work, "JustBF")


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(120))
def test_conservative_keeps_reservations_and_compresses(seed: int) -> None:
    work = random_workload(seed)
    assert starts(work, "Conservative") == conservative(work)


def test_conservative_takes_no_order() -> None:
    with pytest.raises(InputError, match="takes no other order"):
        starts(random_workload(0), "SPF-Conservative")
