"""Generator of workloads with users, sessions and requested times, if no log will do.

The model of Lublin & Feitelson gives sizes, runtimes and arrivals; the users' model (:mod:`sim.workloads.people`)
orders them: each user's jobs are alike, and the distributions stay the model's. docs/studies/workload.md compares it
with a real trace.

U. Lublin and D. G. Feitelson, "The workload on parallel supercomputers: modeling the characteristics of rigid jobs",
Journal of Parallel and Distributed Computing 63(11), 2003, pp. 1105-1122. All is as published, except the option
``whole``; users and their requests are in :mod:`sim.workloads.people`. The parameters for batch jobs are from the
authors' program ``m_lublin99.c``, as in the Java port in GridSim (``WorkloadLublin99``); the paper's text was not
available. They are for 128 processors. On other machines the log2 distance from the machine's size to the size where
the stages meet is kept. A daily cycle of half hours stretches times between arrivals; there is no weekly cycle. Offered
load is one factor on these times, before the cycle.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from numbers import Integral, Real

import numpy as np
import pandas as pd
from scipy.special import gammainc

from features import limits
from features.clock import DAY_S
from features.errors import InputError, shown
from features.jobs.schema import Trace, conform
from sim.workloads import people

GENERATOR = 2
"""Version of the generator; it changes whenever any value of a generated job changes."""
ORIGIN_UNIX_S = 1_704_067_200
"""2024-01-01 00:00 UTC, a Monday."""
USERS_PER_GROUP = 8
COMPLETED, FAILED = 1, 0  # SWF status


@dataclass(frozen=True)
class Workload:
    """Settings: ``jobs`` jobs of ``users`` users for a machine of ``procs`` processors.

    ``load`` is offered load, sum(procs * runtime) / (machine * time from first to last submission); it sets that time.
    ``kept``, if given, is the number of first jobs to keep: a shorter trace of the same jobs. ``generator`` is the
    version: 1 makes more jobs as wide as the machine and more short ones that request hours. Raises InputError for a
    value out of range.
    """

    jobs: int = 10_000
    procs: int = 256
    users: int = 100
    load: float = 0.6
    seed: int = 0
    kept: int | None = None
    generator: int = GENERATOR

    def __post_init__(self) -> None:
        for name, lowest, most in (
            ("generator", 1, GENERATOR),
            ("jobs", 2, limits.JOBS),
            ("procs", 1, limits.PROCESSORS),
            ("users", 1, limits.JOBS // 100),
            ("seed", 0, 2**64),
        ):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < lowest:
                raise InputError(f"generated workload: {name} must be a whole number of at least {lowest}, not {shown(value)}")
            if int(value) > most:
                raise InputError(f"generated workload: {name} must be at most {most:,}, not {shown(value)}")
        if self.kept is not None and (
            not isinstance(self.kept, int) or isinstance(self.kept, bool) or not 2 <= self.kept <= self.jobs
        ):
            raise InputError(
                f"generated workload: kept must be a whole number from 2 to {self.jobs}, the jobs, not {shown(self.kept)}"
            )
        if not isinstance(self.load, Real) or isinstance(self.load, bool) or not 0.01 <= self.load <= 10:
            raise InputError(f"generated workload: load must be a number from 0.01 to 10, not {shown(self.load)}")


def generate(config: Workload) -> Trace:
    """Return the workload of ``config`` as a ``generated`` trace: same config, same bytes.

    Users are named by expected activity, ``user1`` first; a failed run and one killed at its limit have status 0. Sizes
    and runtimes depend on ``jobs``, ``procs`` and ``seed`` alone, not on the load.
    """
    size_rng, arrival_rng, people_rng, request_rng, group_rng = np.random.default_rng(config.seed).spawn(5)
    procs = sizes(size_rng, config.jobs, config.procs, whole=config.generator == 1)
    runtime_s, killed = people.cut_at_limits(size_rng, runtimes(size_rng, procs))
    submit_s = _arrivals(arrival_rng, config, float(procs @ runtime_s))
    behaviour = people.behave(people_rng, submit_s, config.users, procs, runtime_s)
    procs, runtime_s, killed = _assign(behaviour, procs, runtime_s, killed)
    alike = behaviour if config.generator == 1 else people.by_length(behaviour, runtime_s, killed)
    requested_s = people.requests(request_rng, alike, runtime_s, killed)
    group = group_rng.integers(math.ceil(config.users / USERS_PER_GROUP), size=config.users)
    kept = slice(config.kept)
    jobs = conform(
        {
            "job_id": np.arange(1, config.jobs + 1)[kept],
            "submit_s": submit_s[kept],
            "runtime_s": runtime_s[kept],
            "procs": procs[kept],
            "requested_s": requested_s[kept],
            "user": _named("user", behaviour.user[kept]),
            "group": _named("group", group[behaviour.user][kept]),
            "executable": _named("app", (behaviour.user.astype(np.int64) * people.APPLICATIONS + behaviour.application)[kept]),
            "status": np.where(behaviour.failed | killed, FAILED, COMPLETED)[kept],
        },
        len(submit_s[kept]),
    )
    settings = {name: value for name, value in asdict(config).items() if value is not None}
    options = ", ".join(f"{name} {value}" for name, value in settings.items())
    return Trace(
        name="generated",
        jobs=jobs,
        procs=config.procs,
        origin_unix_s=ORIGIN_UNIX_S,
        timezone="UTC",
        generated=True,
        source=f"generated workload ({options})",
        header={name: str(value) for name, value in settings.items()},
        notes=(
            "This workload is generated, not recorded: sizes, runtimes and arrivals after Lublin & Feitelson (JPDC 2003, batch jobs), "
            f"with users, sessions, repeated jobs and requested times of our own; {options}.",
        ),
    )


def _arrivals(rng: np.random.Generator, config: Workload, work: float) -> np.ndarray:
    """Return submissions, int64 seconds from 0, over a time set by the load.

    In that time ``work`` processor-seconds are the requested load. The inter-arrival times are scaled before the daily
    cycle is applied, so the cycle is the model's at any load.
    """
    even_s = even_arrivals(rng, config.jobs)
    even_s *= off_the_clock(work / (config.procs * config.load)) / even_s[-1]
    return np.rint(on_the_clock(even_s)).astype(np.int64)


def _assign(
    behaviour: people.PeopleChoices, procs: np.ndarray, runtime_s: np.ndarray, killed: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Assign the sampled (size, runtime, killed) to the jobs by rank.

    Sizes come first, then the runtimes of each size. Only the order changes, so the distribution of sizes, and of
    runtimes given the size, is that of the sample.
    """
    sample = np.lexsort((runtime_s, procs))
    procs, runtime_s, killed = procs[sample], runtime_s[sample], killed[sample]
    size = np.empty_like(procs)
    size[np.argsort(behaviour.size_rank, kind="stable")] = procs
    place = np.lexsort((behaviour.runtime_rank, size))
    runtime, at_limit = np.empty_like(runtime_s), np.empty_like(killed)
    runtime[place], at_limit[place] = runtime_s, killed
    return size, runtime, at_limit


def _named(kind: str, numbers: np.ndarray) -> pd.Categorical:
    used = np.flatnonzero(np.bincount(numbers))
    return pd.Categorical.from_codes(
        np.searchsorted(used, numbers), categories=pd.Index([f"{kind}{n + 1}" for n in used], dtype="str")
    )


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

    A size is 1, a power of two, or any; the log2 of a parallel size is uniform in two stages. On a machine of nine
    processors or fewer the lower stage is a point. Without ``whole`` (our option), a size that rounds up to the whole
    machine is drawn again from the upper stage and not rounded to a power of two.
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
