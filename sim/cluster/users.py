"""Users of a simulated cluster, and what they and the site's own control runs submit.

A user repeats a few applications in sessions (Zakay & Feitelson, JSSPP 2012) and requests few and round times, well
above the runtime (Tsafrir, Etsion & Feitelson, JSSPP 2005). Which applications, inputs and numbers is our assumption.
What is submitted on a day depends on the seed and that day alone, so a longer record begins like a shorter one.

:func:`continuous` is another load, which is steady: repeated runs of the applications.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from features.clock import DAY_S
from features.jobs.schema import conform
from sim.cluster.applications import APPLICATIONS, INPUTS, NODES, application
from sim.workloads.people import HOUR_S, POPULAR_S, activity

CONTROL = "control"
"""The site's own user, which repeats each application on ``NODES`` nodes day and night: the control runs."""
CONTROL_LOAD = 0.4
"""Share of the nodes that control runs would use undisturbed."""
LOAD = 0.6
"""Share of the nodes that all jobs together would use undisturbed."""
CONTROL_REQUEST_S = 2 * HOUR_S
USERS = 20
KINDS, SIZES = 3, (4, 8, 16, 32)
"""Applications that a user repeats, and the numbers of nodes on which they run."""
SESSION_JOBS = 6.0
"""Mean jobs of a session."""
BATCH, THINK_S = 0.4, 300.0
"""Chance that a job is submitted together with the one before, and the mean pause between others."""
OTHER_KIND, OTHER_INPUT = 0.1, 0.15
"""Chances that the next job of a session is of another application, or of another input."""
PEAK_H, PEAK_WIDTH_H = 14.0, 6.0
"""Hour at which most sessions begin, and the standard deviation around it."""
CAUTION, CAUTION_SPREAD = 3.0, 0.5
"""Median of what users request over the longest undisturbed runtime, and the deviation of its logarithm."""


@dataclass(frozen=True)
class RepeatedApplication:
    """An application as a user repeats it: with two inputs, on the same nodes, by one request."""

    executables: tuple[str, ...]
    nodes: int
    requested_s: int


@dataclass(frozen=True)
class User:
    """A user with a ``share`` of all users' load, from 0 to 1."""

    name: str
    group: str
    share: float
    kinds: tuple[RepeatedApplication, ...]


def population(seed: int, users: int = USERS) -> tuple[User, ...]:
    """Return the users of a cluster, the most active first."""
    random = np.random.default_rng([seed, 5])
    shares = activity(users)
    return tuple(
        User(f"user{number + 1:02d}", f"group{random.integers(1, 1 + users // 4)}", float(shares[number]), _kinds(random))
        for number in range(users)
    )


def _kinds(random: np.random.Generator) -> tuple[RepeatedApplication, ...]:
    """Return what a new user repeats."""
    caution = CAUTION * np.exp(CAUTION_SPREAD * random.standard_normal())
    kinds = []
    for name in random.choice(list(APPLICATIONS), KINDS, replace=False):
        nodes = int(random.choice(SIZES))
        executables = tuple(f"{name}{suffix}" for suffix in random.choice(list(INPUTS), 2, replace=False))
        longest = max(application(executable).on(nodes).runtime_s for executable in executables)
        wanted = min(max(caution, 1.5) * longest, POPULAR_S[-1])
        kinds.append(RepeatedApplication(executables, nodes, int(POPULAR_S[np.searchsorted(POPULAR_S, wanted)])))
    return tuple(kinds)


