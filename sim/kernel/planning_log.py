"""Log the planned start and place of each job whenever they change."""

from __future__ import annotations

from features.jit import apart, kernel
from sim.kernel.planning_seats import POOL, TELLS, TOLD, TOLD_NODES
from sim.kernel.state import EVENTS


@apart
def tell(job, now, planner):
    """Log the planned start and nodes of ``job`` if either has changed."""
    numbers, nodes = planner.numbers, planner.nodes
    row = nodes.row[job]
    digest = nodes.cluster[row]
    held = 0
    if numbers[POOL] == 0:
        held = nodes.held[row]
        for i in range(nodes.begin[row], nodes.begin[row] + held):
            digest = (digest * 1_000_003 + nodes.node[i]) % 2_147_483_647
    if planner.logged_start[job] == planner.at[job] and planner.logged_nodes[job] == digest:
        return
    planner.logged_start[job], planner.logged_nodes[job] = planner.at[job], digest
    line = numbers[TOLD]
    numbers[TOLD] = line + 1
    planner.log[line, 0], planner.log[line, 1], planner.log[line, 2] = job, now, planner.at[job]
    planner.log[line, 3], planner.log[line, 4] = nodes.cluster[row], held
    for i in range(held):
        planner.log_nodes[numbers[TOLD_NODES] + i] = nodes.node[nodes.begin[row] + i]
    numbers[TOLD_NODES] += held


@kernel
def tell_start(job, start, now, planner):
    """Set the planned start of ``job``, and log it if planned starts are logged."""
    if planner.numbers[TELLS] != 0:
        planner.at[job] = start
        tell(job, now, planner)


@kernel
def pause_for_log(state, planner):
    """Pause the loop when the log is half full, to be read: a pass needs at most half of it."""
    numbers = planner.numbers
    if numbers[TOLD] > len(planner.log) // 2 or numbers[TOLD_NODES] > len(planner.log_nodes) // 2:
        state.counters[EVENTS] = 0
