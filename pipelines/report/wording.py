"""Numbers as people read them, and the report's summary, computed from the comparison."""

from __future__ import annotations

from datetime import UTC, datetime

import pandas as pd

from features.statistics import covers
from sim.metrics.formats import change, interval, number, sentence
from sim.metrics.names import METRICS
from sim.metrics.schedule_metrics import nothing_waits

_COSTS = {"awf_s": "packing", "p2sf_s": "packing and fairness together"}


def not_modelled(machine: str = "") -> str:
    """Return what schedules on one pool, or on a ``machine`` of clusters, leave out."""
    if machine:
        return f"Not modelled: partitions and disk. Jobs run on the clusters of the machine {machine}."
    return (
        "Not modelled: partitions, nodes, memory and GPUs. Jobs run on one pool of processors that are all alike, so waits for anything but "
        "processors do not come up here."
    )


def kind_of_jobs(generated: bool) -> str:
    """Return what to say of jobs after their number."""
    return ", generated" if generated else " of a real trace"


def label(row: pd.Series) -> str:
    """Return scheduler and predictor of a row of the comparison."""
    return f"{row['scheduler']} / {row['predictor']}" if row["predictor"] else str(row["scheduler"])


def tone(low: float, high: float, lower_is_better: bool = True, even: float = 0.0) -> str:
    """Return ``better`` or ``worse`` where an interval leaves out ``even``, else ""."""
    if pd.isna(low) or low <= even <= high:
        return ""
    return "better" if (high < even) == lower_is_better else "worse"


def requests_warning(count: int, jobs: int, baseline: tuple[str, str]) -> str:
    """Return what it means that ``count`` of ``jobs`` have their runtime as requested time."""
    which = f"all {jobs:,} jobs" if count == jobs else f"{count:,} of {jobs:,} jobs ({number(count / jobs, 'share')})"
    knowing = f", and so the baseline {' / '.join(baseline)}," if baseline[1] == "requested" else ""
    return (
        f"The requested time is the runtime: for {which} no request was recorded, and the runtime stands in for it. For these jobs the "
        f"predictor requested{knowing} is clairvoyant, and no predictor can over-predict, as predictions end at the request."
    )


def nothing_waited(comparison: pd.DataFrame, procs: int) -> str:
    """Return a sentence if no job waits in any simulated schedule of the comparison, else ""."""
    simulated = comparison[comparison["predictor"] != ""]
    values = simulated.pivot_table(index=["scheduler", "predictor", "correction"], columns="metric", values="value")
    return sentence(nothing_waits(values.to_dict("records"), procs))


def summary(comparison: pd.DataFrame, baseline: tuple[str, str], confidence: float, *, requests_known: bool = True) -> list[str]:
    """Return sentences on the lowest mean bounded slowdown and its cost in packing, fairness.

    Also the same without hindsight, the lowest without that cost, and what was recorded. ``requests_known`` is false where some requested times are runtimes,
    so that clairvoyant is not the only predictor that knows them.
    """
    table = comparison[comparison["metric"] == "mean_bounded_slowdown"]
    simulated = table[table["predictor"] != ""].sort_values("value", kind="stable")
    if len(simulated) < 2:
        return ["There is one combination only, so there is nothing to compare it with."]
    best = simulated.iloc[0]
    sentences = [_best("The lowest mean bounded slowdown", best, comparison, baseline, confidence)]
    if best["predictor"] == "clairvoyant":
        sentences[0] += " Clairvoyant knows the actual runtimes in advance: a bound for predictors, not one of them."
    without = simulated[simulated["predictor"] != "clairvoyant"]
    others = "predictors that do not know the runtime" if requests_known else "predictors other than clairvoyant"
    if len(without) and best["predictor"] == "clairvoyant":
        sentences.append(_best(f"Of the {others}, the lowest", without.iloc[0], comparison, baseline, confidence))
    free = without[_costs_nothing(without, comparison) & (without["relative"] < 0)]
    if len(free) and free.index[0] != without.index[0]:
        lead = f"With {others} and neither AWF nor P2SF above the baseline's, the lowest"
        sentences.append(_best(lead, free.iloc[0], comparison, baseline, confidence))
    for _, row in table[table["predictor"] == ""].iterrows():
        sentences.append(
            f"The schedule the site recorded has a mean bounded slowdown of {number(row['value'], 'ratio')}, {change(row['relative'])} "
            f"against {' / '.join(baseline)}. Simulation and site differ by more than the scheduler: outages, reserved time and local limits "
            "are not in the trace."
        )
    return sentences


