"""The page of a comparison: the best policies and their cost, and which jobs wait."""

from collections.abc import Mapping, Sequence

import pandas as pd

from features.clock import DAY_S
from pipelines.report import plots
from pipelines.report.page import Front, Picture, data_uri, render
from pipelines.report.style import key, looks
from pipelines.report.tables import (
    cleaning_table,
    experience_table,
    interval_notes,
    intervals_hint,
    leading,
    metric_table,
    metrics_of,
    prediction_table,
)
from pipelines.report.wording import kind_of_jobs, not_modelled, nothing_waited, requests_warning
from sim.metrics.names import READ_FIRST, TAU_S
from sim.metrics.verdict import is_bound, verdict
from sim.schedule import Schedule


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
    data: str = "",
    above: str = "",
) -> str:
    """Return the page of a comparison; reads no files.

    ``comparison`` comes from :func:`sim.metrics.comparison.compare` of ``schedules`` at ``baseline``, ``confidence`` and
    ``tau_s``, with its default metrics, and ``data`` is the file beside the page that holds it; ``quality`` has the
    ``Quality.measures`` of :mod:`sim.predictions.quality`, and may be empty; ``kinds`` has the source of answers by predictor,
    ``since`` is the date from which jobs are judged, if not all are; ``cleaning_counts`` counts jobs by (action, rule);
    ``requests_from_runtimes`` is the number of jobs whose requested time was taken from their runtime. ``above`` stands on top.
    """
    generated = generated or any(schedule.generated for schedule in schedules)
    table, by_key = looks(key(schedule) for schedule in schedules), {key(schedule): schedule for schedule in schedules}
    weighed = verdict(comparison, baseline, confidence)
    first = leading(comparison, weighed)
    base = by_key[weighed.baseline]
    drawn = [by_key[policy] for policy in first if not is_bound(policy[1])][: plots.CURVES]
    submit = base.jobs["submit_s"]
    front = Front(
        title=f"{trace}: schedulers and predictors compared",
        answer=[no_wait_text] if (no_wait_text := nothing_waited(comparison, base.procs)) else weighed.sentences,
        table=metric_table(comparison, table, first, weighed, kinds=kinds),
        hint=intervals_hint(comparison, table[weighed.baseline].label, confidence)
        + (f" Judged are the jobs submitted from {since} on." if since else "")
        + f" τ of bounded slowdown is {tau_s:g} s.",
        picture=plots.picture_of_changes(comparison, first, generated, table),
        data=data,
        generated="pipeline" if generated else "",
        warnings=([above] if above else [])
        + ([requests_warning(requests_from_runtimes, len(base.jobs), baseline)] if requests_from_runtimes else []),
        facts=[
            (f"{len(base.jobs):,}", f"jobs{kind_of_jobs(generated)}"),
            (f"{base.procs:,}", "processors"),
            (f"{(submit.max() - submit.min()) / DAY_S:,.0f}", "days of submissions"),
            (sum(schedule.predictor != "" for schedule in schedules), "combinations simulated"),
        ],
        notes=[*notes, *interval_notes(comparison), not_modelled(base.machine)],
        provenance=provenance,
    )
    tails = Picture(
        "Which jobs wait, and how long",
        data_uri(plots.distributions(drawn, tau_s, table)),
        "Share of jobs beyond each value: means are decided in the tail.",
    )
    return render(
        "report.html.j2",
        front,
        others=metric_table(comparison, table, first, weighed, [name for name in metrics_of(comparison) if name not in READ_FIRST]),
        described=list(metrics_of(comparison).values()),
        tails=tails,
        predictions=prediction_table(quality, kinds or {}),
        by_experience=experience_table(quality),
        cleaning=cleaning_table(cleaning_counts),
    )
