"""Comparisons of schedules, shown as a table with the verdict below, and written."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from features.errors import InputError
from features.statistics import COVERS, FEWEST_BLOCKS
from pipelines.lake.files import figures_text
from pipelines.lake.places import write
from pipelines.report.table import Cell, Row, Table, changed
from sim.campaigns.results import SETTING, Results, by_setting
from sim.metrics.names import METRICS, READ_FIRST
from sim.metrics.verdict import number, policy_labels, verdict
from sim.policy import NAMES

_WIDTH = 150


class ScheduleComparison(pd.DataFrame):
    """Changes of schedules: one row per combination and metric, the baseline's first.

    The rows are those of :func:`sim.metrics.comparison.compare`. A part of the rows or columns is a plain table.
    ``attrs`` has ``title`` and ``verdict``.
    """

    @property
    def verdict(self) -> str:
        """Return in words which combination is best."""
        return str(self.attrs["verdict"])

    @property
    def table(self) -> Table:
        """Return one row per combination: each metric's value, change and interval."""
        labels = policy_labels(self)
        first = next(iter(labels))
        at = _by_key(self)
        metrics = [name for name in READ_FIRST if (first, name) in at] or list(dict.fromkeys(self["metric"]))
        rows: list[Row] = [[label, *(_cell(at[key, name], key == first) for name in metrics)] for key, label in labels.items()]
        headings = ["combination", *(METRICS[name].title + ", s" * name.endswith("_s") for name in metrics)]
        over = int(self["replicates"].min())
        note = f"changes against {labels[first]}"
        if self["low"].notna().any():
            note += ", with 95 % intervals over weeks and users" + (f" and {over} replays" if over > 1 else "")
        note += ", * sure for all combinations together" if over > 1 else "; one replay of each makes nothing sure"
        return Table(self.attrs["title"], headings, rows, note + _covered(self))

    def __repr__(self) -> str:
        screen = Console(file=StringIO(), width=_WIDTH)
        self.table.show(screen)
        return f"{screen.file.getvalue()}{textwrap.fill(self.verdict, 100)}"  # type: ignore[attr-defined]

    def _repr_html_(self) -> str:
        """Return the table for notebooks."""
        table = self.table
        cells = [[" ".join(cell.lines()) for cell in row] for row in table.cells]
        frame = pd.DataFrame(cells, columns=[head.text for head in table.heads])
        shown = frame.style.hide(axis="index").set_caption(html.escape(f"{table.title}: {table.note}")).to_html()
        return f"{shown}<p>{html.escape(self.verdict)}</p>"


def _by_key(changes: pd.DataFrame) -> dict[Any, Any]:
    """Return the rows by (combination, metric)."""
    return {(tuple(row[name] for name in NAMES), row["metric"]): row for row in changes.to_dict("records")}


def _cell(row: Mapping[str, Any], baseline: bool) -> str | Cell:
    """Return a value with its change, of the baseline the value alone."""
    return number(row["value"], METRICS[row["metric"]].kind) if baseline else changed(row, sure=bool(row["sure"]))


def summary_tables(summary: pd.DataFrame, generated: bool, split: str) -> list[Table]:
    """Return tables of the metrics that are read first.

    Each trace, semantics, threshold and tau has a table: means, changes from the baseline and their intervals.
    ``summary`` is pooled over traces, or over windows of a ``split``.
    """
    tables = []
    for part in by_setting(summary):
        over, caption = _means_and_intervals(part, generated, split)
        trace, semantics, starvation_s, tau_s = part[SETTING].iloc[0]
        base, labels = verdict(part).baseline, policy_labels(part)
        at = _by_key(part)
        threshold = "" if pd.isna(starvation_s) else f", starvation after {starvation_s:,} s"
        order = sorted(labels, key=lambda key: at[key, READ_FIRST[0]]["value"])
        rows: list[Row] = [[labels[key], *(_cell(at[key, name], key == base) for name in READ_FIRST)] for key in order]
        title = f"{trace}: {over}, {semantics}{threshold}, tau {tau_s:g} s"
        against = f"changes against {labels[base]}, {caption}" + ("; * sure" if part["sure"].any() else "") + _covered(part)
        tables.append(Table(title, ["policy", *(METRICS[name].short for name in READ_FIRST)], rows, against))
    return tables


def _covered(changes: pd.DataFrame) -> str:
    """Return what ``(covers 91%)`` after an interval means, if it stands in a table of ``changes``."""
    return (
        "; (covers ...): how often such an interval held the change, by resampling" if (changes["coverage"] < COVERS).any() else ""
    )


def _means_and_intervals(summary: pd.DataFrame, generated: bool, split: str) -> tuple[str, str]:
    """Return in words what means and intervals of a trace or a suite's load are taken over."""
    if "traces" in summary:
        over = f"geometric means over {summary['traces'].max()} traces"
        return over + (", some of generated workloads" if generated else ""), "95 % intervals over traces"
    windows, replays = int(summary["windows"].iloc[0]), int(summary["replicates"].iloc[0])
    over, caption = f"means over {windows} windows ({split})" if split != "whole" else "the whole trace", "one replay of each"
    caption = f"{replays} replicates" if replays > 1 else caption
    if summary["low"].notna().any():
        several = "windows and replicates" if windows >= FEWEST_BLOCKS else "replicates"
        caption += f", 95 % intervals over {several if replays > 1 else 'windows'}" + (
            "" if replays > 1 else ", which leave out a schedule's chaos"
        )
    return over + (", a generated workload" if generated else ""), caption


def write_tables(path: Path, tables: Sequence[Table]) -> None:
    """Write tables as Markdown."""
    texts = (f"**{table.title}**\n\n{table.markdown()}\n\n{table.note}" for table in tables)
    write(path, "\n\n".join(texts) + "\n")


def write_comparison(path: Path, what: ScheduleComparison | Results) -> None:
    """Write a comparison or a campaign in the format of the ending of ``path``.

    A campaign has a table for each trace, then what is pooled. ``.md`` has tables with intervals, ``.csv`` and
    ``.parquet`` all rows. InputError for another ending.
    """
    if path.suffix == ".csv":
        write(path, figures_text(what))
    elif path.suffix == ".parquet":
        write(path, pd.DataFrame(what).to_parquet(index=False))
    elif path.suffix != ".md":
        raise InputError(f"path {path}: must end in .md, .csv or .parquet")
    elif isinstance(what, ScheduleComparison):
        write_tables(path, [what.table])
    else:
        parts = [what.summary] if what.pooled is None else [what.summary, what.pooled]
        write_tables(
            path, [table for part in parts for table in summary_tables(part, what.attrs["generated"], what.attrs["windows"])]
        )
