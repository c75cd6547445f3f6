"""Compare policies looked at by :mod:`benchmarks.papers.legrand.learned_study` with SAF, week by week."""

from __future__ import annotations

import pandas as pd

from benchmarks.papers.legrand.learned_families import STARVATION_S, TAUS_S, follow_the_best
from benchmarks.papers.legrand.learned_study import METRICS
from sim.campaigns.window_comparison import over_windows


def compared(table: pd.DataFrame) -> pd.DataFrame:
    """Compare every policy with SAF: one row a threshold, tau and policy.

    Ratios of sums of weekly means with intervals over weeks and replicates; ``wins`` is the share of replicates with a lower sum,
    ``median`` the median of weekly ratios, ``without_best`` the ratio of sums without the week that gains most, ``share`` that
    week's share of the gain.
    """
    summary = over_windows(table, ("SAF", "requested"), METRICS)
    rows = []
    for (threshold, tau_s), part in table.groupby(["starvation_s", "tau_s"], sort=False, dropna=False):
        values = part.pivot_table(index=["seed", "window"], columns="scheduler", values="mean_bounded_slowdown")
        longest = part.groupby("scheduler")["max_wait_s"].max()
        recorded = part[part["seed"] == 0].groupby("scheduler")["max_wait_s"].max()
        same = summary["starvation_s"].isna() if pd.isna(threshold) else summary["starvation_s"] == threshold
        changes = summary[same & (summary["tau_s"] == tau_s)].set_index(["scheduler", "metric"])[["relative", "low", "high"]]
        ratios = (1.0 + changes).rename(columns={"relative": "ratio"})
        for policy in values.columns:
            sums, weekly = values.groupby("seed").sum(), values.groupby("window").mean()
            gain = weekly["SAF"] - weekly[policy]
            left = weekly.drop(index=gain.idxmax())
            row = {"starvation_s": threshold, "tau_s": tau_s, "policy": policy, "sum": float(weekly[policy].sum())}
            row |= {name: float(ratios.loc[(policy, "mean_bounded_slowdown"), name]) for name in ("ratio", "low", "high")}
            row |= {"wins": float((sums[policy] < sums["SAF"]).mean()), "replicates": len(sums)}
            row |= {"median": float((weekly[policy] / weekly["SAF"]).median()), "weeks_better": float((gain > 0).mean())}
            row |= {"without_best": float(left[policy].sum() / left["SAF"].sum()), "best_week": int(gain.idxmax())}
            row |= {"max_wait_s": float(longest[policy]), "max_wait_recorded_s": float(recorded[policy])}
            row |= {metric: float(ratios.loc[(policy, metric), "ratio"]) for metric in METRICS[1:]}
            rows.append(row)
    return pd.DataFrame(rows)


def bandit(table: pd.DataFrame, arms: tuple[str, ...], memory: float) -> pd.DataFrame:
    """Return the table with one more policy: the best of ``arms`` so far, each week anew, by the means over replicates."""
    part = table[(table["starvation_s"] == STARVATION_S) & (table["tau_s"] == TAUS_S[0])]
    weekly = part.pivot_table(index="window", columns="scheduler", values="mean_bounded_slowdown")[list(arms)]
    picked = follow_the_best(weekly, memory)
    chosen = table[table["scheduler"] == table["window"].map(picked)]
    return pd.concat([table, chosen.assign(scheduler=f"best so far, memory {memory:g}", predictor="index")], ignore_index=True)
