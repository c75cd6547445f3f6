"""Answer, table and figure of trials on the simulated cluster, with both predictors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from pipelines.report.style import BLUE, GREEN, INK, ORANGE, figure
from pipelines.report.table import Cell, Row, Table
from pipelines.studies.trials import POLICIES, RUSH, SERVED
from sim.metrics.formats import change, interval, number
from sim.metrics.names import METRICS
from sim.metrics.verdict import Key
from sim.policy import NAMES

COLUMNS = ("mean_bounded_slowdown", "mean_wait_s", "awf_s", "p2sf_s", "makespan_s", "varied_runs", "largest_runtime")
_ASKED = ("mean_bounded_slowdown", "varied_runs")
"""Metrics of the answer and the picture: what runtimes are known for, and what variability is known for."""
_DRAWN = {"requests": (0, INK), "runtimes": (1, BLUE), "variability": (3, ORANGE), "both": (4, GREEN)}
"""Bars of the picture: the places of their policies, and colours."""


def knows(key: Key) -> str:
    """Return what a policy knows, in words."""
    if "model=oracle" in key[0] or key[1] == "clairvoyant":
        return "a bound: undisturbed runtimes" if key[1] == "clairvoyant" else "a bound: what will vary"
    words = ["runtimes"] * (key[1] == SERVED) + ["variability"] * key[0].endswith(RUSH)
    return " and ".join(words) or "requests"


def answer(table: pd.DataFrame) -> list[str]:
    """Return two sentences for each policy that knows both: against each predictor alone."""
    at = _by_policy(table[table["compared_with"] != POLICIES[0][0] + " / " + POLICIES[0][1]], "compared_with")
    lines: dict[Key, list[str]] = {}
    for (*key, baseline), rows in at.items():
        alone = "variability" if RUSH in baseline else "runtimes"
        changes = ", and ".join(f"{METRICS[name].title} by {_changed(rows[name])}" for name in _ASKED)
        lines.setdefault((key[0], key[1], key[2]), []).append(f"of {alone} alone, it changes {changes}")
    return [
        f"{key[0].removesuffix(RUSH)} with both predictions: in place {'; in place '.join(parts)}." for key, parts in lines.items()
    ]


def _changed(row: Mapping[Any, Any]) -> str:
    return f"{change(row['relative'])} {interval(row['low'], row['high'])} ({'sure' if row['sure'] else 'not sure'})".replace(
        "  ", " "
    )


def overall(table: pd.DataFrame, title: str = "") -> Table:
    """Return one row a policy: metrics, below each its change from EASY by requests."""
    first = table["compared_with"].iloc[0]
    rows: list[Row] = []
    classes = []
    for key, values in _by_policy(table[table["compared_with"] == first]).items():
        words = knows((key[0], key[1], key[2]))
        rows.append(
            [Cell(key[0].removesuffix(RUSH), ((words, ""),)), *(_cell(values[name], baseline=not rows) for name in COLUMNS)]
        )
        classes.append("bound" if words.startswith("a bound") else "")
    headings = [Cell(METRICS[name].title + ", s" * name.endswith("_s"), tip=METRICS[name].meaning) for name in COLUMNS]
    return Table(title, ["scheduler, and what it knows", *headings], rows, classes=classes)


def _cell(row: Mapping[Any, Any], *, baseline: bool) -> Cell:
    value = number(row["value"], METRICS[row["metric"]].kind)
    if baseline:
        return Cell(value)
    tone = "" if not row["sure"] else "better" if row["relative"] < 0 else "worse"
    return Cell(value, ((change(row["relative"]) + "*" * bool(row["sure"]), tone), (interval(row["low"], row["high"]), tone)))


def drawn(table: pd.DataFrame) -> Figure:
    """Draw mean slowdown and runs with variation by what a policy knows."""
    at = _by_policy(table[table["compared_with"] == table["compared_with"].iloc[0]])
    with figure(6.8, 2.8, True, "simulated cluster") as drawing:
        for panel, metric in zip(drawing.subplots(1, 2), _ASKED, strict=True):
            for place, (policy, colour) in enumerate(_DRAWN.values()):
                row = at[POLICIES[policy][:3]][metric]
                panel.bar(place, row["value"], 0.7, color=colour)
                if policy and pd.notna(row["low"]):
                    ends = [row["baseline"] * (1.0 + row[end]) for end in ("low", "high")]
                    panel.plot([place, place], ends, color=INK, linewidth=1.2)
            panel.set_xticks(range(len(_DRAWN)), list(_DRAWN))
            panel.set_title(METRICS[metric].title + " a trial" * (metric == "varied_runs"))
            panel.grid(axis="x", visible=False)
    return drawing


def _by_policy(table: pd.DataFrame, *more: str) -> dict[Any, dict[str, dict[Any, Any]]]:
    """Return rows by policy, and by ``more`` columns, and by metric."""
    groups = table.groupby([*NAMES, *more], sort=False)
    return {key: {row["metric"]: row for row in rows.to_dict("records")} for key, rows in groups}
