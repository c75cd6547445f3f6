"""The page of a comparison and its tables: metrics, predictions, cleaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from features.clock import DAY_S
from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from features.statistics import CONFIDENCE
from pipelines.readers.catalogue import load_catalogue
from pipelines.readers.read import is_accounting
from pipelines.report import plots
from pipelines.report.page import MOST_ROWS, Front, Key, Looks, looks, render
from pipelines.report.table import (
    Cell,
    Row,
    Table,
    brief,
    changed,
    escaped,
    not_modelled,
    nothing_waited,
    requests_warning,
    takes_correction,
)
from sim.metrics.names import METRICS, READ_FIRST, TAU_S, Metric
from sim.metrics.verdict import WEIGHED, Verdict, change, is_bound, number, predictions, verdict
from sim.policy import NAMES

BASELINE = ("EASY", "requested")
"""Scheduler and predictor that all others are compared with."""
_ACCURACY = (
    "Accuracy is min(p/r, r/p) of runtime p and prediction r, mean over jobs. queuecast evaluate judges by users' experience, too."
)
_CLEANED = "Each of them is in the table rejected_jobs, with the rule's name."
_SHARES = ("accuracy", "rate")
"""Endings of the names of prediction metrics printed in per cent."""


def render_report(
    clean: CleanTrace,
    comparison: pd.DataFrame,
    quality: pd.DataFrame,
    provenance: Mapping[str, object],
    notes: Sequence[str] = (),
    judged: tuple[int, str] = (0, ""),
) -> str:
    """Return the page of a comparison of schedules of a cleaned trace; reads no files.

    ``comparison`` comes from :func:`sim.metrics.comparison.compare` with its defaults; a file beside the page holds it.
    ``quality`` has the ``Quality.measures`` of :mod:`sim.campaigns.quality`, and may be empty; ``judged`` is the second
    from which submitted jobs are judged, and its date, "" if all are.
    """
    since_s, since = judged
    table = looks(comparison[list(NAMES)].itertuples(index=False, name=None))
    weighed = verdict(comparison, BASELINE)
    first, taken = leading(comparison, weighed), clean.touched().get("request-from-runtime altered", 0)
    submit = clean.jobs["submit_s"] if not since else clean.jobs.loc[clean.jobs["submit_s"] >= since_s, "submit_s"]
    front = Front(
        title=f"{clean.name}: schedulers and predictors compared",
        answer=[no_wait_text] if (no_wait_text := nothing_waited(comparison, clean.procs)) else weighed.sentences,
        table=metric_table(comparison, table, first, weighed),
        hint=intervals_hint(comparison, table[weighed.baseline].label, CONFIDENCE)
        + (f" Judged are the jobs submitted from {since} on." if since else "")
        + f" τ of bounded slowdown is {TAU_S:g} s.",
        picture=plots.picture_of_changes(comparison, first, clean.generated, table),
        data=f"{clean.name}.csv",
        generated="pipeline" if clean.generated else "",
        warnings=[*filter(None, [pooled(clean.name)]), *([requests_warning(taken, len(submit), BASELINE)] if taken else [])],
        facts=[
            (f"{len(submit):,}", "jobs, generated" if clean.generated else "jobs of a real trace"),
            (f"{clean.procs:,}", "processors"),
            (f"{(submit.max() - submit.min()) / DAY_S:,.0f}", "days of submissions"),
            (sum(predictor != "" for _, predictor, _ in table), "combinations simulated"),
        ],
        notes=[*notes, *interval_notes(comparison), not_modelled(clean.machine.name if clean.machine else "")],
        provenance=provenance,
    )
    metrics = metrics_of(comparison)
    others = metric_table(comparison, table, first, weighed, [name for name in metrics if name not in READ_FIRST])
    predicted, cleaned = prediction_table(quality), cleaning_table(clean.counts())
    meanings = {metric.title: f"{metric.meaning} {metric.source}" for metric in metrics.values()}
    return render(
        front,
        [
            ("Other metrics", [others]),
            ("Predictions", [predicted, _ACCURACY] if predicted else ["No predictions were measured."]),
            (
                "Cleaning: jobs dropped or altered before simulation",
                [_CLEANED, cleaned] if cleaned else ["No job was dropped or altered."],
            ),
            ("How to read the metrics", [meanings]),
        ],
    )


def metrics_of(comparison: pd.DataFrame) -> dict[str, Metric]:
    """Return the metrics of a comparison by name; raise InputError for an unknown one."""
    names = list(comparison["metric"].unique())
    unknown = [name for name in names if name not in METRICS]
    if unknown:
        raise InputError(f"the report has no text for the metrics {', '.join(unknown)}; known: {', '.join(METRICS)}")
    return {name: METRICS[name] for name in names}


def leading(comparison: pd.DataFrame, weighed: Verdict) -> list[Key]:
    """Return the combinations that are read first, at most ``MOST_ROWS``.

    These are the baseline, the best, the lowest slowdown of each other scheduler, and the next lowest ones. Last are
    the recorded schedule, and the lowest of the bounds that know the runtimes.
    """
    slowdowns = comparison[comparison["metric"] == "mean_bounded_slowdown"].sort_values("value", kind="stable")
    ranked: list[Key] = [key for key in slowdowns[list(NAMES)].itertuples(index=False, name=None) if key != weighed.baseline]
    last = [key for key in ranked if not key[1]][:1] + [key for key in ranked if is_bound(key[1])][:1]
    able = [key for key in ranked if key[1] and not is_bound(key[1])]
    lowest = {key[0]: key for key in reversed(able) if key[0] != weighed.baseline[0]}.values()
    picked = dict.fromkeys([*([weighed.best] if weighed.best else []), *sorted(lowest, key=able.index), *able])
    chosen = list(picked)[: MOST_ROWS - 1 - len(last)]
    return [weighed.baseline, *sorted(chosen, key=lambda key: (key != weighed.best, able.index(key))), *last]


def changes_table(comparison: pd.DataFrame, keys: Sequence[Key]) -> Table:
    """Return the changes of the verdict's metrics to the first of ``keys``."""
    relative = comparison.set_index([*NAMES, "metric"])["relative"]
    labels = {key: escaped(brief(look.label)) for key, look in looks(keys).items()}
    rows = [[labels[key], *(change(relative[(*key, metric)]).replace(" ", "\u00a0") for metric in WEIGHED)] for key in keys[1:]]
    return Table("Changes", ["combination", *(METRICS[name].title.removeprefix("mean bounded ") for name in WEIGHED)], rows)


