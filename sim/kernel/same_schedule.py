"""Which weights make the same schedule: replay one that a mixed policy made, and note all that its weights decided.

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
    """A schedule: the jobs, int64 [jobs]; their features int64 [jobs, 3], which the weights multiply; how it went.

    ``start`` by job, ``begun`` and ``ended`` the jobs in the order of starts and ends. ``machine`` processors, ``starvation`` seconds.
    ``key``, ``line`` and ``against`` [jobs] are room to work in: keys, waiting jobs, the head they were compared with.
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
    against: np.ndarray


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
def same_schedule(weights, replay, cone):
    """Cut ``cone`` down to the weights that make the same schedule, which ``weights`` [3] made."""
    jobs = len(replay.submit)
    for job in range(jobs):
        f = replay.features[job]
        replay.key[job] = weights[0] * f[0] + weights[1] * f[1] + weights[2] * f[2]
        replay.against[job] = -1
    arrived, begun, ended, waiting, free = 0, 0, 0, 0, replay.machine
    while begun < jobs and cone.size[0] > 0:
        now = replay.start[replay.begun[begun]]
        if arrived < jobs:
            now = min(now, replay.submit[arrived])
        if ended < begun:
            job = replay.ended[ended]
            now = min(now, replay.start[job] + replay.runtime[job])
        while ended < begun and replay.start[replay.ended[ended]] + replay.runtime[replay.ended[ended]] == now:
            free += replay.procs[replay.ended[ended]]
            ended += 1
        while arrived < jobs and replay.submit[arrived] == now:
            replay.line[waiting] = arrived
            arrived += 1
            waiting += 1
        if waiting > 1:
            compare(now, waiting, free, replay, cone)
        while begun < jobs and replay.start[replay.begun[begun]] == now:
            free -= replay.procs[replay.begun[begun]]
            begun += 1
        kept = 0
        for i in range(waiting):
            job = replay.line[i]
            replay.line[kept] = job
            kept += replay.start[job] > now
        waiting = kept


@kernel
def compare(now, waiting, free, replay, cone):
    """Cut away the weights with which the pass at ``now`` would have gone otherwise."""
    line, start, key, procs = replay.line, replay.start, replay.key, replay.procs
    head, least = -1, HUGE
    for i in range(waiting):
        job = line[i]
        if start[job] > now:
            least = min(least, procs[job])
            if head < 0 or key[job] < key[head]:
                head = job
                if now - replay.submit[job] > replay.starvation:
                    return  # starving jobs come first, in order of submission
    if head < 0:
        return
    starts, ahead, alone, needed = 0, 0, -1, 0
    for i in range(waiting):
        job = line[i]
        if start[job] == now:
            starts += 1
            if stands_before(job, head, now, replay):
                ahead += 1
                alone = job
                needed += procs[job]
    if starts == ahead and least > free - needed and ahead < 2:
        if ahead == 1 and now - replay.submit[alone] <= replay.starvation:  # it stood first; what came second is all the same
            for i in range(waiting):
                if line[i] != alone:
                    before(alone, line[i], replay.features, cone)
        return
    for i in range(waiting):
        job = line[i]
        if start[job] == now and stands_before(job, head, now, replay):
            if now - replay.submit[job] <= replay.starvation:
                before(job, head, replay.features, cone)
        elif job != head and replay.against[job] != head:
            replay.against[job] = head
            before(head, job, replay.features, cone)


@kernel
def stands_before(job, head, now, replay):
    """Tell whether ``job`` stood before ``head``, which does not starve."""
    if now - replay.submit[job] > replay.starvation:
        return True
    return replay.key[job] < replay.key[head] or (replay.key[job] == replay.key[head] and job < head)
