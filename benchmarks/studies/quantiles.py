"""Measure what distributions are worth: scores, cost and schedules of ``quantile``.

``python -m benchmarks.studies.quantiles`` prints the card docs/studies/quantile.md, ``--write`` makes it, its picture and its data, the cells
of all tables. Distributions are judged by :mod:`benchmarks.studies.distributions`. Schedules: policies are chosen on the first half of a trace,
simulated by itself (least slowdown among those whose AWF and P2SF are at most so much above plain EASY's), and measured on the second half of
the whole trace; each is simulated with several seeds, because a schedule is chaotic: another forest of the same kind changes slowdown by several
per cent. Rivals stand under the same correction; their intervals are over weeks, from one schedule each. What the forest is made of was settled
on first halves of four traces; that SRF is worth a try was seen in tables of both halves. Finished simulations are kept under ``--keep``, as in
:mod:`benchmarks.studies.schedules`. Costs are of the wall clock of the run.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.common.card import Card, parser, study
from benchmarks.common.logs import load
from benchmarks.common.pages import HOUSE, STUDIES
from benchmarks.common.policy_frontier import LADDER, Change, Sums, change, pick
from benchmarks.common.tables import cells, kept_table, markdown
from benchmarks.studies.distributions import DISTRIBUTION, Judged, cost_table, draw, judged, section
from benchmarks.studies.distributions import TRACES as JUDGED
from benchmarks.studies.schedules import BASE, run
from features.jobs.cleaning import CleanTrace
from features.statistics import Ratio
from sim.policy import Policy

TRACES = ("KTH-SP2", "SDSC-SP2")
CORRECTION = "conditional(when=pass)"
SCHEDULERS = ("EASY", "EASY-SJBF", "EASY-SRF")
LEVELS = (("0.5", "0.8", "0.7"), ("0.5", "0.9", "0.9"))
"""For the questions order, fit and end."""
SEEDS = (0, 1)
RIVALS = ("last2", "nag", "quantile")
COMMON = "tsafrir"
"""The correction that every one of ``RIVALS`` is compared under."""
COMPARED = SCHEDULERS[:2]
METRICS = ("mean_bounded_slowdown", "awf_s", "p2sf_s", "mean_wait_s")
BOUNDS = (Policy("EASY", "clairvoyant"), Policy("EASY-SJBF", "clairvoyant"), Policy("EASY-SRF", "clairvoyant"))


class Choice(NamedTuple):
    """A policy without its seed."""

    scheduler: str
    levels: tuple[str, str, str]

    def policy(self, seed: int) -> Policy:
        order, fit, end = self.levels
        asked = f"order={order},fit={fit},end={end}" + (f",seed={seed}" if seed else "")
        return Policy(self.scheduler, f"quantile({asked})", CORRECTION)

    def __str__(self) -> str:
        return f"{self.scheduler} / {', '.join(self.levels)}"


CHOICES = tuple(Choice(*each) for each in product(SCHEDULERS, LEVELS))


def pooled(sums: dict[Policy, Sums], choice: Choice) -> dict[str, Ratio]:
    """Weekly sums of a choice over all seeds together."""
    each = [sums[choice.policy(seed)] for seed in SEEDS]
    return {
        name: Ratio(
            np.asarray(sum(one[name].numerator for one in each), np.float64) / len(each),
            np.asarray(sum(one[name].denominator for one in each), np.float64) / len(each),
        )
        for name in METRICS
    }


class Frontier(NamedTuple):
    """What each step of the ladder chose on one trace, and what came of it.

    ``first`` has the first half's sums of all choices, ``second`` the second half's of those chosen, of the bounds and of
    rivals.
    """

    title: str
    first: dict[Policy, Sums]
    chosen: dict[float, Choice | None]
    second: dict[Policy, Sums]


def rivals(scheduler: str) -> list[Policy]:
    """``RIVALS`` under one correction, and ``quantile`` under the one that is its own."""
    return [*(Policy(scheduler, name, COMMON) for name in RIVALS), Policy(scheduler, "quantile", CORRECTION)]


def climbed(title: str, trace: CleanTrace, keep: Path, workers: int | None) -> Frontier:
    """Choose on the first half alone, then measure on the second."""
    half = len(trace.jobs) // 2
    alone = CleanTrace(**{**vars(trace), "jobs": trace.jobs.iloc[:half].reset_index(drop=True)})
    asked = [BASE, *(choice.policy(seed) for choice in CHOICES for seed in SEEDS)]
    first = run(f"{title}, first half", alone, asked, keep, workers).sums["whole"]
    together = {Policy(choice.scheduler, str(choice.levels)): pooled(first, choice) for choice in CHOICES}
    named = dict(zip(together, CHOICES, strict=True))
    picked = {allowed: pick(together, first[BASE], allowed) for allowed in LADDER}
    chosen = {allowed: None if policy is None else named[policy] for allowed, policy in picked.items()}
    wanted = [choice.policy(seed) for choice in dict.fromkeys(chosen.values()) if choice is not None for seed in SEEDS]
    wanted += [policy for scheduler in COMPARED for policy in rivals(scheduler)]
    second = run(f"{title}, whole", trace, [BASE, *BOUNDS, *dict.fromkeys(wanted)], keep, workers).sums["second half"]
    return Frontier(title, first, chosen, second)


def shown(result: Change) -> str:
    if result.relative is None:
        return ""
    return f"{result.relative:+.1%}" + (
        "" if result.low is None or result.high is None else f" [{result.low:+.1%}, {result.high:+.1%}]"
    )


def frontier_table(result: Frontier) -> str:
    rows = []
    for allowed, choice in result.chosen.items():
        if choice is None:
            rows.append([f"{allowed:.1%}", "none stays within it: EASY / requested", "", *("0" for _ in METRICS), ""])
            continue
        before, after = pooled(result.first, choice), pooled(result.second, choice)
        there = ", ".join(f"{change(before, result.first[BASE], name).relative:+.1%}" for name in METRICS[:3])
        cells = [shown(change(after, result.second[BASE], name)) for name in METRICS]
        seeds = "; ".join(
            ", ".join(
                f"{change(result.second[choice.policy(seed)], result.second[BASE], name).relative:+.1%}" for name in METRICS[:3]
            )
            for seed in SEEDS
        )
        rows.append([f"{allowed:.1%}", str(choice), there, *cells, seeds])
    for bound in BOUNDS:
        cells = [shown(change(result.second[bound], result.second[BASE], name)) for name in METRICS]
        rows.append(["bound", f"{bound.scheduler} / clairvoyant", "", *cells, ""])
    headings = ["allowed", "chosen on the first half: scheduler / order, fit, end", "slowdown, AWF, P2SF there", *HEADINGS]
    return markdown([*headings, "seed by seed"], rows, keys=2)


HEADINGS = ("slowdown", "AWF", "P2SF", "wait")


def rivals_table(result: Sequence[Frontier]) -> str:
    """What each predictor gives under the same correction, on second halves."""
    rows = []
    for each in result:
        for scheduler in COMPARED:
            for policy in rivals(scheduler):
                cells = [shown(change(each.second[policy], each.second[BASE], name)) for name in METRICS]
                rows.append([each.title, scheduler, str(policy.predictor), policy.correction, *cells])
    return markdown(["trace", "scheduler", "predictor", "correction", *HEADINGS], rows, keys=4)


def first_half_table(result: Frontier) -> str:
    """Everything there was to choose from."""
    rows = []
    for scheduler in SCHEDULERS:
        cells = []
        for levels in LEVELS:
            sums = pooled(result.first, Choice(scheduler, levels))
            cells.append(", ".join(f"{change(sums, result.first[BASE], name).relative:+.1%}" for name in METRICS[:3]))
        rows.append([scheduler, *cells])
    return markdown(["scheduler", *(", ".join(levels) for levels in LEVELS)], rows)


def tables(distributions: Sequence[Judged], frontiers: Sequence[Frontier]) -> str:
    """Return all tables under their headings, in Markdown."""
    lines = [
        *section(distributions),
        "## Cost",
        "",
        cost_table(distributions),
        "",
        f"## {SCHEDULE}",
        "",
        rivals_table(frontiers),
        "",
    ]
    for each in frontiers:
        lines += [f"### {each.title}", "", frontier_table(each), "", "The first half: slowdown, AWF, P2SF of all choices:", ""]
        lines += [first_half_table(each), ""]
    return "\n".join(lines)


SCHEDULE = "What it does to the schedule"
FAILS = (
    "Tables of whole traces include the first halves on which the forest was chosen. Calibration proves little: one hour for every job, put "
    "through the same update, is calibrated too."
)


def card(rows: pd.DataFrame, made_by: str) -> Card:
    """Return the card, a row a trace and scheduler; ``rows`` are cells of all tables."""
    losses = kept_table(rows, "Sharpness").set_index(["trace", "predictor"])
    scores = losses["CRPS, s"].str.partition(" ")[0].str.replace(",", "").astype(float).unstack()
    ratio = scores[DISTRIBUTION] / scores.drop(columns=DISTRIBUTION).min(axis=1)
    levels = losses.drop(columns="CRPS, s").apply(lambda column: column.str.replace(",", "").astype(float))
    least = {
        title: (part.loc[(title, DISTRIBUTION)] <= part.drop((title, DISTRIBUTION)).min()).sum()
        for title, part in levels.groupby(level="trace")
    }
    held = kept_table(rows, "For which jobs the quantiles hold").set_index(["trace", "quantile"])["of processor-seconds"]
    table = kept_table(rows, SCHEDULE)
    shown = table[(table["scheduler"] == "EASY-SJBF") & (table["predictor"] != "nag")].drop(columns=["scheduler", "P2SF", "wait"])
    chosen = [kept_table(rows, title).iloc[0] for title in TRACES]
    free = "; ".join(
        f"{row.iloc[1].partition(' /')[0]} with slowdown {row['slowdown']} on {title}"
        if row["slowdown"] != "0"
        else f"nothing on {title}"
        for title, row in zip(TRACES, chosen, strict=True)
    )
    return Card(
        question="What is it worth to predict a distribution?",
        answer=f"As a forecast, much: on {len(ratio)} traces the mean loss over all levels (CRPS) of `quantile` is {ratio.min():.2f} to {ratio.max():.2f} of "
        f"the best other forecast's, and its 80 % quantile holds for {held.xs('0.8', level=1).min()} to {held.xs('0.8', level=1).max()} of the "
        "processor-seconds. "
        f"For schedules, little: the best choice without cost in AWF or P2SF on the first half, with its change on the second: {free}.",
        picture="quantile.png",
        picture_caption="Jobs that outlive a quantile, by month; loss by level, grey: references that know nothing; shares that hold, by requested time",
        table=shown,
        table_caption="EASY-SJBF with each predictor, jobs of second halves: change [95 %, each alone] of slowdown and of AWF (packing) from EASY "
        "with requested times; `tsafrir` prolongs predictions, `conditional(when=pass)` asks again at every pass:",
        fails=f"At {levels.shape[1] * len(least) - sum(least.values())} of {levels.shape[1] * len(least)} pairs of trace and level another forecast's "
        f"loss is lower. {FAILS}",
        data=["quantile.csv"],
        made_by=made_by,
    )


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument(
        "--keep", type=Path, default=HOUSE / ".queuecast" / "schedules", help="where finished simulations are kept"
    )
    arguments.add_argument("--workers", type=int, default=os.cpu_count(), help="threads, by default one a core")
    options = arguments.parse_args(argv)

    def compute() -> pd.DataFrame:
        distributions = [judged(title, load(title, options.shared)) for title in JUDGED]
        frontiers = [climbed(title, load(title, options.shared), options.keep, options.workers) for title in TRACES]
        if options.write:
            draw(distributions, STUDIES / "quantile.png")
        return cells(tables(distributions, frontiers))

    study(options, "studies.quantiles", "quantile.csv", compute, card)


if __name__ == "__main__":
    main()
