"""The result of a campaign: its simulations, compared over windows and pooled over traces.

Every window counts the same, as in the tables of Legrand, Trystram & Zrigui 2018 (there as sums). Intervals leave out
whole windows, the same of a policy and its baseline. Seeds are replicates: each is compared with the baseline's of the
same seed, and their variance is in the interval (:func:`features.statistics.interval_of_change`).

Traces are a random sample: the change on a trace is drawn around a mean, which is estimated. Each counts the same, as
windows do. So the pooled ratio is that of geometric means, and its interval is Student's t of the traces' logarithms,
whose spread contains the variance between and within traces, known or not. That is the random-effects model with the
interval of Hartung & Knapp (Statistics in Medicine 20, 2001) under equal weights; unequal variances only make it too
wide (Ibragimov & Müller, Journal of Business & Economic Statistics 28(4), 2010). Weights by the traces' variances,
which few windows hardly determine, cover less often (docs/studies/intervals.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from features.errors import InputError
from features.statistics import (
    CONFIDENCE,
    FEWEST_BLOCKS,
    Interval,
    Ratio,
    interval_of_change,
    interval_of_mean,
    interval_of_replicates,
    remark,
    replicate_changes,
)
from sim.metrics.names import COMPARED
from sim.metrics.names import METRICS as NAMED
from sim.metrics.schedule_metrics import nothing_waits
from sim.metrics.verdict import sure_changes, verdict
from sim.policy import NAMES

OF_REPLICATES = "intervals are over replicates alone: they are about these jobs, and say nothing of other weeks"
UNMOVED = "nothing is sure: all replicates are the same; with --shake they differ"
NOTHING_LEFT = "no interval: the baseline is 0 without one window"
METRICS = tuple(metric for metric in COMPARED if metric != "underprediction_rate")
"""The metrics summarised by default."""
SETTING = ["trace", "semantics", "starvation_s", "tau_s"]
"""Rows that differ in one of these are summarised separately."""
POLICY = list(NAMES)
"""Columns that are compared within one setting."""


def over_windows(
    table: pd.DataFrame,
    baseline: tuple[str, str] | None = None,
    metrics: Sequence[str] = METRICS,
) -> pd.DataFrame:
    """Return one row per setting, policy and metric, with means over windows.

    Columns: ``SETTING POLICY metric windows replicates value relative low high coverage p rank tied note sure``.
    ``table`` comes from :func:`sim.campaigns.campaign.run_campaign`. ``value`` is the plain mean of the windows' values
    (each averaged over its seeds, the ``replicates``), ``relative`` that mean over the baseline's of the same setting
    and seeds, minus 1, ``low`` and ``high`` its interval at ``CONFIDENCE``, which contains chaos if replicates differ.
    ``rank`` is 1 for the best value of the setting, equal for equal values, and ``tied`` counts the other policies with
    the same value. ``baseline`` is a (scheduler, predictor), by default the table's first. ``relative`` is null if the
    baseline's value is 0. The interval is null as well with fewer than 5 windows and no replicates; with replicates it
    is then over these alone. ``note`` gives the reason, or says that the interval is rough. ``sure`` is by
    :func:`sim.metrics.verdict.sure_changes`. Raises InputError for a missing baseline, an unknown metric, or if a
    policy lacks a window or seed that another has.
    """
    unknown = [metric for metric in metrics if metric not in table]
    if unknown:
        raise InputError(f"unknown metric {unknown[0]!r}: the results have {', '.join(name for name in METRICS if name in table)}")
    base = _baseline(table, baseline)
    rows: list[dict[str, Any]] = []
    for setting, part in table.groupby(SETTING, sort=False, dropna=False):
        identity = dict(zip(SETTING, setting, strict=True))
        for metric in metrics:
            values = _by_window(part, metric)
            means = values.mean()
            ranks = means.rank(method="min", ascending=metric not in NAMED or NAMED[metric].lower_is_better)
            tied = means.groupby(means).transform("size") - 1
            compared = _against(values, base)
            rows += [
                {**identity, **dict(zip(POLICY, policy, strict=True)), "metric": metric, **record}
                | {"rank": int(ranks[policy]), "tied": int(tied[policy])}
                for policy, record in compared
            ]
    columns = [*SETTING, *POLICY, "metric", "windows", "replicates", "value", "relative", "low", "high"]
    columns += ["coverage", "p", "rank", "tied", "note"]
    numbers = dict.fromkeys(("value", "relative", "low", "high", "coverage", "p"), "float64")
    summary = pd.DataFrame(rows, columns=columns).astype({**numbers, "starvation_s": "Int64"})
    return summary.assign(sure=sure_changes(summary, base, CONFIDENCE, SETTING))


def by_setting(summary: pd.DataFrame) -> list[pd.DataFrame]:
    """Split what :func:`over_windows` returned by trace, semantics, threshold and tau."""
    return [part for _, part in summary.groupby(SETTING, sort=False, dropna=False)]


def nothing_waited(summary: pd.DataFrame, procs: int) -> str:
    """Return a sentence if no job waits under any policy on the mean over windows, else "".

    See :func:`sim.metrics.schedule_metrics.nothing_waits`.
    """
    return nothing_waits(summary.pivot_table(index=[*POLICY, "tau_s"], columns="metric", values="value").to_dict("records"), procs)


def _baseline(table: pd.DataFrame, wanted: tuple[str, str] | None) -> tuple[str, str, str]:
    """Return the baseline policy: the first of the table that matches."""
    policies = table[POLICY].drop_duplicates().itertuples(index=False, name=None)
    baseline = next((policy for policy in policies if wanted is None or policy[:2] == tuple(wanted)), None)
    if baseline is None:
        raise InputError(f"no results of the baseline {' / '.join(wanted or ())} to compare with")
    return baseline


def _by_window(part: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return values of one metric, float64 [seeds x windows, policies], in table order.

    Rows are seed by seed. InputError if a policy lacks a value.
    """
    values = part.groupby(["seed", "window", *POLICY], sort=False)[metric].mean().astype("float64").unstack(POLICY, sort=False)
    whole = pd.MultiIndex.from_product([part["seed"].unique(), part["window"].unique()], names=["seed", "window"])
    values = values.reindex(whole)
    if values.isna().any(axis=None):
        policy = values.columns[int(values.isna().any().argmax())]
        seed, window = values.index[int(values[policy].isna().argmax())]
        raise InputError(f"{' / '.join(policy)} has no {metric} in window {window}" + (f" with seed {seed}" if seed else ""))
    return values


