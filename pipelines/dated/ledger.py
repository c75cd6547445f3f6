"""The table ``nights``: a row for each night done, with what decided it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from features.jobs.cleaning import CleanTrace
from features.jobs.schema import fingerprint
from models.registry.candidates import TRAINERS
from pipelines.dated.train import Incumbent, Retrained

COLUMNS: dict[str, str] = {
    "night": "str",
    "until_s": "int64",
    "fingerprint": "str",
    "jobs": "int64",
    "new_jobs": "int64",
    "gone_jobs": "int64",
    "champion": "str",
    "champion_before": "str",
    "trained_version": "str",
    "method": "str",
    "challenger": "str",
    "challenger_method": "str",
    "promoted": "bool",
    "why": "str",
    "judged_jobs": "int64",
    "champion_accuracy": "float64",
    "challenger_accuracy": "float64",
    "difference": "float64",
    "low": "float64",
    "high": "float64",
    "evidence": "float64",
    "evidence_needed": "float64",
    "champion_underpredicts": "float64",
    "challenger_underpredicts": "float64",
    "drifted": "str",
    "accuracy_requested": "float64",
    **{f"accuracy_{name}{form}": "float64" for name in TRAINERS for form in ("", "_now")},
    "accuracy_champion": "float64",
    "slowdown_easy": "float64",
    "slowdown_sjbf_requested": "float64",
    "slowdown_sjbf_champion": "float64",
    "slowdown_harm_champion": "float64",
}
"""Columns of the table ``nights``; accuracies are means over the judged window, shares. The evidence alone is of all jobs since the champion's training."""
_SLOWDOWNS = {
    "slowdown_easy": ("EASY", "requested"),
    "slowdown_sjbf_requested": ("EASY-SJBF", "requested"),
    "slowdown_sjbf_champion": ("EASY-SJBF", "champion"),
    "slowdown_harm_champion": ("Harm", "champion"),
}


def ledger_row(
    label: str,
    clean: CleanTrace,
    until_s: int,
    changed: tuple[int, int],
    present: Incumbent | None,
    made: Retrained,
    drifted: Sequence[str],
) -> dict[str, Any]:
    """Return the row of the night ``label`` but for its :func:`slowdowns`, as JSON holds it.

    ``changed`` is the number of new jobs, and of those gone or changed.
    """
    found = made.found
    row: dict[str, Any] = {
        "night": label,
        "until_s": until_s,
        "fingerprint": fingerprint(clean.jobs),
        "jobs": len(clean.jobs),
        "new_jobs": changed[0],
        "gone_jobs": changed[1],
        "champion": made.champion,
        "champion_before": present.version if present else "",
        "trained_version": made.trained_version,
        "method": made.method,
        "challenger": made.challenger,
        "challenger_method": made.challenger_method,
        "promoted": made.promoted,
        "why": made.why,
        "judged_jobs": made.judged_jobs,
        "champion_accuracy": found.champion.value if found else np.nan,
        "challenger_accuracy": found.challenger.value if found else np.nan,
        "difference": found.difference.value if found else np.nan,
        "low": found.low if found else np.nan,
        "high": found.high if found else np.nan,
        "evidence": found.evidence.value if found else np.nan,
        "evidence_needed": found.evidence.needed if found else np.nan,
        "champion_underpredicts": found.champion_underpredicts if found else np.nan,
        "challenger_underpredicts": found.challenger_underpredicts if found else np.nan,
        "drifted": ", ".join(drifted),
    }
    row |= {f"accuracy_{name}": value for name, value in made.accuracies.items()}
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in row.items()}


def slowdowns(comparison: pd.DataFrame) -> dict[str, float]:
    """Return the part of a night's row that is of the comparison of its last days."""
    values = comparison[comparison["metric"] == "mean_bounded_slowdown"].set_index(["scheduler", "predictor"])["value"]
    return {name: float(values.get(key, np.nan)) for name, key in _SLOWDOWNS.items()}
