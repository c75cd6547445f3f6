"""Measure what distributions are worth: scores, cost and schedules of ``quantile``.

``python -m benchmarks.studies.quantiles`` prints the page docs/studies/quantile.md, ``--write`` makes it and its
picture. Policies are chosen on the first half of a trace, simulated by itself, and measured on the second half
of the whole trace; each is simulated with several seeds, because a schedule is chaotic: another forest of the
same kind changes slowdown by several per cent. Finished simulations are kept under ``--keep``, as in
:mod:`benchmarks.studies.schedules`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.common.pages import HOUSE, SHARED, STUDIES, made_by
from benchmarks.common.tables import Table, markdown, write_page
from benchmarks.studies.distributions import TRACES as JUDGED
from benchmarks.studies.distributions import Judged, cost_table, draw, judged, section
from benchmarks.studies.schedules import BASE, load, run
from features.jobs.cleaning import CleanTrace
from features.statistics import Ratio
from sim.campaigns.policy_frontier import LADDER, Change, Sums, change, pick
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


def shown(made: Change) -> str:
    if made.relative is None:
        return ""
    return f"{made.relative:+.1%}" + ("" if made.low is None or made.high is None else f" [{made.low:+.1%}, {made.high:+.1%}]")


def frontier_table(made: Frontier) -> str:
    rows = []
    for allowed, choice in made.chosen.items():
        if choice is None:
            rows.append([f"{allowed:.1%}", "none stays within it: EASY / requested", "", *("0" for _ in METRICS), ""])
            continue
        before, after = pooled(made.first, choice), pooled(made.second, choice)
        there = ", ".join(f"{change(before, made.first[BASE], name).relative:+.1%}" for name in METRICS[:3])
        cells = [shown(change(after, made.second[BASE], name)) for name in METRICS]
        seeds = "; ".join(
            ", ".join(f"{change(made.second[choice.policy(seed)], made.second[BASE], name).relative:+.1%}" for name in METRICS[:3])
            for seed in SEEDS
        )
        rows.append([f"{allowed:.1%}", str(choice), there, *cells, seeds])
    for bound in BOUNDS:
        cells = [shown(change(made.second[bound], made.second[BASE], name)) for name in METRICS]
        rows.append(["bound", f"{bound.scheduler} / clairvoyant", "", *cells, ""])
    headings = ["allowed", "chosen on the first half: scheduler / order, fit, end", "slowdown, AWF, P2SF there", *HEADINGS]
    return markdown([*headings, "seed by seed"], rows, keys=2)


HEADINGS = ("slowdown", "AWF", "P2SF", "wait")


def rivals_table(made: Sequence[Frontier]) -> str:
    """What each predictor gives under the same correction, on second halves."""
    rows = []
    for each in made:
        for scheduler in COMPARED:
            for policy in rivals(scheduler):
                cells = [shown(change(each.second[policy], each.second[BASE], name)) for name in METRICS]
                rows.append([each.title, scheduler, str(policy.predictor), policy.correction, *cells])
    return markdown(["trace", "scheduler", "predictor", "correction", *HEADINGS], rows, keys=4)


def verdict(made: Frontier) -> str:
    """Whether what was chosen at no price is 20 % better at no price on the second half, too."""
    choice = made.chosen[0.0]
    if choice is None:
        return f"{made.title}: no policy stays within the price on the first half."
    after = pooled(made.second, choice)
    slowdown, *prices = (change(after, made.second[BASE], name) for name in METRICS[:3])
    lower = slowdown.relative is not None and slowdown.relative <= -0.2
    worse = [name for name, each in zip(("AWF", "P2SF"), prices, strict=True) if (each.relative or 0.0) > 0]
    beyond = [name for name, each in zip(("AWF", "P2SF"), prices, strict=True) if each.low is not None and each.low > 0]
    said = f"{made.title}: slowdown is {'' if lower else 'not '}lower by a fifth ({shown(slowdown)}); "
    if not worse:
        return said + f"neither AWF nor P2SF is worse: the aim is {'' if lower else 'not '}met."
    sure = f"{' and '.join(beyond)} beyond its interval" if beyond else "neither beyond its interval"
    return (
        said
        + f"{' and '.join(worse)} {'are' if len(worse) > 1 else 'is'} worse, {sure} ({', '.join(map(shown, prices))}): the aim is not met."
    )


def first_half_table(made: Frontier) -> str:
    """Everything there was to choose from."""
    rows = []
    for scheduler in SCHEDULERS:
        cells = []
        for levels in LEVELS:
            sums = pooled(made.first, Choice(scheduler, levels))
            cells.append(", ".join(f"{change(sums, made.first[BASE], name).relative:+.1%}" for name in METRICS[:3]))
        rows.append([scheduler, *cells])
    return markdown(["scheduler", *(", ".join(levels) for levels in LEVELS)], rows)


TITLE = """# What is it worth to predict a distribution? `quantile`

