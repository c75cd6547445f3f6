"""Make the card of the study of starts, and its picture."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.common.card import Card, read_rows
from benchmarks.common.pages import STUDIES
from benchmarks.studies.starts_measures import METHODS, OURS, worst_by_chance
from pipelines.report.style import INK, encode, figure

BURST, MAINTENANCE = "burst", "closed"
ALTERED = "starts-altered.csv"
"""Answers around what is altered, of :mod:`benchmarks.studies.starts_altered`."""
MANY = 100
"""Answers in a bin of told chances below which chance alone moves the share that came true by five points and more."""


def card(rows: pd.DataFrame, made_by: str) -> Card:
    """Return the card, a row a log."""
    table, sure, lower, cells, missed = [], 0, 0, 0, []
    for (log, rule), of in rows.groupby(["log", "rule"], sort=False):
        loss = of[of["what"] == "loss"].set_index("method")["value"] / 3600.0
        value = of[of["method"] == OURS].set_index("what")["value"]
        months = value[[name for name in value.index if name.startswith("coverage of 80%, month")]]
        bins = of[of["what"].str.startswith("off, 1h")].assign(value=lambda each: each["value"].abs())
        many = bins[bins["jobs"] >= MANY]
        levels = of[of["what"].str.startswith("loss at") & of["method"].isin(METHODS[1:-1])]
        sure, lower, cells = sure + int((levels["low"] > 0).sum()), lower + int((levels["ratio"] > 0).sum()), cells + len(levels)
        shown = [loss[name] for name in (OURS, "state", "state, LightGBM", "plan, requested")]
        month, off = months.sub(0.8).abs().max(), many["value"].max()
        quality = (
            f"{value['coverage of 80%']:.0%}({month:.0%})",
            f"{value['Brier skill, 1h']:.2f}",
            f"{off:.0%}({worst_by_chance(many):.0%})",
        )
        far = [abs(value["coverage of 80%"] - 0.8), month, 0.4 - value["Brier skill, 1h"], off]
        missed.append(np.array(far) > (0.03, 0.08, 0.0, 0.06))
        table.append((f"{log}, {rule}", *(f"{each:.2f}" for each in shown), *quality))
    alone = [row[0] for row in table if float(row[2]) <= float(row[1])]
    names = ["log, starts", "ours", "state alone", "LightGBM", "plan", "80 % held", "skill", "off"]
    held_in, months_in, skill_in, bins_in = np.sum(missed, axis=0)
    around = read_rows(STUDIES / "data" / ALTERED).query("log == 'kth-sp2' and told == 'with'")
    around = around.set_index(["alteration", "window"])["held_80"]

    def held(rule: str, window: str) -> str:
        return f"{around[rule, window]:.0%}".replace("%", " %")

    return Card(
        question="How well are starts predicted?",
        answer=f"Our loss is below five baselines' in {lower} of {cells} comparisons, surely in {sure}. Scenarios of EASY help "
        f"under EASY; the state alone is equal or better on {' and '.join(alone)}.",
        picture="starts.png",
        picture_caption="Loss relative to ours; logarithmic",
        table=pd.DataFrame(table, columns=names),
        table_caption="Second halves: pinball loss (hours) of jobs that waited over a minute; 80 % intervals that held, given a wait (worst month's "
        f"distance); Brier skill of starting within 1 h against rates by hour and size; worst 1 h bin of {MANY} answers (95 % bound if right):",
        fails=f"Targets missed: 80 % held within 3 points in {held_in} of {len(table)}, months within 8 in {months_in}, skill 0.4 in {skill_in}, "
        f"bins within 6 in {bins_in}. Chances were recalibrated on first halves after one look. "
        f"Altered: beside a user's 1,000 jobs others' 80 % intervals held {held(BURST, 'during')}; on an unannounced closed day "
        f"{held(MAINTENANCE, 'during')} ({held(MAINTENANCE, 'before')} before).",
        data=["starts.csv", ALTERED],
        made_by=made_by,
    )


def draw(rows: pd.DataFrame) -> bytes:
    """Return the picture of losses, a row a log and rule, a dot a method."""
    with figure(7.0, 3.2, False) as canvas:
        axes = canvas.subplots()
        loss = rows[rows["what"] == "loss"].pivot(index=["log", "rule"], columns="method", values="value")
        for number, name in enumerate(METHODS):
            axes.plot(loss[name] / loss[OURS], range(len(loss)), "o", label=name, alpha=0.8, color=f"C{number}")
        axes.axvline(1.0, color=INK, linewidth=1)
        axes.set_yticks(range(len(loss)), [f"{log}, {rule}" for log, rule in loss.index])
        axes.set(
            xscale="log", ylim=(len(loss) - 0.5, -0.5), xlabel="pinball loss of jobs that waited, in parts of ours (logarithmic)"
        )
        axes.set_xticks([1.0, 1.5, 2.0, 3.0], ["1", "1.5", "2", "3"])
        axes.minorticks_off()
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
        return encode(canvas, "png")
