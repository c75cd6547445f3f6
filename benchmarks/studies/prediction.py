"""Measure how good every predictor's predictions are on KTH-SP2 and SDSC-SP2.

``python -m benchmarks.studies.prediction`` prints the card docs/studies/runtime-prediction.md, ``--write`` makes it, its picture and its
data, the cells of all tables. Needs the traces under ``--shared``.

``queuecast evaluate`` simulates a trace once a predictor, under EASY, takes what the predictor said of each job at its submission, and judges it
by the runtime; a predictor has only what had ended by then in that very schedule. Accuracy is min(p/r, r/p), averaged over jobs; under-predicted
jobs run longer than predicted; pinball q is the loss that the true q quantile makes least. By experience: by how many of the user's jobs had
ended at submission. The cost is the simulation less one that reads the same predictions from a table, median of five pairs. All jobs are
simulated; the second half is the last n - n // 2. Options of ``knn``, ``okcm`` and ``nag`` were chosen on the first half of KTH-SP2, constants of
``quantile`` on first halves of four traces; ``quantile`` answers with its median, ``quantile(order=accuracy)`` with the prediction of the highest
expected accuracy.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.common.card import Card, parser, study
from benchmarks.common.dots import dots
from benchmarks.common.logs import LOGS, load
from benchmarks.common.tables import cells, kept_table, markdown
from models.runtime.evaluation import accuracy
from sim import evaluate, simulate

PREDICTORS = (
    "requested",
    "clairvoyant",
    "last2",
    "hierarchy",
    "sp2",
    "sp3",
    "sp4",
    "knn",
    "knn(window=15)",
    "okcm",
    "nag",
    "cv-triple",
    "svr",
    "lightgbm",
    "quantile",
    "quantile(order=accuracy)",
)
TRACES = ("KTH-SP2", "SDSC-SP2")
PARTS = {"all": "the whole trace", "second-half": "the second half of the jobs"}
LEVELS = ("0.5", "0.8", "0.95")
STAGES = ("first", "learning", "experienced")
CURVE = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Levels of a distribution that the tables show."""
OKCM = {"KTH-SP2": "okcm", "SDSC-SP2": "okcm(delta=1000,lambda=3e+06)"}
"""The most accurate of 360 points over delta, eta, lambda, k and weights on the first half of each trace."""
BEST = "quantile(order=accuracy)"
QUIRKS = {
    "the published program, `cv-triple`": "cv-triple",
    "its loss and constants, features done right": "nag(over=square,under=absolute,weight=large-area,eta=5000,lambda=4e9)",
    "its quirks, the loss and constants of `nag`": "cv-triple(over=absolute,under=2*absolute,weight=constant,eta=1e4,lambda=1e4)",
    "neither, `nag`": "nag",
}
"""The same learner, by loss and constants and by whether the features are those of the published program."""

NAME = "runtime-prediction"


def arguments(trace: Path) -> list[str]:
    """What ``queuecast`` is asked for one trace."""
    asked = ["evaluate", str(trace)]
    for option, values in (("--predictor", PREDICTORS), ("--part", PARTS), ("--level", LEVELS)):
        asked += [word for value in values for word in (option, value)]
    return [*asked, "--json"]


def measured(trace: Path) -> list[dict[str, Any]]:
    """The records of one trace, a record a part and predictor."""
    return records_of(arguments(trace))


