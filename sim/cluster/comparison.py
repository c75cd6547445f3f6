"""Comparison of schedulers on paired trials of the experiments of Nichols et al. (RUSH).

Trials are paired by their seed, which decides the submissions, the background and each run's own noise; so differences within
trials are compared, with intervals from a bootstrap over trials (:mod:`features.statistics`). A run counts as varied in two ways:
by what is usual for control runs on the same cluster, and by mean and sigma of the baseline's runs of the same experiment, pooled
over its trials. The paper must have counted in the second way: 1.5 to 3.5 of the 27 runs an application beyond 1.5 sigma, with
maxima a few per cent apart, are impossible with a sigma like figure 1's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from features.monitoring.labels import baselines
from features.statistics import FEWEST_BLOCKS, drawn, remark, tail
from sim.cluster.experiments import judged

ALL = "all"
STRATA = (ALL, "without storm", "with storm")
"""Trials that are compared together: all, and those without and with a storm on the file system in the baseline's run."""
_RESAMPLES = 2000
_CONFIDENCE = 0.95


def asking_rate(runs: pd.DataFrame, scheduler: str) -> float:
    """Return skipped over asked, of all trials under ``scheduler``; 0 without decisions."""
    of_trial = runs[runs["scheduler"] == scheduler].drop_duplicates("seed")
    asked = int(of_trial["asked"].sum())
    return int(of_trial["skipped"].sum()) / asked if asked else 0.0