def metric_table(
    comparison: pd.DataFrame,
    looks: Looks,
    keys: Sequence[Key],
    weighed: Verdict,
    metrics: Sequence[str] = READ_FIRST,
) -> Table:
    """Return one row per combination of ``keys``, the first of them the baseline.

    A row has its correction if the scheduler takes one. Below each value are its change and interval, coloured and
    starred if ``weighed`` calls it sure. The best value of a metric is marked; bounds do not count.
    """
    at = {(*row[:3], row[3]): place for place, row in enumerate(comparison[[*NAMES, "metric"]].itertuples(index=False, name=None))}
    best, records = _best(comparison), comparison.to_dict("records")
    rows, classes = [], []
    for combination in keys:
        scheduler, predictor, correction = combination
        kind = "baseline" if combination == keys[0] else "recorded" if not predictor else "bound" if is_bound(predictor) else ""
        words = [f"correction: {correction}"] if kind == "" and correction and takes_correction(scheduler) else []
        words += ["a bound, which knows the runtimes"] * (kind == "bound")
        cells = []
        for metric in metrics:
            row, tone = records[at[*combination, metric]], weighed.tone(combination, metric)
            cell = changed(row, tone, sure=bool(tone), best=kind in ("", "baseline") and row["value"] == best.get(metric))
            cells.append(cell._replace(below=()) if kind == "baseline" else cell)
        look = looks[combination]
        rows.append([Cell(look.label, tuple((text, "") for text in words), colour=look.colour), *cells])
        classes.append(kind)
    headings = [Cell(METRICS[name].title + (", s" if name.endswith("_s") else ""), tip=name) for name in metrics]
    return Table("Metrics", ["combination", *headings], rows, classes=classes)


