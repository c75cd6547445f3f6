"""Advice about time limits: only where few jobs ran longer and replays surely start them sooner."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pipelines.report.site import letter
from sim.site.changes import Changed
from sim.site.limit_advice import limit_advice
from sim.slurm.site import Site


def sides(jobs: int = 40, users: tuple[str, ...] = ("ann", "bob")) -> tuple[Changed, Changed]:
    """Return jobs of users that ask for an hour and use 10 min, and the same with a limit of 20 min from the tenth on."""
    table = pd.DataFrame({"job_id": range(jobs), "user": np.resize(users, jobs), "account": "a", "cpus": 4, "limit_s": 3_600})
    table = table.assign(runtime_s=600, start_s=1_000 + np.arange(jobs))
    site = Site(name="s", nodes=(), partitions={})
    limit = np.where(np.arange(jobs) < 10, 3_600, 1_200)
    return Changed(site, table, (), frozenset()), Changed(site, table.assign(limit_s=limit), (), frozenset())


def starts(jobs: int, sooner_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return starts of eight replays without and with a change, by which jobs start sooner on average."""
    before = 1_000.0 + np.arange(jobs) + np.random.default_rng(0).normal(0, 5, (8, 1))
    return before, before - sooner_s + np.random.default_rng(1).normal(0, 30, (8, jobs))


def test_advice_is_sure_for_the_users_whose_jobs_start_sooner_and_keep_to_the_limit() -> None:
    today, changed = sides(100)
    before, after = starts(100, np.where(today.jobs["user"] == "ann", 300.0, 0.0))
    ann, bob = limit_advice(today, changed, before, after)
    assert (ann.user, ann.jobs, ann.requested_s, ann.limit_s, ann.longer, ann.sure) == ("ann", 45, 3_600, 1_200, 0, True)
    assert ann.low_s < 300 < ann.high_s
    assert not bob.sure, "its jobs start no sooner"
    text = letter("ann", [ann])
    assert "45, 0 ran longer" in text
    assert "With a limit of 20.0 min" in text
    assert letter("bob", [ann]) == ""


def test_no_advice_where_many_would_be_killed_or_jobs_are_few() -> None:
    today, changed = sides(100)
    before, after = starts(100, np.full(100, 300.0))
    killed = changed._replace(kills=frozenset(today.jobs["job_id"][today.jobs["user"] == "ann"].astype(str)[-4:]))
    ann, bob = limit_advice(today, killed, before, after)
    assert (ann.longer, ann.sure, bob.longer, bob.sure) == (4, False, 0, True)
    few_today, few_changed = sides(40)
    assert limit_advice(few_today, few_changed, *starts(40, np.full(40, 300.0))) == [], "15 jobs each have a shorter limit"
