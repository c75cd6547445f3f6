"""Make the card of :mod:`benchmarks.studies.expected_harm` from its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from benchmarks.common.card import Card
from benchmarks.studies.expected_harm_tables import LEARNED, METRICS, REQUESTS
from features.statistics import covers, surely

SLOWDOWN, AWF, P2SF = METRICS.values()
FAILS = (
    "[Generated workloads](harm-generated.md) show more. Jobs run on one pool; users do not react. "
    "A prototype had been seen on second halves before; every look is [listed](data/expected_harm_looks.csv)."
)


def one_table(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return all tables as one: the column ``section`` tells them apart."""
    rows = pd.concat([table.assign(section=name) for name, table in tables.items()], ignore_index=True)
    rows["group"], rows["sure"] = rows["group"].astype("string"), rows["sure"].astype("boolean")
    return rows


def by_section(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the tables of :func:`one_table`."""
    return {str(name): part.drop(columns="section").reset_index(drop=True) for name, part in rows.groupby("section", sort=False)}


def card(tables: Mapping[str, pd.DataFrame], judged: Sequence[Any], half: str, made_by: str) -> Card:
    """Return the card: ``judged`` are the claims of :func:`benchmarks.studies.expected_harm.checks`."""
    headline = tables["headline"]
    lower = headline[(headline["name"] == LEARNED) & (headline["metric"] == SLOWDOWN)].set_index("trace")["relative"]
    jobs = tables["worst"].query("unit == 'jobs'")["share_over_an_hour"]
    table = []
    for title in lower.index:
        rows = headline[headline["trace"] == title].set_index(["name", "metric"])
        cells = [rows.loc[LEARNED, metric] for metric in METRICS.values()] + [rows.loc[REQUESTS, SLOWDOWN]]
        table.append([title, *map(bounded, cells)])
    return Card(
        question="Does a scheduler that weighs distributions pay for slowdown with packing or fairness?",
        answer=f"By the distributions that `quantile` learns inside the simulation, `Harm` has {-100 * lower.max():.0f} to "
        f"{-100 * lower.min():.0f} % less slowdown than EASY with requested times. {certain(headline[headline['name'] == LEARNED])}",
        picture="expected-harm.png",
        picture_caption="Stars: `Harm` with intervals; circles: six other schedulers; left and down is better",
        table=pd.DataFrame(table, columns=["trace", *METRICS.values(), "slowdown by requests"]),
        table_caption=f"Change in % of mean bounded slowdown, AWF (packing) and P2SF (fairness) on jobs of {half} halves (constants were "
        f"chosen on first ones), {int(headline['replicates'].max())} replicates, 95 % over weeks, users and replicates; by requests: with a fixed "
        "distribution of runtime / request:",
        fails=f"{missed(judged)} P2SF is higher, its interval above 0, {higher(tables)} (`told`: a table of "
        f"`quantile`'s distributions, `prior`: no model). {jobs.min():.0%} to {jobs.max():.0%} of jobs wait over "
        f"an hour longer. {FAILS}",
        data=["expected-harm.parquet", "expected_harm_constants.csv"],
        made_by=made_by,
    )


def certain(rows: pd.DataFrame) -> str:
    """Say what is surely lower or higher, corrected for all of ``rows``."""
    sure = surely(rows["p"].where(rows["replicates"] > 1))
    parts = []
    for chosen in (rows["relative"] < 0, rows["relative"] > 0):
        by = rows[sure & chosen].groupby("metric", sort=False)["trace"].agg(list)
        parts.append("; ".join(f"{metric} on {', '.join(titles)}" for metric, titles in by.items()) or "none")
    return f"Corrected for these {len(rows)} comparisons (Holm), sure decreases are: {parts[0]}; sure increases: {parts[1]}."


def missed(judged: Sequence[Any]) -> str:
    """Say how many claims are met, and which are not."""
    wrong = "; ".join(f"{each.target} ({each.where})" for each in judged if not each.met)
    met = sum(each.met for each in judged)
    return f"Of {len(judged)} claims {met} are met" + (f", and missed is: {wrong}." if wrong else ".")


def higher(tables: Mapping[str, pd.DataFrame]) -> str:
    """Say at which loads and by which predictions the interval of P2SF lies above EASY's."""
    words = []
    for section, heading in (("loads", "at load"), ("qualities", "by predictions")):
        rows = tables[section]
        names = (
            rows[(rows["metric"] == P2SF) & (rows["low"] > 0)]
            .groupby("trace", sort=False)["name"]
            .agg(lambda names: ", ".join(name.replace(", ", " by ") for name in names))
        )
        words.append(f"{heading} " + ("; ".join(f"{name} on {title}" for title, name in names.items()) or "none"))
    return ", ".join(words)


def bounded(*rows: Mapping[str, Any] | pd.Series) -> str:
    """Return changes in % with their intervals, where there are any."""
    each = [
        f" [{100 * row['low']:+.1f}, {100 * row['high']:+.1f}]{covers(row.get('coverage'))}" if pd.notna(row["low"]) else ""
        for row in rows
    ]
    return ", ".join(f"{100 * row['relative']:+.1f}{interval}" for row, interval in zip(rows, each, strict=True))