def described(runs: pd.DataFrame, known: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Return ``runs`` with ``varied_pooled`` and ``relative``.

    The former is by mean and sigma of the baseline's runs of their kind in all trials.
    """
    of_baseline = runs[runs["scheduler"] == baseline]
    tables = []
    for nodes, rows in of_baseline.groupby("nodes"):
        table = baselines(rows["application"], rows["runtime_s"])
        tables.append(table.set_index(pd.Index([nodes] * len(table), name="nodes"), append=True))
    pooled = judged(runs[["application", "nodes", "runtime_s"]], pd.concat(tables))
    kind = pd.MultiIndex.from_frame(runs[["application", "nodes"]])
    relative = runs["runtime_s"].to_numpy() / known["mean_s"].reindex(kind).to_numpy()
    return runs.assign(z_pooled=pooled["z"], varied_pooled=pooled["varied"], relative=relative)


def by_trial(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the metrics :data:`sim.metrics.names.TRIAL`, float64, a row a trial.

    Index ``seed``, columns (``scheduler``, ``application`` or ``all``, metric).
    """
    parts = []
    for application, rows in [(ALL, runs), *runs.groupby("application", sort=True)]:
        groups = rows.groupby(["scheduler", "seed"], sort=False)
        later = rows[rows["submit_s"] > 0].groupby(["scheduler", "seed"], sort=False)
        table = pd.DataFrame(
            {
                "varied": groups["varied"].sum(),
                "varied_pooled": groups["varied_pooled"].sum(),
                "wait_s": groups["wait_s"].mean(),
                "wait_later_s": later["wait_s"].mean(),
                "runtime": groups["relative"].mean(),
                "worst": groups["relative"].max(),
            },
            dtype=np.float64,
        )
        if application == ALL:
            end = (rows["start_s"] + rows["runtime_s"]).groupby([rows["scheduler"], rows["seed"]], sort=False)
            table["makespan_s"] = end.max() - groups["submit_s"].min()
        wide = {
            (scheduler, application, metric): table.loc[scheduler, metric]
            for metric in table.columns
            for scheduler in table.index.unique("scheduler")
        }
        parts.append(pd.DataFrame(wide).rename_axis(columns=["scheduler", "application", "metric"]))
    return pd.concat(parts, axis=1).sort_index()


def stratified(runs: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Return :func:`compared` of all trials, and of those without and with a storm.

    ``runs`` come from :func:`described`. A trial has a storm if there is one on the file system while the baseline's jobs are there.
    """
    values = by_trial(runs)
    storm = runs[runs["scheduler"] == baseline].groupby("seed")["storm_s"].first().reindex(values.index).to_numpy() > 0
    strata = zip(STRATA, (np.ones(len(values), bool), ~storm, storm), strict=True)
    return pd.concat([compared(values[rows], baseline, stratum=name) for name, rows in strata if rows.any()], ignore_index=True)


def compared(values: pd.DataFrame, baseline: str, seed: int = 0, stratum: str = ALL) -> pd.DataFrame:
    """Return means over trials and paired differences from the ``baseline``'s.

    ``values`` come from :func:`by_trial`. Columns: ``scheduler application metric mean baseline difference low high relative
    relative_low relative_high trials note stratum mean_error error relative_error``; ends of 95 % intervals and standard errors (of
    the mean, of the difference and of ``relative``) from a bootstrap over trials, NaN with fewer than five, ``relative`` NaN where
    the baseline's mean is 0.
    """
    columns: list[Any] = list(values.columns)
    count = len(values)
    own = values.to_numpy()
    base = values[[(baseline, application, metric) for _, application, metric in columns]].to_numpy()
    mean, reference = own.mean(axis=0), base.mean(axis=0)
    found = pd.DataFrame(columns, columns=["scheduler", "application", "metric"])
    found = found.assign(mean=mean, baseline=reference, difference=mean - reference)
    draws, cut, wide = np.full((1, count), np.nan), 0.0, 1.0
    if count >= FEWEST_BLOCKS:
        draws, cut = drawn(count, _RESAMPLES, seed), tail(_CONFIDENCE, count)
        wide = (count / (count - 1)) ** 0.5  # resamples spread as the sample does, trials a little more
    means, references, differences = (draws @ each / count for each in (own, base, own - base))
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(reference == 0, np.nan, mean / reference - 1.0)
        ratios = np.where((references == 0).any(axis=0), np.nan, differences / references)
    ends = [np.quantile(each, [cut, 1.0 - cut], axis=0) for each in (differences, ratios)]
    errors = [wide * each.std(axis=0) for each in (means, differences, ratios)]
    return found.assign(
        low=ends[0][0],
        high=ends[0][1],
        relative=relative,
        relative_low=ends[1][0],
        relative_high=ends[1][1],
        trials=count,
        note=remark(count, "trial"),
        stratum=stratum,
        mean_error=errors[0],
        error=errors[1],
        relative_error=errors[2],
    )


def maxima(runs: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Return the largest runtime of all trials by application and nodes, a row a scheduler.

    ``max_s`` and ``improvement``, the share by which it is below the baseline's.
    """
    largest = runs.groupby(["scheduler", "application", "nodes"], sort=False)["runtime_s"].max().rename("max_s").reset_index()
    of_baseline = largest[largest["scheduler"] == baseline].set_index(["application", "nodes"])["max_s"]
    reference = of_baseline.reindex(pd.MultiIndex.from_frame(largest[["application", "nodes"]])).to_numpy()
    return largest.assign(improvement=1.0 - largest["max_s"].to_numpy() / reference)


def decisions(runs: pd.DataFrame, schedulers: Sequence[str]) -> pd.DataFrame:
    """Return how often starts were asked about and skipped, means over trials, by scheduler.

    Columns ``asked skipped share most_skips jobs_skipped``, the last two the most skips of a job in any trial and the jobs
    skipped at all, a trial.
    """
    rows = []
    for scheduler in schedulers:
        of_scheduler = runs[runs["scheduler"] == scheduler]
        of_trial = of_scheduler.drop_duplicates("seed")
        rows.append(
            {
                "scheduler": scheduler,
                "asked": of_trial["asked"].mean(),
                "skipped": of_trial["skipped"].mean(),
                "share": asking_rate(runs, scheduler),
                "most_skips": int(of_scheduler["skips"].max()),
                "jobs_skipped": float((of_scheduler["skips"] > 0).sum() / len(of_trial)),
            }
        )
    return pd.DataFrame(rows)
