"""The page and the tables of parity: replays of a Slurm site beside its record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pipelines.report.page import MOST_ROWS, Front, render
from pipelines.report.table import Table
from pipelines.studies.parity import Parity
from sim.site.parity import FARTHEST_BY_LOG, HELD_GROUPS, HELD_MEANS, HELD_WAITS, LEAST_DECIDED, apart, exports
from sim.slurm.unbuilt import not_modelled, warnings_of

_RUNS = "recorded runs of Slurm on test clusters, which come with Queuecast's tests"
_RECORDED, _RANGE = "{recorded_s:,.0f}", "{low_s:,.0f} to {high_s:,.0f}"
_GROUPED = {"jobs": "{jobs:,}", "recorded s": _RECORDED, "replayed s": "{mean_s:,.0f}", "range s": _RANGE, "record": "{record}"}


def render_parity(parity: Parity, provenance: Mapping[str, object]) -> str:
    """Return the page as one self-contained HTML file."""
    explaining = causes(parity)
    front = Front(
        title=f"{parity.site.name}: replays of its Slurm beside its record",
        answer=answer(parity),
        table=Table("", explaining.headings, explaining.rows[:MOST_ROWS]),
        hint="What could explain the waits, summed over jobs, and what would tell. Phases of Slurm's clocks are in no accounting, so each "
        "figure is a range, in which one more replay would lie with 95 %.",
        warnings=warnings_of(parity.site),
        notes=[advice(parity), *parity.jobs.notes, *not_modelled(parity.site)],
        provenance=provenance,
    )
    more = [explaining] if len(explaining.rows) > MOST_ROWS else []
    tables = [table for table in (*groups(parity), unexplained(parity), *more) if table.rows]
    return render(front, [(table.title, [table]) for table in tables])


def answer(parity: Parity) -> list[str]:
    """Return a verdict, and two sentences on waits and on decisions."""
    summary = parity.summary
    recorded, mean, low, high = (float(summary[name]) for name in ("recorded_mean_wait_s", "mean_wait_s", "low_s", "high_s"))
    recorded_text, low_text, high_text = apart(recorded, low, high)
    verdict = (
        f"Too far to advise: {summary['far']}."
        if summary["far"]
        else f"Near enough, go on with queuecast whatif: {_near(summary)}."
    )
    lies = "inside" if low <= recorded <= high else "outside"
    waits = f"{parity.jobs.name}: {summary['jobs']:,} jobs waited {recorded_text} s in the mean; "
    if not recorded:
        waits = f"{parity.jobs.name}: no job waited; {summary['replays']} replays give {mean:,.1f} s."
    elif _one_replay(parity):
        waits += f"all replays give {mean:,.1f} s ({mean / recorded - 1:+.1%}), as the log's phases leave nothing open."
    else:
        waits += (
            f"{summary['replays']} replays give {mean:,.1f} s [{low_text}, {high_text}] ({mean / recorded - 1:+.1%}): the record lies "
            f"{lies} the range that the phases of Slurm's clocks make. Such a range held {HELD_MEANS[0]} of {HELD_MEANS[1]} {_RUNS}."
        )
    starts = (
        f"{summary['within_1_s']:.0%} of starts lie within 1 s of the record, {summary['within_5_s']:.0%} within 5 s, "
        f"{summary['within_30_s']:.0%} within 30 s. From the recorded states, {summary['decisions']:.1%} of the starts are decided "
        f"as recorded, and starts that did not happen are {summary['decisions_extra']:.1%} as many."
    )
    return [verdict, waits, starts]


def _near(summary: Mapping[str, Any]) -> str:
    """Return the figures by which replays are near enough to the record."""
    decided = f"{summary['decisions']:.1%} of the starts are decided as recorded (at least {LEAST_DECIDED:.0%} must be)"
    if summary["low_s"] <= summary["recorded_mean_wait_s"] <= summary["high_s"]:
        return f"the recorded mean wait lies inside the range of replays, and {decided}"
    return f"with the log's phases the mean wait lies within {FARTHEST_BY_LOG:.0%} of the recorded one, and {decided}"


def _one_replay(parity: Parity) -> bool:
    """Tell whether a log left no phase open, so that all replays are the same and make no range."""
    return bool(parity.summary["high_s"] - parity.summary["low_s"] < 0.1)


def groups(parity: Parity) -> list[Table]:
    """Return mean waits by partition, QOS, account, size and hour."""
    outside = parity.groups["outside"] & (not _one_replay(parity))
    table = parity.groups.assign(record=np.where(outside, "outside", ""))
    return [
        Table.of(
            f"Mean waits by {by} (such ranges hold {HELD_GROUPS:.0%} in Queuecast's recorded runs)",
            {str(by): "{value}"} | _GROUPED,
            rows.to_dict("records"),
        )
        for by, rows in table.groupby("by", sort=False)
        if len(rows) > 1
    ]


def unexplained(parity: Parity) -> Table:
    """Return the jobs whose wait lies outside its range, with possible explanations."""
    columns = {"job": "{job_id}", "user": "{user}", "partition": "{partition}", "recorded s": _RECORDED, "range s": _RANGE}
    columns |= {"what may explain it": "{why}"}
    rows = parity.unexplained.to_dict("records")
    return Table.of(
        f"Waits outside their range (which holds {HELD_WAITS:.0%} in Queuecast's recorded runs)",
        columns,
        rows,
        left=["user", "partition", "what may explain it"],
    )


def causes(parity: Parity) -> Table:
    """Return what may lie between replays and record, the largest first, and what would tell."""
    columns = {"what the accounting does not tell": "{cause}", "jobs": "{jobs:,}", "could explain s": "{explains_s:,.0f}"}
    columns |= {"export that tells it": "{export}"}
    left = ["what the accounting does not tell", "export that tells it"]
    return Table.of("What could explain the waits, summed over jobs", columns, parity.causes.to_dict("records"), left=left)


def advice(parity: Parity) -> str:
    """Return the three further exports that would explain most, in order."""
    named = exports(parity.causes)
    return f"Export next, what explains most first: {'; '.join(named)}." if named else "Nothing is left to export."
