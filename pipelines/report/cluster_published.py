"""What Nichols et al. (RUSH) state, figure by figure, beside what was simulated.

Their text is compared, not what could be read off their figures. Where it gives no number, it says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pipelines.report.cluster_tables import looked_up, models_of
from pipelines.report.table import Table
from pipelines.report.wording import signed
from pipelines.workflows.cluster_experiments import Conducted
from sim.cluster.comparison import ALL, by_trial, compared

VARYING = ("Laghos", "LBANN", "sw4lite")
"""The applications that vary most in the paper."""
_AT_ONCE = ("Kripke", "AMG")

Statement = tuple[str, str, str]
Of = Mapping[tuple[str, str], Mapping[str, Any]]
"""Rows of a comparison of one scheduler, by application and metric."""


def beside(conducted: Sequence[Conducted], which: int = 0) -> Table:
    """Return statements of Nichols et al. with a model's value here, by figure.

    ``which`` of the schedulers that ask a model. Only experiments that were run have rows; changes are of means over trials, with
    standard errors where there are enough trials.
    """
    rows: list[Statement] = []
    for made in conducted:
        if len(models_of(made)) > which:
            rush = models_of(made)[which]
            at = {key[1:]: row for key, row in looked_up(made.found).items() if key[0] == rush}
            rows += [*_STATED[made.experiment.name](made, rush, at), _makespan(made, at)]
    if rows:
        rows.append(
            ("figure 3: F1 of the model in cross-validation", "0.95", "not part of the experiments: queuecast variability evaluate")
        )
        rows.sort(key=lambda row: int(row[0].split()[1].strip(":,")))
    headings = ("what", "the paper's text", "simulated here")
    return Table("beside Nichols et al.", headings, rows, left=headings)


def _adaa(made: Conducted, rush: str, at: Of) -> list[Statement]:
    names = made.experiment.applications
    pooled = [at[name, "varied_pooled"] for name in names]
    waits = {name: at[name, "wait_later_s"]["difference"] for name in names}
    varying, few = _varying(names), VARYING[:2]
    return [
        ("figure 5, ADAA: runs with variation a trial, by EASY's runs", "17 to 4", _from_to(at[ALL, "varied_pooled"])),
        ("figure 5, ADAA: the same by control runs", "does not say", _from_to(at[ALL, "varied"])),
        (
            "figure 5, ADAA: the same of an application, by EASY's runs",
            "1.5 to 3.5; under RUSH 0 to 1.5",
            f"{_range([row['baseline'] for row in pooled])}; under RUSH {_range([row['mean'] for row in pooled])}",
        ),
        (
            f"figure 5, ADAA: the same of {' and '.join(few)}",
            "almost none under RUSH",
            ", ".join(f"{at[name, 'varied_pooled']['baseline']:.1f} to {at[name, 'varied_pooled']['mean']:.1f}" for name in few),
        ),
        ("figure 6, ADAA: mean runtime", "lower for those that vary most (no number)", _changes(at, varying, "runtime")),
        (
            "figure 6, ADAA: largest runtime of a trial",
            "lower for those that vary most (no number)",
            _changes(at, varying, "worst"),
        ),
        (
            "figure 11, ADAA: mean wait of an application changes by, s",
            f"within a minute; longer for {', '.join(VARYING)}, shorter for {' and '.join(_AT_ONCE)}",
            ", ".join(f"{name} {signed(change, '.0f')}" for name, change in sorted(waits.items(), key=lambda item: item[1])),
        ),
    ]


def _partial(made: Conducted, rush: str, at: Of) -> list[Statement]:
    name, names = made.experiment.name, made.experiment.applications
    stated = "slightly more than in ADAA, reduced alike (no number)"
    rows = [(f"figure 4, {name}: runs with variation a trial, by EASY's runs", stated, _from_to(at[ALL, "varied_pooled"]))]
    if name == "PDPA":
        told = _changes(at, _varying(names), "worst")
        rows.append(("figure 7, PDPA: largest runtime of a trial", "lower as in ADAA (no number)", told))
    return rows


def _weak(made: Conducted, rush: str, at: Of) -> list[Statement]:
    runs = made.runs[made.runs["scheduler"].isin([made.baseline, rush])]
    found = looked_up(compared(by_trial(runs.assign(application=runs["nodes"].astype(str))), made.baseline))
    nodes = [str(count) for count in made.experiment.nodes]
    of_nodes = {(count, metric): found[rush, count, metric] for count in nodes for metric in ("worst", "varied")}
    told = "lower, more on 8 and 16 nodes than on 32 (no number)"
    on = ", ".join(nodes)
    return [
        (f"figure 8, WS: largest runtime of a trial on {on} nodes", told, _changes(of_nodes, nodes, "worst")),
        (f"figure 8, WS: runs with variation on {on} nodes, by control runs", "does not say", _changes(of_nodes, nodes, "varied")),
        ("figure 8, WS: applications whose largest runtime rises", "none", _rising(at, made.experiment.applications)),
    ]


def _strong(made: Conducted, rush: str, at: Of) -> list[Statement]:
    names = made.experiment.applications
    stated = "lower for each, most for sw4lite and LBANN; up to 5.8 % of any experiment"
    return [
        ("figure 9, SS: largest runtime of a trial", stated, _changes(at, names, "worst")),
        ("figure 9, SS: applications whose largest runtime rises", "none", _rising(at, names)),
    ]


_STATED: dict[str, Callable[..., list[Statement]]] = {
    "ADAA": _adaa,
    "ADPA": _partial,
    "PDPA": _partial,
    "WS": _weak,
    "SS": _strong,
}


def _makespan(made: Conducted, at: Of) -> Statement:
    row = at[ALL, "makespan_s"]
    return (
        f"figure 10, {made.experiment.name}: makespan shorter by, s",
        "18 to 66",
        signed(-row["difference"], ".0f") + _error(row["error"], 1, ".0f"),
    )


def _from_to(row: Mapping[str, Any]) -> str:
    change = (
        f", {signed(100 * row['relative'], '.0f')} %{_error(row['relative_error'], 100, '.0f')}"
        if np.isfinite(row["relative"])
        else ""
    )
    return f"{row['baseline']:.1f} to {row['mean']:.1f}{change}"


def _changes(at: Of, names: Sequence[str], metric: str) -> str:
    """Return the relative change of one metric of each of ``names``."""
    rows = {name: at[name, metric] for name in names}
    return ", ".join(
        f"{name} {signed(100 * row['relative'], '.1f')} %{_error(row['relative_error'], 100, '.1f')}" for name, row in rows.items()
    )


def _rising(at: Of, names: Sequence[str]) -> str:
    """Name applications whose largest runtime of a trial rises by more than two standard errors."""
    rows = {name: at[name, "worst"] for name in names}
    rising = [name for name, row in rows.items() if row["difference"] > 2 * np.nan_to_num(row["error"])]
    return ", ".join(rising) or "none beyond two standard errors"


def _varying(names: Sequence[str]) -> list[str]:
    return [name for name in VARYING if name in names]


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.1f} to {max(values):.1f}"


def _error(value: float, scale: float, form: str) -> str:
    return f" ± {format(scale * value, form)}" if np.isfinite(value) else ""
