"""The workload model of Lublin & Feitelson: sizes, runtimes and arrivals of batch jobs.

U. Lublin and D. G. Feitelson, "The workload on parallel supercomputers: modeling the characteristics of rigid jobs", Journal of
Parallel and Distributed Computing 63(11), 2003, pp. 1105-1122. Only what is published is here, but for ``whole``; users and
their requests are in :mod:`pipelines.ingest.people`. The numbers are of the set for batch jobs, from the authors' program
``m_lublin99.c``; the Java port in GridSim (``WorkloadLublin99``) has the same, the text of the paper was not at hand. They are for 128
processors; on other machines the distance between the machine and the size where the stages meet is kept. Times between arrivals are paid for
in half-hour slots of unequal worth, the daily cycle; there is no week. Offered load is one factor on these times, before the cycle.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc

from features.clock import DAY_S

SLOTS = 48
SLOT_S = DAY_S // SLOTS
LONGEST_LOG_S = 12.0
"""Natural logarithm of the longest runtime the model gives, just under two days; longer draws are drawn again."""
LONGEST_LOG_GAP = 13.0
"""Natural logarithm of the longest time between arrivals, about five days; longer draws are drawn again."""


@dataclass(frozen=True)
class Parameters:
    """The model's parameters, named as in the authors' program.

    Processors are counts, times seconds, logarithms base 2 for sizes.
    """

    serial: float  # probability of a job of one processor
    pow2: float  # probability of a parallel job whose size is a power of two
    ulow: float  # log2 of the smallest parallel size
    uhi_umed: float  # log2 of the machine less the log2 size where the two uniform stages meet
    uprob: float  # probability of the lower stage
    a1: float  # shape and scale of the gamma of log runtimes, short jobs
    b1: float
    a2: float  # the same, long jobs
    b2: float
    pa: float  # probability of a short job: pa * size + pb, kept within 0..1
    pb: float
    aarr: float  # shape and scale of the gamma of log inter-arrival times at rush hour
    barr: float
    arar: float  # factor on that shape for the whole day
    anum: float  # shape and scale, in half hours, of the gamma that is the daily cycle
    bnum: float
    day_start: int  # half hour of the day at which that gamma begins


BATCH = Parameters(
    serial=0.2927, pow2=0.6686, ulow=1.2, uhi_umed=2.0, uprob=0.875,
    a1=6.57, b1=0.823, a2=639.1, b2=0.0156, pa=-0.003, pb=0.6986,
    aarr=6.0415, barr=0.8531, arar=1.0519, anum=6.1271, bnum=5.2740, day_start=11,
)  # fmt: skip
"""The published parameters of batch jobs."""


def sizes(rng: np.random.Generator, jobs: int, procs: int, model: Parameters = BATCH, whole: bool = True) -> np.ndarray:
    """Draw processors of ``jobs`` jobs on a machine of ``procs``, int64 in 1..procs.

    Serial, a power of two, or any; the log2 of a parallel size is uniform in two stages. On a machine too small for the two
    stages (fewer than about eight processors) they are pushed together. Without ``whole`` (ours), a size that rounds up to the
    whole machine is drawn again from the upper stage and not rounded to a power of two.
    """
    high = np.log2(procs)
    low = min(model.ulow, high)
    middle = max(high - model.uhi_umed, low)
    kind = rng.random(jobs)
    lower = rng.random(jobs) < model.uprob
    log2 = rng.random(jobs)
    log2 *= np.where(lower, middle - low, high - middle)
    log2 += np.where(lower, low, middle)
    rounded = kind < model.serial + model.pow2
    if not whole:
        full = rounded & (np.floor(log2 + 0.5) >= high)
        log2[full] = rng.uniform(middle, high, int(full.sum()))
        rounded &= ~full
    log2[rounded] = np.floor(log2[rounded] + 0.5)
    log2[kind < model.serial] = 0.0
    return np.clip(np.floor(np.exp2(log2) + 0.5), 1, procs).astype(np.int64)


def runtimes(rng: np.random.Generator, size: np.ndarray, model: Parameters = BATCH) -> np.ndarray:
    """Draw runtimes in seconds of jobs of ``size`` processors, int64 [jobs], at least 1.

    The logarithm is hyper-gamma, mixed by size.
    """
    log_s = _log_runtimes(rng, size, model)
    while len(again := np.flatnonzero(log_s > LONGEST_LOG_S)):
        log_s[again] = _log_runtimes(rng, size[again], model)
    return np.exp(log_s).astype(np.int64)


def _log_runtimes(rng: np.random.Generator, size: np.ndarray, model: Parameters) -> np.ndarray:
    short = rng.random(len(size)) < model.pa * size + model.pb
    return rng.standard_gamma(np.where(short, model.a1, model.a2)) * np.where(short, model.b1, model.b2)


def even_arrivals(rng: np.random.Generator, jobs: int, model: Parameters = BATCH) -> np.ndarray:
    """Draw arrival times before the daily cycle, seconds, float64 [jobs], the first 0.

    Log inter-arrival times are gamma.
    """
    log_gap = rng.gamma(model.aarr * model.arar, model.barr, jobs)
    while len(again := np.flatnonzero(log_gap > LONGEST_LOG_GAP)):
        log_gap[again] = rng.gamma(model.aarr * model.arar, model.barr, len(again))
    log_gap[0] = -np.inf
    return np.cumsum(np.exp(log_gap))


def daily_cycle(model: Parameters = BATCH) -> np.ndarray:
    """Return the relative arrival rate of each half hour from midnight, float64 [48], mean 1."""
    half_hours = np.arange(model.day_start, model.day_start + SLOTS)
    rate = np.diff(gammainc(model.anum, (np.append(half_hours, half_hours[-1] + 1) - 0.5) / model.bnum))
    cycle = np.empty(SLOTS)
    cycle[(half_hours - 1) % SLOTS] = rate  # the model counts half hours from 1
    return cycle / cycle.mean()


def on_the_clock(even_s: np.ndarray, model: Parameters = BATCH) -> np.ndarray:
    """Bend even time to the clock; seconds from midnight, float64.

    Slow hours stretch, busy hours shrink, a day stays a day.
    """
    day, within = np.divmod(even_s, DAY_S)
    return day * DAY_S + np.interp(within, _passed(model), np.arange(SLOTS + 1) * SLOT_S)


def off_the_clock(clock_s: float, model: Parameters = BATCH) -> float:
    """Return the inverse of :func:`on_the_clock`."""
    day, within = divmod(clock_s, DAY_S)
    return float(day * DAY_S + np.interp(within, np.arange(SLOTS + 1) * SLOT_S, _passed(model)))


def _passed(model: Parameters) -> np.ndarray:
    passed = np.concatenate([[0.0], np.cumsum(daily_cycle(model))]) * SLOT_S
    passed[-1] = DAY_S
    return passed
