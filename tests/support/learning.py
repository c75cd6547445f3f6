"""A small seeded workload and what the learners need of it, for the tests of prediction."""

from __future__ import annotations

import numpy as np
import pandas as pd

from features.clock import local_clock_s
from features.jobs.runtime_features import runtime_features
from features.jobs.schema import conform
from models.registry.candidates import Accounting

ORIGIN_S, ZONE = 1_700_000_000, "Europe/Stockholm"


def workload(jobs: int = 3000, weeks: int = 6, seed: int = 1) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a canonical jobs table over ``weeks`` weeks, and starts soon after submission.

    Users repeat themselves.
    """
    random = np.random.default_rng(seed)
    submit = np.sort(random.integers(0, weeks * 7 * 86_400, jobs))
    user = random.integers(0, 12, jobs)
    requested = 600 * 2 ** random.integers(0, 6, jobs)
    runtime = np.clip((requested * (user + 1) / 16 * random.lognormal(0, 0.3, jobs)).astype(np.int64), 1, requested)
    columns = {
        "job_id": np.arange(1, jobs + 1),
        "submit_s": submit,
        "runtime_s": runtime,
        "procs": 2 ** random.integers(0, 5, jobs),
    }
    table = conform({**columns, "requested_s": requested, "user": pd.array([f"user{u}" for u in user], dtype="str")}, jobs)
    table = table.astype({"runtime_s": "int64", "procs": "int64", "requested_s": "int64"})
    return table, submit + random.integers(0, 900, jobs)


def inputs_of(jobs: pd.DataFrame, start_s: np.ndarray) -> pd.DataFrame:
    """Features of every job at its submission."""
    return runtime_features(jobs, start_s, local_clock_s(jobs["submit_s"].to_numpy(), ORIGIN_S, ZONE))


def asked_after(records: Accounting, at: int) -> np.ndarray:
    """Return the rows of jobs submitted after ``at``."""
    return np.flatnonzero(records.jobs["submit_s"].to_numpy() > at)


def as_submitted(records: Accounting, rows: np.ndarray) -> pd.DataFrame:
    """Return the jobs ``rows`` as submitted: ``user group executable procs requested_s submit_s local_s``."""
    jobs = records.jobs.iloc[rows]
    local_s = local_clock_s(jobs["submit_s"].to_numpy(np.int64), records.origin_unix_s, records.timezone)
    people_of = jobs[["user", "group", "executable"]].astype(object)
    return people_of.join(jobs[["procs", "requested_s", "submit_s"]].astype(np.int64)).assign(local_s=local_s)


def people(jobs: pd.DataFrame) -> pd.DataFrame:
    """Add groups, executables and, for some jobs, no known user."""
    random = np.random.default_rng(7)
    user = jobs["user"].astype(object).where(random.random(len(jobs)) > 0.05, None)
    group = jobs["user"].astype(object).map(lambda name: f"group{int(name[4:]) % 3}").where(random.random(len(jobs)) > 0.05, None)
    executable = pd.Series(random.choice(["a.out", "solver", None], len(jobs)), dtype=object, index=jobs.index)
    named = {"user": user, "group": group, "executable": executable}
    return jobs.assign(**{name: pd.Categorical(values.astype("str")) for name, values in named.items()})
