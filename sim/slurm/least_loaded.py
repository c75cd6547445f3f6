"""Choice of the least loaded nodes, where a site or a partition sets LLN.

From cons_tres/job_test.c, ``_eval_nodes_lln``.
"""

from __future__ import annotations

from features.jit import apart, kernel
from sim.slurm.state import NONE

_NEED, _BUDGET, _NODES, _MOST, _CHOSEN = range(5)
"""Slots of ``left``: processors needed, processors that further nodes may take, nodes needed, max nodes, nodes chosen."""


@apart
def choose_least_loaded(job, nodes, small, slurm):
    """Choose ``nodes`` among those with more than ``small`` processors; return how many.

    Return 0 if they do not suffice.
    """
    ask, room = slurm.ask, slurm.room
    most = min(ask.max_nodes[job] if ask.max_nodes[job] > 0 else len(room.room), max(ask.cpus[job], ask.min_nodes[job]))
    left = room.left
    left[_NEED] = left[_BUDGET] = ask.cpus[job]
    left[_NODES], left[_MOST], left[_CHOSEN] = min(nodes, most), most, 0
    for node in range(len(room.room)):
        room.first[node] = room.room[node] > small
    _take_least_loaded(job, left, slurm)
    return left[_CHOSEN] if _is_done(left) else 0


@kernel
def _is_done(left):
    return left[_NODES] <= 0 and left[_NEED] <= 0


@kernel
def _take(job, node, left, slurm):
    """Take a node with all its room, but leave one processor for each further node."""
    room = slurm.room
    take = room.room[node]
    if slurm.ask.exclusive[job] == 0:
        take = min(take, max(left[_BUDGET] - max(left[_NODES] - 1, 0), 1))
    room.chosen[left[_CHOSEN]], room.take[left[_CHOSEN]], room.first[node] = node, take, 0
    left[_NEED] -= take
    left[_BUDGET] -= take
    left[_NODES] -= 1
    left[_MOST] -= 1
    left[_CHOSEN] += 1


@kernel
def _take_least_loaded(job, left, slurm):
    """Take the lightest nodes first, and of these the largest share of free processors."""
    room, cpus, weight = slurm.room, slurm.hardware.cpus, slurm.hardware.weight
    while left[_MOST] > 0 and not _is_done(left):
        best = NONE
        for node in range(len(room.room)):
            if room.first[node] != 0 and (
                best == NONE
                or weight[node] < weight[best]
                or (weight[node] == weight[best] and room.room[node] * cpus[best] > room.room[best] * cpus[node])
            ):
                best = node
        if best == NONE:
            break
        _take(job, best, left, slurm)
