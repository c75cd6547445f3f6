"""Users of a generated workload: their sessions, applications and requested times.

Sessions are delimited by submissions (Zakay & Feitelson, "On identifying user session boundaries in parallel workload
logs", JSSPP 2012); requested times are few and round (Tsafrir, Etsion & Feitelson, "Modeling user runtime estimates",
JSSPP 2005). Neither paper says how jobs repeat: the numbers below are ours, tuned by hand towards figures of KTH-SP2
and SDSC-SP2 (docs/studies/workload.md).

Jobs are sampled from the model (:mod:`sim.workloads.workload`), then assigned by rank. Each arrival gets a user, an
application and two ranks. Sampled sizes are assigned in the order of one rank, then, within each size, runtimes in the
order of the other. So the distributions of sizes, and of runtimes given the size, stay the model's whatever users do.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numba import njit

from features.clock import DAY_S

SESSION_GAP_S = 20 * 60
"""A user's submissions less than this apart belong to one session."""
APPLICATIONS = 4
"""Applications that each user runs."""

ZIPF_EXPONENT = 1.3  # activity of the k-th user is (k + offset) ** -exponent
ZIPF_OFFSET = 4.0
STAY = 0.72  # an arrival while sessions are open belongs to one of them with at most this probability ...
LEAVE = 0.4  # ... less if the sum of their appeals is small beside this weight of leaving
IMPATIENCE = 1.5  # the appeal of a session falls with the runtime of its last job: users that wait for short jobs come back
RECENT = 64  # a new session is by a user of one of this many last sessions ...
RETURN = 0.65  # ... with this probability: people work for a while and go (Feitelson's locality of sampling)
SWITCH_WITHIN = 0.05  # probability of another application: within a session, at the start of one
SWITCH_BETWEEN = 0.25
CHANGE_WITHIN = 0.06  # probability of other input for the same application, hence another typical runtime
CHANGE_BETWEEN = 0.2
CHANGE = 0.5  # how far the typical runtime moves, in standard deviations between applications
SPREAD = (1 + CHANGE**2) ** 0.5  # standard deviation of typical runtimes, in the same unit
RESIZE = 0.1  # probability of the same input on another number of processors
EXACT = 0.5  # probability that a run repeats the last one almost exactly; else it varies about the typical one
EXACT_NOISE = 0.003
NOISE = 0.15
YIELD = 1.0  # people yield: sizes and runtimes sink by so many standard deviations per unit of recent work above the usual ...
MEMORY_S = 2 * DAY_S  # ... and recent work decays with this time constant
FAIL = 0.015  # probability of a run that fails at once: after one that did not, after one that did
FAIL_AGAIN = 0.6

STEPS = 1000  # number of quantiles from which users guess the work of a job

MINUTE_S, HOUR_S = 60, 3600
POPULAR_S = np.array(
    [m * MINUTE_S for m in (5, 10, 15, 20, 30, 45, 60, 90)] + [h * HOUR_S for h in (2, 3, 4, 5, 6, 8, 10, 12, 18, 24, 36, 48)],
    np.int64,
)
"""The twenty requested times in use; the last is the max that the generated site allows."""
ROUNDEST_S = np.array([m * MINUTE_S for m in (5, 10, 30)] + [h * HOUR_S for h in (1, 2, 4, 8, 12, 24, 48)], np.int64)
"""The roundest requested times."""
ROUNDEST = 0.3  # share of configurations whose request is one of the roundest
ODD = 0.13  # share whose request is any multiple of a minute, or of ten minutes above an hour
MARGIN = 0.11  # mean margin over users and configurations: 0 requests the runtime, 1 the longest allowed
KILL_REACH = 0.1  # |ln(runtime / popular request)| within which a run may have ended at its limit ...
KILL = 0.2  # ... and the probability that it has
SHORTER = 16  # a run shorter than its configuration's longest by this factor, or its square, ..., is submitted as another input


@dataclass(frozen=True)
class PeopleChoices:
    """The choices of :func:`behave` for each job: arrays [jobs] in order of arrival.

    ``user`` and ``configuration`` count from 0; a configuration is one user's application with one input.
    ``application`` is in 0..APPLICATIONS-1. ``size_rank`` and ``runtime_rank`` have no unit: a greater one means more
    processors or a longer runtime.
    """

    user: np.ndarray
    application: np.ndarray
    configuration: np.ndarray
    failed: np.ndarray
    size_rank: np.ndarray
    runtime_rank: np.ndarray


def activity(users: int) -> np.ndarray:
    """Return the probability that a session is of each user, float64 [users].

    It falls with the user's number, by a Zipf-Mandelbrot law.
    """
    weight = (np.arange(1, users + 1) + ZIPF_OFFSET) ** -ZIPF_EXPONENT
    return weight / weight.sum()


