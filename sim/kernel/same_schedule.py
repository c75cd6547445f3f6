"""Find which weights make the same schedule, by a replay of one that a mixed policy made.

Under EASY with an order behind that no weight changes, weights matter only through the job at the head of the queue. A pass starts
jobs from the head, stops at the first that does not fit, gives it the reservation, and starts others behind it. Where the order of
two waiting jobs does not change while they wait, "this job stands before that one" is a half-space of weights. All half-spaces that
the passes of a schedule need meet in a cone, and within it every pass, hence the schedule, is the same. A pass that starts all that
wait needs none, nor does one in which no waiting job fits; among starving jobs no weight decides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import kernel
from sim.kernel.cones import cut

HUGE = 1 << 62


class Replay(NamedTuple):
    """A schedule, and room to replay it.

    The jobs, int64 [jobs], and their ``features`` int64 [jobs, 3], which the weights multiply. ``start`` by job, ``begun`` and
    ``ended`` the jobs in the order of starts and ends. ``machine`` processors, ``starvation`` seconds. Room to work in: ``key``
    float64 and ``line`` [jobs], the waiting jobs in order of submission, and the slots of ``now`` [NOW].
    """

    submit: np.ndarray
    runtime: np.ndarray
    procs: np.ndarray
    features: np.ndarray
    start: np.ndarray
    begun: np.ndarray
    ended: np.ndarray
    machine: int
    starvation: int
    key: np.ndarray
    line: np.ndarray
    now: np.ndarray


TIME, WAITING, FREE, LEAST, HEAD, KNOWN, BEGUN, NOW = range(8)
"""Slots of ``Replay.now``: the second; waiting jobs; free processors; at most the least processors of a waiting job; the first by its
key of the jobs that wait on, -1 if it is not known; how many of the line are compared with it; jobs started."""


@kernel
def before(first, second, features, cone):
    """Keep the weights by which ``first`` stands before ``second``."""
    cut(
        cone,
        features[second, 0] - features[first, 0],
        features[second, 1] - features[first, 1],
        features[second, 2] - features[first, 2],
    )


@kernel
def starves(job, replay):
    """Tell whether ``job`` goes to the head whatever the weights are."""
    return replay.now[TIME] - replay.submit[job] > replay.starvation


@kernel
def stands_before(job, head, replay):
    """Tell whether ``job`` stood before ``head``, which does not starve."""
    return starves(job, replay) or replay.key[job] < replay.key[head] or (replay.key[job] == replay.key[head] and job < head)


@kernel
def same_schedule(weights, replay, cone):
    """Cut ``cone`` down to the weights that make the schedule which ``weights`` [3] made."""
    jobs, now = len(replay.submit), replay.now
    for job in range(jobs):
        f = replay.features[job]
        replay.key[job] = weights[0] * f[0] + weights[1] * f[1] + weights[2] * f[2]
    now[WAITING], now[FREE], now[LEAST], now[HEAD], now[KNOWN], now[BEGUN] = 0, replay.machine, HUGE, -1, 0, 0
    arrived, ended = 0, 0
    while now[BEGUN] < jobs and cone.size[0] > 0:
        now[TIME] = replay.start[replay.begun[now[BEGUN]]]
        if arrived < jobs:
            now[TIME] = min(now[TIME], replay.submit[arrived])
        if ended < now[BEGUN]:
            job = replay.ended[ended]
            now[TIME] = min(now[TIME], replay.start[job] + replay.runtime[job])
        while ended < now[BEGUN] and replay.start[replay.ended[ended]] + replay.runtime[replay.ended[ended]] == now[TIME]:
            now[FREE] += replay.procs[replay.ended[ended]]
            ended += 1
        while arrived < jobs and replay.submit[arrived] == now[TIME]:
            arrive(arrived, replay)
            arrived += 1
        if replay.start[replay.begun[now[BEGUN]]] > now[TIME]:
            if now[WAITING] > 1 and now[LEAST] <= now[FREE] and not starves(replay.line[0], replay):
                find_head(replay)
                compare_with_head(replay, cone)
        else:
            if now[WAITING] > 1:
                compare(replay, cone)
            leave(replay)


@kernel
def arrive(job, replay):
    """Let ``job`` wait."""
    now = replay.now
    replay.line[now[WAITING]] = job
    now[WAITING] += 1
    now[LEAST] = min(now[LEAST], replay.procs[job])
    if now[HEAD] >= 0 and replay.key[job] < replay.key[now[HEAD]]:
        now[HEAD], now[KNOWN] = job, 0


@kernel
def leave(replay):
    """Take the jobs that start in this second out of the line."""
    now, line = replay.now, replay.line
    jobs = len(replay.submit)
    while now[BEGUN] < jobs and replay.start[replay.begun[now[BEGUN]]] == now[TIME]:
        now[FREE] -= replay.procs[replay.begun[now[BEGUN]]]
        now[BEGUN] += 1
    kept, known = 0, 0
    now[LEAST] = HUGE
    for i in range(now[WAITING]):
        job = line[i]
        if replay.start[job] > now[TIME]:
            line[kept] = job
            kept += 1
            known += i < now[KNOWN]
            now[LEAST] = min(now[LEAST], replay.procs[job])
    now[WAITING], now[KNOWN] = kept, known


@kernel
def find_head(replay):
    """Find the first by its key of the jobs that wait on after this second."""
    now, line, key = replay.now, replay.line, replay.key
    head = now[HEAD]
    if head >= 0 and replay.start[head] > now[TIME]:
        return
    head = -1
    for i in range(now[WAITING]):
        job = line[i]
        if replay.start[job] > now[TIME] and (head < 0 or key[job] < key[head]):
            head = job
    now[HEAD], now[KNOWN] = head, 0


@kernel
def compare_with_head(replay, cone):
    """Keep the weights by which the head stands before all that do not stand before it."""
    now, line = replay.now, replay.line
    head = now[HEAD]
    for i in range(now[KNOWN], now[WAITING]):
        job = line[i]
        if job != head and not (replay.start[job] == now[TIME] and stands_before(job, head, replay)):
            before(head, job, replay.features, cone)
    now[KNOWN] = now[WAITING]


@kernel
def compare(replay, cone):
    """Cut away the weights with which a pass that starts jobs would have gone otherwise."""
    now, line, procs = replay.now, replay.line, replay.procs
    find_head(replay)
    head, jobs = now[HEAD], len(replay.submit)
    if head < 0:
        return
    last, ahead, alone, needed, starving = now[BEGUN], 0, -1, 0, 0
    while last < jobs and replay.start[replay.begun[last]] == now[TIME]:
        job = replay.begun[last]
        last += 1
        if stands_before(job, head, replay):
            ahead += 1
            alone = job
            needed += procs[job]
            starving += starves(job, replay)
    if first_to_wait_starves(replay):
        return
    if last - now[BEGUN] == ahead and ahead < 2 and not fits_behind(now[FREE] - needed, replay):
        if starving == 0:  # it stood first; what came second is all the same
            for i in range(now[WAITING]):
                if line[i] != alone:
                    before(alone, line[i], replay.features, cone)
        return
    for i in range(now[BEGUN], last):
        job = replay.begun[i]
        if not starves(job, replay) and stands_before(job, head, replay):
            before(job, head, replay.features, cone)
    compare_with_head(replay, cone)


@kernel
def first_to_wait_starves(replay):
    """Tell whether a job that waits on starves: such jobs come first, as submitted."""
    i = 0
    while replay.start[replay.line[i]] == replay.now[TIME]:
        i += 1
    return starves(replay.line[i], replay)


@kernel
def fits_behind(free, replay):
    """Tell whether one of the jobs that wait on would fit in ``free`` processors."""
    if replay.now[LEAST] > free:
        return False
    for i in range(replay.now[WAITING]):
        job = replay.line[i]
        if replay.start[job] > replay.now[TIME] and replay.procs[job] <= free:
            return True
    return False
