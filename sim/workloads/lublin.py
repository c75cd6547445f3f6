"""The workload model of Lublin & Feitelson: sizes, runtimes and arrivals of batch jobs.

U. Lublin and D. G. Feitelson, "The workload on parallel supercomputers: modeling the characteristics of rigid jobs", Journal of
Parallel and Distributed Computing 63(11), 2003, pp. 1105-1122. All is as published, except the option ``whole``; users and their
requests are in :mod:`sim.workloads.people`. The parameters for batch jobs are from the authors' program ``m_lublin99.c``, as
in the Java port in GridSim (``WorkloadLublin99``); the paper's text was not available. They are for 128 processors. On other
machines the log2 distance from the machine's size to the size where the stages meet is kept. A daily cycle of half hours
stretches times between arrivals; there is no weekly cycle. Offered load is one factor on these times, before the cycle.
"""

import numpy as np
from scipy.special import gammainc

from features.clock import DAY_S

SLOTS = 48
SLOT_S = DAY_S // SLOTS
LONGEST_LOG_S = 12.0
"""Natural logarithm of the longest runtime the model gives, just under two days; longer draws are drawn again."""
LONGEST_LOG_GAP = 13.0
"""Natural logarithm of the longest time between arrivals, about five days; longer draws are drawn again."""


# The published parameters of batch jobs, named as in the authors' program: processors are counts, times seconds, logarithms base 2 for sizes.
_SERIAL = 0.2927  # probability of a job of one processor
_POW2 = 0.6686  # probability of a parallel job whose size is a power of two
_ULOW = 1.2  # log2 of the smallest parallel size
_UHI_UMED = 2.0  # log2 of the machine less the log2 size where the two uniform stages meet
_UPROB = 0.875  # probability of the lower stage
_A1, _B1 = 6.57, 0.823  # shape and scale of the gamma of log runtimes, short jobs
_A2, _B2 = 639.1, 0.0156  # the same, long jobs
_PA, _PB = -0.003, 0.6986  # probability of a short job: pa * size + pb, kept within 0..1
_AARR, _BARR = 6.0415, 0.8531  # shape and scale of the gamma of log inter-arrival times at rush hour
_ARAR = 1.0519  # factor on that shape for the whole day
_ANUM, _BNUM = 6.1271, 5.2740  # shape and scale, in half hours, of the gamma that is the daily cycle
_DAY_START = 11  # half hour of the day at which that gamma begins


def sizes(rng: np.random.Generator, jobs: int, procs: int, whole: bool = True) -> np.ndarray:
    """Draw processors of ``jobs`` jobs on a machine of ``procs``, int64 in 1..procs.

    A size is 1, a power of two, or any; the log2 of a parallel size is uniform in two stages. On a machine of nine processors or
    fewer the lower stage is a point. Without ``whole`` (our option), a size that rounds up to the whole machine is drawn again
    from the upper stage and not rounded to a power of two.
    """
    high = np.log2(procs)
    low = min(_ULOW, high)
    middle = max(high - _UHI_UMED, low)
    kind = rng.random(jobs)
    lower = rng.random(jobs) < _UPROB
    log2 = rng.random(jobs)
    log2 *= np.where(lower, middle - low, high - middle)
    log2 += np.where(lower, low, middle)
    rounded = kind < _SERIAL + _POW2
    if not whole:
        full = rounded & (np.floor(log2 + 0.5) >= high)
        log2[full] = rng.uniform(middle, high, int(full.sum()))
        rounded &= ~full
    log2[rounded] = np.floor(log2[rounded] + 0.5)
    log2[kind < _SERIAL] = 0.0
    return np.clip(np.floor(np.exp2(log2) + 0.5), 1, procs).astype(np.int64)


def runtimes(rng: np.random.Generator, size: np.ndarray) -> np.ndarray:
    """Draw runtimes in seconds of jobs of ``size`` processors, int64 [jobs], at least 1.

    The logarithm is hyper-gamma; the share of short jobs depends on the size.
    """
    log_s = _log_runtimes(rng, size)
    while len(again := np.flatnonzero(log_s > LONGEST_LOG_S)):
        log_s[again] = _log_runtimes(rng, size[again])
    return np.exp(log_s).astype(np.int64)


def _log_runtimes(rng: np.random.Generator, size: np.ndarray) -> np.ndarray:
    short = rng.random(len(size)) < _PA * size + _PB
    return rng.standard_gamma(np.where(short, _A1, _A2)) * np.where(short, _B1, _B2)


def even_arrivals(rng: np.random.Generator, jobs: int) -> np.ndarray:
    """Draw arrival times before the daily cycle, seconds, float64 [jobs], the first 0.

    Log inter-arrival times are gamma.
    """
    log_gap = rng.gamma(_AARR * _ARAR, _BARR, jobs)
    while len(again := np.flatnonzero(log_gap > LONGEST_LOG_GAP)):
        log_gap[again] = rng.gamma(_AARR * _ARAR, _BARR, len(again))
    log_gap[0] = -np.inf
    return np.cumsum(np.exp(log_gap))


def daily_cycle() -> np.ndarray:
    """Return the relative arrival rate of each half hour from midnight, float64 [48], mean 1."""
    half_hours = np.arange(_DAY_START, _DAY_START + SLOTS)
    rate = np.diff(gammainc(_ANUM, (np.append(half_hours, half_hours[-1] + 1) - 0.5) / _BNUM))
    cycle = np.empty(SLOTS)
    cycle[(half_hours - 1) % SLOTS] = rate  # the model counts half hours from 1
    return cycle / cycle.mean()


def on_the_clock(even_s: np.ndarray) -> np.ndarray:
    """Apply the daily cycle to arrival times; return seconds from midnight, float64.

    Gaps grow in quiet hours and shrink in busy ones; a whole day keeps its length.
    """
    day, within = np.divmod(even_s, DAY_S)
    return day * DAY_S + np.interp(within, _passed(), np.arange(SLOTS + 1) * SLOT_S)


def off_the_clock(clock_s: float) -> float:
    """Return the inverse of :func:`on_the_clock`."""
    day, within = divmod(clock_s, DAY_S)
    return float(day * DAY_S + np.interp(within, np.arange(SLOTS + 1) * SLOT_S, _passed()))


def _passed() -> np.ndarray:
    passed = np.concatenate([[0.0], np.cumsum(daily_cycle())]) * SLOT_S
    passed[-1] = DAY_S
    return passed
