"""The page and the tables of the effects that changes of a site would have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pipelines.report.page import (
    GREEN,
    INK,
    MOST_ROWS,
    ORANGE,
    RECORDED,
    VERMILION,
    Fold,
    Front,
    Picture,
    data_uri,
    figure,
    render,
    rows_named,
)
from pipelines.report.table import Cell, Row, Table, duration
from pipelines.studies.what_if import LOSES, MOST_LOST, NOT_JUDGED, WhatIf, records
from sim.metrics.names import METRICS
from sim.metrics.verdict import change, interval, signed
from sim.site.lines import NO_SETTING, SCRIPT
from sim.site.parity import RANGE, apart
from sim.site.what_if import HERE, JUDGED_BY, NOT_SURE, Measured
from sim.slurm.unbuilt import not_modelled, warnings_of

_SHORT = {"mean_wait_s": "wait", "mean_bounded_slowdown": "slowdown", "awf_s": "AWF", "p2sf_s": "P²SF"}
_COLOURS = {"better": GREEN, "mixed": ORANGE, "worse": VERMILION, NOT_SURE: "#888888", LOSES: "#888888"}
_COLOURS |= {"better here": "#7fceb9", "mixed here": "#f2ce7f", "worse here": "#eaae7f"}
FEWEST_IN_GROUP = 20
"""Min number of jobs of a group whose mean wait is compared."""
_WHERE = {
    NO_SETTING: "No setting of Slurm",
    SCRIPT: "The file job_submit.lua beside slurm.conf",
    "[a-z]+ ": "Commands",
    "NodeName=": "New lines in slurm.conf, and in gres.conf where nodes have GPUs; then restart slurmctld and all slurmd",
    r"\w+(Type|Plugins?|TypeParameters)=": "In slurm.conf, in place of the line of this key, if there is one; then restart slurmctld",
    "": "In slurm.conf, in place of the line of this key or partition, if there is one; then run scontrol reconfigure",
}
"""The place of a line in a site's files, by the beginning of the line."""


def render_what_if(study: WhatIf, provenance: Mapping[str, object]) -> str:
    """Return the page as one self-contained HTML file."""
    table = candidates(study)
    front = Front(
        title=f"{study.site.name}: what to change, and what it would bring",
        answer=answer(study),
        table=leading(study),
        hint="Changes are against replays of today's settings, in per cent; left is better. Here: sure of these very jobs, not of "
        "those of other days.",
        picture=Picture(
            data_uri(figure_of_candidates(pd.DataFrame(records(study)))),
            "Change of four metrics under each candidate; the line at 0 is today. What is worse may lie beyond the edge (arrow).",
        ),
        facts=[
            (f"{len(study.changes)}", "candidates that change something here"),
            (f"{study.replicates}", "pairs of replays of each"),
            (f"{len(study.better)}", "surely better, in Slurm"),
        ],
        warnings=warnings_of(study.site),
        notes=[
            *([] if study.far else [near(study)]),
            *study.jobs.notes,
            *not_modelled(study.site),
            *([f"Candidates that change nothing here: {', '.join(study.idle)}."] if study.idle else []),
            *(
                [f"No lower mean wait on the earlier half, or not among the best there: {', '.join(study.screened)}."]
                if study.screened
                else []
            ),
        ],
        provenance=provenance,
    )
    first = study.ranked[0] if study.ranked else ""
    names = [name for name in study.ranked if not study.verdict(name).endswith((NOT_SURE, HERE)) or name == first]
    more = [table] if len(table.rows) > MOST_ROWS else []
    tables = [*more, *(groups(study, name) for name in names)]
    changes = [
        (f"{name}: {candidate.what}. Risk: {candidate.risk or 'not stated'}.", pasted(study.lines(name)))
        for name in study.better
        for candidate in [study.candidates[name]]
    ]
    folds: list[Fold] = [(table.title, [table]) for table in tables if table.rows]
    return render(front, [*folds, ("Lines to change", changes)])


