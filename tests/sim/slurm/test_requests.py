"""What jobs ask for, shared by replays of the same jobs under other submissions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines.studies.parity import read_site_jobs
from sim.site.replay import replay
from sim.site.what_if import shaken
from sim.slurm.requests import requests

GOLDEN = Path(__file__).parents[2] / "golden" / "slurm"
LABELS = ("user", "suits", "slot")
"""Numbers in order of first appearance: which jobs have the same counts, not which number it is."""


@pytest.mark.parametrize("name", ["limits-A", "mixed-A", "jobs-A", "preemption-A"])
def test_known_requests_in_another_order_are_those_of_the_jobs_in_that_order(name: str) -> None:
    site, jobs = read_site_jobs(GOLDEN / f"{name}.txt", GOLDEN / name, "UTC")
    shared = requests(site, jobs.table)
    rows = np.random.default_rng(0).permutation(len(jobs.table))
    other = shaken(jobs.table, 90_000, 1).iloc[rows].reset_index(drop=True)
    anew = requests(site, other)
    of_rows = shared.of_rows(rows, other)
    for field in anew.ask._fields:
        one, same = getattr(of_rows, field), getattr(anew.ask, field)
        if field in LABELS:
            one, same = pd.factorize(one)[0], pd.factorize(same)[0]
        assert one.dtype == same.dtype
        np.testing.assert_array_equal(one, same, err_msg=field)
    np.testing.assert_array_equal(shared.suits[of_rows.suits], anew.suits[anew.ask.suits])
    most, same = np.array(shared.slots.most), np.array(anew.slots.most)
    np.testing.assert_array_equal(most[of_rows.slot], same[anew.ask.slot])


def test_replays_that_share_requests_start_jobs_as_each_alone() -> None:
    site, jobs = read_site_jobs(GOLDEN / "mixed-A.txt", GOLDEN / "mixed-A", "UTC")
    shared = requests(site, jobs.table)
    for seed in range(3):
        moved = shaken(jobs.table, 60, seed)
        np.testing.assert_array_equal(replay(site, moved, seed, shared).start_s, replay(site, moved, seed).start_s)