def _against(values: pd.DataFrame, base: tuple[str, str, str]) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    replicates = values.index.get_level_values("seed").nunique()
    count = len(values) // replicates
    ones = np.ones((replicates, count))
    reference = Ratio(values[base].to_numpy().reshape(ones.shape), ones)
    for policy in values.columns:
        term = Ratio(values[policy].to_numpy().reshape(ones.shape), ones)
        relative, interval, note = None, Interval(), remark(count, "window")
        if reference.value() == 0:
            note = "no change: the baseline is 0"
        else:
            relative = term.value() / reference.value() - 1.0
            if count >= FEWEST_BLOCKS:
                interval = interval_of_change(term, reference)
                note = note if interval.low is not None else NOTHING_LEFT
            elif replicates > 1:
                interval, note = interval_of_replicates(term, reference), OF_REPLICATES
            if replicates > 1 and relative != 0 and len(set(replicate_changes(term, reference))) == 1:
                interval, note = interval._replace(p=None) if count >= FEWEST_BLOCKS else Interval(), UNMOVED
        record = {"windows": count, "replicates": replicates, "value": term.value(), "relative": relative}
        yield tuple(policy), {**record, **interval._asdict(), "note": note}


FEWEST_TRACES = 3
"""With fewer traces there is no interval."""


