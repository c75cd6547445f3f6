"""Queue orders: a key for each waiting job; smaller keys first, ties by submission order.

The twelve pure policies and the mixed ones are those of Legrand, Trystram & Zrigui (2018), built from processors n, estimated
runtime r, waiting time w, ratio r/n, expansion (w+r)/r and area r n. F1 to F4 are from Carastan-Santos & de Camargo (2017), WFP
and UNICEF from Tang et al. (2009). FAT, which the OKCM paper also names, is left out: no source gives its formula.
"""

from __future__ import annotations

import numpy as np

from features.jit import kernel

NAMES = (
    *("FCFS", "LCFS", "SPF", "LPF", "SQF", "LQF", "SAF", "LAF", "SRF", "LRF", "SEXP", "LEXP"),
    *("F1", "F2", "F3", "F4", "WFP1", "WFP3", "UNICEF", "MIXED"),
)
ORDERS: dict[str, int] = {name: code for code, name in enumerate(NAMES)}
(FCFS, LCFS, SPF, LPF, SQF, LQF, SAF, LAF, SRF, LRF, SEXP, LEXP, F1, F2, F3, F4, WFP1, WFP3, UNICEF, MIXED) = range(len(NAMES))
SCORE = len(NAMES)
"""A formula, evaluated by :mod:`sim.kernel.scores`."""

ALIASES = {"SJF": "SPF", "WFP": "WFP3"}
ALIASES_BEHIND = {**ALIASES, "SJBF": "SPF"}
"""For the backfill order the literature also uses SJBF, shortest job backfilled first."""

NO_WEIGHTS = (0.0,) * 6


def changes_while_waiting(order: int, weights: tuple[float, ...]) -> bool:
    """Tell whether the order of two waiting jobs can change.

    Waiting moves all keys of a mixed policy alike, unless the expansion has a weight.
    """
    return order in (SEXP, LEXP, WFP1, WFP3, UNICEF) or (order == MIXED and weights[4] != 0.0)


@kernel
def order_key(order, weights, submit, procs, estimate, now):
    """Return the sort key of a job, float64.

    ``estimate`` answers the question ORDER; ``weights`` [6] are those of a mixed policy. The key does not depend on ``now`` if
    the order cannot change while jobs wait. F1 to F4 count time from the first submission, at least 1 s; UNICEF takes log2 of at
    least 2 processors.
    """
    n = 1.0 * procs
    r = 1.0 * estimate
    key = 0.0
    if order == FCFS:
        key = 0.0
    elif order == LCFS:
        key = -1.0 * submit
    elif order == SPF:
        key = r
    elif order == LPF:
        key = -r
    elif order == SQF:
        key = n
    elif order == LQF:
        key = -n
    elif order == SAF:
        key = r * n
    elif order == LAF:
        key = -r * n
    elif order == SRF:
        key = r / n
    elif order == LRF:
        key = -r / n
    elif order == SEXP:
        key = (now - submit + r) / r
    elif order == LEXP:
        key = -(now - submit + r) / r
    elif order == F1:
        key = np.log10(r) * n + 870.0 * np.log10(max(submit, 1))
    elif order == F2:
        key = np.sqrt(r) * n + 25600.0 * np.log10(max(submit, 1))
    elif order == F3:
        key = r * n + 6.86e6 * np.log10(max(submit, 1))
    elif order == F4:
        key = r * np.sqrt(n) + 5.3e5 * np.log10(max(submit, 1))
    elif order == WFP1:
        key = -(now - submit) / r * n
    elif order == WFP3:
        key = -(((now - submit) / r) ** 3) * n
    elif order == UNICEF:
        key = -(now - submit) / (np.log2(max(n, 2.0)) * r)
    elif order == MIXED:
        # positive weights favour few processors, short runtime, long wait, small ratio, small expansion, small area
        key = weights[0] * n + weights[1] * r + weights[2] * submit + weights[3] * r / n + weights[5] * r * n
        if weights[4] != 0.0:
            key += weights[4] * (now - submit + r) / r
    return key
