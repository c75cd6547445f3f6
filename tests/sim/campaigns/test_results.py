"""Windows are averaged, compared and resampled as pairs, and traces are pooled, beside scipy and by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from features.errors import InputError
from sim.campaigns.results import UNMOVED, over_traces, over_windows

BASE, OTHER = ("EASY", "requested", "requested"), ("SAF-EASY", "requested", "requested")


def results(values: dict[tuple[str, str, str], list[float]], **identity: object) -> pd.DataFrame:
    """What a campaign returns, as far as it matters here: a value a policy and window."""
    rows = [
        {
            "window": window,
            "scheduler": s,
            "predictor": p,
            "correction": c,
            "seed": 0,
            "mean_wait_s": value,
            "utilization": 1 / (1 + value),
        }
        for (s, p, c), column in values.items()
        for window, value in enumerate(column, 1)
    ]
    setting = {"trace": "toy", "semantics": "per-second", "starvation_s": pd.NA, "tau_s": 10.0, **identity}
    return pd.DataFrame(rows).assign(**setting).astype({"starvation_s": "Int64"})


def row_of(summary: pd.DataFrame, policy: tuple[str, str, str], metric: str = "mean_wait_s") -> pd.Series:
    chosen = (summary[["scheduler", "predictor", "correction"]] == list(policy)).all(axis=1) & (summary["metric"] == metric)
    return summary[chosen].squeeze()


def test_means_ratios_and_ranks_are_those_of_the_windows_values() -> None:
    table = results({BASE: [1.0, 2.0, 9.0], OTHER: [2.0, 1.0, 3.0]})
    summary = over_windows(table, metrics=["mean_wait_s", "utilization"])
    assert row_of(summary, BASE)[["windows", "value", "relative", "rank"]].tolist() == [3, 4.0, 0.0, 2]
    assert row_of(summary, OTHER)[["windows", "value", "relative", "rank"]].tolist() == [3, 2.0, -0.5, 1]
    assert row_of(summary, OTHER, "utilization")["rank"] == 1  # higher is better
    assert row_of(summary, OTHER, "utilization")["value"] == pytest.approx((1 / 3 + 1 / 2 + 1 / 4) / 3)


def test_what_windows_differ_by_in_both_policies_cancels() -> None:
    base = [1.0, 10.0, 100.0, 1000.0, 50.0, 5.0, 500.0, 2.0]
    row = row_of(over_windows(results({BASE: base, OTHER: [value / 2 for value in base]}), metrics=["mean_wait_s"]), OTHER)
    assert row[["relative", "low", "high"]].tolist() == pytest.approx([-0.5, -0.5, -0.5])
    assert row["note"] == ""


@pytest.mark.parametrize(
    ("windows", "note", "has_interval"),
    [
        (1, "no interval: 1 window is too few", False),
        (4, "no interval: 4 windows are too few", False),
        (5, "rough interval: only 5 windows", True),
        (8, "", True),
    ],
)
def test_few_windows_give_no_interval_or_a_rough_one(windows: int, note: str, has_interval: bool) -> None:
    rng = np.random.default_rng(1)
    row = row_of(
        over_windows(results({BASE: list(rng.random(windows)), OTHER: list(rng.random(windows))}), metrics=["mean_wait_s"]), OTHER
    )
    assert row["note"] == note
    assert (not pd.isna(row["low"]), not pd.isna(row["high"])) == (has_interval, has_interval)
    assert not pd.isna(row["relative"])


def test_where_the_baseline_is_zero_there_is_no_ratio_and_where_it_may_be_no_interval() -> None:
    never = row_of(over_windows(results({BASE: [0.0] * 9, OTHER: [1.0] * 9}), metrics=["mean_wait_s"]), OTHER)
    assert pd.isna(never["relative"])
    assert never["note"] == "no change: the baseline is 0"
    rarely = row_of(over_windows(results({BASE: [0.0] * 8 + [1.0], OTHER: [1.0] * 9}), metrics=["mean_wait_s"]), OTHER)
    assert rarely["relative"] == 8.0
    assert pd.isna(rarely["low"])
    assert rarely["note"] == "no interval: the baseline is 0 without one window"


@pytest.mark.parametrize("windows", [1, 9])
def test_replicates_that_are_copies_of_each_other_make_nothing_sure(windows: int) -> None:
    base = np.random.default_rng(5).lognormal(0, 1, windows)
    table = pd.concat([results({BASE: list(base), OTHER: list(0.5 * base)}).assign(seed=seed) for seed in range(3)])
    summary = over_windows(table, metrics=["mean_wait_s"])
    row = row_of(summary, OTHER)
    assert (row["relative"], row["note"], row["sure"]) == (-0.5, UNMOVED, False)
    assert np.isnan(row["p"])
    assert np.isnan(row["low"]) == (windows == 1)


def test_seeds_are_averaged_within_their_window() -> None:
    table = pd.concat([results({BASE: [1.0, 2.0]}), results({BASE: [3.0, 6.0]}).assign(seed=1)])
    row = row_of(over_windows(table, metrics=["mean_wait_s"]), BASE)
    assert (row["windows"], row["value"]) == (2, 3.0)


def test_the_baseline_is_the_first_policy_or_the_one_that_is_named() -> None:
    table = results({BASE: [1.0, 1.0], OTHER: [2.0, 2.0]})
    assert row_of(over_windows(table, metrics=["mean_wait_s"]), OTHER)["relative"] == 1.0
    assert row_of(over_windows(table, ("SAF-EASY", "requested"), ["mean_wait_s"]), BASE)["relative"] == -0.5
    with pytest.raises(InputError, match="no results of the baseline List / requested"):
        over_windows(table, ("List", "requested"), ["mean_wait_s"])


def test_seeds_are_replicates_that_are_paired_and_widen_the_interval() -> None:
    rng = np.random.default_rng(6)
    base = rng.lognormal(0, 1, 12)
    chaos = [0.6, 1.0, 1.7]
    one, other = [base * 0.9 * factor for factor in chaos], [base * factor for factor in (1.0, 1.1, 0.9)]
    table = pd.concat(
        [results({BASE: list(other[seed]), OTHER: list(one[seed])}).assign(seed=seed) for seed in range(3)], ignore_index=True
    )
    row = row_of(over_windows(table, metrics=["mean_wait_s"]), OTHER)
    assert (row["replicates"], row["windows"]) == (3, 12)
    assert row["relative"] == pytest.approx(np.sum(one) / np.sum(other) - 1)
    assert row["low"] < 0.9 * 0.7 - 1
    assert row["high"] > 0.9 * 1.6 - 1
    first = row_of(over_windows(table[table["seed"] == 0], metrics=["mean_wait_s"]), OTHER)
    assert first["high"] - first["low"] < 1e-9  # one replay alone shows nothing of it
    with pytest.raises(InputError, match="has no mean_wait_s in window 12 with seed 2"):
        over_windows(table.iloc[:-1], metrics=["mean_wait_s"])


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