def _costs_nothing(rows: pd.DataFrame, comparison: pd.DataFrame) -> pd.Series:
    """Tell for each combination in ``rows`` whether no metric of ``_COSTS`` is higher than the baseline's."""
    policy = ["scheduler", "predictor", "correction"]
    dearer = comparison[comparison["metric"].isin(_COSTS) & (comparison["relative"] > 0)].set_index(policy).index
    return pd.Series(~rows.set_index(policy).index.isin(dearer), rows.index)


def _best(lead: str, best: pd.Series, comparison: pd.DataFrame, baseline: tuple[str, str], confidence: float) -> str:
    if (best["scheduler"], best["predictor"]) == tuple(baseline):
        return f"{lead} is the baseline's own: {label(best)} with {number(best['value'], 'ratio')}."
    text = f"{lead} is that of {label(best)}: {number(best['value'], 'ratio')}, {change(best['relative'])} against {' / '.join(baseline)}"
    if pd.notna(best["low"]):
        replicates = best.get("replicates", 1)
        over = f"{best['weeks']} weeks, " + (
            f"{replicates} replays" if replicates > 1 else "one replay, so without a schedule's chaos"
        )
        text += f" ({100 * confidence:g} % interval {change(best['low'])} to {change(best['high'])}{covers(best.get('coverage'))}, {over})"
    slowdowns = comparison[(comparison["metric"] == "mean_bounded_slowdown") & (comparison["predictor"] != "")]
    others = [label(row) for _, row in slowdowns.iterrows() if row["value"] == best["value"] and label(row) != label(best)]
    text += f", a tie with {', '.join(others)}" if others else ""
    same = (comparison[["scheduler", "predictor", "correction"]] == best[["scheduler", "predictor", "correction"]]).all(axis=1)
    rows = {row["metric"]: row for _, row in comparison[same].iterrows()}
    costs = [_cost(name, METRICS[metric].title, rows[metric]) for metric, name in _COSTS.items() if metric in rows]
    return text + "." + (f" It {' and '.join(costs)}." if costs else "")


def _cost(name: str, title: str, row: pd.Series) -> str:
    size = f"{title} {change(row['relative'])} {interval(row['low'], row['high'], row.get('coverage'))}".rstrip()
    if pd.isna(row["low"]):
        return f"changes {name} ({size})"
    if row["low"] <= 0 <= row["high"]:
        return f"leaves {name} without a clear change ({size})"
    return f"{'worsens' if row['relative'] > 0 else 'improves'} {name} ({size})"


def group_name(by: str, begin: float) -> str:
    """Return the name of a group of :attr:`sim.predictions.sharpness.Sharpness.coverage`."""
    if by == "request":
        return f"request from {begin / 60:,.0f} min" if begin < 7200 else f"request from {begin / 3600:,.3g} h"
    if by == "width":
        first = int(begin)
        return f"{first} processor{'s' * (first > 1)}" if first <= 2 else f"{first}-{2 * (first - 1)} processors"
    return "any request, any width"


def takes_correction(scheduler: str) -> bool:
    """Tell whether predictions can expire under ``scheduler``: not under ``Harm``.

    Goes by the beginning of the name alone, as pages show whatever names tables hold.
    """
    return not scheduler.lower().startswith("harm")


def instant(at_s: int, origin_unix_s: int | None) -> str:
    """Return a second of the trace as a date in UTC, or as a number without an origin."""
    if origin_unix_s is None:
        return f"second {at_s:,} of the trace"
    return f"{datetime.fromtimestamp(origin_unix_s + at_s, UTC):%Y-%m-%d %H:%M} UTC"
