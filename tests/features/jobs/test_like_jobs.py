"""How variable a user's runtimes are: as counted in plain Python from all jobs of the user, without a state."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from features.jobs.like_jobs import SPREAD, VARIABILITY
from features.jobs.runtime_features import runtime_features
from tests.features.jobs.test_history import local, mean, random_trace

COLUMNS = [*VARIABILITY, SPREAD]
LIKE = (("requested_s", "procs"), ("requested_s",), ())
"""What jobs of a user have in common, the most first; the traces have no executables."""


def alike(job: dict, past: list[dict], least: int) -> list[float]:
    """Logarithms of the last 16 runtimes of the jobs in ``past`` most like ``job`` of which there are at least so many."""
    for keys in LIKE:
        like = [math.log(each["runtime_s"]) for each in past if all(each[key] == job[key] for key in keys)]
        if len(like) >= least:
            return like[-16:]
    return []


def by_hand(jobs: pd.DataFrame, start: np.ndarray) -> pd.DataFrame:
    everything = jobs.assign(start=start, end=start + jobs["runtime_s"], row=range(len(jobs))).to_dict("records")
    of_user = {user: sorted(rows, key=lambda job: (job["end"], job["start"], job["row"])) for user, rows in users(everything)}
    for mine in of_user.values():
        for place, job in enumerate(mine):
            like = sorted(alike(job, mine[:place], 1))
            job["off"] = math.log(job["runtime_s"]) - like[len(like) // 2] if like else None
    rows = []
    for job in everything:
        past = [each for each in of_user.get(job["user"], []) if each["end"] <= job["submit_s"]]
        off = [each["off"] for each in past if each["off"] is not None][-32:]
        like = alike(job, past, 2)
        rows.append(
            {
                "user_spread_log": mean([abs(each) for each in off]),
                "user_much_longer_share": mean([each > math.log(2.0) for each in off]),
                "user_trend_log": mean(off),
                "user_used_share": mean([each["runtime_s"] / each["requested_s"] for each in past[-32:]]),
                SPREAD: float(np.std(like)) if like else math.nan,
            }
        )
    return pd.DataFrame(rows)


def users(everything: list[dict]) -> list[tuple[str, list[dict]]]:
    names = {job["user"] for job in everything if not pd.isna(job["user"])}
    return [(name, [job for job in everything if job["user"] == name]) for name in names]


def test_variability_of_a_random_trace_is_as_by_hand() -> None:
    jobs, start = random_trace(400, np.random.default_rng(5))
    got = runtime_features(jobs, start, local(jobs))[COLUMNS]
    pd.testing.assert_frame_equal(got, by_hand(jobs, start)[COLUMNS], rtol=1e-9, atol=1e-12)
