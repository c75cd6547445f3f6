"""Mixed policies over standardised features: in units of their standard deviation.

The deviation is over the jobs that wait at the moment. Subtracting the mean would not change the order, so only the weights are
divided. A feature that is equal for all waiting jobs gets weight 0.
"""

from __future__ import annotations

import numpy as np

from features.jit import kernel


@kernel
def standardise(plain, weights, line, begin, waiting, jobs, estimates, now):
    """Write ``plain`` [6] divided by the features' standard deviations to ``weights`` [6].

    The deviations are over the ``waiting`` jobs in ``line`` from index ``begin`` on.
    """
    for feature in range(6):
        mean, least, most = 0.0, np.inf, -np.inf
        for i in range(begin, begin + waiting):
            value = _feature(feature, line[i], jobs, estimates, now)
            mean += value
            least, most = min(least, value), max(most, value)
        mean /= max(waiting, 1)
        squares = 0.0
        for i in range(begin, begin + waiting):
            squares += (_feature(feature, line[i], jobs, estimates, now) - mean) ** 2
        deviation = np.sqrt(squares / max(waiting, 1))
        # with equal values, rounding of the mean may give a deviation other than 0
        weights[feature] = plain[feature] / deviation if most > least else 0.0


@kernel
def _feature(feature, job, jobs, estimates, now):
    n = 1.0 * jobs.procs[job]
    r = 1.0 * estimates.order[job]
    wait = 1.0 * (now - jobs.submit[job])
    value = n
    if feature == 1:
        value = r
    elif feature == 2:
        value = wait
    elif feature == 3:
        value = r / n
    elif feature == 4:
        value = (wait + r) / r
    elif feature == 5:
        value = r * n
    return value
