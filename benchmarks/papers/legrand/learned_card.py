"""The tables and the card of :mod:`benchmarks.papers.legrand.learned_study`."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from benchmarks.common.card import Card
from benchmarks.papers.legrand.learned_comparison import bandit, compared
from benchmarks.papers.legrand.learned_families import FAMILIES, STARVATION_S, TAUS_S
from benchmarks.papers.legrand.learned_study import (
    COMPARED,
    FRESH_SEED,
    FRESH_SHAKE_S,
    LOOK_SEED,
    REPLICATES,
    ROBUST,
    SPLITS,
    THRESHOLDS,
    UNTOUCHED,
    WITH,
    WITHOUT,
    Study,
)
from features.jobs.choices import SHAKE_S
from pipelines.report.style import INK, encode, figure

PAGE = "learned-policies"
BOTH = "Both traces"
JOINT = "learned of both with predictions"
_OWN = ("without predictions", "with predictions")
OTHER_REPLICATES = 6
"""Replicates of other thresholds, of other shakes, and of the untouched trace."""
SHOWN = {
    JOINT: "learned on both traces, with predictions",
    "learned with predictions": "learned on its own weeks, with predictions",
    "learned without predictions": "learned on its own weeks, without",
    "n request / weight (Smith, untrained)": "request n / weight (Smith), not learned",
    "SPF": "SPF",
    "F2": "F2",
    "WFP3": "WFP3",
    "FCFS": "FCFS",
}
"""Policies of the card, and what it calls them."""


def training(study: Study) -> pd.DataFrame:
    """Cross-validate all families and objectives on training weeks, and learn the chosen ones.

    One row ``trace family objective left_out least most learned_on trials simulations``, ratios of sums to SAF's, over the blocks left out and
    in the least and most of them, and one for each learned ``score``, whose ``learned_on`` is its ratio on all training weeks.
    """
    rows = []
    asked = [(family, "sum") for family in FAMILIES] + [("weight", objective) for objective in ROBUST]
    for name, split in SPLITS.items():
        for family, objective in asked:
            table = study.validated(family, name, objective)
            each, counts = table["slowdown"] / table["saf"], table[["trials", "simulations"]].iloc[0].to_dict()
            row = {"trace": split.title, "family": family, "objective": objective, "parameters": len(FAMILIES[family].steps)}
            row |= {"left_out": table["slowdown"].sum() / table["saf"].sum(), "least": each.min(), "most": each.max()}
            rows.append(row | {"learned_on": table["inside"].mean(), **counts})
    chosen = [((name,), study.best(families, name)) for name in SPLITS for families in (WITHOUT, WITH)]
    for names, family in [*chosen, (tuple(SPLITS), "weight")]:
        learned = study.learned(family, names).iloc[0]
        row = {"trace": " and ".join(SPLITS[name].title for name in names), "family": family, "score": learned["score"]}
        rows.append(row | {"learned_on": np.exp(learned["value"]), **learned[["trials", "simulations"]].to_dict()})
    return pd.DataFrame(rows)


def looked(study: Study) -> pd.DataFrame:
    """Look at the testing weeks and at the untouched trace, and check what was seen with other shakes and other trees.

    Returns :func:`benchmarks.papers.legrand.learned_comparison.compared` with ``trace`` and ``shake_s``, empty for other trees.
    """
    tables = []
    for name in (*SPLITS, "untouched"):
        title, of_testing = (UNTOUCHED.title, False) if name == "untouched" else (SPLITS[name].title, True)
        table = study.look(name, LOOK_SEED, SHAKE_S, (STARVATION_S,), REPLICATES if of_testing else OTHER_REPLICATES)
        if of_testing:
            others = study.look(name, LOOK_SEED, SHAKE_S, THRESHOLDS[1:], OTHER_REPLICATES)
            table = pd.concat([table, others], ignore_index=True)
        arms = ("SAF", "SPF", *(each for each in table["scheduler"].unique() if each.startswith(("learned", "n request"))))
        for memory in (1.0, 0.8):
            table = bandit(table, arms, memory)
        fresh = study.look(name, FRESH_SEED, FRESH_SHAKE_S, (STARVATION_S,), OTHER_REPLICATES)
        for looks, shake_s in ((table, SHAKE_S), (fresh, FRESH_SHAKE_S)):
            tables.append(compared(looks).assign(trace=title, shake_s=shake_s))
    study.say("other trees")
    return pd.concat([*tables, *_of_both(study), _of_other_trees(study)], ignore_index=True)


def _of_both(study: Study) -> list[pd.DataFrame]:
    """Compare the policies that are the same on both traces over the weeks of both, every week alike."""
    tables = []
    for seed, shake_s, replicates in ((LOOK_SEED, SHAKE_S, REPLICATES), (FRESH_SEED, FRESH_SHAKE_S, OTHER_REPLICATES)):
        looks = [study.look(name, seed, shake_s, (STARVATION_S,), replicates) for name in SPLITS]
        table = pd.concat([look.assign(window=look["window"] + 1000 * at) for at, look in enumerate(looks)], ignore_index=True)
        common = set(looks[0]["scheduler"]) & set(looks[1]["scheduler"]) - {f"learned {words}" for words in _OWN}
        comparison = compared(table[table["scheduler"].isin(common)].assign(trace=BOTH))
        tables.append(comparison.assign(trace=BOTH, shake_s=shake_s))
    return tables


def _of_other_trees(study: Study) -> pd.DataFrame:
    """Compare the policy learned on both traces with weights by trees of another seed, on the testing weeks."""
    scores = {"SAF": (COMPARED["SAF"], False), "learned": (str(study.learned("weight", tuple(SPLITS)).iloc[0]["score"]), True)}
    looks = []
    for at, name in enumerate(SPLITS):
        look = study.weekly(name, scores, LOOK_SEED, SHAKE_S, (STARVATION_S,), OTHER_REPLICATES, trees=1)
        looks.append(look.assign(window=look["window"] + 1000 * at))
    looks.append(pd.concat(looks, ignore_index=True).assign(trace=BOTH))
    comparisons = [compared(look.astype({"starvation_s": "Int64"})).assign(trace=look["trace"].iloc[0]) for look in looks]
    table = pd.concat(comparisons, ignore_index=True)
    return table[(table["policy"] == "learned") & (table["tau_s"] == TAUS_S[0])]


def _main(rows: pd.DataFrame, shake_s: float | None = SHAKE_S) -> pd.DataFrame:
    """Return the rows of the main threshold and tau, of one shake or, with None, of other trees."""
    same = rows["shake_s"].isna() if shake_s is None else rows["shake_s"] == shake_s
    return rows[(rows["starvation_s"] == STARVATION_S) & (rows["tau_s"] == TAUS_S[0]) & same]


def card(rows: pd.DataFrame, made_by: str) -> Card:
    """Return the card of what :func:`looked` returns."""
    main = _main(rows).set_index(["policy", "trace"])
    gains = [
        1 - float(_main(rows, shake_s).set_index(["policy", "trace"]).loc[(policy, BOTH), "ratio"])
        for policy, shake_s in ((JOINT, SHAKE_S), (JOINT, FRESH_SHAKE_S), ("learned", None))
    ]
    titles = [*(split.title for split in SPLITS.values()), UNTOUCHED.title]
    table = []
    for policy, words in SHOWN.items():
        cells = [main.loc[(policy, title)] if (policy, title) in main.index else None for title in titles]
        table.append([words, *("–" if c is None else f"{c['ratio']:.3f} [{c['low']:.3f}, {c['high']:.3f}]" for c in cells)])
    waits = [
        f"{main.loc[(JOINT, title), 'max_wait_s'] / 86_400:.2f} days ({main.loc[('SAF', title), 'max_wait_s'] / 86_400:.2f})"
        for title in titles[:2]
    ]
    return Card(
        "Does a learned order of the queue beat SAF?",
        f"A learned rule with predicted weights has slowdowns {gains[0]:.1%} below SAF's over the testing weeks of both traces, {gains[1]:.1%} with other "
        f"shakes and {gains[2]:.1%} with other trees. Without predictions, no learned order beats SAF.",
        pd.DataFrame(table, columns=["order", *titles]),
        "Sums of weekly mean bounded slowdowns (τ 10 s) over testing weeks, relative to SAF's, with 95 % intervals over weeks and replays:",
        f"On {titles[0]}, and on {titles[2]} (not used in any choice), the interval includes SAF. Longest waits grow: "
        f"{' and '.join(waits)}, SAF's in brackets. A few weeks decide; intervals are not widened for comparing several policies; "
        f"predictions know which jobs had ended in EASY's schedule of the whole trace.",
        [f"{PAGE}.csv", f"{PAGE}-training.csv"],
        made_by,
        f"{PAGE}.png",
        "Testing weeks and the untouched trace: ratios of sums to SAF's, with 95 % intervals. Dotted: 10 % below. Orange: learned.",
    )


def draw(rows: pd.DataFrame) -> bytes:
    """Return a picture of all ratios with their intervals, a panel a trace."""
    titles = [*(split.title for split in SPLITS.values()), BOTH, UNTOUCHED.title]
    with figure(14.0, 5.2, generated=False) as canvas:
        panels = canvas.subplots(1, len(titles))
        for axes, title in zip(panels, titles, strict=True):
            _panel(axes, title, _main(rows[rows["trace"] == title]))
        return encode(canvas, "png")


def _panel(axes: Axes, title: str, main: pd.DataFrame) -> None:
    main = main[(main["policy"] != "SAF") & (main["ratio"] < 1.6)].sort_values("ratio", ascending=False)
    places = np.arange(len(main))
    colours = np.where(main["policy"].str.startswith("learned"), "#d55e00", "#0072b2")
    for place, colour, row in zip(places, colours, main.itertuples(), strict=True):
        axes.plot([row.low, row.high], [place, place], color=colour, linewidth=1.6)
        axes.plot(row.ratio, place, "o", color=colour, markersize=4.5)
    axes.axvline(1.0, color=INK, linewidth=0.8)
    axes.axvline(0.9, color=INK, linewidth=0.8, linestyle=":")
    axes.set_yticks(places, list(main["policy"]), fontsize=7)
    axes.set_title(title)
    axes.set_xlabel("sum relative to SAF")
