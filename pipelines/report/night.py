"""The page of a night, and the table of all nights."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from features.jobs.cleaning import CleanTrace
from features.statistics import CONFIDENCE
from models.registry.candidates import TRAINERS
from models.registry.promotion import (
    CALIBRATION_MARGIN,
    FEWEST_JOBS,
    JUDGED_DAYS,
    LEVEL,
    PINBALL_MARGIN,
    TIE,
    UNDERPREDICTION_MARGIN,
)
from pipelines import code_version, software
from pipelines.report.page import Front, looks, render
from pipelines.report.plots import picture_of_changes
from pipelines.report.table import Table, instant
from pipelines.report.tables import BASELINE, interval_notes, intervals_hint, leading, metric_table
from sim.metrics.names import Kind
from sim.metrics.verdict import number, sentence, signed, verdict
from sim.policy import NAMES

_INPUTS = {
    "procs": "processors",
    "requested_s": "requested time",
    "hour": "hour of day",
    "user": "users",
    "unknown users": "jobs of unknown users",
}
_REPLAYED = (
    "Each combination replays the jobs submitted in the last 30 days, on a machine that is empty at first. The champion's predictions are "
    "those served, and before there was a champion those of its method trained night by night."
)
_DRIFT = (
    f"The last {JUDGED_DAYS} days against the jobs the champion was trained on. The limit is what earlier windows of the same length lead to "
    "expect, and at least an index of 0.1; a site that does not change passes one of the five by chance in at most 5 % of windows."
)
_WORST = (
    "The limit is the worst that chance explains, 1 % for both together, where the jobs of a user on a day resemble each other."
)
_MEASURES = {"accuracy": "accuracy", "underprediction_rate": "under-predicted"}
_NAMES = {**_INPUTS, **_MEASURES}


@dataclass(frozen=True)
class Night:
    """The results of a night.

    ``row`` is its row of the table ``nights``, ``nights`` that table with this row. ``registered`` and ``nothing_new`` are those
    of the promotion, ``decided`` the decisions that retraining kept, ``comparison`` the result of
    :func:`sim.metrics.comparison.compare` on the last days, and ``html`` the page at ``report``.
    """

    clean: CleanTrace
    row: Mapping[str, Any]
    nights: pd.DataFrame
    registered: pd.DataFrame
    nothing_new: bool
    decided: Mapping[str, Any]
    comparison: pd.DataFrame
    report: Path
    html: str = ""

    @property
    def label(self) -> str:
        return str(self.row["night"])

    @property
    def notes(self) -> list[str]:
        return list(self.decided["notes"])

    @property
    def drift(self) -> pd.DataFrame:
        """Return the result of ``features.jobs.drift``."""
        return pd.DataFrame(self.decided["drift"])

    @property
    def performance(self) -> pd.DataFrame:
        """Return the result of ``models.registry.as_served``; empty for a first champion."""
        return pd.DataFrame(self.decided["performance"])

    @property
    def drifted(self) -> list[str]:
        """Return names of the inputs and measures that drifted."""
        return alarms(self.drift, self.performance)


def alarms(drift: pd.DataFrame, performance: pd.DataFrame) -> list[str]:
    """Return names of the inputs and measures that drifted."""
    worse = [*performance.loc[performance["drifted"], "measure"]] if len(performance) else []
    return [*drift.loc[drift["drifted"], "input"], *worse]


def render_night(night: Night, run_id: str) -> str:
    """Return the page of one night."""
    row, table = night.row, night.comparison
    accuracies = {name.removeprefix("accuracy_"): value for name, value in row.items() if name.startswith("accuracy_")}
    drifted = [_NAMES.get(name, name) for name in night.drifted]
    compared = _schedules(table, night.clean.generated) if len(table) else None
    state = (
        ("Promoted" if row["promoted"] else "First champion")
        if not row["champion_before"] or row["promoted"]
        else "The champion stays"
    )
    front = Front(
        title=f"{night.clean.name}: night {night.label}",
        answer=[
            sentence(f"{state}: {row['why'][:1].lower()}{row['why'][1:]}"),
            sentence(f"Drift: {', '.join(drifted)}") if drifted else "Nothing drifted.",
            compared.answer[0] if compared else "Nothing was submitted in the last 30 days.",
        ],
        table=_accuracies(accuracies),
        hint=f"Accuracy is min(p/r, r/p) of runtime p and prediction r, mean over the jobs that ended in the last {JUDGED_DAYS} days and, once they "
        "are enough, were answered by a champion. As served: from the snapshot of the night before the submission.",
        picture=compared.picture if compared else None,
        data="nights.csv",
        generated="pipeline" if night.clean.generated else "",
        facts=[
            (f"{row['new_jobs']:,}", "new jobs"),
            (f"{row['jobs']:,}", "jobs in all"),
            (row["method"], f"champion, version {row['champion']}"),
            (number(accuracies["champion"], "share"), f"accuracy of what was served, last {JUDGED_DAYS} days"),
        ],
        notes=[*_summary(night), *night.notes, *(interval_notes(table) if len(table) else [])],
        provenance={
            "trace": night.clean.source or night.clean.name,
            "accounting until": instant(row["until_s"], night.clean.origin_unix_s),
            "data fingerprint": row["fingerprint"],
            "code": code_version(),
            "software": software(),
            "run": run_id or "–",
        },
    )
    schedules = [*compared.answer, compared.table, f"{compared.hint} {_REPLAYED}"] if compared else []
    columns = {"version": "{version}", "method": "{method}", "alias": "{alias}", "why": "{why}"}
    registered = night.registered.assign(alias=night.registered["alias"].replace("", "–")).to_dict("records")
    versions = Table.of("Versions", columns, registered, left=["method", "alias", "why"])
    performance = [_performance(night.performance), _WORST] if len(night.performance) else []
    return render(
        front,
        [
            ("What it does to the schedule: the last 30 days", schedules),
            ("Versions that serve" if night.nothing_new else "New versions", [versions, _rule()]),
            ("Drift", [_drift(night.drift), _DRIFT, *performance]),
        ],
    )


def _schedules(table: pd.DataFrame, generated: bool) -> Front:
    """Return the comparison of the last days' schedules as the front of a page."""
    weighed = verdict(table, BASELINE)
    first, drawn = leading(table, weighed), looks(table[list(NAMES)].itertuples(index=False, name=None))
    return Front(
        title="",
        answer=weighed.sentences,
        table=metric_table(table, drawn, first, weighed),
        hint=intervals_hint(table, drawn[weighed.baseline].label, CONFIDENCE),
        picture=picture_of_changes(table, first, generated, drawn),
    )


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


