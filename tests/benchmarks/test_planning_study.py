"""The study of PlanRS: which intervals are taken, and what is said of pairs of replicates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.papers import planning
from features.clock import DAY_S
from sim.simulate import simulate
from tests.support.arriving import arriving


def test_intervals_are_those_in_which_most_jobs_wait_and_do_not_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = arriving(jobs=1500)
    crowd = trace.jobs["submit_s"].between(12 * DAY_S, 13 * DAY_S)
    jobs = trace.jobs.assign(procs=np.where(crowd, 32, trace.jobs["procs"]))
    monkeypatch.setattr(planning.Source, "read", lambda self, shared: (replace(trace, jobs=jobs), None))
    found = planning.intervals(planning.Source("T", "", trace.procs, (1.0, 2.0)), Path(), days=5)
    assert [each.name for each in found] == ["T 1", "T 2"]
    assert [each.load for each in found] == [1.0, 2.0]
    assert 8 <= found[0].day <= 12, "the crowd of day 12 is in it"
    assert abs(found[0].day - found[1].day) >= 5
    part = found[0].trace.jobs
    assert part["submit_s"].max() - jobs["submit_s"].min() < (found[0].day + 5) * DAY_S
    alone = simulate(part, procs=trace.procs).jobs
    assert found[0].waiting == pytest.approx((alone["start_s"] - alone["submit_s"]).sum() / (5 * DAY_S))


def test_changes_are_means_over_pairs_of_seeds() -> None:
    rows = []
    for seed, (before, after) in enumerate(((100.0, 50.0), (200.0, 140.0))):
        for name, wait in (("OrigBF", before), ("PlanRS", after)):
            metrics = dict.fromkeys(planning.METRICS, 1.0) | {"mean_wait_s": wait, "predicted_start_error_s": np.nan}
            rows.append({"interval": "T 1", "scheduler": name, "seed": seed, **metrics})
    found = planning.changes(pd.DataFrame(rows)).set_index(["scheduler", "metric"])
    wait = found.loc["PlanRS", "mean_wait_s"]
    assert (wait["base"], wait["value"], wait["better"], wait["seeds"]) == (150.0, 95.0, 2, 2)
    assert wait["change"] == pytest.approx(-0.4)
    # two values 0.1 from their mean: standard error 0.1, and Student's 97.5 % quantile with one degree of freedom
    assert wait["high"] - wait["change"] == pytest.approx(12.7062 * 0.1, rel=1e-4)
    assert np.isnan(found.loc["PlanRS", "predicted_start_error_s"]["change"])
    assert found.loc["OrigBF", "mean_wait_s"]["change"] == 0.0
