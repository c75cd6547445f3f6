"""Limits of minutes: GrpTRESMins, GrpWall and GrpTRESRunMins of QOS and associations.

From acct_policy.c, ``_qos_job_runnable_post_select``.
"""

from __future__ import annotations

from features.jit import apart, kernel
from sim.slurm.shares import bill, is_of
from sim.slurm.state import BILLING, CPUS, LAST_DECAY, NODES, RUNNING, TRIED


@apart
def over_minutes(job, cpus, chosen, slurm):
    """Tell whether ``job`` would pass a limit of minutes.

    It takes ``cpus`` processors on ``chosen`` nodes. Usage at its limit blocks the job; with ``safe``, a request beyond it, too.
    """
    ask, meters, rules = slurm.ask, slurm.meters, slurm.rules
    for row in range(ask.minutes[job], ask.minutes[job + 1]):
        meter, kind, total = ask.meter[row], ask.metered_by[row], 0
        if not is_of(ask.meter_qos[row], job, slurm):
            continue
        if kind == CPUS:
            ask.metered[row] = cpus
        elif kind == NODES:
            ask.metered[row] = chosen
        elif kind == BILLING:
            ask.metered[row] = bill(job, slurm.numbers[TRIED], cpus, chosen, slurm) if rules.bills else cpus
        if meters.spends[meter] != 0:
            total = int(meters.spent[meter]) // 60 if ask.usage[job] > 0 else 0
            if total >= meters.cap[meter]:
                return True
            if not rules.safe:
                continue
        total += int(_running(meter, slurm)) // 60 + int(ask.limit[job] // 60 * ask.metered[row])
        if total > meters.cap[meter]:
            return True
    return False


@kernel
def _running(meter, slurm):
    """Return what running jobs may use, in seconds, from LAST_DECAY to their limits' ends."""
    ask, state, total = slurm.ask, slurm.now, 0.0
    for i in range(slurm.numbers[RUNNING]):
        job = state.running[i]
        for row in range(ask.minutes[job], ask.minutes[job + 1]):
            if ask.meter[row] == meter and is_of(ask.meter_qos[row], job, slurm):
                since = max(state.start_ms[job] // 1000, slurm.numbers[LAST_DECAY])
                total += ask.metered[row] * max(state.limit_end[job] - since, 0)
    return total
