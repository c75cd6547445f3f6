"""The study of PlanRS: which intervals are taken, and what is said of pairs of replicates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.papers import planning
from benchmarks.papers.planning_page import page_again
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


SCHEDULERS = (planning.BASE, planning.PLANNER, *planning.BESIDE, *planning.READINGS, *planning.SORTS)


def rows_of(waits: dict[str, dict[str, float]]) -> pd.DataFrame:
    """Return rows of two seeds of all schedulers, with these mean waits by interval and scheduler; all else is 1."""
    return pd.DataFrame(
        [
            {"interval": interval, "scheduler": name, "seed": seed}
            | dict.fromkeys(planning.METRICS, 1.0)
            | {"mean_wait_s": told.get(name, 100.0) + seed}
            for interval, told in waits.items()
            for name in SCHEDULERS
            for seed in range(2)
        ]
    )


def test_known_rows_are_not_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = arriving(jobs=20)
    each = planning.Interval("T 1", trace, None, 1.0, 0, 0.0)
    monkeypatch.setattr(planning, "SOURCES", ("T",))
    monkeypatch.setattr(planning, "intervals", lambda source, shared: [each])
    simulated = []

    def measured(interval: planning.Interval, scheduler: str, seed: int) -> pd.DataFrame:
        simulated.append((scheduler, seed))
        return pd.DataFrame([{"interval": interval.name, "scheduler": scheduler, "seed": seed, "seconds": 0.0}])

    monkeypatch.setattr(planning, "measured", measured)
    known = pd.DataFrame([{"interval": "T 1", "scheduler": "PlanRS", "seed": seed, "seconds": 9.0} for seed in range(19)])
    _, table = planning.table_1(Path(), 20, None, 1, ("PlanRS", "EASY", "SAF-EASY"), known)
    few, sorts = [("EASY", seed) for seed in range(3)], [("SAF-EASY", seed) for seed in range(5)]
    assert simulated == [("PlanRS", 19), *few, *sorts]
    assert table["seconds"].tolist() == [9.0] * 19 + [0.0] * 9


def test_the_page_is_drawn_again_with_its_answer_on_top_and_the_rest_as_it_was() -> None:
    waits = {
        "CERIT 1": {"PlanRS": 50.0, "OrigBF(reservations=anew)": 20.0, "SAF-EASY": 90.0},
        "KTH-SP2 1": {"PlanRS": 80.0, "SAF-EASY": 10.0},
    }
    found = [planning.Interval(name, arriving(jobs=20), None, 1.0, 0, 7.0) for name in waits]
    published = pd.DataFrame(
        {
            "workload": ["zewura 1", "kth-sp2 1"],
            "relative_change_mean_wait_pct": [-1.0, -2.0],
            "relative_change_mean_bounded_slowdown_pct": [-3.0, -4.0],
        }
    )
    before = "# Old\n\n## Whole traces\n\nas it was\n"
    text = page_again(found, rows_of(waits), before, published)
    answer = text.split("\n")[2]
    kept, renewed = answer.split(" Against `OrigBF(reservations=anew)`")
    # the means of two seeds: 50 / 100 and 51 / 101, 80 / 100 and 81 / 101, 50 / 20 and 51 / 21
    assert "In 2 contended weeks" in kept
    assert (
        "does: mean wait lower in 2 (−20% to −50%), higher in none; mean bounded slowdown lower in none, higher in none; longest wait lower in none"
        in kept
    )
    assert "mean wait lower in 1 (−20%), higher in 1 (+146%)" in renewed
    assert "nothing is said of other weeks" in renewed
    assert "shorter mean waits than `PlanRS` in 1 of 2" in answer
    assert text.endswith(" What follows is older; how it was made stands at its end.\n\n## Whole traces\n\nas it was\n")
    assert "# Old" not in text
    rows = [line for line in text.split("\n") if line.startswith("|")]
    assert max(row.count("|") for row in rows) <= 9, "no table is wider than eight columns"
