"""The page and the tables of parity: replays of a Slurm site beside its record."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from pipelines.report.page import MOST_ROWS, Front, Picture, data_uri, render
from pipelines.report.site_night import not_modelled, warnings_of
from pipelines.report.style import INK, RECORDED, encode, figure
from pipelines.report.table import Table
from pipelines.workflows.parity import Parity

_BLUE = "#0072b2"
_MOST_GROUPS = 14
_HEADINGS = ["jobs", "recorded s", "replayed s", "range s", "record"]


def render_parity(parity: Parity, provenance: Mapping[str, object]) -> str:
    """Return the page as one self-contained HTML file."""
    summary, rules = parity.summary, left_out(parity)
    front = Front(
        title=f"{parity.site.name}: replays of its Slurm beside its record",
        answer=answer(parity),
        table=Table("", rules.headings, rules.rows[:MOST_ROWS]),
        hint="Replays without a rule of the site, the farthest from the whole first: what the figures can see. Phases of Slurm's clocks are in "
        "no accounting, so each figure is a range over replays (2.5 to 97.5 %).",
        picture=Picture("", data_uri(picture(parity)), "Mean waits: recorded (dot), and the range over replays (bar)."),
        facts=[
            (f"{summary['jobs']:,}", "jobs that ran"),
            (f"{summary['within_5_s']:.0%}", "of starts within 5 s of the record"),
            (f"{summary['decisions']:.1%}", "of starts decided as recorded"),
            (f"{summary['replays']}", "replays"),
        ],
        warnings=warnings_of(parity.site),
        notes=[*parity.jobs.notes, *not_modelled(parity.site)],
        provenance=provenance,
    )
    more = [rules] if len(rules.rows) > MOST_ROWS else []
    return render("parity.html.j2", front, tables=[*groups(parity), *more, unexplained(parity)], changes=[])


def answer(parity: Parity) -> list[str]:
    """Return in two sentences whether record and replays agree, in waits and decisions."""
    summary = parity.summary
    recorded, mean, low, high = (float(summary[name]) for name in ("recorded_mean_wait_s", "mean_wait_s", "low_s", "high_s"))
    lies = "inside" if low <= recorded <= high else "outside"
    waits = (
        f"{parity.jobs.name}: {summary['jobs']:,} jobs waited {recorded:,.1f} s in the mean; {summary['replays']} replays give {mean:,.1f} s "
        f"[{low:,.1f}, {high:,.1f}] ({mean / recorded - 1:+.1%}): the record lies {lies} the range that the phases of Slurm's clocks make."
        if recorded
        else f"{parity.jobs.name}: no job waited; {summary['replays']} replays give {mean:,.1f} s."
    )
    starts = (
        f"{summary['within_1_s']:.0%} of starts lie within 1 s of the record, {summary['within_5_s']:.0%} within 5 s, "
        f"{summary['within_30_s']:.0%} within 30 s. From the recorded states, {summary['decisions']:.1%} of the starts are decided "
        f"as recorded, and {summary['decisions_extra']:.1%} as many that did not happen."
    )
    return [waits, starts]


def groups(parity: Parity) -> list[Table]:
    """Return mean waits by partition, QOS, account, size and hour."""
    tables = []
    for by, table in parity.groups.groupby("by", sort=False):
        rows: list[list[str]] = [
            [
                str(row["value"]),
                f"{row['jobs']:,}",
                f"{row['recorded_s']:,.0f}",
                f"{row['mean_s']:,.0f}",
                f"{row['low_s']:,.0f} to {row['high_s']:,.0f}",
                "outside" if row["outside"] else "",
            ]
            for row in table.to_dict("records")
        ]
        if len(rows) > 1:
            tables.append(Table(f"Mean waits by {by}", [str(by), *_HEADINGS], rows))
    return tables


def left_out(parity: Parity) -> Table:
    """Return what replays give without each rule, the one that changes the mean most first."""
    summary, table = parity.summary, parity.left_out
    span = f"{summary['low_s']:,.1f} to {summary['high_s']:,.1f}"
    rows = [["(none)", f"{summary['mean_wait_s']:,.1f}", span, f"{summary['within_5_s']:.0%}"]]
    for row in table.sort_values("mean_wait_s", key=lambda mean: -(mean - summary["mean_wait_s"]).abs(), kind="stable").to_dict(
        "records"
    ):
        span = f"{row['low_s']:,.1f} to {row['high_s']:,.1f}"
        rows.append([row["rule"], f"{row['mean_wait_s']:,.1f}", span, f"{row['within_5_s']:.0%}"])
    headings = ["left out", "mean wait s", "range s", "within 5 s"]
    return Table("What each rule contributes: replays without it", headings, rows)


def unexplained(parity: Parity) -> Table:
    """Return the jobs whose wait no replay has, with what may explain it."""
    rows = [
        [
            row["job_id"],
            row["user"],
            row["partition"],
            f"{row['recorded_s']:,.0f}",
            f"{row['low_s']:,.0f} to {row['high_s']:,.0f}",
            row["why"],
        ]
        for row in parity.unexplained.to_dict("records")
    ]
    headings = ["job", "user", "partition", "recorded s", "range s", "what may explain it"]
    return Table("Waits that no replay has", headings, rows, left=["user", "partition", "what may explain it"])


def picture(parity: Parity) -> bytes:
    """Draw recorded mean waits in their ranges: all jobs, and groups of at least ten."""
    summary, table = parity.summary, parity.groups
    several = table.groupby("by")["value"].transform("size") > 1
    table = table[several & (table["jobs"] >= 10) & (table["by"] != "hour")].head(_MOST_GROUPS)
    rows = pd.DataFrame(
        [("all jobs", summary["recorded_mean_wait_s"], summary["mean_wait_s"], summary["low_s"], summary["high_s"])]
        + [(f"{row.by} {row.value}", row.recorded_s, row.mean_s, row.low_s, row.high_s) for row in table.itertuples()],
        columns=["name", "recorded", "mean", "low", "high"],
    )
    with figure(5.8, 0.7 + 0.24 * len(rows), generated=False) as drawing:
        panel = drawing.subplots()
        places = range(len(rows))
        panel.hlines(places, rows["low"], rows["high"], color=_BLUE, linewidth=5, alpha=0.35, label="range over replays")
        panel.plot(rows["mean"], places, "|", color=_BLUE, markersize=9, label="their mean")
        panel.plot(rows["recorded"], places, "o", color=INK, markersize=4.5, label="recorded")
        panel.set_yticks(places, rows["name"])
        panel.set_ylim(len(rows) - 0.4, -0.6)
        panel.set_xlim(left=0)
        panel.grid(axis="y", visible=False)
        panel.set_xlabel("mean wait, s", color=RECORDED)
        panel.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, fontsize=8)
        return encode(drawing, "svg")
