"""The page of a night, and the table of all nights."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from features.jobs.cleaning import CleanTrace
from features.statistics import CONFIDENCE
from models.registry.promotion import JUDGED_DAYS
from pipelines import code_version, software
from pipelines.report.page import MOST_ROWS, Front, Part, Picture, looks, render
from pipelines.report.plots import picture_of_changes
from pipelines.report.table import Table, instant
from pipelines.report.tables import BASELINE, interval_notes, intervals_hint, leading, metric_table
from sim.metrics.verdict import number, sentence, signed, verdict
from sim.policy import NAMES

_NAMES = {
    "procs": "processors",
    "requested_s": "requested time",
    "hour": "hour of day",
    "user": "users",
    "underprediction_rate": "under-predicted",
}
"""Words for the inputs and measures that may drift."""


@dataclass(frozen=True)
class Night:
    """The results of a night.

    ``row`` is its row of the table ``nights``, ``nights`` that table with this row. ``registered`` are the versions of
    the promotion, ``notes`` those of retraining, ``comparison`` the result of :func:`sim.metrics.comparison.compare` on
    the last days, and ``html`` the page at ``report``.
    """

    clean: CleanTrace
    row: Mapping[str, Any]
    nights: pd.DataFrame
    registered: pd.DataFrame
    notes: list[str]
    comparison: pd.DataFrame
    report: Path
    html: str = ""

    @property
    def label(self) -> str:
        return str(self.row["night"])

    @property
    def drifted(self) -> list[str]:
        """Return names of the inputs and measures that drifted."""
        return [name for name in self.row["drifted"].split(", ") if name]


def alarms(drift: pd.DataFrame, performance: pd.DataFrame) -> list[str]:
    """Return names of the inputs and measures that drifted."""
    worse = [*performance.loc[performance["drifted"], "measure"]] if len(performance) else []
    return [*drift.loc[drift["drifted"], "input"], *worse]


def render_night(night: Night, run_id: str) -> str:
    """Return the page of a night: its decision, the nights before, the last days' schedules."""
    row, clean = night.row, night.clean
    compared, picture, schedules = _schedules(night.comparison, clean.generated)
    state = "The champion stays" if row["champion_before"] else "First champion"
    state = "Promoted" if row["promoted"] and row["champion_before"] else state
    drifted = [_NAMES.get(name, name) for name in night.drifted]
    front = Front(
        title=f"{clean.name}: night {night.label}",
        answer=[
            sentence(f"{state}: {row['why'][:1].lower()}{row['why'][1:]}"),
            sentence(f"Drift: {', '.join(drifted)}") if drifted else "Nothing drifted.",
            compared,
        ],
        table=nights_table(night.nights.tail(MOST_ROWS)),
        hint="Accuracy is min(p/r, r/p) of runtime p and prediction r, mean over jobs. As served: from the snapshot of the night before "
        "the submission. The schedules replay the jobs of the last 30 days on a machine that is empty at first.",
        picture=picture,
        data="nights.csv",
        generated="pipeline" if clean.generated else "",
        notes=[*night.notes, *(interval_notes(night.comparison) if len(night.comparison) else [])],
        provenance={
            "trace": clean.source or clean.name,
            "accounting until": instant(row["until_s"], clean.origin_unix_s),
            "data fingerprint": row["fingerprint"],
            "code": code_version(),
            "software": software(),
            "run": run_id or "–",
        },
    )
    columns = {"version": "{version}", "method": "{method}", "alias": "{alias}", "why": "{why}"}
    registered = night.registered.assign(alias=night.registered["alias"].replace("", "–")).to_dict("records")
    versions = Table.of("Versions", columns, registered, left=["method", "alias", "why"])
    return render(front, [("What it does to the schedule: the last 30 days", schedules), ("Versions", [versions])])


def _schedules(table: pd.DataFrame, generated: bool) -> tuple[str, Picture | None, list[Part]]:
    """Return a sentence, a picture, and what stands below a fold about the last days' schedules."""
    if table.empty:
        return "Nothing was submitted in the last 30 days.", None, []
    weighed = verdict(table, BASELINE)
    first, drawn = leading(table, weighed), looks(table[list(NAMES)].itertuples(index=False, name=None))
    hint = intervals_hint(table, drawn[weighed.baseline].label, CONFIDENCE)
    parts: list[Part] = [*weighed.sentences, metric_table(table, drawn, first, weighed), hint]
    return weighed.sentences[0], picture_of_changes(table, first, generated, drawn), parts


def nights_table(nights: pd.DataFrame) -> Table:
    """Return each night's champion, accuracies, evidence and drift, one row per night."""
    headings = ("night", "new jobs", "champion", "", "served", "last2", "challenger", "difference, points", "evidence", "drift")
    rows = [_night_cells(row) for row in nights.to_dict("records")]
    title = f"accuracy as served over the last {JUDGED_DAYS} days"
    return Table(title, headings, rows, left=("champion", "", "challenger", "drift"))


def _night_cells(row: Mapping[Any, Any]) -> list[str]:
    challenger = row["challenger_method"]
    difference = "–"
    if np.isfinite(row["difference"]):
        difference = signed(100 * row["difference"], ".1f")
        difference += f" [{signed(100 * row['low'], '.1f')}, {signed(100 * row['high'], '.1f')}]" if np.isfinite(row["low"]) else ""
    return [
        row["night"],
        f"{row['new_jobs']:,}",
        f"{row['champion']} ({row['method'] or 'by hand'} of {row['trained_version']})",
        "promoted" if row["promoted"] else "",
        number(row["accuracy_champion"], "share"),
        number(row["accuracy_last2"], "share"),
        f"{challenger} {number(row.get('accuracy_' + challenger, np.nan), 'share')}" if challenger else "–",
        difference,
        "–" if pd.isna(row["evidence"]) else f"{row['evidence']:.3g} of {row['evidence_needed']:g}",
        ", ".join(_NAMES.get(name, name) for name in row["drifted"].split(", ") if name),
    ]
