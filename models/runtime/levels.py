"""Which level of a job's distribution is taken for the level asked for, so that as many jobs and as much work outlive it as should.

Adaptive conformal inference (Gibbs & Candes 2021): whenever a job ends, the level taken for each level asked for rises if the job has outlived its
quantile and falls if it has not. Two parts make it up. The level itself is calibrated in jobs: of all jobs a share q run no longer than
their quantile q. From ``UPPER`` on large jobs get more or less than that, in proportion to the share of all processor-seconds that smaller jobs took,
and that ``tilt`` is calibrated in processor-seconds: jobs that make up a share q of the processor-seconds run no longer than their quantile q.
Without it a right 80 % quantile holds for far less than 80 % of the work, for the jobs that outlive it are the long ones. Below ``UPPER`` levels are kept to in
jobs alone.

Where a level falls on the request itself, as large a share of such jobs get their request as the level needs, the others a second less: with so many jobs
that end exactly there no level could otherwise be kept to (smoothed conformal predictors; Vovk, Gammerman & Shafer 2005).
"""

from __future__ import annotations

import math

import numpy as np

from features.jit import kernel
from models.runtime.job_features import COMMON, HOUR, WEEKDAY

UPPER = 0.75
"""Levels from here on are kept to in processor-seconds, too: those that reservations and the registry ask for."""
TILTING = 0.5
"""The step of the tilt, in that of the levels. 0.4 and 0.5 were tried on the first halves of KTH-SP2 and SDSC-SP2, and do the same."""
HEAVIEST = 20.0
"""A job moves the tilt by its processor-seconds in those of the mean job, at most by this. Not tuned."""
SIZES = 80
"""Jobs are of one size that request the same processor-seconds within a factor of sqrt(2)."""
WORK = SIZES + 1
"""What is known of work: the processor-seconds of the ended jobs of each size, and behind them how many jobs have ended."""
GOLDEN = 0.6180339887498949
"""Multiples of it lie evenly between whole numbers (Weyl 1916)."""


@kernel
def size_of(procs, requested):
    """The size of a job, below ``SIZES``."""
    return min(np.int64(2.0 * math.log(1.0 * procs * requested) / math.log(2.0) + 1e-9), SIZES - 1)


@kernel
def weigh(model, work, procs, requested, runtime):
    """Note at ``model[work]`` that a job has ended; returns its processor-seconds in those of the mean job, at most ``HEAVIEST``."""
    done = 1.0 * procs * runtime
    model[work + size_of(procs, requested)] += done
    model[work + SIZES] += 1.0
    total = 0.0
    for size in range(SIZES):
        total += model[work + size]
    return min(done * model[work + SIZES] / total, HEAVIEST)


@kernel
def smaller(model, work, procs, requested):
    """The share of all processor-seconds that jobs smaller than this one took, half of those of its size among them; 0.5 before any job has ended."""
    size = size_of(procs, requested)
    less, total = 0.0, 0.0
    for other in range(SIZES):
        total += model[work + other]
        if other < size:
            less += model[work + other]
    return 0.5 if total == 0.0 else (less + 0.5 * model[work + size]) / total


@kernel
def taken(level, calibrated, tilt, size):
    """The level taken for ``level``; one that is calibrated to 0 and less or to 1 and more is that for every job."""
    if level < UPPER or calibrated <= 0.0 or calibrated >= 1.0:
        return calibrated
    return calibrated + tilt * size


@kernel
def place_of(x):
    """Where on its request a job is placed, in [0, 1): by the second of the week in which it was submitted, so that anyone gets the same answer."""
    common = len(x) - COMMON
    return np.rint(3600.0 * (24.0 * x[common + WEEKDAY] + x[common + HOUR])) * GOLDEN % 1.0
