"""Comparisons pooled over traces, beside scipy and by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sim.campaigns.results import over_traces

METRIC = "mean_bounded_slowdown"


def summary(ratios: dict[str, list[float]]) -> pd.DataFrame:
    """Return what ``over_windows`` has of policies, one ratio a trace; the baseline's mean is 10."""
    rows = []
    for trace in range(len(next(iter(ratios.values())))):
        means = {name: 10.0 * each[trace] for name, each in ratios.items()}
        for name, mean in means.items():
            ahead = sum(other < mean for other in means.values())
            equal = sum(other == mean for other in means.values()) - 1
            rows.append(
                {"trace": f"log-{trace}", "semantics": "per-second", "starvation_s": pd.NA, "tau_s": 10.0, "scheduler": name}
                | {"predictor": "requested", "correction": "requested", "metric": METRIC, "windows": 8 + trace, "replicates": 2}
                | {"value": mean, "relative": mean / 10.0 - 1.0, "rank": 1 + ahead, "tied": equal, "note": ""}
            )
    return pd.DataFrame(rows).astype({"starvation_s": "Int64"})


def pooled(table: pd.DataFrame) -> pd.DataFrame:
    return over_traces(table, dict.fromkeys(table["trace"], "suite")).set_index("scheduler")


def test_the_pooled_ratio_is_that_of_geometric_means_with_student_s_interval_of_logarithms() -> None:
    ratios = [0.5, 0.6, 0.9, 0.4]
    row = pooled(summary({"EASY": [1.0] * 4, "Harm": ratios})).loc["Harm"]
    logs = np.log(ratios)
    low, high = stats.t.interval(0.95, 3, logs.mean(), stats.sem(logs))
    assert row["relative"] == pytest.approx(stats.gmean(ratios) - 1)
    assert (row["low"], row["high"]) == pytest.approx((np.expm1(low), np.expm1(high)))
    assert row["p"] == pytest.approx(stats.ttest_1samp(logs, 0.0).pvalue)
    assert (row["traces"], row["windows"]) == (4, 8)
    assert bool(row["sure"]) == (row["p"] < 0.05)


def test_ranks_are_means_over_traces() -> None:
    ratios = {"EASY": [1.0] * 6, "Harm": [0.5, 0.6, 0.7, 0.9, 0.8, 1.1], "SAF-EASY": [0.8, 0.9, 1.2, 1.3, 0.7, 1.2]}
    table = pooled(summary(ratios))
    ranks = stats.rankdata(np.array(list(ratios.values())), axis=0).mean(axis=1)
    assert table["rank"].tolist() == pytest.approx(ranks.tolist())
