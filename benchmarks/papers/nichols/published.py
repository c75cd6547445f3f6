"""What Nichols et al. (RUSH) state in their text, figure by figure, beside what was simulated.

Nothing is read off their figures; where the text gives no number, it says so. Figure 3's F1 of 0.95 in cross-validation is no part of the
experiments: see docs/studies/variability.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.common.tables import markdown
from benchmarks.papers.nichols.comparison import by_trial, compared
from benchmarks.papers.nichols.experiments import ALL, EASY, Conducted
from benchmarks.papers.nichols.tables import looked_up
from sim.metrics.verdict import signed

_VARYING = ("Laghos", "LBANN", "sw4lite")
"""The applications that vary most in the paper."""
Statement = tuple[str, str, str]
Of = Mapping[tuple[str, str], Mapping[str, Any]]
"""Rows of a comparison of one scheduler, by application and metric."""


def beside(columns: Mapping[str, tuple[Sequence[Conducted], str]]) -> str:
    """Return statements of the paper by figure, and a column of values for each title: of experiments and one of their schedulers."""
    sides = {title: statements(conducted, scheduler) for title, (conducted, scheduler) in columns.items()}
    first = next(iter(sides.values()))
    rows = [[what, in_paper, *(side[place][2] for side in sides.values())] for place, (what, in_paper, _) in enumerate(first)]
    return markdown(["", "paper, text", *sides], rows, left=list(sides))


def statements(conducted: Sequence[Conducted], scheduler: str) -> list[Statement]:
    """Return the paper's statements on each experiment with the value of ``scheduler``, in the order of its figures."""
    rows: list[Statement] = []
    for each in conducted:
        at = {key[1:]: row for key, row in looked_up(each.strata).items() if key[0] == scheduler}
        rows += _of(each, scheduler, at)
        row, name = at[ALL, "makespan_s"], each.experiment.name
        rows.append(
            (f"figure 10, {name}: makespan shorter by, s", "18 to 66", f"{signed(-row['difference'], '.0f')}{_error(row['error'])}")
        )
    return sorted(rows, key=lambda row: int(row[0].split()[1].strip(":,")))


def _of(each: Conducted, scheduler: str, at: Of) -> list[Statement]:
    name, of = each.experiment.name, each.experiment.applications
    varying = [application for application in _VARYING if application in of]
    by_pool = _from_to(at[ALL, "varied_pooled"])
    if name == "ADAA":
        waits = sorted((at[application, "wait_later_s"]["difference"], application) for application in of)
        lower = "lower for those that vary most (no number)"
        return [
            ("figure 5, ADAA: runs with variation a trial, by EASY's runs", "17 to 4", by_pool),
            ("figure 5, ADAA: the same by control runs", "does not say", _from_to(at[ALL, "varied"])),
            ("figure 6, ADAA: mean runtime", lower, _changes(at, varying, "runtime")),
            ("figure 6, ADAA: largest runtime of a trial", lower, _changes(at, varying, "worst")),
            (
                "figure 11, ADAA: mean wait of an application changes by, s",
                f"within a minute; longer for {', '.join(_VARYING)}, shorter for Kripke and AMG",
                ", ".join(f"{application} {signed(change, '.0f')}" for change, application in waits),
            ),
        ]
    if name == "WS":
        runs = each.runs[each.runs["scheduler"].isin([EASY, scheduler])]
        table = looked_up(compared(by_trial(runs.assign(application=runs["nodes"].astype(str))), EASY))
        nodes = [str(count) for count in each.experiment.nodes]
        of_nodes = {(count, metric): table[scheduler, count, metric] for count in nodes for metric in ("worst", "varied")}
        on = ", ".join(nodes)
        return [
            (
                f"figure 8, WS: largest runtime of a trial on {on} nodes",
                "lower, more on 8 and 16 nodes than on 32 (no number)",
                _changes(of_nodes, nodes, "worst"),
            ),
            (
                f"figure 8, WS: runs with variation on {on} nodes, by control runs",
                "does not say",
                _changes(of_nodes, nodes, "varied"),
            ),
        ]
    if name == "SS":
        lower = "lower for each, most for sw4lite and LBANN; up to 5.8 % of any experiment"
        return [("figure 9, SS: largest runtime of a trial", lower, _changes(at, of, "worst"))]
    more = "slightly more than in ADAA, reduced alike (no number)"
    rows = [(f"figure 4, {name}: runs with variation a trial, by EASY's runs", more, by_pool)]
    if name == "PDPA":
        rows.append(("figure 7, PDPA: largest runtime of a trial", "lower as in ADAA (no number)", _changes(at, varying, "worst")))
    return rows


def _from_to(row: Mapping[str, Any]) -> str:
    change = (
        f", {signed(100 * row['relative'], '.0f')} %{_error(100 * row['relative_error'])}" if np.isfinite(row["relative"]) else ""
    )
    return f"{row['baseline']:.1f} to {row['mean']:.1f}{change}"


def _changes(at: Of, names: Sequence[str], metric: str) -> str:
    """Return the relative change of one metric of each of ``names``."""
    rows = {name: at[name, metric] for name in names}
    return ", ".join(
        f"{name} {signed(100 * row['relative'], '.1f')} %{_error(100 * row['relative_error'], '.1f')}" for name, row in rows.items()
    )


def _error(value: float, form: str = ".0f") -> str:
    return f" ± {format(value, form)}" if np.isfinite(value) else ""
