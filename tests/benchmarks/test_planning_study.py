"""The study of PlanRS: which intervals are taken, what pairs of replicates tell, and that figures 1 to 8 can be drawn."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.common.card import made_before
from benchmarks.papers.klusacek import contended, figures, whole_traces
from features.clock import DAY_S
from sim.simulate import simulate
from tests.sim.metrics.test_schedule_metrics import schedule_of
from tests.support.arriving import arriving


def test_intervals_are_those_in_which_most_jobs_wait_and_do_not_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = arriving(jobs=1500)
    crowd = trace.jobs["submit_s"].between(12 * DAY_S, 13 * DAY_S)
    jobs = trace.jobs.assign(procs=np.where(crowd, 32, trace.jobs["procs"]))
    monkeypatch.setattr(contended.Source, "read", lambda self, shared: (replace(trace, jobs=jobs), None))
    taken = contended.intervals(contended.Source("T", "", trace.procs, (1.0, 2.0)), Path(), days=5)
    assert [each.name for each in taken] == ["T 1", "T 2"]
    assert 8 <= taken[0].day <= 12, "the crowd of day 12 is in it"
    assert abs(taken[0].day - taken[1].day) >= 5
    part = taken[0].trace.jobs
    alone = simulate(part, procs=trace.procs).jobs
    assert taken[0].waiting == pytest.approx((alone["start_s"] - alone["submit_s"]).sum() / (5 * DAY_S))


def test_changes_are_means_over_pairs_of_seeds() -> None:
    rows = []
    for seed, (before, after) in enumerate(((100.0, 50.0), (200.0, 140.0))):
        for name, wait in (("OrigBF", before), ("PlanRS", after)):
            metrics = dict.fromkeys(contended.METRICS, 1.0) | {"mean_wait_s": wait, "predicted_start_error_s": np.nan}
            rows.append({"interval": "T 1", "scheduler": name, "seed": seed, **metrics})
    changed = contended.changes(pd.DataFrame(rows)).set_index(["scheduler", "metric"])
    wait = changed.loc["PlanRS", "mean_wait_s"]
    assert (wait["base"], wait["value"], wait["better"], wait["seeds"]) == (150.0, 95.0, 2, 2)
    assert wait["change"] == pytest.approx(-0.4)
    # two values 0.1 from their mean: standard error 0.1, and Student's 97.5 % quantile with one degree of freedom
    assert wait["high"] - wait["change"] == pytest.approx(12.7062 * 0.1, rel=1e-4)
    assert np.isnan(changed.loc["PlanRS", "predicted_start_error_s"]["change"])


def test_the_card_counts_what_its_table_shows() -> None:
    card = contended.card(pd.read_csv(contended.DATA), made_before("planning"))
    ways = (("lower", "-"), ("higher", "+"))
    columns = [card.table[name].str for name in card.table.columns[1:]]
    counts = [f"{word} in {column.startswith(f'**{sign}').sum()}" for column in columns for word, sign in ways]
    assert re.findall(r"(?:lower|higher) in \d", card.answer) == counts


def test_every_figure_is_drawn_of_schedules_that_search() -> None:
    trace = arriving(jobs=60)
    trace = replace(trace, jobs=trace.jobs.assign(submit_s=trace.jobs["submit_s"] // 200))
    schedules = whole_traces.replicates(trace, None, 2, ("OrigBF", "PlanRS"))
    assert [len(each) for each in schedules.values()] == [1, 2, 1, 2]
    assert len(figures.drawn(schedules)) == 7
    assert whole_traces.table(schedules)["policy"].tolist() == [*schedules]


def test_with_memory_a_job_uses_the_share_of_the_machine_that_it_holds() -> None:
    # 10 processors: a job of one with half the memory counts as 5, unknown memory as no more than its processors
    schedule = schedule_of([0, 0, 0], [10, 30, 6], [2, 5, 3], [1, 4, 2], user=["a", "b", "c"])
    row = whole_traces.table({"EASY": [replace(schedule, procs=10)]}, np.array([0.5, 0.2, np.nan])).iloc[0]
    assert row["nuwt_mean_larger"] == pytest.approx((10 / 10 + 30 / 20 + 6 / 6) / 3)
    assert row["nuwt_mean_mean"] == pytest.approx((10 / 6 + 30 / 15 + 6 / 6) / 3)
