"""What Legrand, Trystram & Zrigui (2018) claim, checked on the tables of a study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.papers.legrand.mixed import BASELINE, PURE, USUAL
from benchmarks.papers.legrand.study import GREEDY, HINDSIGHT, ORACLE, TRAINED, Settings, Study
from benchmarks.papers.legrand.transfer import RECORDED, TESTING, Split, by_policy, sums

HOLDS, BARELY, OPEN, FAILS = "holds", "holds as recorded", "undecided", "does not hold"
"""Verdicts. As recorded: the numbers have it so, and the interval of the shaken replays holds both."""
LEADERS = ("SAF", "SPF", "LEXP")
"""The best pure policies of the paper."""
INDIFFERENT = 1.2
"""A week is indifferent where FCFS is at most so many times the week's optimum. The paper has no number."""
NEAR, MARGINAL = 1.01, 0.1
"""A search finds an optimum within 1 %; a marginal gain is at most a tenth. The paper has no numbers."""
_HALF = (0.4, 0.6)


class Claim(NamedTuple):
    """A claim of the paper, what the tables say of it with one tau, and the verdict."""

    claim: str
    tau_s: float
    figures: str
    verdict: str


def claims(tables: Study, settings: Settings) -> list[Claim]:
    """Return every claim that the tables can answer, for each tau."""
    transfer = sums(tables.replays, tables.split, seed=settings.seed)
    against = sums(tables.replays, tables.split, HINDSIGHT, [ORACLE], seed=settings.seed)
    rows = []
    for tau_s in settings.taus_s:
        rows += _pure(tables, settings, tau_s) + _weeks(tables.replays, settings, tau_s)
        rows += _transfer(transfer, against, tau_s)
    return sorted(rows, key=lambda each: [one.claim for one in rows].index(each.claim))


def pure_sums(pure: pd.DataFrame, starvation_s: int | None, tau_s: float) -> pd.Series:
    """Return each pure policy's sum of weekly means, the lowest first."""
    same = pure["starvation_s"].isna() if starvation_s is None else pure["starvation_s"].eq(starvation_s).fillna(False)
    rows = pure[same.astype(bool) & (pure["tau_s"] == tau_s)]
    return rows.groupby("policy")["mean_bounded_slowdown"].sum().sort_values(kind="stable")


def recorded(replays: pd.DataFrame, tau_s: float) -> pd.DataFrame:
    """Return values of the replay as recorded, float64 [windows, policies]."""
    rows = replays[(replays["seed"] == RECORDED) & (replays["tau_s"] == tau_s)]
    return rows.pivot(index="week", columns="policy", values="mean_bounded_slowdown")


def indifferent(weekly: pd.DataFrame) -> pd.Series:
    """Tell of each window of :func:`recorded` whether FCFS is nearly as good as the optimum."""
    return weekly[USUAL] <= INDIFFERENT * weekly[ORACLE]


def _pure(tables: Study, settings: Settings, tau_s: float) -> list[Claim]:
    """Return the claims on pure policies, over all windows."""
    ordered = pure_sums(tables.pure, settings.starvation_s, tau_s)
    names, place = [str(name) for name in ordered.index], list(ordered.index).index(USUAL) + 1
    other = next(name for name in names if name != BASELINE)
    outside = next(name for name in names if name not in LEADERS)
    last = LEADERS[-1]
    return [
        Claim("SAF is the best pure policy", tau_s, *_ahead(tables.replays, ordered, BASELINE, other, tau_s, settings.seed)),
        Claim("SPF and LEXP come next", tau_s, *_ahead(tables.replays, ordered, last, outside, tau_s, settings.seed)),
        Claim(
            "FCFS is among the worst pure policies",
            tau_s,
            f"place {place} of {len(PURE)}, {ordered[USUAL]:,.0f}",
            HOLDS if place > len(PURE) // 2 else FAILS,
        ),
    ]


def _ahead(replays: pd.DataFrame, ordered: pd.Series, first: str, second: str, tau_s: float, seed: int) -> tuple[str, str]:
    """Return the figures on the claim that ``first`` is better than ``second``, and the verdict.

    The interval of their difference is over all windows and shaken replays.
    """
    weeks = tuple(int(week) for week in np.sort(replays["week"].unique()))
    judged = replays[replays["tau_s"] == tau_s]
    change = by_policy(sums(judged, Split(weeks, weeks), first, [second], seed=seed), tau_s, TESTING)[second]
    text = f"{first} {ordered[first]:,.0f}, {second} {ordered[second]:,.0f}, on shaken replays {changed(change)} to {first}"
    if ordered[first] <= ordered[second]:
        return text, HOLDS if _below(change) == FAILS else BARELY
    return text, FAILS if _below(change) == HOLDS else OPEN