The aim for schedules is slowdown lower by a fifth with neither AWF nor P2SF worse. With what was [chosen](#chosen-on-the-first-half) on the first half
of a trace at no price, on the second half:
"""
HEAD = """The aim for distributions is a loss below every baseline's at every level: [sharpness](#sharpness) says where it is missed.
[Further down](#what-it-does-to-the-schedule) `quantile` stands beside other predictors under the same correction.

## What it is

`quantile` predicts the whole distribution of a job's runtime: a quantile regression forest (Meinshausen 2006) inside the simulator, whose leaves learn
from every job that ends and of whose 40 trees two are grown anew each midnight of the trace's time zone. Its levels are calibrated online (adaptive conformal
inference, Gibbs & Candes 2021). A scheduler may ask for different quantiles for different questions: `order` for a job's place in
the queue, `fit` for whether it ends before the reservation, `end` for when a running job ends; with the correction `conditional` it is asked again,
given how long the job has run, when its prediction is outlived, and with `conditional(when=pass)` before every scheduling pass.
`quantile(order=accuracy)` orders by the prediction of the highest expected accuracy min(p/r, r/p).

It starts from a user's first job: a job is described by what became of others of its user, executable, request and processors, of its user and request, of
its user, of its request and processors, of its group, of its executable, and by the clock, and a leaf of jobs without history holds just those.

{made}

"""


LEARNED_ON = """What the forest is made of was settled on first halves of these four traces, by the loss of their quantiles and the accuracy of
its point: the histograms that a leaf keeps, their weights, how many jobs trees learn from and how many a leaf needs, the step of the calibration, the tilt. The
tables of whole traces below hold those first halves, too; second halves were looked at afterwards, and nothing was changed for them. The schedulers'
tables are of second halves, except where they say first."""
METHOD = """A leaf counts runtimes, runtimes relative to that of the last job alike, and runtimes relative to the request, in cells as fine as
0.05 % next to the request, for many jobs run to their request or are ended seconds before it. Levels from 0.75 up are kept to twice: of all jobs a share q runs
no longer than its quantile q, and so do jobs with a share q of the processor-seconds; for the second, large jobs get a higher level
than small ones. (A right 80 % quantile holds for far less than 80 % of the processor-seconds: the jobs that outlive it are the long ones.) Lower
levels are kept to in jobs alone. Where a level falls on the request itself, some jobs, as many as the level does not need, get a second
less: otherwise no level could be kept to where a third of the jobs run exactly to their request, as on LANL-CM5. That costs a second of loss and
nothing else, but a share at most as long as a quantile says less there than it seems to."""
SAME = f"""Under the same correction, `{COMMON}`, and for `quantile` also under its own: jobs of the second half of the trace, relative to plain EASY with
requested times. Intervals are over weeks, from one schedule each; how much a schedule moves when submissions are shaken by a
minute is not in them."""


def page(distributions: Sequence[Judged], frontiers: Sequence[Frontier], made: str) -> str:
    lines = [
        TITLE,
        *(f"* {verdict(each)}" for each in frontiers),
        "",
        HEAD.format(made=made),
        METHOD,
        "",
        LEARNED_ON,
        "",
        *section(distributions, "quantile.png"),
    ]
    lines += [
        "## Cost",
        "",
        "Seconds of the wall clock in this run: other work beside it makes them longer.",
        "",
        cost_table(distributions),
        "",
    ]
    lines += ["## What it does to the schedule", "", SAME, "", rivals_table(frontiers), ""]
    lines += ["### Chosen on the first half", ""]
    lines += [
        f"Correction `{CORRECTION}`; {len(CHOICES)} policies, {len(SCHEDULERS)} schedulers with {len(LEVELS)} choices of levels, each with seeds "
        f"{', '.join(map(str, SEEDS))}, whose jobs are pooled.",
        "A policy is chosen on the first half of the trace (by number of jobs), simulated by itself: the least mean bounded slowdown among those whose AWF and",
        "P2SF are there at most so much above plain EASY's with requested times (`allowed`). Then the whole trace is simulated, and the jobs submitted in the",
        "second half are measured. Changes are relative to plain EASY with requested times, with 95 % intervals over weeks. The",
        "seeds stand apart in the last column (slowdown, AWF, P2SF).",
        "",
        "The schedulers and levels to choose from are not free of hindsight: earlier versions of this page tried more of both on first halves and",
        "printed second halves, and that an order in which the ratio of waiting and runtime counts (SRF) is worth a try was seen in tables of both",
        "(schedules.md).",
        "",
    ]
    for made in frontiers:
        lines += [f"### {made.title}", "", frontier_table(made), ""]
        lines += ["<details><summary>The first half: slowdown, AWF, P2SF of everything there was to choose from</summary>", ""]
        lines += [first_half_table(made), "", "</details>", ""]
    return "\n".join(lines)


def _two_traces(table: Table, cells: Sequence[str]) -> bool:
    """Of the long table, two traces of four."""
    return table.section != "Sharpness" or cells[0] in TRACES


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ is")
    parser.add_argument("--keep", type=Path, default=HOUSE / ".queuecast" / "schedules", help="where finished simulations are kept")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="threads, by default one a core")
    parser.add_argument("--trace", action="append", choices=TRACES, help="only this one; may be given again")
    parser.add_argument("--write", action="store_true", help="write docs/studies/quantile.md and .png")
    options = parser.parse_args(argv)
    began = time.perf_counter()
    traces = {title: load(title, options.shared) for title in options.trace or TRACES}
    distributions = [judged(title, load(title, options.shared)) for title in options.trace or JUDGED]
    frontiers = [climbed(title, trace, options.keep, options.workers) for title, trace in traces.items()]
    text = page(distributions, frontiers, made_by("studies.quantiles", argv))
    if options.write:
        write_page(STUDIES / "quantile.md", text, lambda table: not table.caption.startswith("<details>"), _two_traces)
        draw(distributions, STUDIES / "quantile.png")
    else:
        print(text)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