def records_of(asked: list[str]) -> list[dict[str, Any]]:
    """What ``queuecast`` says, record by record."""
    done = subprocess.run([sys.executable, "-m", "pipelines", *asked], stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def tables(shared: Path) -> str:
    """Everything as Markdown."""
    lines = []
    for title in TRACES:
        records = measured(shared / "traces" / LOGS[title][0])
        lines += [f"### {title}", ""]
        for part, words in PARTS.items():
            mine = [record for record in records if record["part"] == part]
            lines += [
                f"{title}, {words}: {mine[0]['jobs']:,} jobs judged, in {mine[0]['weeks']} weeks:",
                "",
                accuracy_table(mine),
                "",
            ]
            lines += [loss_table(mine), "", *calibration_tables(mine, words)]
    return "\n".join([*lines, *against_okcm(shared), *quirks(shared)])


def against_okcm(shared: Path) -> list[str]:
    """The most accurate predictor against OKCM, paired, on the second halves."""
    lines = ["### Against OKCM", "", "Accuracy on the second half, both chosen on the first.", ""]
    rows = []
    for title in TRACES:
        asked = ["evaluate", str(shared / "traces" / LOGS[title][0]), "--predictor", OKCM[title], "--predictor", BEST]
        asked += ["--baseline", OKCM[title], "--part", "second-half", "--repeat", "0", "--json"]
        theirs, ours = records_of(asked)
        first, second = (interval(record, "accuracy", "", 100, ".1f") for record in (theirs, ours))
        rows.append([title, first, f"`{OKCM[title]}`", second, f"`{BEST}`", interval(ours, "accuracy", "_difference", 100, "+.1f")])
    return [*lines, markdown(["trace", "OKCM, %", "", "best, %", "", "difference, points"], rows, left=[""]), ""]


def quirks(shared: Path) -> list[str]:
    """Return what the quirks of the program of Gaussier et al. (2015) are worth, in accuracy and in the schedule.

    The learner runs under EASY-SJBF with Tsafrir's correction, per-event, as published. The program takes the time since submission for a last
    runtime, counts steps by two and takes the magnitude of a negative answer.
    """
    lines = ["### What the published quirks are worth", ""]
    rows = []
    workloads = [load(title, shared) for title in TRACES]
    for words, name in QUIRKS.items():
        cells = []
        for trace in workloads:
            policy: dict[str, Any] = {
                "scheduler": "EASY-SJBF",
                "predictor": name,
                "correction": "tsafrir",
                "semantics": "per-event",
            }
            schedule = simulate(trace.jobs, procs=trace.procs, **policy)
            predicted, runtime = (schedule.jobs[column].to_numpy(np.float64) for column in ("predicted_s", "runtime_s"))
            right, under = accuracy(predicted, runtime).mean(), (runtime > predicted).mean()
            cells += [f"{100 * right:.1f}", f"{100 * under:.1f}", f"{evaluate(schedule)['mean_bounded_slowdown']:.1f}"]
        rows.append([words, *cells])
    headings = [heading for title in TRACES for heading in (f"{title}: accuracy, %", "under-predicted, %", "slowdown")]
    return [*lines, markdown(["learner", *headings], rows), ""]


def accuracy_table(records: list[dict[str, Any]]) -> str:
    """Accuracy overall, against the baseline, and by experience."""
    baseline = records[0]["baseline"]
    rows = []
    for record in records:
        stages = {row["group"]: row["accuracy"] for row in record["by_experience"]}
        against = "" if record["predictor"] == baseline else interval(record, "accuracy", "_difference", 100, "+.1f")
        shares = (f"{100 * stages[stage]:.1f}" for stage in STAGES)
        rows.append([record["predictor"], interval(record, "accuracy", "", 100, ".1f"), against, *shares])
    headings = ["predictor", "accuracy, %", f"against {baseline}, points", "first jobs", "1-25 completed", "over 25"]
    return markdown(headings, rows)


def loss_table(records: list[dict[str, Any]]) -> str:
    """Under-predictions, errors and losses in seconds, and the cost."""
    retrained = any(record["retraining_share"] for record in records)
    headings = ["predictor", "under-predicted, %", "MAE, s", *(f"pinball {level}, s" for level in LEVELS), "µs a job"]
    headings += ["of that retraining"] if retrained else []
    rows = []
    for record in records:
        losses = [f"{record[f'pinball_{level}_s']:,.0f}" for level in LEVELS]
        cost = record["microseconds"]
        shown = [interval(record, "underprediction_rate", "", 100, ".1f"), interval(record, "mae_s", "", 1, ",.0f"), *losses]
        shown += ["" if cost is None else f"{cost:.2f}" if cost >= 0.01 else "< 0.01"]
        shown += [f"{record['retraining_share']:.0%}" if record["retraining_share"] else ""] if retrained else []
        rows.append([record["predictor"], *shown])
    return markdown(headings, rows)


def calibration_tables(records: list[dict[str, Any]], words: str) -> list[str]:
    """Return shares of jobs at most as long as each quantile.

    A table for each predictor that answers with a distribution.
    """
    lines = []
    for record in records:
        if not record["calibration"] or record["predictor"] == BEST:  # the same distribution
            continue
        lines += [
            f"Calibration of {record['predictor']}, {words} (CRPS {record['crps_s']:,.0f} s):",
            "",
        ]
        rows = []
        for row in record["calibration"]:
            if row["level"] not in CURVE:
                continue
            ends = "" if row["at_most_low"] is None else f" [{100 * row['at_most_low']:.1f}, {100 * row['at_most_high']:.1f}]"
            shares = [f"{100 * row[name]:.2f}" for name in ("at_most", "below", "above")]
            rows.append([f"{row['level']:g}", shares[0] + ends, *shares[1:]])
        lines += [markdown(["level", "jobs at most as long, %", "shorter, %", "longer, %"], rows), ""]
    return lines


def interval(record: dict[str, Any], measure: str, of: str, scale: float, form: str) -> str:
    """A figure with its interval in brackets, where there is one."""
    value, low, high = (record[f"{measure}{of}{end}"] for end in ("", "_low", "_high"))
    return f"{scale * value:{form}}" + ("" if low is None else f" [{scale * low:{form}}, {scale * high:{form}}]")


def second_half(rows: pd.DataFrame, title: str) -> pd.DataFrame:
    """Return accuracies of a trace's second half, of the cells of all tables, indexed by predictor."""
    return kept_table(rows, f"{SECTION}: {title}", "4").set_index("predictor")


def card(rows: pd.DataFrame, made_by: str) -> Card:
    """Return the card, a row a predictor; ``rows`` are cells of all tables."""
    halves = {title: second_half(rows, title) for title in TRACES}
    table, best = {}, {}
    for title, half in halves.items():
        value = half["accuracy, %"].str.partition(" ")[0].astype(float)
        name = value.drop("clairvoyant").idxmax()
        best[title] = (
            f"`{name}` with {half.at[name, 'accuracy, %']} % on {title} (`last2` {value['last2']}, requested times {value['requested']})"
        )
        table |= {
            title: value[list(SHOWN)].map("{:.1f}".format),
            f"{title}, against last2": half.loc[list(SHOWN), "against last2, points"].replace("", EMPTY),
        }
    against = kept_table(rows, f"{SECTION}: Against OKCM")
    quirks = kept_table(rows, f"{SECTION}: What the published quirks are worth").set_index("learner")[f"{TRACES[0]}: accuracy, %"]
    return Card(
        question="How good are runtime predictions?",
        answer=f"On second halves the most accurate predictor is {'; '.join(best.values())}. Against OKCM, also chosen on first halves, the gain is "
        f"{' and '.join(against['difference, points'])} points.",
        picture="runtime-prediction.png",
        picture_caption="Accuracy on second halves, 95 % over weeks; dotted: `last2`",
        table=pd.DataFrame(table).rename_axis("predictor").reset_index(),
        table_caption="Mean accuracy min(p / r, r / p) in % of jobs of the second half, walk-forward under EASY, and the paired difference "
        "to `last2` in points "
        "[95 % over weeks]:",
        fails=f"Accuracy is not slowdown: the published winner `cv-triple` ({quirks.iloc[0]} %) was chosen for its schedules with Tsafrir's correction; it "
        f"has {quirks.iloc[1]} % without its program's quirks, {quirks.iloc[2]} % with them and the loss of `nag`. {FAILS}",
        data=["runtime-prediction.csv"],
        made_by=made_by,
    )


SECTION, EMPTY = "tables", "–"
SHOWN = (
    "requested", "last2", "hierarchy", "knn", "okcm", "nag", "svr", "lightgbm", "quantile", "quantile(order=accuracy)"
)  # fmt: skip
FAILS = (
    "Two traces; constants of most predictors were chosen on their first halves. Unknown: where constants of the simulator's `lightgbm` were "
    "first chosen."
)


def draw(rows: pd.DataFrame) -> bytes:
    """Draw accuracies on second halves with their intervals, a panel a trace."""
    halves = {title: second_half(rows, title)["accuracy, %"].drop("clairvoyant") for title in TRACES}
    shown = (
        pd.concat(halves, names=["panel", "row"])
        .str.extract(r"(?P<value>[\d.]+) \[(?P<low>[\d.]+), (?P<high>[\d.]+)\]")
        .astype(float)
    )
    lines_at = {title: shown.at[(title, "last2"), "value"] for title in TRACES}
    return dots(shown.reset_index().assign(series=""), "accuracy, %", lines_at)


def main() -> None:
    options = parser(__doc__).parse_args()
    study(options, "studies.prediction", f"{NAME}.csv", lambda: cells(tables(options.shared), SECTION), card, draw)


if __name__ == "__main__":
    main()
