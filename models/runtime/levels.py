"""Online calibration of quantile levels, in jobs and in processor-seconds.

Adaptive conformal inference (Gibbs & Candes 2021): whenever a job ends, the level used for each requested level rises
if the job has outlived its quantile and falls if it has not. It has two parts. The level itself is calibrated in jobs:
a share q of all jobs run no longer than their quantile q. From ``UPPER`` on, large jobs get more or less than that, in
proportion to the share of all processor-seconds that smaller jobs took. This ``tilt`` is calibrated in
processor-seconds: jobs with a share q of the processor-seconds run no longer than their quantile q. Without it a
correct 80 % quantile holds for far less than 80 % of the work, because the jobs that outlive it are the long ones.
Below ``UPPER`` levels are calibrated in jobs alone.

If a level falls on the request itself, the needed share of such jobs get their request, the others a second less. Many
jobs end exactly there, so no level could be met otherwise (smoothed conformal predictors; Vovk, Gammerman & Shafer
2005).
"""

from __future__ import annotations

import math

import numpy as np

from features.jit import kernel
from features.jobs.like_jobs import COMMON, HOUR, WEEKDAY

UPPER = 0.75
"""Levels from here on, which reservations and the registry use, are also calibrated in processor-seconds."""
TILTING = 0.5
"""Step of the tilt, relative to that of the levels. 0.4 and 0.5 do equally well on the first halves of KTH-SP2 and
SDSC-SP2."""
HEAVIEST = 20.0
"""Max weight of a job in the tilt: its processor-seconds relative to the mean job. Not tuned."""
SIZES = 80
"""Number of sizes. Jobs of one size request the same processor-seconds within a factor of sqrt(2)."""
WORK = SIZES + 1
"""Length of the record of work: the processor-seconds of the ended jobs of each size, then the number of ended jobs."""
GOLDEN = 0.6180339887498949
"""Its multiples, modulo 1, are spread evenly (Weyl 1916)."""


@kernel
def size_of(procs, requested):
    """Return the size of a job, below ``SIZES``."""
    return min(np.int64(2.0 * math.log(1.0 * procs * requested) / math.log(2.0) + 1e-9), SIZES - 1)


@kernel
def weigh(model, work, procs, requested, runtime):
    """Record at ``model[work]`` that a job has ended; return its relative processor-seconds.

    They are relative to the mean job's, at most ``HEAVIEST``.
    """
    done = 1.0 * procs * runtime
    model[work + size_of(procs, requested)] += done
    model[work + SIZES] += 1.0
    total = 0.0
    for size in range(SIZES):
        total += model[work + size]
    return min(done * model[work + SIZES] / total, HEAVIEST)


@kernel
def smaller(model, work, procs, requested):
    """Return the share of all processor-seconds of jobs smaller than this one.

    Half of those of its own size count; 0.5 until a job has ended.
    """
    size = size_of(procs, requested)
    less, total = 0.0, 0.0
    for other in range(SIZES):
        total += model[work + other]
        if other < size:
            less += model[work + other]
    return 0.5 if total == 0.0 else (less + 0.5 * model[work + size]) / total


@kernel
def taken(level, calibrated, tilt, size):
    """Return the level to use for ``level``.

    A level calibrated to at most 0 or at least 1 is the same for jobs of all sizes.
    """
    if level < UPPER or calibrated <= 0.0 or calibrated >= 1.0:
        return calibrated
    return calibrated + tilt * size


@kernel
def place_of(x):
    """Return a job's rank among the jobs that end at their request, in [0, 1).

    It comes from the second of the week of the submission, so that every caller gets the same answer.
    """
    common = len(x) - COMMON
    return np.rint(3600.0 * (24.0 * x[common + WEEKDAY] + x[common + HOUR])) * GOLDEN % 1.0
