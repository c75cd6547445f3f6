"""The page of schedulers that plan: metrics, what users were told, figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from features.clock import DAY_S
from pipelines.report import planning_plots as plots
from pipelines.report.page import data_uri, stated, template
from pipelines.report.table import Cell, Row, Table
from pipelines.report.wording import change, kind_of_jobs, number
from pipelines.workflows.planning import Replicates
from sim.metrics.names import FAIRNESS, METRICS, PLANS, Metric
from sim.metrics.predictability import predictability
from sim.metrics.schedule_metrics import evaluate
from sim.metrics.user_fairness import fairness
from sim.schedule import Schedule

_PERFORMANCE = ("utilization", "carried_load", "mean_wait_s", "mean_bounded_slowdown")


def render_planning(
    trace: str, schedules: Replicates, provenance: Mapping[str, object], notes: Sequence[str] = (), of_all: int = 0
) -> str:
    """Return the page, from values alone.

    ``schedules`` holds the replicates of each policy by its label, the baseline first; ``provenance`` and ``notes`` are printed in
    their order, ``of_all`` is how many jobs the trace has.
    """
    base = next(iter(schedules.values()))[0]
    generated = any(each.generated for made in schedules.values() for each in made)
    users = bool(base.jobs["user"].notna().any())
    told = _table("What users were told", schedules, PLANS, lambda each: dict(predictability(each)))
    submit = base.jobs["submit_s"]
    return template("planning.html.j2").render(
        trace=trace,
        generated=generated,
        baseline=next(iter(schedules)),
        facts=[
            (f"{len(base.jobs):,}", f"jobs{kind_of_jobs(generated)}" + (f", of {of_all:,}" if of_all > len(base.jobs) else "")),
            (f"{base.procs:,}", "processors"),
            (f"{(submit.max() - submit.min()) / DAY_S:,.0f}", "days of submissions"),
            (sum(map(len, schedules.values())), "schedules"),
        ],
        summary=_summary(schedules, users),
        notes=notes,
        metrics=_table("Metrics", schedules, {name: METRICS[name] for name in _PERFORMANCE}, lambda each: dict(evaluate(each))),
        fairness=_table("Users", schedules, FAIRNESS, lambda each: dict(fairness(each))) if users else None,
        told=told if told.rows else None,
        described=[
            *(METRICS[name] for name in _PERFORMANCE),
            *(FAIRNESS.values() if users else ()),
            *(PLANS.values() if told.rows else ()),
        ],
        figures=_figures(schedules, users),
        provenance=stated(provenance),
    )


def _table(
    title: str, schedules: Replicates, metrics: Mapping[str, Metric], measure: Callable[[Schedule], dict[Any, Any]]
) -> Table:
    """Return a row a policy with means over replicates; below, their spread and the change to the first one."""
    values = {label: [measure(each) for each in made] for label, made in schedules.items()}
    values = {label: found for label, found in values.items() if all(found)}
    rows: list[Row] = []
    for label, found in values.items():
        first = next(each for each in values if each.partition(", ")[2] == label.partition(", ")[2])  # with the same users
        row: Row = [Cell(label, colour=plots.colours([*schedules])[label])]
        for name, metric in metrics.items():
            each = np.array([record[name] for record in found], np.float64)
            base = float(np.mean([record[name] for record in values[first]]))
            spread = f"± {number(each.std(ddof=1), metric.kind)}" if len(each) > 1 else ""
            moved = "" if label == first or not base else change(each.mean() / base - 1.0)
            row.append(Cell(number(each.mean(), metric.kind), ((spread, ""), (moved, ""))))
        rows.append(row)
    headings = [Cell(metric.title + (", s" if name.endswith("_s") else ""), tip=name) for name, metric in metrics.items()]
    return Table(title, ["policy", *headings], rows)


def _summary(schedules: Replicates, users: bool) -> list[str]:
    """Say what the paper claims of its planner, as it is here for each policy."""
    found = []
    for label, made in schedules.items():
        first = made[0]
        wait = (first.jobs["start_s"] - first.jobs["submit_s"]).to_numpy(np.float64)
        text = f"{label}: {np.mean(wait <= wait.mean()):.0%} of jobs wait no longer than the mean of {number(wait.mean(), 'seconds')} s"
        if users:
            text += f"; {fairness(first)['nuwt_below_1']:.0%} of users computed for longer than they waited (NUWT below 1)"
        if told := dict(predictability(first)):
            text += f"; {told['started_by_first_plan']:.0%} of jobs started no later than they were first told"
        found.append(text + ".")
    return found


def _figures(schedules: Replicates, users: bool) -> list[dict[str, str]]:
    searched = {label: made[0] for label, made in schedules.items() if made[0].searches is not None and len(made[0].searches)}
    costed = {label: each for label, each in searched.items() if each.search_costs is not None}
    drawn = [
        (
            "Utilization, waits and slowdowns",
            "Means over replicates, with the standard deviation over jobs as whiskers (figure 1); dots are single replicates.",
            plots.overall(schedules),
            "svg+xml",
        ),
        (
            "Mean waits by class of jobs",
            "By processors and by requested time (figure 2); below each class its jobs.",
            plots.by_class(schedules),
            "svg+xml",
        ),
        ("Waits", "Share of jobs that wait at most so long (figure 6). Dots: the mean wait.", plots.waits(schedules), "svg+xml"),
    ]
    if users:
        text = (
            "Mean with the standard deviation over users; users by class; cumulative (figures 3 and 7). Dashed: waited for as long as it "
            "computed. Users below 0.0001 are drawn there."
        )
        drawn.append(("Fairness between users", text, plots.fairness(schedules), "svg+xml"))
        text = "The wait that a single job justifies; complaints of each user; all complaints by how far the wait exceeded it (figure 8)."
        drawn.append(("Satisfaction", text, plots.satisfaction(schedules), "svg+xml"))
    for label in [label for label in searched if ", " not in label]:  # of one kind of users
        text = (
            "Relative improvement of each criterion by every accepted move (figure 4); below 0 it became worse, and another one better. The axes leave out "
            "the 2 % largest and the 2 % least."
        )
        drawn.append((f"Accepted moves of {label}", text, plots.moves(searched[label]), "png"))
    if costed:
        text = (
            "Wall time of an iteration and of a whole search against the jobs in the plan (figure 5), on logarithmic axes of time."
        )
        drawn.append(("What a search costs", text, plots.costs(costed), "png"))
    return [{"title": title, "caption": caption, "image": data_uri(image, kind)} for title, caption, image, kind in drawn]