def over_traces(summary: pd.DataFrame, named: Mapping[str, str]) -> pd.DataFrame:
    """Pool the traces of ``summary``: one row per setting, policy and metric.

    ``summary`` comes from :func:`sim.campaigns.results.over_windows`. ``named`` maps each of its traces to the name of
    the suite, with its load: the ``trace`` of the pooled rows. Columns are the summary's, without ``tied``, and
    ``traces``. ``value`` is the geometric mean over traces and ``relative`` that of their ratios, minus 1; ``windows``
    is the min over traces. ``rank`` is the mean rank; ties share the mean of their places. ``traces``, and so
    ``replicates``, counts traces with a ratio above 0; only these are in ``relative``. ``note`` tells of other traces,
    and of fewer than ``FEWEST_TRACES``, which have no interval. ``sure`` as in the summary, among all pooled rows.
    """
    rows: list[dict[str, Any]] = []
    groups = summary.assign(trace=summary["trace"].map(named)).groupby([*SETTING, "metric"], sort=False, dropna=False)
    for (*setting, metric), part in groups:
        ranks = part.assign(place=part["rank"] + part["tied"] / 2.0).groupby(POLICY, sort=False)["place"].mean().to_dict()
        for policy, of_policy in part.groupby(POLICY, sort=False):
            identity = dict(zip([*SETTING, *POLICY], [*setting, *policy], strict=True)) | {"metric": metric}
            rows.append(identity | _pooled(of_policy) | {"rank": ranks[policy]})
    pooled = pd.DataFrame(rows).astype({"starvation_s": "Int64"})
    numbers = ["value", "relative", "low", "high", "coverage", "p"]
    pooled[numbers] = pooled[numbers].astype("float64")
    first = summary[POLICY].iloc[0]
    base = (str(first.iloc[0]), str(first.iloc[1]), str(first.iloc[2]))
    return pooled.assign(sure=sure_changes(pooled, base, CONFIDENCE, SETTING))


def _pooled(rows: pd.DataFrame) -> dict[str, Any]:
    """Pool the ``rows`` of a policy and metric, one per trace."""
    ratios = 1.0 + rows["relative"].to_numpy(np.float64)
    kept = ratios > 0
    interval, note = Interval(), ""
    if (count := int(kept.sum())) >= FEWEST_TRACES:
        interval = interval_of_mean(ratios[kept])
    else:
        note = f"no interval: {count} {'trace is' if count == 1 else 'traces are'} too few"
    if count < len(rows):
        note = "; ".join(filter(None, (note, f"{len(rows) - count} of {len(rows)} traces have no ratio, or 0, and are left out")))
    values = rows["value"].to_numpy(np.float64)
    return {
        "traces": count,
        "replicates": count,
        "windows": int(rows["windows"].min()),
        "value": float(np.exp(np.log(values).mean())) if values.min() > 0 else np.nan,
        "relative": float(np.expm1(np.log(ratios[kept]).mean())) if count else None,
        **interval._asdict(),
        "note": note,
    }


class Results(pd.DataFrame):
    """Simulations, one row each, compared with the first policy.

    ``summary`` comes from :func:`sim.campaigns.results.over_windows`. ``pooled`` comes from
    :func:`sim.campaigns.results.over_traces`, None for a single trace. A part of the rows is a plain table.
    """

    _metadata: ClassVar[list[str]] = ["summary", "pooled"]
    summary: pd.DataFrame
    pooled: pd.DataFrame | None

    @classmethod
    def of(cls, rows: pd.DataFrame, windows: str, suite: Mapping[str, str] | None = None) -> Results:
        """Return ``rows`` of simulations with their comparison.

        ``windows`` is the split. ``suite`` has by trace the name under which it is pooled; without one, none are
        pooled.
        """
        results = cls(rows)
        results.summary = over_windows(results)
        results.pooled = over_traces(results.summary, suite) if suite and len(set(suite.values())) < len(suite) else None
        text = "\n".join(verdict(part).text for part in by_setting(results.overall))
        results.attrs |= {"generated": bool(results["generated"].any()), "windows": windows, "verdict": text}
        return results

    @property
    def overall(self) -> pd.DataFrame:
        """Return the table for a verdict: all traces pooled, or the only one."""
        return self.summary if self.pooled is None else self.pooled

    @property
    def verdict(self) -> str:
        """Return in words which policy is best, a line per trace or load and setting."""
        return str(self.attrs["verdict"])
