"""The pages of nights: one a night, and one over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from models.registry.candidates import TRAINERS
from models.registry.promotion import FEWEST_JOBS, JUDGED_DAYS, LEVEL, TIE, UNDERPREDICTION_MARGIN
from models.registry.promotion_vetoes import CALIBRATION_MARGIN, PINBALL_MARGIN
from pipelines.report.night_plots import over_nights
from pipelines.report.page import data_uri, template
from pipelines.report.style import looks
from pipelines.report.tables import any_interval, interval_notes, metric_columns, metric_rows
from pipelines.storage.provenance import code_version, software
from pipelines.workflows.retraining import instant

if TYPE_CHECKING:
    from pipelines.workflows.nights import Night

_COMPARED = ("mean_bounded_slowdown", "mean_wait_s", "awf_s", "p2sf_s", "underprediction_rate")
_BASELINE = ("EASY", "requested")
_INPUTS = {
    "procs": "processors",
    "requested_s": "requested time",
    "hour": "hour of day",
    "user": "users",
    "unknown users": "jobs of unknown users",
}
_MEASURES = {"accuracy": "accuracy", "underprediction_rate": "under-predicted"}
_NAMES = {**_INPUTS, **_MEASURES}


def render_night(night: Night, run_id: str) -> str:
    """Return the page of one night."""
    row, made = night.row, night.retrained
    table = night.comparison
    kept = table[table["metric"].isin(_COMPARED)] if len(table) else table
    combinations = (
        [tuple(each) for each in kept[["scheduler", "predictor", "correction"]].drop_duplicates().to_numpy()] if len(kept) else []
    )
    base: Any = next((each for each in combinations if each[:2] == _BASELINE), None)
    return template("night.html.j2").render(
        trace=night.trace,
        night=night.label,
        generated=night.clean.generated,
        headline={
            "new": f"{row['new_jobs']:,}",
            "jobs": f"{row['jobs']:,}",
            "champion": f"{made.method or 'chosen by hand'}",
            "version": row["champion"],
            "accuracy": share(made.accuracies["champion"]),
        },
        verdict=("Promoted" if row["champion_before"] else "First champion") if made.promoted else "The champion stays",
        promoted=made.promoted,
        summary=_summary(night),
        notes=night.notes,
        rule=_rule(),
        registered=[
            (f"{each['version']}", each["method"], each["alias"] or "–", each["why"]) for each in made.registered.to_dict("records")
        ],
        nothing_new=made.nothing_new,
        checks=[(name, "holds" if passed else "fails") for name, passed in made.checks.items()],
        predictors=_predictors(made.accuracies),
        judged_days=JUDGED_DAYS,
        drift=_drift_rows(night.drift),
        performance=_performance_rows(night.performance),
        drifted=[_NAMES.get(name, name) for name in night.drifted],
        metrics=metric_columns(kept) if len(kept) else [],
        rows=metric_rows(kept, looks(combinations), base) if len(kept) else [],
        has_intervals=bool(len(kept)) and any_interval(kept, base),
        interval_notes=interval_notes(kept) if len(kept) else [],
        baseline=" / ".join(_BASELINE),
        provenance=[
            ("trace", night.clean.source or night.trace),
            ("accounting until", instant(int(str(row["until_s"])), night.clean.origin_unix_s)),
            ("data fingerprint", row["fingerprint"]),
            ("code", code_version()),
            ("software", software()),
            ("run", run_id or "–"),
        ],
    )


def render_index(trace: str, nights: pd.DataFrame, failures: Sequence[str], generated: bool) -> str:
    """Return the page over all nights, newest first."""
    promotions = int(nights["promoted"].sum())
    return template("nights.html.j2").render(
        trace=trace,
        generated=generated,
        headline={
            "nights": f"{len(nights):,}",
            "promotions": f"{promotions:,}",
            "accuracy": share(nights["accuracy_champion"].mean()),
            "drifted": f"{int((nights['drifted'] != '').sum()):,}",
        },
        figure=data_uri(over_nights(nights, generated)),
        judged_days=JUDGED_DAYS,
        failures=list(failures),
        rule=_rule(),
        rows=[_index_row(each) for each in nights.iloc[::-1].to_dict("records")],
    )


def _index_row(row: Mapping[Any, Any]) -> dict[str, str]:
    slowdown = "–" if pd.isna(row["slowdown_easy"]) else f"{row['slowdown_easy']:.2f}"
    changes = [
        "–" if pd.isna(row[name]) or not row["slowdown_easy"] else signed(100 * (row[name] / row["slowdown_easy"] - 1), 0) + " %"
        for name in ("slowdown_sjbf_requested", "slowdown_sjbf_champion")
    ]
    judged = f"{row['judged_jobs']:,}" if row["judged_jobs"] else "–"
    difference = "–"
    if np.isfinite(row["difference"]):
        interval = f" [{signed(100 * row['low'])}, {signed(100 * row['high'])}]" if np.isfinite(row["low"]) else ""
        difference = f"{signed(100 * row['difference'])}{interval}"
    return {
        "night": row["night"],
        "new": f"{row['new_jobs']:,}",
        "champion": f"{row['champion']} ({row['method'] or 'by hand'} of {row['trained_version']})",
        "verdict": "promoted" if row["promoted"] else "",
        "judged": judged,
        "served": share(row["accuracy_champion"]),
        "last2": share(row["accuracy_last2"]),
        "challenger": f"{row['challenger_method'] or '–'} {share(row.get('accuracy_' + row['challenger_method'], np.nan)) if row['challenger_method'] else ''}",
        "difference": difference,
        "evidence": told_evidence(row),
        "easy": slowdown,
        "sjbf_requested": changes[0],
        "sjbf_champion": changes[1],
        "drifted": ", ".join(_NAMES.get(name, name) for name in row["drifted"].split(", ") if name),
    }


def _summary(night: Night) -> list[str]:
    made = night.retrained
    sentences = [made.why if made.why.endswith(".") else made.why + "."]
    name = made.method if made.method in TRAINERS else ""
    if name and np.isfinite(made.accuracies[f"{name}_now"]):
        now, served = made.accuracies[f"{name}_now"], made.accuracies[name]
        sentences.append(
            f"Served from nightly snapshots {name} has an accuracy of {share(served)}; if every end were known the second it happens, {share(now)}."
        )
    refreshed = made.registered[made.registered["alias"] == "champion"]
    if not made.promoted and not made.nothing_new and len(refreshed):
        sentences.append(
            f"Version {made.champion} is the champion's model, trained as version {made.trained_version}, with the histories of this night."
        )
    return sentences


def told_evidence(row: Mapping[Any, Any]) -> str:
    """Return the evidence of a night and the evidence needed; a dash without judgement."""
    return "–" if pd.isna(row["evidence"]) else f"{row['evidence']:.3g} of {row['evidence_needed']:g}"


def _rule() -> str:
    return (
        "Judged are the jobs that were submitted after the champion was trained, each once, when it has ended, and as it was served: from the "
        "snapshot of the night before its submission, by the champion's model and by the challenger's method trained that night. From the "
        "differences the evidence grows that the challenger is better; the chance that one that is not ever reaches what is needed over one "
        f"champion is at most {LEVEL:.0%}, whatever the number of nights. The challenger is promoted if the evidence suffices; at least "
        f"{FEWEST_JOBS} jobs of the last {JUDGED_DAYS} days judge and its mean accuracy over them is higher by more than {TIE:g}; it under-predicts "
        f"at most {100 * UNDERPREDICTION_MARGIN:g} points more of them; its quantiles, where both tell them, are not worse (pinball loss by "
        f"{PINBALL_MARGIN:.0%}, calibration by {100 * CALIBRATION_MARGIN:g} points); no metric of the schedules of the last days with its predictions is "
        "surely worse; and its checks hold. The interval beside a difference is of that night alone and decides nothing. Otherwise the "
        "champion's model stays and gets the night's histories."
    )


def _predictors(accuracies: Mapping[str, float]) -> list[tuple[str, str, str]]:
    """Return name, accuracy as served, accuracy up to the second."""
    rows = [("champion at the time", share(accuracies["champion"]), "–")]
    rows += [
        (f"{name}, trained each night", share(accuracies[name]), share(accuracies[f"{name}_now"])) for name in reversed(TRAINERS)
    ]
    return [*rows, ("requested", share(accuracies["requested"]), share(accuracies["requested"]))]


def _drift_rows(drift: pd.DataFrame) -> list[tuple[str, str, str, str, str]]:
    rows = []
    for each in drift.to_dict("records"):
        percent = each["measure"] == "share of jobs"
        form = share if percent else lambda value: "–" if pd.isna(value) else f"{value:.3f}"
        told = each["note"] or ("drifts" if each["drifted"] else "as before")
        rows.append((_INPUTS[each["input"]], each["measure"], form(each["value"]), form(each["limit"]), told))
    return rows


def _performance_rows(performance: pd.DataFrame) -> list[tuple[str, str, str, str, str]]:
    return [
        (
            _MEASURES[each["measure"]],
            share(each["then"]),
            share(each["now"]),
            share(each["limit"]),
            each["note"] or ("worse than chance allows" if each["drifted"] else "as then"),
        )
        for each in performance.to_dict("records")
    ]


def share(value: float) -> str:
    """Format a share in per cent, a dash for none."""
    return "–" if pd.isna(value) else f"{100 * value:.1f} %"


def signed(value: float, digits: int = 1) -> str:
    """Format a number with its sign."""
    return f"{value:+.{digits}f}".replace("-", "−")
