"""Queue orders: a key for each waiting job; smaller keys first, ties by submission order.

The twelve pure policies and the mixed ones are those of Legrand, Trystram & Zrigui (2018), built from processors n,
estimated runtime r, waiting time w, ratio r/n, expansion (w+r)/r and area r n. F1 to F4 are from Carastan-Santos & de
Camargo (2017), WFP and UNICEF from Tang et al. (2009). FAT, which the OKCM paper also names, is left out: no source
gives its formula.

Scores are queue orders that are formulas, evaluated by a stack machine. :mod:`sim.schedulers.scores` translates a
formula into a program. Each step is one row (operation, argument), int64. It pushes a value or a feature, or replaces
the top values by its result. A result that is not a number counts as 0, and so does a division by 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.clock import DAY_S
from features.jit import apart, kernel
from sim.kernel.state import FREE

NAMES = (
    *("FCFS", "LCFS", "SPF", "LPF", "SQF", "LQF", "SAF", "LAF", "SRF", "LRF", "SEXP", "LEXP"),
    *("F1", "F2", "F3", "F4", "WFP1", "WFP3", "UNICEF", "MIXED"),
)
ORDERS: dict[str, int] = {name: code for code, name in enumerate(NAMES)}
(FCFS, LCFS, SPF, LPF, SQF, LQF, SAF, LAF, SRF, LRF, SEXP, LEXP, F1, F2, F3, F4, WFP1, WFP3, UNICEF, MIXED) = range(len(NAMES))
SCORE = len(NAMES)
"""A formula, evaluated by :mod:`sim.kernel.orders`."""

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

    ``estimate`` answers the question ORDER; ``weights`` [6] are those of a mixed policy. The key does not depend on
    ``now`` if the order cannot change while jobs wait. F1 to F4 count time from the first submission, at least 1 s;
    UNICEF takes log2 of at least 2 processors.
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


VALUE, FEATURE, NEGATIVE, LOG, SQRT, EXP, ABS, TANH, ADD, SUBTRACT, MULTIPLY, DIVIDE, POWER, MIN, MAX, BELOW, UP_TO, WHERE = range(
    18
)
"""Operations: push a parameter or number; push a feature; six of one value; nine of two; one of three."""

N, R, REQUESTED, SUBMIT, WAIT, SINCE, FREE_NOW, QUEUE, DEMAND, HOUR, PROCS = range(11)
"""Features. SINCE is the wait minus the current time, so it orders jobs as the wait does but does not change."""

DEEPEST = 64
"""Max number of values on the stack."""
LEAST_LOG = 1e-9
"""Min argument of a logarithm; smaller ones are replaced by it."""
LARGEST = 1e300
"""Max absolute score, so that a starving job, with key -inf, goes before all others."""


class Scoring(NamedTuple):
    """The programs of the primary and the backfill order, int64 [steps, 2], and their inputs.

    ``seen`` float64 [3]: free processors, waiting jobs and their demand (sum of r n) at the last pass that sorted.
    ``stack`` float64 [DEEPEST]; ``clock`` int64 [steps, 2] as in ``models.runtime.memory.Memory.clock``; the machine's
    ``procs``.
    """

    primary: np.ndarray
    backfill: np.ndarray
    seen: np.ndarray
    stack: np.ndarray
    clock: np.ndarray
    procs: int


@apart
def look_around(scoring, line, begin, waiting, jobs, estimates, counters):
    """Write the features of the queue and the machine at this pass to ``seen``.

    The ``waiting`` jobs stand in ``line`` from index ``begin`` on.
    """
    demand = 0.0
    for i in range(begin, begin + waiting):
        demand += 1.0 * estimates.order[line[i]] * jobs.procs[line[i]]
    scoring.seen[0] = counters[FREE]
    scoring.seen[1] = waiting
    scoring.seen[2] = demand


@apart
def score(program, values, scoring, job, now, jobs, estimates):
    """Return the score of ``job``, float64; the smallest score goes first.

    ``values`` float64 are the parameters and numbers of ``program``.
    """
    stack = scoring.stack
    top = -1
    for step in range(len(program)):
        operation, argument = program[step, 0], program[step, 1]
        if operation == VALUE:
            top += 1
            stack[top] = values[argument]
        elif operation == FEATURE:
            top += 1
            stack[top] = _feature(argument, scoring, job, now, jobs, estimates)
        elif operation <= TANH:
            stack[top] = _of_one(operation, stack[top])
        elif operation == WHERE:
            top -= 2
            stack[top] = stack[top + 1] if stack[top] != 0.0 else stack[top + 2]
        else:
            top -= 1
            stack[top] = _of_two(operation, stack[top], stack[top + 1])
        if stack[top] != stack[top]:  # not a number
            stack[top] = 0.0
    return min(max(stack[0], -LARGEST), LARGEST)


@apart
def _feature(which, scoring, job, now, jobs, estimates):
    value = 0.0
    if which == N:
        value = 1.0 * jobs.procs[job]
    elif which == R:
        value = 1.0 * estimates.order[job]
    elif which == REQUESTED:
        value = 1.0 * jobs.requested[job]
    elif which == SUBMIT:
        value = 1.0 * jobs.submit[job]
    elif which == WAIT:
        value = 1.0 * (now - jobs.submit[job])
    elif which == SINCE:
        value = -1.0 * jobs.submit[job]
    elif which == HOUR:
        i = len(scoring.clock) - 1
        while i > 0 and scoring.clock[i, 0] > now:
            i -= 1
        value = (now + scoring.clock[i, 1]) % DAY_S / 3600.0
    elif which == PROCS:
        value = 1.0 * scoring.procs
    else:
        value = scoring.seen[which - FREE_NOW]
    return value


@apart
def _of_one(operation, a):
    value = -a
    if operation == LOG:
        value = np.log(max(a, LEAST_LOG))
    elif operation == SQRT:
        value = np.sqrt(max(a, 0.0))
    elif operation == EXP:
        value = np.exp(a)
    elif operation == ABS:
        value = abs(a)
    elif operation == TANH:
        value = np.tanh(a)
    return value


@apart
def _of_two(operation, a, b):
    value = a + b
    if operation == SUBTRACT:
        value = a - b
    elif operation == MULTIPLY:
        value = a * b
    elif operation == DIVIDE:
        value = a / b if b != 0.0 else 0.0
    elif operation == POWER:
        value = np.power(a, b)
    elif operation == MIN:
        value = min(a, b)
    elif operation == MAX:
        value = max(a, b)
    elif operation == BELOW:
        value = 1.0 if a < b else 0.0
    elif operation == UP_TO:
        value = 1.0 if a <= b else 0.0
    return value
