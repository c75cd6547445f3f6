"""Over queues of hundreds and thousands, where blocks of waiting jobs are looked at before the jobs, schedules stay the oracle's."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from features.jit import njit
from features.jobs.cleaning import clean
from features.limits import PROCESSORS
from sim import simulate
from sim.kernel.queue import CLASSES, GROUP_BITS, LONG, NARROW, class_of, narrowest
from sim.kernel.scratch import Scratch
from sim.workloads.workload import Workload as Generated
from sim.workloads.workload import generate
from tests.support.workloads import Workload, columns, crowd, policy_of


def flood(seed: int, size: int, machine: int = 48) -> Workload:
    """A crowd of which three quarters come a hundred times as fast as they can be served, and the rest at their own pace into the long queue."""
    load = crowd(np.random.default_rng(seed), size=size, machine=machine)
    submit = np.array(load.submit)
    turn = submit[3 * size // 4]
    return replace(load, submit=np.where(submit < turn, submit // 100, submit - turn + turn // 100).tolist())


def waiting(load: Workload, start: list[int]) -> int:
    """The most jobs that waited at a time, just after a submission."""
    starts = np.sort(start)
    return int((np.arange(1, len(starts) + 1) - np.searchsorted(starts, load.submit, side="right")).max())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheduler", "policy"),
    [
        *((name, {}) for name in ("FCFS-EASY-FCFS", "FCFS-EASY-SPF", "LCFS-EASY-LQF", "FCFS-List", "SPF-List")),
        *(("SAF-EASY-SPF", policy) for policy in ({"starvation_s": 2000}, {"semantics": "per-event", "correction": "tsafrir"})),
    ],
)
def test_schedules_over_a_long_queue_are_the_oracles(scheduler: str, policy: dict) -> None:
    load = flood(3, 1300)
    kernel = columns(load.schedule(scheduler, **policy))
    assert waiting(load, kernel[0]) > LONG + (1 << GROUP_BITS), "not long enough to use blocks and groups of blocks"
    assert kernel == load.by_oracle(**policy_of(scheduler), estimates=load.estimates, **policy)


@pytest.mark.parametrize(
    ("scheduler", "frozen"),
    [("JustBF", "0e6e59928a9cbfb6"), ("SAF-JustBF", "a785236fdbbe017d"), ("Conservative", "40aa4c1db557cd28")],
)
def test_plans_of_a_thousand_jobs_are_those_of_a_search_through_the_whole_plan(scheduler: str, frozen: str) -> None:
    """Frozen from a simulator that searched so; the oracle would take hours, and plans short queues in the campaign of hostile workloads."""
    load = crowd(np.random.default_rng(8), size=1000, machine=128, longest_s=36_000)
    start = replace(load, submit=[0] * 1000).schedule(scheduler, correction="tsafrir").jobs["start_s"].to_numpy()
    assert hashlib.sha256(start.astype("<i8").tobytes()).hexdigest()[:16] == frozen


def test_jobs_that_arrive_behind_times_at_which_nothing_changes_any_more_get_the_earliest_place() -> None:
    """Early ends leave such times in the plan of Conservative; frozen like those above."""
    trace = clean(generate(Generated(1000, 32, load=1.5, generator=1, seed=3)))
    start = simulate(trace.jobs, procs=32, scheduler="Conservative").jobs["start_s"].to_numpy()
    assert hashlib.sha256(start.astype("<i8").tobytes()).hexdigest()[:16] == "8cc8cef308ce513a"


@pytest.mark.parametrize("order", ["FCFS", "SAF", "LCFS"])
@pytest.mark.parametrize("correction", ["requested", "tsafrir"])
def test_a_plan_that_leaves_far_places_open_starts_the_same_jobs(order: str, correction: str) -> None:
    """EASY with a reservation for every job plans the whole queue before each start."""
    load = flood(6, 800)
    just_bf = columns(load.schedule(f"{order}-JustBF", correction=correction))
    assert waiting(load, just_bf[0]) > 250
    assert just_bf == columns(load.schedule(f"{order}-EASY(reservations=800)-{order}", correction=correction))


@pytest.mark.thorough
def test_ten_thousand_waiting_jobs_are_served_as_by_a_plain_scan() -> None:
    """Compare with List written as a scan: each second, all jobs that fit, in order. The oracle would take minutes."""
    load = flood(5, 10_000)
    started = load.schedule("SPF-List", load.requested).jobs["start_s"].to_numpy()
    assert waiting(load, started.tolist()) > 5_000
    submit, runtime, procs = np.array(load.submit), np.array(load.runtime), np.array(load.procs)
    rank = np.lexsort((np.arange(len(submit)), submit, load.requested))
    start = np.full(len(submit), -1)
    ends: dict[int, int] = {}
    free, came = load.machine, 0
    moments = sorted(set(submit.tolist()))
    waits = np.zeros(len(submit), bool)
    while moments or ends:
        now = min([*moments[:1], *ends])
        if moments and moments[0] == now:
            moments.pop(0)
        free += ends.pop(now, 0)
        upto = int(np.searchsorted(submit, now, side="right"))
        waits[came:upto] = True
        came = upto
        for job in rank[waits[rank] & (procs[rank] <= free)]:
            if procs[job] <= free:
                start[job], waits[job] = now, False
                free -= procs[job]
                ends[now + runtime[job]] = ends.get(now + runtime[job], 0) + procs[job]
    assert np.array_equal(started, start)


@pytest.mark.parametrize("procs", [1, 2, 3, 100, NARROW, NARROW + 1, 5 * NARROW, PROCESSORS])
def test_classes_of_widths_grow_with_the_width_and_leave_no_job_out(procs: int) -> None:
    queue = Scratch().work(1, procs).front
    assert len(queue.width_class) <= NARROW + 1
    widths = sorted({*range(1, min(procs, 5000)), *(procs >> bits for bits in range(procs.bit_length()))})
    classes = [each_class(queue, width) for width in widths]
    assert classes[0] == 1
    assert classes == sorted(classes)
    assert classes[-1] < queue.bounds[CLASSES]
    assert all(narrowest(of) <= width and each_class(queue, narrowest(of)) == of for width, of in zip(widths, classes, strict=True))
    assert all(each_class(queue, 2 * width) > of for width, of in zip(widths, classes, strict=True) if 2 * width <= procs)


@njit
def each_class(queue, width):
    return class_of(queue, width)