def _summary(night: Night) -> list[str]:
    """Return a sentence on a refreshed champion, if it is one."""
    row = night.row
    refreshed = night.registered[night.registered["alias"] == "champion"]
    if not row["promoted"] and not night.nothing_new and len(refreshed):
        return [
            f"Version {row['champion']} is the champion's model, trained as version {row['trained_version']}, with the histories of this night."
        ]
    return []


def _rule() -> str:
    return (
        "Judged are the jobs that were submitted after the champion was trained, each once, when it has ended, and as it was served: from the "
        "snapshot of the night before its submission, by the champion's model and by the challenger's method trained that night. From the "
        "differences the evidence grows that the challenger is better; the chance that one that is not ever reaches what is needed over one "
        f"champion is at most {LEVEL:.0%}, whatever the number of nights. The challenger is promoted if the evidence suffices; at least "
        f"{FEWEST_JOBS} jobs of the last {JUDGED_DAYS} days judge and its mean accuracy over them is higher by more than {TIE:g}; it under-predicts "
        f"at most {100 * UNDERPREDICTION_MARGIN:g} points more of them; its quantiles, where both tell them, are not worse (pinball loss by "
        f"{PINBALL_MARGIN:.0%}, calibration by {100 * CALIBRATION_MARGIN:g} points); and no metric of the schedules of the last days with its predictions is "
        "worse beyond its interval. The interval beside a difference is of that night alone and decides nothing. Otherwise the "
        "champion's model stays and gets the night's histories."
    )


def _accuracies(accuracies: Mapping[str, float]) -> Table:
    """Return accuracy as served, one row per predictor."""
    shares = {name: number(value, "share") for name, value in accuracies.items()}
    trained = [(f"{name}, trained each night", shares[name]) for name in reversed(TRAINERS)]
    rows = [("champion at the time", shares["champion"]), *trained, ("requested", shares["requested"])]
    return Table("Accuracy", ["predictor", "as served"], rows)


def _drift(drift: pd.DataFrame) -> Table:
    rows = []
    for row in drift.to_dict("records"):
        kind: Kind = "share" if row["measure"] == "share of jobs" else "ratio"
        judgement = row["note"] or ("drifts" if row["drifted"] else "as before")
        shown = [
            number(row[name], kind) if kind == "share" or pd.isna(row[name]) else f"{row[name]:.3f}" for name in ("value", "limit")
        ]
        rows.append((_INPUTS[row["input"]], row["measure"], *shown, judgement))
    return Table("Drift", ["input", "measure", f"last {JUDGED_DAYS} days", "limit", "verdict"], rows, left=["measure", "verdict"])


def _performance(performance: pd.DataFrame) -> Table:
    rows = []
    for row in performance.to_dict("records"):
        judgement = row["note"] or ("worse than chance allows" if row["drifted"] else "as then")
        rows.append((_MEASURES[row["measure"]], *(number(row[name], "share") for name in ("then", "now", "limit")), judgement))
    return Table("Performance", ["champion", "when promoted", "now", "limit", "verdict"], rows, left=["verdict"])