def intervals_hint(comparison: pd.DataFrame, baseline: str, confidence: float) -> str:
    """Return an explanation of the lines below the values of :func:`metric_table`."""
    replays = int(comparison.loc[comparison["predictor"] != "", "replicates"].min())  # a site recorded one schedule
    of_base = (comparison["relative"] == 0) & (comparison["low"] == comparison["high"])
    intervals = bool((comparison["low"].notna() & ~of_base).any())
    words = f"Below each value: its change against {baseline}"
    over = "weeks and users" + (f" and {replays} replays" if replays > 1 else "")
    words += f", with its {100 * confidence:g} % interval over {over}. " if intervals else ". "
    if replays > 1:
        return words + "Coloured, with a star, where sure for all combinations together. Bold: the best value."
    return (
        words
        + "Each is one replay and schedules are chaotic: nothing is sure, and nothing coloured (--replicates tells). Bold: the best value."
    )


def interval_notes(comparison: pd.DataFrame) -> list[str]:
    """Return each note of the comparison once, with its metrics."""
    noted = comparison[comparison["note"] != ""]
    lines = []
    for note in noted["note"].unique():
        titles = [METRICS[name].title for name in noted.loc[noted["note"] == note, "metric"].unique()]
        lines.append(f"{note[0].upper()}{note[1:]} ({', '.join(titles)}).")
    return lines


def prediction_table(quality: pd.DataFrame) -> Table | None:
    """Return one row per predictor: measures, accuracy with its interval, coverage by level."""
    if quality.empty:
        return None
    overall, levels = quality[quality["by"] == "all"], quality[quality["by"] == "level"]
    measures, quantile_levels = list(overall["measure"].unique()), list(levels["group"].unique())
    headings = ["predictor", "jobs", *(_heading(name) for name in measures)]
    headings += [f"runtimes within its {float(level):.0%} quantile" for level in quantile_levels]
    rows = []
    for predictor, part in overall.groupby("predictor", sort=False):
        values = part.set_index("measure")
        cells: Row = [predictions(str(predictor)), number(part["jobs"].iloc[0], "count")]
        for name in measures:
            row = values.loc[name]
            bounds = f" [{100 * row['low']:.1f}, {100 * row['high']:.1f}]" if name == "accuracy" and pd.notna(row["low"]) else ""
            cells.append(_measure(name, row["value"]) + bounds)
        shares = levels[levels["predictor"] == predictor].set_index("group")["value"]
        rows.append([*cells, *(number(shares.get(level, np.nan), "share") for level in quantile_levels)])
    return Table("Predictions", headings, rows)


def cleaning_table(counts: pd.Series) -> Table | None:
    """Return action, rule and number of jobs, from counts by (action, rule); None without any."""
    rules: dict[Any, Any] = counts.to_dict()
    rows = [(str(action), str(rule), number(count, "count")) for (action, rule), count in rules.items()]
    return Table("Cleaning", ["action", "rule", "jobs"], rows, left=["rule"]) if rows else None


def _best(comparison: pd.DataFrame) -> dict[str, float]:
    """Return the best simulated value of each metric, without ties and bounds."""
    simulated = comparison[[bool(name) and not is_bound(name) for name in comparison["predictor"]]]
    best = {}
    for metric, described in metrics_of(simulated).items():
        values = simulated.loc[simulated["metric"] == metric, "value"].to_numpy(np.float64)
        top = values.min() if described.lower_is_better else values.max()
        if len(values) > 1 and (values == top).sum() == 1:
            best[metric] = float(top)
    return best


def _heading(name: str) -> str:
    text = name.removesuffix("_s").replace("_", " ").replace("mae", "MAE").replace("pinball", "quantile loss")
    return f"{text}, s" if name.endswith("_s") else text


def _measure(name: str, value: float) -> str:
    """Format a measure: names that end in ``_s`` are seconds, in accuracy or rate shares."""
    return number(value, "share" if name.endswith(_SHARES) else "seconds" if name.endswith("_s") else "ratio")


def pooled(trace: str) -> str:
    """Return the sentence above a Slurm site's comparison on one pool; "" for other traces."""
    entry = load_catalogue().get(trace)
    if entry is None or not (entry.machine or entry.format == "slurm" or (entry.place and is_accounting(entry.path))):
        return ""
    return "These are the same jobs on one pool of processors, without the site's partitions, priorities and limits."