def _weeks(replays: pd.DataFrame, settings: Settings, tau_s: float) -> list[Claim]:
    weekly = recorded(replays, tau_s)
    share, twice = float(indifferent(weekly).mean()), float((weekly[USUAL] <= 2.0 * weekly[ORACLE]).mean())
    half = HOLDS if _HALF[0] <= share <= _HALF[1] else FAILS
    searched = _search(weekly, tau_s) if "xnes3" in weekly else []
    saved = (weekly[BASELINE] / weekly[ORACLE]).sort_values(ascending=False, kind="stable")
    best = saved.index[0]
    text = f"most in {settings.unit.removesuffix('s')} {best}: {saved.iloc[0]:.1f} times less than SAF, "
    text += f"{weekly.loc[best, USUAL] / weekly.loc[best, ORACLE]:.1f} times less than FCFS; {int((saved >= 2).sum())} of {len(saved)} at least halved"
    return [
        Claim(
            "About half of the weeks are indifferent to the policy",
            tau_s,
            f"in {100 * share:.0f} % of them FCFS is at most {INDIFFERENT:g} times the optimum, in {100 * twice:.0f} % at most twice",
            half,
        ),
        Claim(
            "In some weeks w* is 2.5 times better than SAF, and 3 times better than FCFS",
            tau_s,
            text,
            HOLDS if saved.iloc[0] >= 2.5 else FAILS,
        ),
        *searched,
    ]


def _search(weekly: pd.DataFrame, tau_s: float) -> list[Claim]:
    """Return the claims on xNES, which searches each window."""
    three, six = weekly["xnes3"] / weekly[ORACLE], weekly["xnes6"].sum() / weekly["xnes3"].sum() - 1.0
    near = three <= NEAR
    text = f"in {int(near.sum())} of {len(near)} windows within {100 * (NEAR - 1):.0f} % of the grid's or below it; at worst {three.max():.2f} times"
    return [
        Claim("xNES with three weights finds the optimum of the grid every time", tau_s, text, HOLDS if near.all() else FAILS),
        Claim(
            "xNES with six weights is marginally better than with three",
            tau_s,
            f"the sum changes by {percent(six)} %; lower in {int((weekly['xnes6'] < weekly['xnes3']).sum())} of {len(near)} windows",
            HOLDS if -MARGINAL <= six <= 0 else FAILS,
        ),
    ]


def _transfer(transfer: pd.DataFrame, against: pd.DataFrame, tau_s: float) -> list[Claim]:
    """Return the claims on testing windows."""
    mine, theirs = (by_policy(table, tau_s, TESTING) for table in (transfer, against))
    best = min(PURE, key=lambda name: mine[name]["sum"])
    saf = f"{mine[BASELINE]['sum']:,.0f}"
    trained, greedy, oracle, each = mine[TRAINED], mine[GREEDY], mine[ORACLE], theirs[ORACLE]
    return [
        Claim(
            "The optimum of each week is far better than any pure policy",
            tau_s,
            f"{_sum(oracle)} against {mine[best]['sum']:,.0f} of {best}; to SAF on shaken replays {changed(oracle)}",
            _below(oracle),
        ),
        Claim(
            "What was learned on training weeks (w_train) does not beat SAF on testing weeks",
            tau_s,
            f"{_sum(trained)} against {saf}; to SAF on shaken replays {changed(trained)}",
            FAILS if _below(trained) == HOLDS else HOLDS,
        ),
        Claim(
            "The optimum of the week before (w_greedy) is worse than SAF",
            tau_s,
            f"{_sum(greedy)} against {saf}; to SAF on shaken replays {changed(greedy)}",
            {HOLDS: FAILS, FAILS: HOLDS}.get(_below(greedy), OPEN),
        ),
        Claim(
            "No one size fits all: even the best single direction of the testing weeks, known in hindsight, is worse than each week's own",
            tau_s,
            f"each week's own to it on shaken replays {changed(each)}; probability {probability(each['better'])}",
            _below(each),
        ),
    ]


def _sum(row: Mapping[str, Any]) -> str:
    return f"a sum of {row['sum']:,.0f}"


def changed(row: Mapping[str, Any]) -> str:
    """Format the change in a row of ``benchmarks.papers.legrand.transfer.sums``, with its interval, if any."""
    reach = "" if pd.isna(row["low"]) else f" [{percent(row['low'])}, {percent(row['high'])}]"
    return f"{percent(row['relative'])} %{reach}"


def percent(relative: float) -> str:
    """Format a relative change in whole per cent with its sign; 0 has none."""
    whole = round(100 * relative)
    return f"{whole:+d}".replace("-", "\N{MINUS SIGN}") if whole else "0"


def probability(share: float) -> str:
    """Return a share of resamples in per cent, of which there are too few for 0 and 100 %.

    A dash where there is none.
    """
    if share != share:
        return "–"
    return "below 0.1 %" if share < 0.001 else "above 99.9 %" if share > 0.999 else f"{100 * share:.1f} %"


def _below(row: Mapping[str, Any]) -> str:
    """Return whether the interval of the change lies below 0, above it, or holds it."""
    if pd.isna(row["low"]):
        return OPEN
    return HOLDS if row["high"] < 0 else FAILS if row["low"] > 0 else OPEN
