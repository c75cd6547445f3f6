"""The card of generated workloads is what its rows say, and each variant changes what it names."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.common.pages import STUDIES
from benchmarks.studies import harm_generated as study
from features.jobs.cleaning import clean
from sim.workloads.workload import Workload, generate

TRACE = clean(generate(Workload(jobs=2000, seed=1, generator=1)))
ROWS = pd.read_csv(STUDIES / "data" / "harm-generated.csv")


def test_every_variant_has_every_seed_and_replicate() -> None:
    assert set(ROWS["variant"]) == set(study.VARIANTS)
    assert len(ROWS) == len(study.VARIANTS) * study.SEEDS * study.REPLICATES * 2
    assert not ROWS.duplicated(["variant", "seed", "replicate", "scheduler"]).any()


def test_what_the_page_says_of_all_seeds_is_so_in_the_rows() -> None:
    slowdown = study.changes(ROWS)["mean_bounded_slowdown"].unstack("variant")
    assert (slowdown["`generator=1`"] > 20).any()
    for harmless in ("default", study.UNCREDITED, "spread, told", "split, told"):
        assert (slowdown[harmless] < 0).all()
    for alone in ("full spread", "full split", "short told"):
        assert (slowdown[alone] > 0).any()


def test_spread_keeps_all_jobs_and_submissions_and_puts_full_width_at_even_distances() -> None:
    jobs = study.spread(TRACE)
    places = np.flatnonzero(jobs["procs"] == TRACE.procs)
    assert len(places) > 20
    assert np.ptp(np.diff(places)) <= 1
    assert sorted(jobs["job_id"]) == sorted(TRACE.jobs["job_id"])
    assert (jobs["submit_s"].to_numpy() == TRACE.jobs["submit_s"].to_numpy()).all()


def test_split_leaves_the_area_and_no_job_as_wide_as_the_machine() -> None:
    jobs = study.split(TRACE)
    assert jobs["procs"].max() < TRACE.procs
    assert (jobs["procs"] * jobs["runtime_s"]).sum() == (TRACE.jobs["procs"] * TRACE.jobs["runtime_s"]).sum()
    assert jobs["job_id"].is_unique


def test_told_changes_requests_of_short_jobs_alone_and_none_below_its_runtime() -> None:
    jobs = study.clipped_requests(TRACE.jobs)
    changed = jobs["requested_s"] != TRACE.jobs["requested_s"]
    assert changed.any()
    assert (jobs["runtime_s"][changed] < 600).all()
    assert jobs["requested_s"][jobs["runtime_s"] < 600].max() == 1800
    assert (jobs["requested_s"] >= jobs["runtime_s"]).all()
