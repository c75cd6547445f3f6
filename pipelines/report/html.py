"""The comparison's page: tables, figures as data URIs, provenance, and notes on metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from features.clock import DAY_S
from pipelines.report import plots
from pipelines.report.page import data_uri, stated, template
from pipelines.report.style import Looks, key, looks
from pipelines.report.tables import (
    accuracies,
    any_interval,
    cleaning_table,
    experience_table,
    fairness_table,
    interval_notes,
    metric_table,
    metrics_of,
    prediction_table,
)
from pipelines.report.wording import kind_of_jobs, not_modelled, nothing_waited, requests_warning, summary
from pipelines.storage.atomic import write
from sim.metrics.names import FAIRNESS
from sim.metrics.schedule_metrics import TAU_S
from sim.metrics.timeline import busiest_window
from sim.schedule import Schedule

WINDOW_S = 2 * DAY_S
"""Length of the Gantt charts' window."""
_CURVES = 6
"""Max combinations drawn as curves; more cannot be told apart."""


def render_report(
    *,
    trace: str,
    comparison: pd.DataFrame,
    schedules: Sequence[Schedule],
    quality: pd.DataFrame,
    cleaning_counts: pd.Series,
    provenance: Mapping[str, object],
    notes: Sequence[str],
    generated: bool,
    kinds: Mapping[str, str] | None = None,
    since: str = "",
    requests_from_runtimes: int = 0,
    baseline: tuple[str, str] = ("EASY", "requested"),
    confidence: float = 0.95,
    tau_s: float = TAU_S,
) -> str:
    """Return the page, from values alone.

    ``comparison`` comes from :func:`sim.metrics.comparison.compare` of ``schedules`` at ``baseline``, ``confidence`` and
    ``tau_s``, with its default metrics; ``quality`` has the ``Quality.measures`` of :mod:`sim.predictions.quality`, and may be
    empty; ``kinds`` says by predictor where it gets its answers, ``since`` from what date on jobs are judged, if not all are;
    ``cleaning_counts`` counts jobs by (action, rule); ``provenance`` and ``notes`` are printed in their order;
    ``requests_from_runtimes`` is the number of jobs whose requested time was taken from their runtime.
    """
    generated = generated or any(schedule.generated for schedule in schedules)
    table = looks(key(schedule) for schedule in schedules)
    base = next(schedule for schedule in schedules if (schedule.scheduler, schedule.predictor) == tuple(baseline))
    curves = _curves(schedules, base, comparison)
    drawn = {key(schedule) for schedule in curves}
    submit = base.jobs["submit_s"]
    has_intervals = any_interval(comparison, key(base))
    return template("report.html.j2").render(
        trace=trace,
        generated=generated,
        requests_warning=requests_warning(requests_from_runtimes, len(base.jobs), baseline) if requests_from_runtimes else "",
        facts=[
            (f"{len(base.jobs):,}", f"jobs{kind_of_jobs(generated)}"),
            (f"{base.procs:,}", "processors"),
            (f"{(submit.max() - submit.min()) / DAY_S:,.0f}", "days of submissions"),
            (sum(schedule.predictor != "" for schedule in schedules), "combinations simulated"),
        ],
        baseline=" / ".join(baseline),
        confidence=f"{100 * confidence:g}",
        tau=f"{tau_s:g}",
        summary=summary(comparison, baseline, confidence, requests_known=requests_from_runtimes == 0),
        metrics=metric_table(comparison, table, key(base), kinds),
        described=[*metrics_of(comparison).values(), *FAIRNESS.values()],
        since=since,
        has_intervals=has_intervals,
        interval_notes=interval_notes(comparison),
        weeks=int(comparison["weeks"].iloc[0]),
        replicates=int(comparison["replicates"].min()),
        figures=_figures(comparison, curves, base, generated, tau_s, table, has_intervals),
        left_out=[table[key(schedule)].label for schedule in schedules if key(schedule) not in drawn],
        fairness=fairness_table(schedules, table),
        predictions=prediction_table(quality, kinds or {}),
        by_experience=experience_table(quality),
        prediction_figure=data_uri(plots.prediction_quality(schedules, accuracies(quality), table), "png") if len(quality) else "",
        cleaning=cleaning_table(cleaning_counts),
        provenance=stated(provenance),
        notes=[*filter(None, [nothing_waited(comparison, base.procs)]), *notes, not_modelled()],
    )


def write_report(path: Path, html: str) -> None:
    """Write the page atomically."""
    write(path, html)


def _curves(schedules: Sequence[Schedule], base: Schedule, comparison: pd.DataFrame) -> list[Schedule]:
    """Return the schedules drawn as curves.

    The baseline, the recorded one, and those of the lowest mean bounded slowdown, in this order.
    """
    rows = comparison[comparison["metric"] == "mean_bounded_slowdown"].set_index(["scheduler", "predictor", "correction"])
    value = rows["value"].to_dict()
    ranked = sorted(schedules, key=lambda schedule: (schedule is not base, schedule.predictor != "", value[key(schedule)]))
    return ranked[:_CURVES]


def _figures(
    comparison: pd.DataFrame,
    curves: Sequence[Schedule],
    base: Schedule,
    generated: bool,
    tau_s: float,
    table: Looks,
    has_intervals: bool,
) -> list[dict[str, str]]:
    others = [schedule for schedule in curves if schedule is not base and schedule.predictor != ""]
    # stable: the best one without hindsight comes first, clairvoyant only if it is the only one
    others.sort(key=lambda schedule: schedule.predictor == "clairvoyant")
    pair = [base, *others[:1]]
    recorded = [schedule for schedule in curves if schedule.predictor == ""]
    baseline = (base.scheduler, base.predictor)
    return [
        {
            "title": "What changes, relative to the baseline",
            "caption": f"Marks are the change over all judged jobs{', lines its intervals' if has_intervals else ''}. "
            "A combination keeps its colour in all figures.",
            "image": data_uri(plots.metrics_by_combination(comparison, baseline, generated, image="svg")),
        },
        {
            "title": "Which jobs wait, and how long",
            "caption": "Share of jobs beyond each value, on logarithmic axes: means are decided in the tail, at the lower right.",
            "image": data_uri(plots.distributions(curves, tau_s, table, image="svg")),
        },
        {
            "title": "When they wait",
            "caption": "Time-weighted means over steps of a two-hundredth of the trace.",
            "image": data_uri(plots.over_time([*pair, *recorded], table, image="svg")),
        },
        {
            "title": "The busiest two days",
            "caption": "The window in which the baseline's jobs, waiting or running, ask for most processors. A rectangle is a job or a "
            "piece of one. Its rows are assigned for drawing: the simulator counts processors and does not name them.",
            "image": data_uri(plots.gantt_chart(pair, busiest_window(base, WINDOW_S)), "png"),
        },
    ]
