"""The page of replays whose start decisions read a system's recorded counters."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from models.variability.unseen import Unseen
from pipelines.report.page import Front, Picture, data_uri, render
from pipelines.report.style import BLUE, INK, ORANGE, figure
from pipelines.report.table import Cell, Table
from pipelines.report.wording import tone
from pipelines.workflows.monitored import BASELINE, METRICS, VARYING, Monitored
from sim.metrics.formats import change, interval, number, sentence
from sim.metrics.names import METRICS as NAMED

ASSUMED = (
    "Assumed: the recorded congestion does not depend on the decision, every job runs as long as it did, and the machine is one pool of processors. "
    "Decisions that change the congestion gain more and wait less: on simulated clusters at most a third of the gain is foreseen."
)


def render_monitored(system: str, monitored: Monitored, unseen: Unseen, provenance: Mapping[str, object]) -> str:
    """Return the page as one self-contained HTML file."""
    front = Front(
        title=f"{system}: start decisions on recorded counters",
        answer=answer(monitored, unseen),
        table=overall(monitored.table, monitored.scheduler, unseen.skill[1] > 0),
        hint=f"{ASSUMED} Below each figure its change against {BASELINE}, with its 95 % interval.",
        picture=Picture(
            "", data_uri(picture(monitored)), "Varying runs so far: recorded, and predicted for the starts of both replays."
        ),
        facts=[
            (f"{monitored.jobs:,}", f"jobs of {monitored.trace}"),
            (f"{len(monitored.runs):,}", "asked about"),
            (f"{monitored.counts['skips']:,}", f"skips in {monitored.counts['questions']:,} questions"),
            (f"{monitored.counts['without counters']:,}", "questions without counters"),
        ],
        notes=[sentence(text) for text in dict.fromkeys(monitored.table["note"]) if text],
        provenance=provenance,
    )
    return render("monitored.html.j2", front, described=[NAMED[name] for name in METRICS])


def answer(monitored: Monitored, unseen: Unseen) -> list[str]:
    """Return sentences on the effect of the decisions, and on the model's skill."""
    rows = {str(row["metric"]): row for row in monitored.table.to_dict("records")}
    varying, wait = rows[VARYING], rows["mean_wait_s"]
    value, low, high = unseen.skill
    sure = f" {interval(low, high)}" if np.isfinite(low) else ""
    return [
        f"{monitored.scheduler}: {varying['value']:,.1f} of {len(monitored.runs):,} runs would vary instead of {varying['baseline']:,.1f} "
        f"({changed(varying)}), and jobs wait {wait['value']:,.0f} s in the mean instead of {wait['baseline']:,.0f} s ({changed(wait)}).",
        f"Recorded varying runs: {int(monitored.runs['varied'].sum()):,}. Of runs that it had not learned from, the model saves "
        f"{change(value).lstrip('+')}{sure} of the error of always saying the same{'' if low > 0 else ': what it predicts is not sure'}.",
    ]


def changed(row: Mapping) -> str:
    """Return a relative change with its interval, if any."""
    return " ".join(text for text in (change(row["relative"]), interval(row["low"], row["high"])) if text)


def overall(table: pd.DataFrame, scheduler: str, sure: bool) -> Table:
    """Return both replays, one row per scheduler and one column per metric.

    Predicted runs are coloured only if the model is ``sure`` to have any skill.
    """
    rows = table.to_dict("records")
    heads: list[str | Cell] = ["predicted varying runs", *(Cell(NAMED[name].title, tip=NAMED[name].meaning) for name in METRICS)]

    def shown(row: Mapping, name: str) -> str:
        if row["metric"] == VARYING:
            return f"{row[name]:,.1f}"
        kind = NAMED[row["metric"]].kind
        return number(row[name], kind) + (" s" if kind == "seconds" else "")

    tones = [tone(row["low"], row["high"]) if sure or row["metric"] != VARYING else "" for row in rows]
    ours = [Cell(shown(row, "value"), ((changed(row), mark),)) for row, mark in zip(rows, tones, strict=True)]
    return Table("", ["scheduler", *heads], [[BASELINE, *(shown(row, "baseline") for row in rows)], [scheduler, *ours]])


def picture(monitored: Monitored) -> Figure:
    """Draw the number of varying runs so far, as recorded and as predicted."""
    with figure(6.8, 3.0, False) as drawing:
        panel = drawing.subplots()
        for name, of, colour in ((BASELINE, "varied", INK), (BASELINE, "", BLUE), (monitored.scheduler, "", ORANGE)):
            rows = monitored.runs.sort_values(f"{name} start_s", kind="stable")
            time, so_far = pd.to_datetime(rows[f"{name} start_s"], unit="s"), rows[of or f"{name} chance"].fillna(0.0).cumsum()
            panel.step(time, so_far, where="post", color=colour, label="recorded" if of else f"predicted, {name}")
        panel.set_ylim(bottom=0)
        panel.set_ylabel("varying runs so far")
        panel.tick_params(axis="x", rotation=20)
        drawing.legend(loc="outside lower center", ncols=3)
    return drawing
