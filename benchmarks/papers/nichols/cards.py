"""The cards of simulated RUSH, from the tables in docs/studies/data.

``python -m benchmarks.papers.nichols.cards`` writes both again from the data as they lie there.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.common.card import Card, made_before, read_rows
from benchmarks.common.pages import STUDIES
from benchmarks.common.tables import kept_table
from features.statistics import Ratio, interval_of_change
from sim.metrics.verdict import MINUS

_SHOWN = ["runs with variation", "without storm", "makespan, s", "mean wait, s"]
_ROWS = [("ADAA", name) for name in ("model", "as published", "nowcast", "oracle", "coin")]
_ROWS += [(name, "model") for name in ("ADPA", "PDPA", "WS", "SS")]


def data(name: str) -> pd.DataFrame:
    """Return the cells of a page's tables."""
    return pd.read_csv(STUDIES / "data" / f"{name}.csv", keep_default_na=False)


def change(cell: str) -> str:
    """Return the change in a cell, which stands behind its mean, as one word."""
    return cell.partition(", ")[2].replace(" ", "")


def changes_by_cluster(rows: pd.DataFrame) -> pd.DataFrame:
    """Return changes with intervals over trials, a row a cluster and a column each of ``true varied`` and the others."""
    cells = {}
    for cluster, trials in rows.groupby("cluster", sort=False):
        one = np.ones((1, len(trials)))
        for what in ("true varied", "estimated varied", "true wait_s", "estimated wait_s"):
            after, before = (Ratio(trials[f"{what} {when}"].to_numpy(float)[None], one) for when in ("after", "before"))
            ends = interval_of_change(after, before)
            cell = f"{after.value() / before.value() - 1:+.0%} [{ends.low:+.0%}, {ends.high:+.0%}]"
            cells[cluster, what] = cell.replace("-", MINUS)
    return pd.Series(cells).unstack(sort=False)


def rush(provenance: str) -> Card:
    """Return the card beside the paper."""
    rows = data("rush")
    table = kept_table(rows, "experiments")
    table = table.rename(columns={table.columns[0]: "experiment"}).set_index(["experiment", "scheduler"])[_SHOWN]
    model, published, oracle, coin = (table.loc["ADAA", name] for name in ("model", "as published", "oracle", "coin"))
    ladder = kept_table(rows, "ladder").set_index("ADAA")
    varied, makespan, wait = _SHOWN[0], _SHOWN[2], _SHOWN[3]
    return Card(
        question="What is it worth to wait for a quiet machine?",
        answer=f"In the paper's experiment ADAA, simulated, a model of delays with patience changes EASY's runs with variation by "
        f"{change(model[varied])}, makespans by {change(model[makespan])} and mean waits by {change(model[wait])}; the model as published, with 282 features "
        f"and ten skips, changes runs with variation by {change(published[varied])}. The model matters, not the waiting (a coin that skips as often: "
        f"{change(coin[varied])}); an oracle reaches {change(oracle[varied])}, and best fit alone "
        f"{ladder.loc['EASY, best fit', 'against first fit'].replace(' ', '')} against first fit.",
        table=table.loc[_ROWS].map(change).reset_index(),
        table_caption="Changes against EASY in 400 trials with standard errors; ADPA, PDPA, WS and SS are the paper's other experiments.",
        fails="Everything is simulated, under assumed disturbances, and says nothing of any site. A few trials with a storm hold half of all "
        "variation, so means over all are uncertain. The paper's makespans get 18 to 66 s shorter; no model here reaches its F1 of 0.95 "
        "([variability.md](variability.md)). "
        "Beside the paper, figure by figure: section `beside` of the data. What the results depend on: [rush-assumptions.md](rush-assumptions.md).",
        data=["rush.csv"],
        made_by=provenance,
        picture="rush-ladder.png",
        picture_caption="Runs with variation per trial; each rung includes all rungs before; per cent: change from EASY with first fit.",
    )


def assumptions(provenance: str) -> Card:
    """Return the card of what the results depend on."""
    rows = data("rush-assumptions")
    varied, makespan, wait = "runs with variation", "makespan, s", "mean wait, s"

    def of(section: str, key: str, name: str, table: str = "1") -> tuple[str, str, str]:
        row = kept_table(rows, section, table).set_index(key).loc[name]
        return change(row[varied]), change(row[makespan]), change(row[wait])

    shown = {
        "the model, cutoff 0.15, patience 1,200 s": of("attacks", "row", "the model"),
        "labels shuffled within applications": of("attacks", "row", "labels shuffled within applications"),
        "five columns: probe, newest waits, type": of("attacks", "row", "both and the type, five columns"),
        "sensors five times as noisy": of("attacks", "row", "sensors five times as noisy"),
        "noise job under eight leaf switches": of("attacks", "row", "the noise job under eight leaf switches"),
        "chosen: cutoff 0.1, patience 300 s": of("patience", "patience", "300 s"),
        "chosen: cutoff 0.1, patience 3,600 s": of("patience", "patience", "3,600 s"),
        "disturbances 0.3 times as long": of("lasting", "0.3 times as long", "model"),
        "disturbances 10 times as long": of("lasting", "10 times as long", "model", "4"),
        "`stormy`: bursts that hit all jobs at once": of("clusters", "scheduler", "model"),
    }
    harm = kept_table(rows, "harm", "10").set_index(["experiment", "against", "metric"])["Harm+RUSH"].map(change)
    further = kept_table(rows, "further").set_index("row").loc["cutoff 0.15"]
    recorded = read_rows(STUDIES / "data" / "recorded-counters.csv")
    busy, stormy = (changes for _, changes in changes_by_cluster(recorded).iterrows())
    return Card(
        question="What do the results on RUSH depend on?",
        answer="More on time than on sensor noise: longer patience outlasts storms but lengthens waits; disturbances ten times as long outlast "
        f"patience. In {further['trials']} trials simulated after all choices, the model changes runs with variation by "
        f"{further[varied]}, makespans by {further['makespan']} and response times by {further['mean response time']}.",
        table=pd.DataFrame([(name, *cells) for name, cells in shown.items()], columns=["ADAA", varied, "makespan", "mean wait"]),
        table_caption="Changes against EASY in the same trials (200 or 400), simulated, with standard errors.",
        fails="Runs become steadier, but jobs in ADAA hardly faster, and the longest waits grow. `Harm+RUSH` against `EASY+RUSH`: waits "
        f"{harm['WS', 'EASY+RUSH', 'wait_s']} in WS, {harm['SS', 'EASY+RUSH', 'wait_s']} in SS, variation unsure; against `Harm`: WS's runs with "
        f"variation {harm['WS', 'Harm', 'varied']}. At a continuous load of 0.9 the model does little. "
        "Replays of counters recorded without its decisions predict at most a third of its effect: in "
        f"{recorded['seed'].nunique()} trials, runs with variation {busy['estimated varied']} instead of {busy['true varied']}, and waits "
        f"{busy['estimated wait_s']} instead of {busy['true wait_s']}; under `stormy`, runs {stormy['estimated varied']} instead of {stormy['true varied']}.",
        data=["rush-assumptions.csv", "recorded-counters.csv"],
        made_by=provenance,
        picture="rush-patience.png",
        picture_caption="Change of runs with variation, makespan and mean wait over patience.",
    )


if __name__ == "__main__":
    rush(made_before("rush")).write("rush")
    assumptions(made_before("rush-assumptions")).write("rush-assumptions")
