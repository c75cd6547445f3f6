"""Shams of the study of false alarms change nothing but the noise, and the data hold every question."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.common.pages import STUDIES
from benchmarks.studies import what_if_alarms as study
from sim.site_change import Candidate
from sim.what_if import shaken

SITE, JOBS = study.generated(11)


def test_noise_is_todays_site_and_jobs_with_other_seeds_that_stay_with_them() -> None:
    for name in ("other phases 2", "other phases and submissions 3"):
        trial = study.sham_change(Candidate(name), SITE, JOBS)
        assert trial is not None
        assert trial.site is SITE
        pd.testing.assert_frame_equal(trial.jobs, JOBS)
        kept = shaken(trial.jobs[trial.jobs["submit_s"] > 0].reset_index(drop=True), 60, 0).attrs
        assert kept == {"phases": 1000 * int(name[-1]), "moves": 3000 * ("submissions" in name)}


def test_a_generated_site_holds_all_its_jobs() -> None:
    assert (JOBS["runtime_s"] <= JOBS["limit_s"]).all()
    assert set(JOBS["partition"]) <= set(SITE.partitions)
    for name, part in SITE.partitions.items():
        of = JOBS[JOBS["partition"] == name]
        assert (of["cpus"] <= 48 * len(part.nodes)).all()
        assert (of["limit_s"] <= part.max_s).all()


def test_the_data_hold_each_question_and_no_noise_is_the_same() -> None:
    rows = pd.read_csv(STUDIES / "data" / "what-if-alarms.csv")
    sites = rows.groupby("question")["site"].nunique()
    assert dict(sites) == {"all": study.SITES, "control": study.SITES, study.SHORT: study.SHORT_SITES}
    assert not rows.duplicated(["site", "question", "candidate"]).any()
    assert (rows[rows["kind"] == study.IDLE]["verdict"] == "changes nothing here").all()
    assert np.all(rows[rows["kind"] == study.NOISE]["change"] != 0)
