"""Compare Harm that asks RUSH with EASY that asks it, and with Harm alone, on the simulated cluster.

Harm chooses which job starts, by requested times, and RUSH (Nichols et al.) may skip it: its model of delays, learned from control runs as in
:mod:`benchmarks.papers.nichols.rush`, with the cutoff and patience chosen there, or the nowcast. ADAA has jobs of one width; in WS and SS they are of
three, and a start can delay the head. Trials have seeds that nothing else is measured or chosen on. A change is sure where the mean lies so many
standard errors from 0 that one of all comparisons would in 5 % of studies without any (Bonferroni).

One rule that charges a start both in processor-seconds was tried on other trials, and is not kept: a job waited where half its usual
processor-seconds, times the chance of variation, exceeded T times what Harm gives for a second of its wait. By the nowcast, 100 trials of WS: runs with
variation were 2.0 a trial without the rule, 2.1, 2.4, 2.6 and 3.9 with T of 2, 4, 10 and 20 s, 5.3 with Harm alone; in 40 of them 2.5 without, 6.1 and 6.6
with T of 100 and 300 s, 6.6 with Harm alone. Waits and makespans were those of one or the other. A varying run costs less than a wait that
outlasts a disturbance, so that one price lets jobs start.

``python -m benchmarks.papers.nichols.beside_harm`` prints the tables; ``--write`` puts them into docs/studies/data/rush-assumptions.csv, section ``harm``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

import pandas as pd

from benchmarks.common.pages import HOUSE, STUDIES
from benchmarks.common.tables import markdown, write_data
from benchmarks.papers.nichols import tables
from benchmarks.papers.nichols.attacks import CUTOFF, PATIENCE_S
from benchmarks.papers.nichols.experiments import ALL, EASY, EXPERIMENTS
from benchmarks.papers.nichols.rush import Choice, Settings, beside_easy
from benchmarks.papers.nichols.trials import Bench, Setting

FIRST_TRIAL = 320_000
JUDGED = ("varied", "makespan_s", "wait_s", "worst", "runtime")
CONDUCTED = ("ADAA", "WS", "SS")


def settings() -> dict[str, Setting]:
    """Return what is compared, by its name."""
    chosen = Choice(CUTOFF, PATIENCE_S)
    of_easy = Settings(chosen).conducted()
    easy, model, nowcast = of_easy["EASY"], of_easy["model"], of_easy["nowcast"]

    def harm(each: Setting) -> Setting:
        return replace(each, scheduler=each.scheduler.replace(EASY, "Harm"))

    return {
        "EASY": easy,
        "EASY+RUSH": model,
        "Harm": harm(easy),
        "Harm+RUSH": harm(model),
        "EASY+nowcast": nowcast,
        "Harm+nowcast": harm(nowcast),
    }


def verdict(table: pd.DataFrame, comparisons: int) -> list[list[str]]:
    """Return cells about Harm that asks RUSH against the baseline of ``table``: of each metric the change, and whether it is sure."""
    far, at, baseline = NormalDist().inv_cdf(1 - 0.025 / comparisons), tables.looked_up(table), table["against"].iloc[0]
    rows = []
    for metric in JUDGED:
        row = at["Harm+RUSH", ALL, metric]
        sure = abs(row["difference"]) > far * row["error"]
        rows.append(
            [baseline, metric, tables.cell(row, baseline), ("lower" if row["difference"] < 0 else "higher") if sure else ""]
        )
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=400, help="of each experiment")
    parser.add_argument("--keep", type=Path, default=HOUSE / ".queuecast" / "rush", help="where results are kept")
    parser.add_argument("--write", action="store_true", help="put the tables into the card's data")
    options = parser.parse_args(argv)
    bench, seeds, text, judged = Bench(options.keep), range(FIRST_TRIAL, FIRST_TRIAL + options.trials), [], []
    baselines = ("EASY+RUSH", "Harm")
    comparisons = len(JUDGED) * len(baselines) * len(CONDUCTED)
    for name in CONDUCTED:
        for baseline in ("EASY", *baselines):
            table = beside_easy(bench, settings(), baseline=baseline, of=EXPERIMENTS[name], seeds=seeds)
            text.append(tables.settings_table(f"{name}, against {baseline}", table))
            if baseline in baselines:
                judged += [[name, *row] for row in verdict(table, comparisons)]
    text.append(markdown(["experiment", "against", "metric", "Harm+RUSH", "surely"], judged, keys=3))
    result = "\n\n".join(text)
    if options.write:
        write_data(STUDIES / "rush-assumptions.md", {"harm": result})
    print(result)


if __name__ == "__main__":
    main()