def answer(study: WhatIf) -> list[str]:
    """Return at most three sentences: a change, its effect, and the jobs that pay.

    Or they say that nothing is sure.
    """
    if study.far:
        return [f"This model is too far from the record of {study.jobs.name} to advise: {study.far}. queuecast parity shows where."]
    part = "the later half of " if study.split else ""
    jobs = f"over {study.replicates} pairs of replays of {part}{study.jobs.name}"
    name = study.lead
    if name is None:
        why = f"none of {len(study.changes)} candidates lowers the mean wait on the earlier half of {study.jobs.name}"
        why = why if study.split else "no candidate that Slurm has changes a start"
        if losing := [f"“{name}” would lose {study.lost(name):.0%}" for name in study.ranked if study.lost(name) > MOST_LOST]:
            why = f"{' and '.join(losing)} of the jobs, killed or never started"
        return [f"Nothing here is surely better: {why}."]
    metrics = study.effects[name].metrics
    wait = f"the mean wait of {metrics[JUDGED_BY[0]].baseline:,.0f} s by {_of(metrics[JUDGED_BY[0]])}"
    others = ", ".join(f"{_SHORT[metric]} by {_of(metrics[metric])}" for metric in JUDGED_BY[1:])
    verdict, what = study.verdict(name), study.candidates[name].what or name
    length = duration(float(np.ptp(study.jobs.table["submit_s"])))
    span = "" if study.several else f"A record of {length} tells of these very jobs alone, not of those of other days: "
    if name in study.better:
        lead = f"Change to “{name}”: {what}." if name == study.ranked[0] else f"No setting is surely better; “{name}” is: {what}."
    elif verdict == "mixed":
        lead = f"No candidate is better for all; the nearest is “{name}”: {what}."
    elif verdict == "better" + HERE:
        lead = span or "Nothing is surely better on other days; "
        lead += f"for these jobs “{name}” is better: {what}."
    else:
        which = f"the nearest of {len(study.effects)} candidates is" if len(study.effects) > 1 else "one candidate was judged,"
        lead = f"{span}{'nothing' if span else 'Nothing here'} is surely better; {which} “{name}”."
    return [lead, f"It changes {wait}, {others}, {jobs}{_kills(study, name)}.", _payers(study, name)]


def near(study: WhatIf) -> str:
    """Return in words how near the model is to the record, by the test of parity."""
    fit = study.fit
    recorded, low, high = apart(fit["recorded_mean_wait_s"], fit["low_s"], fit["high_s"])
    return (
        f"The model is near enough to the record: its mean wait, {recorded} s, lies inside {low} to {high} s, {RANGE.format(**fit)}; "
        f"{fit['decisions']:.1%} of the starts are decided as recorded. In the pairs, with submissions moved by up to {study.shake_s:,} s, "
        f"today's settings wait {study.replayed_s:,.1f} s."
    )


def _of(measured: Measured) -> str:
    return f"{change(measured.relative)} {_interval(measured) or '[no interval]'}"


def _interval(measured: Measured) -> str:
    return "" if measured.low is None or measured.high is None else interval(measured.low, measured.high)


def _kills(study: WhatIf, name: str) -> str:
    kills, never = len(study.changes[name].kills), study.effects[name].never
    clause = f"; {kills:,} of {len(study.jobs.table):,} jobs would be killed" if kills else ""
    return clause + (f"; {never:,} job{'s' * (never > 1)} would never start" if never else "")


def _payers(study: WhatIf, name: str) -> str:
    """Return a sentence on the groups of jobs that lose and gain most seconds in all.

    Groups of few jobs are left out: their means say little.
    """
    groups = [group for group in study.effects[name].groups if group.jobs >= FEWEST_IN_GROUP]
    if not groups:
        return f"No group has {FEWEST_IN_GROUP} jobs, so which jobs pay is open."
    pays, gains = (choose(groups, key=lambda group: group.by_s * group.jobs) for choose in (max, min))
    clause = f"no group of {FEWEST_IN_GROUP} jobs or more waits longer"
    if round(pays.by_s) > 0:
        clause = f"{pays.by} {pays.value} ({pays.jobs:,} jobs) waits {pays.by_s:,.0f} s longer"
    if round(gains.by_s) < 0:
        clause += f"; {gains.by} {gains.value} ({gains.jobs:,} jobs) waits {-gains.by_s:,.0f} s less"
    return f"In the mean, {clause}."