def submissions(
    users: tuple[User, ...], days: float, seed: int, *, procs: int, load: float = LOAD, begins_s: int = 0
) -> pd.DataFrame:
    """Return what ``users`` and the site submit in ``days`` days, as a canonical jobs table.

    The machine has ``procs`` nodes. ``load`` is as :data:`LOAD`, with :data:`CONTROL_LOAD` of control runs in it.
    ``begins_s`` is the second of the day at which the record begins. Column ``runtime_s`` holds undisturbed runtimes.
    """
    rows = list(_control(days, seed, procs))
    for day in range(int((begins_s + days * DAY_S - 1) // DAY_S) + 1):
        for number, user in enumerate(users):
            random = np.random.default_rng([seed, 6, day, number])
            capacity = user.share * (load - CONTROL_LOAD) * procs * DAY_S
            work = [
                kind.nodes * float(np.mean([application(name).on(kind.nodes).runtime_s for name in kind.executables]))
                for kind in user.kinds
            ]
            count = capacity / (SESSION_JOBS * np.mean(work))
            for _ in range(random.poisson(count)):
                begins = day * DAY_S + HOUR_S * (random.normal(PEAK_H, PEAK_WIDTH_H) % 24.0) - begins_s
                rows += _session(user, begins, random)
    rows = sorted((row for row in rows if 0 <= row[0] < days * DAY_S), key=lambda row: row[0])
    submit, user_name, group, executable, nodes, requested = map(list, zip(*rows, strict=True))
    runtime = [round(application(name).on(count).runtime_s) for name, count in zip(executable, nodes, strict=True)]
    return conform(
        {
            "job_id": np.arange(1, len(rows) + 1),
            "submit_s": np.array(submit, np.int64),
            "runtime_s": np.array(runtime, np.int64),
            "procs": np.array(nodes, np.int64),
            "requested_s": np.array(requested, np.int64),
            "user": user_name,
            "group": group,
            "executable": executable,
        },
        len(rows),
    )


_Row = tuple[int, str, str, str, int, int]


def _session(user: User, begins: float, random: np.random.Generator) -> list[_Row]:
    """Return the jobs of a session: ``submit_s user group executable nodes requested_s``."""
    rows: list[_Row] = []
    kind, which = user.kinds[random.integers(KINDS)], random.integers(2)
    now = begins
    for _ in range(random.geometric(1.0 / SESSION_JOBS)):
        rows.append((int(now), user.name, user.group, kind.executables[which], kind.nodes, kind.requested_s))
        if random.random() < OTHER_KIND:
            kind = user.kinds[random.integers(KINDS)]
        if random.random() < OTHER_INPUT:
            which = 1 - which
        now += 0.0 if random.random() < BATCH else random.exponential(THINK_S)
    return rows


def _control(days: float, seed: int, procs: int) -> list[_Row]:
    """Return the control runs: in turn each application once, in random order, at equal distances."""
    names = list(APPLICATIONS)
    pause = np.mean([application(name).on(NODES).runtime_s for name in names]) * NODES / (procs * CONTROL_LOAD)
    rows: list[_Row] = []
    for turn in range(int(days * DAY_S / (pause * len(names))) + 1):
        for place, name in enumerate(np.random.default_rng([seed, 7, turn]).permutation(names)):
            submit = int((turn * len(names) + place) * pause)
            rows.append((submit, CONTROL, "operations", str(name), NODES, CONTROL_REQUEST_S))
    return rows


ALL_APPLICATIONS = tuple(APPLICATIONS)
REQUEST_FACTOR = 20.0
"""Request over undisturbed runtime, in whole minutes: enough for the worst of figure 1 of Nichols et al."""


def continuous(
    days: float, seed: int, *, procs: int, load: float = 0.9, applications: tuple[str, ...] = ALL_APPLICATIONS, nodes: int = NODES
) -> pd.DataFrame:
    """Return ``days`` days of jobs with Poisson arrivals and an offered ``load``.

    The load is the share of ``procs`` nodes that the jobs would use undisturbed.
    """
    random = np.random.default_rng([seed, 2])
    usual = float(np.mean([application(name).on(nodes).runtime_s for name in applications]))
    pause = usual * nodes / (procs * load)
    count = max(int(days * 86_400 / pause), 1)
    submit = np.cumsum(random.exponential(pause, count))
    chosen = random.integers(0, len(applications), count)
    return jobs_table([applications[i] for i in chosen], np.full(count, nodes), (submit - submit[0]).astype(np.int64), "weak")


def jobs_table(names: list[str], nodes: np.ndarray, submit: np.ndarray, scaling: str) -> pd.DataFrame:
    """Return a canonical jobs table."""
    alone = {
        kind: application(kind[0]).on(int(kind[1]), scaling).runtime_s for kind in set(zip(names, nodes.tolist(), strict=True))
    }
    runtime = np.array([alone[kind] for kind in zip(names, nodes.tolist(), strict=True)])
    return conform(
        {
            "job_id": np.arange(1, len(names) + 1),
            "submit_s": submit,
            "runtime_s": np.rint(runtime).astype(np.int64),
            "procs": nodes,
            "requested_s": (np.ceil(REQUEST_FACTOR * runtime / 60.0) * 60).astype(np.int64),
            "user": ["control"] * len(names),
            "executable": names,
        },
        len(names),
    )
