"""Over queues of hundreds and thousands, where blocks of waiting jobs are looked at before the jobs, schedules stay the oracle's."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from features.jit import njit
from features.limits import PROCESSORS
from sim.kernel.queue import CLASSES, GROUP_BITS, LONG, NARROW, class_of, narrowest
from sim.kernel.scratch import Scratch
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


@pytest.mark.parametrize("order", ["FCFS", "SAF", "LCFS"])
@pytest.mark.parametrize("correction", ["requested", "tsafrir"])
@pytest.mark.parametrize("inexact", [1, 20])
def test_a_plan_that_leaves_far_places_open_starts_the_same_jobs(order: str, correction: str, inexact: int) -> None:
    """EASY with a reservation for every job plans the whole queue before each start.

    One in ``inexact`` jobs may end before or after its prediction; between two of them JustBF keeps its plan.
    """
    load = flood(6, 800)
    jobs = enumerate(zip(load.runtime, load.requested, load.estimates, strict=True))
    load = replace(load, estimates=[min(job[:2]) if row % inexact else job[2] for row, job in jobs])
    just_bf = columns(load.schedule(f"{order}-JustBF", correction=correction))
    assert waiting(load, just_bf[0]) > 250
    assert just_bf == columns(load.schedule(f"{order}-EASY(reservations=800)-{order}", correction=correction))


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
