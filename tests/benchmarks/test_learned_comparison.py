"""The comparison with SAF says what the weeks say, and how much one week makes of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.papers.legrand.learned_comparison import bandit, compared
from benchmarks.papers.legrand.learned_study import SPLITS, before
from features.clock import WEEK_S


def look(slowdowns: dict[str, list[float]], replicates: int = 3) -> pd.DataFrame:
    rows = [
        {
            "scheduler": policy,
            "window": week,
            "seed": seed,
            "mean_bounded_slowdown": value * (1 + 0.01 * seed),
            "max_wait_s": 10.0 * week + seed,
        }
        for policy, weeks in slowdowns.items()
        for week, value in enumerate(weeks)
        for seed in range(replicates)
    ]
    fixed = {"trace": "t", "semantics": "per-second", "correction": "requested", "predictor": "requested", "tau_s": 10.0}
    table = pd.DataFrame(rows).assign(**fixed, mean_wait_s=1.0, awf_s=2.0, p2sf_s=3.0)
    return table.assign(starvation_s=pd.array([200_000] * len(table), dtype="Int64"))


def test_a_gain_of_one_week_is_told_from_a_gain_of_all() -> None:
    saf = [10.0, 20.0, 30.0, 10.0, 20.0, 110.0]
    one = [*saf[:5], 10.0]
    gains = compared(look({"SAF": saf, "one": one, "all": (np.array(saf) / 2).tolist()})).set_index("policy")
    assert gains.loc["one", ["ratio", "without_best", "best_week", "median", "wins"]].tolist() == pytest.approx(
        [0.5, 1.0, 5, 1.0, 1.0]
    )
    assert gains.loc["all", ["ratio", "without_best", "median"]].tolist() == pytest.approx([0.5, 0.5, 0.5])
    assert gains.loc["all", "high"] < 1.0 <= gains.loc["one", "high"]
    assert gains.loc["SAF", ["ratio", "wins", "max_wait_s"]].tolist() == [1.0, 0.0, 52.0]


def test_the_best_so_far_is_a_policy_of_its_own() -> None:
    table = bandit(look({"SAF": [10.0, 10.0, 10.0], "other": [5.0, 5.0, 30.0]}), ("SAF", "other"), 1.0)
    mine = table[(table["scheduler"] == "best so far, memory 1") & (table["seed"] == 0)]
    assert mine["mean_bounded_slowdown"].tolist() == [10.0, 5.0, 30.0]


def test_learning_reads_no_job_after_its_weeks() -> None:
    class Trace:
        jobs = pd.DataFrame({"submit_s": [5, 5 + WEEK_S, 4 + 23 * WEEK_S, 5 + 23 * WEEK_S]})

    kept = before(Trace(), SPLITS["kth-sp2"].training)  # type: ignore[arg-type]
    assert kept["submit_s"].tolist() == [5, 5 + WEEK_S, 4 + 23 * WEEK_S]
    assert all(split.training.stop <= split.testing.start for split in SPLITS.values())
