"""Quantiles of a runtime given how long the job has run, from those at submission."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence


def conditional(
    levels: Sequence[float], quantiles: Sequence[float], requested: float, elapsed: float, wanted: Sequence[float]
) -> list[float]:
    """Return quantiles, at the levels ``wanted``, of a runtime beyond ``elapsed`` seconds.

    ``quantiles`` are those of the whole runtime at ``levels``, both ascending. Between them the logarithm of runtime is assumed
    uniform; level 0 is a second and level 1 the request, as in ``models.runtime.quantile.estimate_again``. Whole seconds in
    1..request; a job that has reached its request gets the request at every level.
    """
    if elapsed >= requested:
        return [float(requested)] * len(wanted)
    at, seconds = [0.0, *levels, 1.0], [1.0, *map(float, quantiles), float(requested)]
    place = next(place for place in range(1, len(at)) if seconds[place] > elapsed or place == len(at) - 1)
    passed = at[place - 1]
    if elapsed > seconds[place - 1]:
        share = math.log(elapsed / seconds[place - 1]) / math.log(seconds[place] / seconds[place - 1])
        passed += (at[place] - passed) * share
    runtimes_s = []
    for level in wanted:
        beyond = passed + level * (1.0 - passed)
        place = min(bisect_left(at, beyond, 1), len(at) - 1)
        share = (beyond - at[place - 1]) / (at[place] - at[place - 1])
        exact = seconds[place - 1] * math.exp(share * math.log(seconds[place] / seconds[place - 1]))
        runtimes_s.append(min(max(float(round(exact)), math.floor(elapsed) + 1.0), float(requested)))
    return runtimes_s
