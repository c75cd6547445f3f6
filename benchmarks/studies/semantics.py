"""Measure what passes without an event move, from shaken replays of two traces.

``python -m benchmarks.studies.semantics`` prints the card docs/studies/semantics.md, ``--write`` makes it and its
data. Needs KTH-SP2 and SDSC-SP2 under ``--shared``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from benchmarks.common.card import Card, parser, study
from benchmarks.common.dots import dots
from benchmarks.common.logs import load
from sim.campaigns.campaign import run_campaign
from sim.settings import Campaign

TRACES = ("KTH-SP2", "SDSC-SP2")
POLICIES = (
    ("EASY", "last2", "tsafrir"),
    ("EASY-SJBF", "last2", "tsafrir"),
    ("EASY", "okcm", "tsafrir(steps=okcm)"),
    ("EASY-SJBF", "okcm", "tsafrir(steps=okcm)"),
    ("EASY-SJBF", "nag", "tsafrir"),
)
PLAIN = "per-second"
OPTIONS = ("per-second(expiry=pass)", "per-second(every=30)")
METRICS = {"mean_wait_s": "mean wait", "mean_bounded_slowdown": "bounded slowdown"}
SHAKE_S, REPLAYS = 60, 10


def measured(shared: Path, replays: int) -> pd.DataFrame:
    """A row a trace, policy, semantics and replay, with ``METRICS``.

    Replay 0 is shaken like the others.
    """
    tables = []
    for title in TRACES:
        trace = load(title, shared)
        for scheduler, predictor, correction in POLICIES:
            asked = Campaign(
                schedulers=(scheduler,),
                predictors=(predictor,),
                corrections=(correction,),
                semantics=(PLAIN, *OPTIONS),
                seeds=tuple(range(replays)),
                shake_s=SHAKE_S,
            )
            table = run_campaign(trace.jobs, asked, procs=trace.procs, trace=trace.name, clock=trace.clock)
            tables.append(table.assign(title=title))
    return pd.concat(tables, ignore_index=True)


def changes(table: pd.DataFrame) -> pd.DataFrame:
    """Return changes against plain semantics by trace, policy, option and metric.

    Over replays: mean, its standard error, min and max.
    """
    keys = ["title", "scheduler", "predictor", "correction"]
    rows = []
    for policy, part in table.groupby(keys, sort=False):
        for metric in METRICS:
            values = part.pivot(index="seed", columns="semantics", values=metric)
            for option in OPTIONS:
                change = (values[option] / values[PLAIN] - 1.0).to_numpy()
                low, high = change.min(), change.max()
                error = change.std(ddof=1) / np.sqrt(len(change))
                figures = {"option": option, "metric": metric, "change": change.mean(), "error": error, "low": low, "high": high}
                rows.append(dict(zip(keys, policy, strict=True)) | figures | {"plain": values[PLAIN].mean()})
    return pd.DataFrame(rows)


def card(rows: pd.DataFrame, made_by: str) -> Card:
    """Return the card, a row a trace and policy."""
    far = stdtrit(REPLAYS - 1, 0.975) * rows["error"]
    ranges = {metric: 100 * rows.loc[rows["metric"] == metric, "change"] for metric in METRICS}
    cells = (100 * rows["change"]).map("{:+.1f}".format) + "±" + (100 * rows["error"]).map("{:.1f}".format)
    column = rows["option"].str.partition("(")[2].str.rstrip(")") + ": " + rows["metric"].map(METRICS)
    named = rows.assign(cell=cells, column=column, policy=rows["scheduler"] + ", " + rows["predictor"])
    named = named[named["predictor"] != "nag"]
    wide = named.pivot(index=["title", "policy"], columns="column", values="cell").loc[
        list(dict.fromkeys(zip(named["title"], named["policy"], strict=True)))
    ]
    return Card(
        question="What do passes without an event change?",
        answer=f"On average over {REPLAYS} replays, a pass when a prediction expires or every 30 seconds changes mean wait by "
        f"{ranges['mean_wait_s'].min():+.1f} to {ranges['mean_wait_s'].max():+.1f} % and mean bounded slowdown by "
        f"{ranges['mean_bounded_slowdown'].min():+.1f} to {ranges['mean_bounded_slowdown'].max():+.1f} %. Of the "
        f"{len(rows)} changes, each tested alone by a 95 % t interval of the replays, {int((rows['change'] < -far).sum())} are surely below zero and "
        f"{int((rows['change'] > far).sum())} surely above.",
        picture="semantics.png",
        picture_caption="Changes with 95 % t intervals over replays",
        table=wide[list(dict.fromkeys(column))].reset_index().rename(columns={"title": "trace"}),
        table_caption=f"Published simulators run a scheduling pass when a job is submitted or ends. While jobs wait, `expiry=pass` adds a pass in each second "
        "in which a running job outlives its prediction, and `every=30` one at each multiple of 30 s. Change in % "
        f"against neither, mean ± standard error of {REPLAYS} replays with submissions moved by up to {SHAKE_S} s, the same for each; lower is better:",
        fails=FAILS,
        data=["semantics.csv"],
        made_by=made_by,
    )


FAILS = (
    "The study cannot say which semantics fits a machine. Schedules are chaotic: single replays change by -20 to +27 %. If no "
    "prediction expires (requested times, exact runtimes), `expiry=pass` changes nothing. Two traces, five policies."
)


def draw(rows: pd.DataFrame) -> bytes:
    """Draw the changes of both semantics with 95 % t intervals, a panel a trace and metric."""
    shown = rows.assign(
        panel=rows["title"] + ": " + rows["metric"].map(METRICS),
        row=rows["scheduler"] + ", " + rows["predictor"],
        series=rows["option"].str.partition("(")[2].str.rstrip(")"),
        value=100 * rows["change"],
    )
    far = 100 * stdtrit(REPLAYS - 1, 0.975) * rows["error"]
    shown["low"], shown["high"] = shown["value"] - far, shown["value"] + far
    return dots(shown, "change, %", dict.fromkeys(shown["panel"], 0.0))


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--replays", type=int, default=REPLAYS, help="shaken replays of each trace")
    options = arguments.parse_args()

    def compute() -> pd.DataFrame:
        return changes(measured(options.shared, options.replays))

    study(options, "studies.semantics", "semantics.csv", compute, card, draw)


if __name__ == "__main__":
    main()