def pasted(lines: Iterable[str]) -> str:
    """Return the lines of a change, each kind under a heading that says where they go."""
    by_heading: dict[str, list[str]] = {}
    for line in lines:
        headings = [heading for start, heading in _WHERE.items() if re.match(start, line)]
        by_heading.setdefault(headings[0], []).append(line.removeprefix(NO_SETTING).removeprefix("# "))
    return "\n".join("\n".join([f"{heading}:", *lines]) for heading, lines in by_heading.items())


def leading(study: WhatIf) -> Table:
    """Return the first of the candidates, as page and terminal show them."""
    every = candidates(study)
    note = "intervals at 95 %, each candidate's own; a verdict is sure for all candidates together"
    return replace(every, title="", rows=every.rows[: max(MOST_ROWS, len(study.better))], note=note)


def candidates(study: WhatIf) -> Table:
    """Return the metrics' changes under each judged candidate, the surely better first."""
    rows: list[Row] = []
    for name in sorted(study.ranked, key=lambda name: name not in study.better):
        verdict = study.verdict(name)
        verdict = f"loses {study.lost(name):.0%} of jobs" if verdict == LOSES else verdict
        if raised := study.raised(name):
            verdict += f": {', '.join(_SHORT[metric] for metric in raised)} up"
        row: Row = [name, verdict]
        for measured in study.effects[name].metrics.values():
            row.append(Cell(change(measured.relative, unit=False), ((_interval(measured), ""),)))
        rows.append(row)
    headings: Row = ["candidate", "verdict", *(Cell(f"{_SHORT[name]} %", tip=METRICS[name].meaning) for name in JUDGED_BY)]
    return Table("Candidates", headings, rows, left=["verdict"])


def groups(study: WhatIf, name: str) -> Table:
    """Return mean waits before and after by partition, account, size and length."""
    rows: list[Row] = [
        [
            f"{group.by} {group.value}",
            f"{group.jobs:,}",
            f"{group.before_s:,.0f}",
            f"{group.after_s:,.0f}",
            signed(group.by_s, ",.0f") + " (few jobs)" * (group.jobs < FEWEST_IN_GROUP),
        ]
        for group in study.effects[name].groups
    ]
    return Table(f"Winners and losers under “{name}”", ["jobs of", "jobs", "today s", "then s", "change s"], rows)


def figure_of_candidates(table: pd.DataFrame) -> Figure:
    """Draw the change of four metrics under each candidate, with its interval.

    ``table`` has the rows of :func:`pipelines.studies.what_if.records`.
    """
    judged = table[~table["verdict"].isin(NOT_JUDGED)]
    names = list(judged["candidate"].unique())
    with figure(7.6, 1.0 + 0.3 * max(len(names), 1), generated=False) as drawing:
        panels = drawing.subplots(1, len(JUDGED_BY), sharey=True)
        for panel, metric in zip(panels, JUDGED_BY, strict=True):
            panel.axvline(0, color=INK, linewidth=0.8)
            rows = judged[judged["metric"] == metric].set_index("candidate").loc[names]
            ends = 100.0 * rows[["change", "low", "high"]].to_numpy(np.float64)
            settled = ends[~rows["verdict"].str.startswith("worse").to_numpy(bool)]
            reach = 1.15 * np.abs(settled[np.isfinite(settled)]).max(initial=2.0)
            for at, ((by, low, high), verdict) in enumerate(zip(ends, rows["verdict"], strict=True)):
                colour, beyond = _COLOURS[verdict], by > reach
                panel.hlines(at, low, high, color=colour, linewidth=5, alpha=0.35)
                panel.plot(min(by, reach), at, ">" if beyond else "o", color=colour, markersize=4.5, clip_on=not beyond)
            panel.set_xlim(-reach, reach)
            panel.set_xlabel(f"{_SHORT[metric]}, %", color=RECORDED)
            panel.grid(axis="y", visible=False)
        rows_named(panels[0], names)
    return drawing
