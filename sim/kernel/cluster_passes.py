"""The scheduling passes on a machine of clusters: who starts now, and where.

A job starts in the first cluster, in their order, in which it may.
"""

from __future__ import annotations

from features.jit import apart, kernel
from sim.kernel.clusters import leave, line_up, start_in
from sim.kernel.passes import STRICT
from sim.kernel.state import FREE, WAITING
from sim.machine.nodes import NOWHERE, fits


@apart
def clusters_pass(settings, now, jobs, estimates, state, clusters):
    """Start every job that may start."""
    line_up(settings, now, jobs, estimates, state, clusters)
    start_in_order(settings, now, jobs, estimates, state, clusters)
    leave(settings, state, clusters)


@kernel
def start_in_order(settings, now, jobs, estimates, state, clusters):
    """Start what fits now, in the primary order; with Strict until a job does not fit."""
    for i in range(state.counters[WAITING]):
        job = clusters.front.job[i]
        cluster = first_room(job, clusters)
        if cluster != NOWHERE:
            start_in(job, cluster, now, jobs, estimates, state, clusters, settings.bits)
        elif settings.algorithm == STRICT:
            break


@kernel
def first_room(job, clusters):
    """Return the first cluster in which ``job`` fits now, or NOWHERE."""
    nodes = clusters.nodes
    for cluster in range(len(nodes.first) - 1):
        if fits(nodes.row[job], cluster, nodes, nodes.free, nodes.left):
            return cluster
    return NOWHERE


@kernel
def fits_somewhere(job, jobs, state, clusters):
    """Tell whether ``job`` fits into what is free now, on clusters or on the one pool."""
    if clusters is None:
        return jobs.procs[job] <= state.counters[FREE]
    return first_room(job, clusters) != NOWHERE