def behave(rng: np.random.Generator, submit_s: np.ndarray, users: int, procs: np.ndarray, runtime_s: np.ndarray) -> PeopleChoices:
    """Assign every arrival to one of ``users`` and to a configuration of that user.

    ``submit_s`` is int64 seconds, ascending. From ``procs`` and ``runtime_s``, the sizes and runtimes to be assigned,
    users guess how much work a job is.
    """
    grid = np.linspace(0, 1, STEPS)
    usual = float(procs @ runtime_s) / max(int(submit_s[-1]), 1)
    return PeopleChoices(
        *_behave(rng, submit_s, np.cumsum(activity(users)), np.quantile(procs, grid), np.quantile(runtime_s, grid), usual)
    )


@njit(cache=True, nogil=True)
def _behave(rng, submit_s, cumulative, sizes, runtimes, usual):
    jobs, users = len(submit_s), len(cumulative)
    user = np.empty(jobs, np.int32)
    application = np.empty(jobs, np.int8)
    configuration = np.empty(jobs, np.int32)
    failed = np.empty(jobs, np.bool_)
    size_rank = np.empty(jobs)
    runtime_rank = np.empty(jobs)

    last_s = np.full(users, -SESSION_GAP_S, np.int64)
    length = np.zeros(users, np.int64)  # jobs in the user's session so far
    appeal = np.zeros(users)
    opened = np.empty(users, np.int64)  # users whose sessions are open, in the first n_open places
    n_open = 0
    recent = np.empty(RECENT, np.int64)
    n_sessions = 0

    current = np.zeros(users, np.int64)  # application
    broken = np.zeros(users, np.bool_)
    configured = np.full((users, APPLICATIONS), -1, np.int32)
    n_configurations = 0
    size = np.empty((users, APPLICATIONS))
    typical = np.empty((users, APPLICATIONS))  # runtime rank of the application, of its input, of its last run
    runtime = np.empty((users, APPLICATIONS))
    latest = np.empty((users, APPLICATIONS))

    pressure = 1.0  # work submitted lately, as a multiple of the usual
    before = submit_s[0]
    for i in range(jobs):
        now = submit_s[i]
        pressure *= math.exp((before - now) / MEMORY_S)
        before = now
        n_open, total = _close(opened, n_open, last_s, appeal, now)
        u = _submitter(rng, opened[:n_open], appeal, total, recent[: min(n_sessions, RECENT)], cumulative)
        begins = now - last_s[u] >= SESSION_GAP_S
        if begins:
            opened[n_open] = u
            n_open += 1
            length[u] = 0
            recent[n_sessions % RECENT] = u
            n_sessions += 1
        length[u] += 1
        last_s[u] = now

        if rng.random() < (SWITCH_BETWEEN if begins else SWITCH_WITHIN):
            current[u] = int(rng.random() ** 2 * APPLICATIONS)  # the first ones more often
        a = current[u]
        if configured[u, a] < 0 or rng.random() < (CHANGE_BETWEEN if begins else CHANGE_WITHIN):
            if configured[u, a] < 0:
                typical[u, a] = rng.standard_normal()
                size[u, a] = rng.standard_normal()
            runtime[u, a] = typical[u, a] + CHANGE * rng.standard_normal()
            latest[u, a] = runtime[u, a]
            configured[u, a] = n_configurations
            n_configurations += 1
        elif rng.random() < RESIZE:
            size[u, a] = rng.standard_normal()
        if rng.random() < EXACT:
            latest[u, a] += EXACT_NOISE * rng.standard_normal()
        else:
            latest[u, a] = runtime[u, a] + NOISE * rng.standard_normal()
        broken[u] = rng.random() < (FAIL_AGAIN if broken[u] else FAIL)

        user[i] = u
        application[i] = a
        configuration[i] = configured[u, a]
        failed[i] = broken[u]
        size_rank[i] = size[u, a] - YIELD * (pressure - 1)
        runtime_rank[i] = latest[u, a] - YIELD * (pressure - 1)
        if broken[u]:
            runtime_rank[i] -= 100.0  # shorter than any job that did not fail
        else:
            work = _at(sizes, size_rank[i]) * _at(runtimes, runtime_rank[i] / SPREAD)
            pressure += work / (usual * MEMORY_S)
        # The longer a session already is, the likelier it goes on: session lengths have a long tail.
        appeal[u] = length[u] * math.exp(-IMPATIENCE * latest[u, a])
    return user, application, configuration, failed, size_rank, runtime_rank


