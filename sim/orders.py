"""Queue orders: for each pure policy a key known at submission; the smaller key is served first, ties by submission and file order.

Legrand, Trystram & Zrigui's features (paper 000, section 4): processors n, estimated runtime r, ratio r/n and area r n, smallest or largest first.
"""

from __future__ import annotations

from features.jit import kernel

FCFS, LCFS, SPF, LPF, SQF, LQF, SAF, LAF, SRF, LRF = range(10)

ORDERS: dict[str, int] = {
    "FCFS": FCFS,
    "LCFS": LCFS,
    "SPF": SPF,
    "LPF": LPF,
    "SQF": SQF,
    "LQF": LQF,
    "SAF": SAF,
    "LAF": LAF,
    "SRF": SRF,
    "LRF": LRF,
}
ALIASES = {"SJF": "SPF"}
ALIASES_BEHIND = {**ALIASES, "SJBF": "SPF"}
"""Behind the algorithm the literature also writes SJBF, shortest job backfilled first."""


@kernel
def order_key(order, submit, procs, estimate):
    """Sort key of a job, float64; ``estimate`` answers the question ORDER."""
    key = 0.0
    if order == LCFS:
        key = -1.0 * submit
    elif order == SPF:
        key = 1.0 * estimate
    elif order == LPF:
        key = -1.0 * estimate
    elif order == SQF:
        key = 1.0 * procs
    elif order == LQF:
        key = -1.0 * procs
    elif order == SAF:
        key = 1.0 * estimate * procs
    elif order == LAF:
        key = -1.0 * estimate * procs
    elif order == SRF:
        key = estimate / procs
    elif order == LRF:
        key = -estimate / procs
    return key