@njit(cache=True, nogil=True)
def _submitter(rng, opened, appeal, total, recent, cumulative):
    """Draw the user of a submission: of an open session, of one of the last sessions, or any."""
    if len(opened) > 0 and rng.random() < STAY * total / (total + LEAVE):
        return _pick(opened, len(opened), appeal, rng.random() * total)
    if len(recent) > 0 and rng.random() < RETURN:
        return recent[int(rng.random() * len(recent))]
    return min(np.searchsorted(cumulative, rng.random(), side="right"), len(cumulative) - 1)


@njit(cache=True, nogil=True)
def _close(opened, n_open, last_s, appeal, now):
    """Drop users whose session is over from ``opened``; return its length, sum of appeals."""
    total = 0.0
    j = 0
    while j < n_open:
        if now - last_s[opened[j]] >= SESSION_GAP_S:
            n_open -= 1
            opened[j] = opened[n_open]
        else:
            total += appeal[opened[j]]
            j += 1
    return n_open, total


@njit(cache=True, nogil=True)
def _pick(opened, n_open, appeal, ticket):
    """Return the open user at ``ticket``, a number from 0 to the sum of appeals."""
    for j in range(n_open - 1):
        ticket -= appeal[opened[j]]
        if ticket < 0:
            return opened[j]
    return opened[n_open - 1]


@njit(cache=True, nogil=True)
def _at(quantiles, deviations):
    """Return the quantile at ``deviations`` standard deviations of a normal distribution."""
    return quantiles[min(int(0.5 * math.erfc(-deviations * math.sqrt(0.5)) * STEPS), STEPS - 1)]


def cut_at_limits(rng: np.random.Generator, runtime_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Move some runtimes to a round limit; return all, and which end there (bool), [jobs].

    ``runtime_s`` is int64 seconds. Only runtimes near a popular request are moved onto it, up or down, so that their
    distribution hardly changes.
    """
    log_limits = np.log(POPULAR_S)
    log_s = np.log(runtime_s)
    nearest = np.searchsorted((log_limits[1:] + log_limits[:-1]) / 2, log_s)
    killed = (np.abs(log_s - log_limits[nearest]) < KILL_REACH) & (rng.random(len(runtime_s)) < KILL)
    return np.where(killed, POPULAR_S[nearest], runtime_s), killed


def by_length(behaviour: PeopleChoices, runtime_s: np.ndarray, killed: np.ndarray) -> PeopleChoices:
    """Split configurations whose runs differ by a factor of ``SHORTER`` or more.

    A run known to be much shorter requests less. A failed or killed run stays in its configuration.
    """
    configuration = behaviour.configuration
    longest = np.ones(int(configuration.max()) + 1, np.int64)
    np.maximum.at(longest, configuration, runtime_s)
    shorter = (np.log(longest[configuration] / runtime_s) / math.log(SHORTER)).astype(np.int64)
    shorter[behaviour.failed | killed] = 0
    return replace(behaviour, configuration=np.unique(8 * configuration.astype(np.int64) + shorter, return_inverse=True)[1])


def requests(rng: np.random.Generator, behaviour: PeopleChoices, runtime_s: np.ndarray, killed: np.ndarray) -> np.ndarray:
    """Return requested seconds, int64 [jobs], never below the runtime.

    All jobs of a configuration have one request, but a killed job requests its limit. The margin over the
    configuration's longest run is a share of the way, on a log scale, to the longest request allowed: shorter jobs have
    larger overestimation factors.
    """
    configuration = behaviour.configuration
    configurations = int(configuration.max()) + 1
    longest = np.ones(configurations, np.int64)
    np.maximum.at(longest, configuration, np.where(killed, 1, runtime_s))
    limit = np.zeros(configurations, np.int64)
    np.maximum.at(limit, configuration, np.where(killed, runtime_s, 0))
    owner = np.empty(configurations, np.int64)
    owner[configuration] = behaviour.user

    caution = rng.uniform(0.0, 2 * MARGIN, int(owner.max()) + 1)
    margin = np.minimum(caution[owner] * rng.standard_exponential(configurations), 1.0)
    needed = (longest + 1) ** (1 - margin) * float(POPULAR_S[-1]) ** margin
    habit = rng.random(configurations)
    step = np.where(needed > HOUR_S, 10 * MINUTE_S, MINUTE_S)
    odd = np.minimum(np.ceil(needed / step) * step, POPULAR_S[-1]).astype(np.int64)
    liked = np.select([habit < ODD, habit < ODD + ROUNDEST], [odd, _round_up(needed, ROUNDEST_S)], _round_up(needed, POPULAR_S))
    liked = np.where(limit > longest, limit, liked)
    return np.where(killed, runtime_s, liked[configuration])


def _round_up(seconds: np.ndarray, values: np.ndarray) -> np.ndarray:
    return values[np.searchsorted(values, np.minimum(seconds, values[-1]))]
