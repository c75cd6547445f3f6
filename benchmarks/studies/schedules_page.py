"""Make the page and the picture of :mod:`benchmarks.studies.schedules`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from benchmarks.common.replays import LEARNERS_REPLAYS
from benchmarks.common.tables import Table, markdown
from benchmarks.studies.schedules import BASE, STUDIED, Results, best_corrections
from pipelines.report.style import INK, MUTED, encode, figure
from sim.campaigns.policy_frontier import Change, change, climb, halves
from sim.policy import Policy

BSLD, AWF, P2SF, WAIT = "mean_bounded_slowdown", "awf_s", "p2sf_s", "mean_wait_s"
BOUNDS = (Policy("EASY", "clairvoyant"), Policy("EASY-SJBF", "clairvoyant"))
SECOND = "second half"
AGAIN = "conditional(when=pass)"
NOTES = {
    "ALCF-Theta": "The trace is nine chunks with gaps of up to two weeks between them; learning goes on across them.",
    "CERIT": "AWF and P2SF hardly move: the largest 1 % of the jobs, which run for up to 62 days, hold 36 % of the area, and hardly wait.",
}
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK, MUTED)

TOP = """# What do predictions do to the schedule?

Five traces are replayed under schedulers x predictors x corrections, and compared with plain EASY and requested times, which is what sites run. {answer}

![Change of slowdown against change of AWF and P2SF](schedules.png)

*A point is a scheduler with a predictor and a correction, on the second half of a trace. Left is better slowdown, down better packing and fairness; shaded is
20 % less slowdown at no price. Rings are what was chosen on the first half. Large stars are the bounds. Slowdowns beyond the right edge stand at it as
triangles; the vertical axes are logarithmic beyond 5 %, CERIT's are not.*

{made} All rows: [data/schedules.parquet](data/schedules.parquet) has every combination, part and metric with its interval, against EASY and against
the same scheduler with requested and with exact times; [data/schedules.csv](data/schedules.csv) has every choice, trace by trace, and every scheduler with
every predictor.
"""
METHOD = """## How it is measured

* **Replays**: a trace is simulated whole, {replays} times, each time with every submission moved by up to 60 s, because schedules are chaotic and one replay
  is one draw. Predictors learn all along from what has ended in the simulation. Those that are retrained every night, `lightgbm` and `quantile`, take seconds
  a replay: they have {slow} replays, each with its own seed of learning, and are there on {studied} under EASY and EASY-SJBF ([quantile.md](quantile.md)).
* **Halves**: jobs submitted in the first half (by number of jobs) are there to choose by; everything on this page is measured on those of the second. Jobs
  of the first half that still wait when it ends meet jobs of the second: choices see that much of it.
* **Metrics**: mean bounded slowdown (tau = 10 s), area-weighted response time (AWF, packing), P2SF (packing and fairness), mean wait. Lower is better.
* **Intervals** are of 95 %, over weeks of submission ([how often they cover](intervals.md)) and over replays; under eight weeks
  they are rough, under five there are none.
* **Corrections** ({corrections}) are the same for every predictor: with `tsafrir` a prediction is prolonged once it is outlived, with
  `conditional(when=pass)` the predictor is asked again about every running job before every pass. Requested and exact times need none.
* **Bounds**: plain EASY and shortest-first EASY-SJBF with exact runtimes: what perfect knowledge gives the scheduler that sites run, and what it gives when it
  may also reorder.
* **Choices**: of all combinations that a site could run, the one with the least slowdown on the first half whose AWF and P2SF were there at most 0, 0.5, 1,
  2, 5 or 10 % above plain EASY's with requested times. In the data "cost" is the change of AWF and of P2SF for each point of slowdown gained; it is left out
  where the interval of slowdown does not lie below 0. Policies that are exactly as good on the first half are ties, and said to be.

## What it does not show

* **Hindsight**: "WFP3 too" chooses also with a backfill order in which waiting counts. To offer it was decided after trying some 25 schedulers on
  KTH-SP2 and SDSC-SP2 and seeing both halves. The other traces had no part in it.
* **Not modelled**: partitions, nodes, memory, GPUs. Jobs run on one pool of processors.
* **Left out**: LLNL-Atlas:
  {atlas};
  NASA-iPSC, which has no requests; the NREL sample of 2.1 days, of which there are no halves to speak of.
* CERIT's two machines are taken as one of 2,176 processors. Runtimes are cut at the request; jobs without a request, runtime or processors are dropped, and
  counted at each trace. Per-second semantics.

Traces: KTH-SP2 by Lars Malinowsky, SDSC-SP2 by the San Diego Supercomputer Center (the 54,006 jobs of Gaussier et al. 2015), LANL-CM5 by Curt Canada, all by
way of the Parallel Workloads Archive (D. Feitelson); CERIT Scientific Cloud; ALCF.
"""


SUMMARY = """Change of slowdown, AWF, P2SF on the second half, bold where the interval excludes no change: the bounds (exact runtimes), and what was best on the
first half with AWF and P2SF not worse there, or by at most 5 %; and the same where a backfill order in which waiting counts may be chosen, too. What was
allowed on the first half is not kept to on the second: look at AWF and P2SF there. `lightgbm` and `quantile` rest on fewer replays than all else."""
CHOICES = (
    *("bound: EASY", "bound: EASY-SJBF", "chosen at no price", "the same, WFP3 too"),
    *("chosen at up to 5 %", "the same up to 5 %, WFP3 too"),
)


def page(made: Sequence[Results], atlas: str, command: str, replays: int) -> str:
    """Write everything as Markdown; :func:`matters` says which of its tables stay on the page."""
    corrections = dict.fromkeys(policy.correction for policy in made[0].sums[SECOND] if _corrected(policy))
    slow = min(replays, LEARNERS_REPLAYS)
    told = {
        "corrections": ", ".join(corrections),
        "atlas": atlas,
        "replays": replays,
        "slow": slow,
        "studied": " and ".join(STUDIED),
    }
    lines = [TOP.format(answer=_answer(made), made=command), "## In short", "", *_summary(made), ""]
    for results in made:
        lines += [f"## {results.title}", "", _said(results), "", *frontiers(results), *_compact(results)]
    return "\n".join([*lines, METHOD.format(**told)]).rstrip() + "\n"


def _answer(made: Sequence[Results]) -> str:
    """Say in two sentences what perfect knowledge would give, and what a free choice kept."""
    chosen = [_chosen(table[table["allowed"] == 0.0]) for table in map(steps, made)]
    known = [0.0 - 100 * (of(results, BOUNDS[0], BSLD).relative or 0.0) for results in made]
    kept = [of(results, policy, BSLD) for results, policy in zip(made, chosen, strict=True)]
    gained = [0.0 - 100 * (each.relative or 0.0) for each in kept]
    sure = sum(each.sure and (each.relative or 0.0) < 0 for each in kept)
    return (
        f"Exact runtimes would lower slowdown under EASY by {min(known):.0f} to {max(known):.0f} %. What was best on the first half of a trace at no price in "
        f"packing and fairness lowers it by {min(gained):.0f} to {max(gained):.0f} % on the second, with an interval below 0 on {sure} of {len(made)} traces."
    )


def matters(table: Table) -> bool:
    """Keep the summary, and of one trace every scheduler with every predictor asked again."""
    again = table.section in STUDIED and table.caption.startswith("Slowdown") and AGAIN in table.caption
    return table.section == "In short" or again


def of(results: Results, policy: Policy, metric: str, baseline: Policy = BASE) -> Change:
    """The change of one metric on the second half."""
    return change(results.sums[SECOND][policy], results.sums[SECOND][baseline], metric)


def _said(results: Results) -> str:
    trace = results.trace
    submit, half = trace.jobs["submit_s"].to_numpy(), halves(len(trace.jobs))[0].sum()
    days = (submit[-1] - submit[0]) / 86_400
    touched = ", ".join(f"{count:,} {words}" for words, count in trace.touched().items())
    used = Counter(policy.correction for policy in best_corrections(results) if _corrected(policy))
    best = ", ".join(f"{name} {count}" for name, count in used.most_common())
    area = float((trace.jobs["procs"].astype("float64") * trace.jobs["runtime_s"]).sum())
    load = area / (trace.procs * float(submit[-1] - submit[0]))
    weeks = [results.sums[name][BASE][BSLD].numerator.shape[1] for name in ("first half", SECOND)]
    return (
        f"{len(trace.jobs):,} jobs ({touched or 'none dropped or altered'}) over {days:,.0f} days on {trace.procs:,} processors, offered load {load:.2f}; "
        f"the halves hold {half:,} and {len(submit) - half:,} jobs, submitted in {weeks[0]} and {weeks[1]} weeks. "
        f"Of slowdown on the first half the best correction was: {best}. {NOTES.get(results.title, '')}".rstrip()
    )


def _corrected(policy: Policy) -> bool:
    return not policy.predictor.startswith(("requested", "clairvoyant"))


def _percent(made: Change, bold: bool = False) -> str:
    if made.relative is None:
        return ""
    sure = bold and made.sure
    text = f"{made.relative:+.1%}" if abs(made.relative) < 1 else f"×{1 + made.relative:.1f}"
    return f"**{text}**" if sure else text


def _interval(made: Change) -> str:
    if made.low is None or made.high is None:
        return _percent(made)
    if made.low == made.high == made.relative == 0:
        return "0"
    return f"{made.relative:+.1%} [{made.low:+.1%}, {made.high:+.1%}]"


def steps(results: Results, ageing: bool = False) -> pd.DataFrame:
    """Return the frontier of one trace, over everything a site could run.

    With the schedulers studied, or also with those of ``AGEING``.
    """
    schedulers = results.schedulers(False) + (results.schedulers(True) if ageing else [])
    return climb(results.sums["first half"], results.sums[SECOND], results.candidates(schedulers), BASE)


def _summary(made: Sequence[Results]) -> list[str]:
    """Bounds, and what was chosen at no price and at most 5 %, a row a trace."""
    rows = []
    for results in made:
        cells = [_triple(results, bound) for bound in BOUNDS]
        for allowed in (0.0, 0.05):
            for ageing in (False, True):
                table = steps(results, ageing)
                chosen = _chosen(table[table["allowed"] == allowed])
                cells.append(f"{_name(chosen)}: {_triple(results, chosen)}")
        rows.append([results.title, *cells])
    return [SUMMARY, "", markdown(["trace", *CHOICES], rows)]


def _chosen(step: pd.DataFrame) -> Policy:
    return Policy(*step.iloc[0][["scheduler", "predictor", "correction"]])


def _name(policy: Policy) -> str:
    return str(policy) if _corrected(policy) else " / ".join(policy[:2])


def _triple(results: Results, policy: Policy) -> str:
    if policy == BASE:
        return "no change"
    return ", ".join(_percent(of(results, policy, metric), bold=True) for metric in (BSLD, AWF, P2SF))


def frontiers(results: Results) -> list[str]:
    """Return the ladder over the schedulers studied, then over those of ``AGEING`` too.

    The second only where there are any; each with its bounds.
    """
    lines = [_frontier(results, steps(results), BOUNDS), ""]
    ageing = results.schedulers(True)
    if ageing:
        lines += [f"Choosing also among {', '.join(ageing)}:", ""]
        lines += [_frontier(results, steps(results, True), [Policy(each, "clairvoyant") for each in ageing]), ""]
    return lines


def _frontier(results: Results, table: pd.DataFrame, bounds: Sequence[Policy]) -> str:
    rows = [[f"{allowed:.1%}", *_step(results, _chosen(step))] for allowed, step in table.groupby("allowed")]
    rows += [["bound", *_step(results, bound)] for bound in bounds]
    headings = [
        "allowed",
        "chosen on the first half",
        "slowdown, AWF, P2SF there",
        "slowdown",
        "AWF",
        "P2SF",
        "wait",
        "cost: AWF, P2SF",
    ]
    return markdown(headings, rows, keys=2)


def _step(results: Results, policy: Policy) -> list[str]:
    first = results.sums["first half"]
    seen = ", ".join(_percent(change(first[policy], first[BASE], metric)) for metric in (BSLD, AWF, P2SF))
    return [f"{_name(policy)}{_tied(results, policy)}", seen, *_row(results, policy), _cost(results, policy)]


def _tied(results: Results, policy: Policy) -> str:
    """How many other policies had the very same slowdown on the first half."""
    first = results.sums["first half"]
    mine = first[policy][BSLD]
    alike = [sums[BSLD] for each, sums in first.items() if each != policy and len(sums[BSLD].numerator) == len(mine.numerator)]
    same = sum(sums.value() == mine.value() for sums in alike)
    return f" (a tie with {same} other{'s' if same > 1 else ''})" if same else ""


def _row(results: Results, policy: Policy) -> list[str]:
    return [_interval(of(results, policy, metric)) for metric in (BSLD, AWF, P2SF, WAIT)]


def _cost(results: Results, policy: Policy) -> str:
    """Return points of AWF and P2SF for each point of slowdown.

    Nothing where the interval of slowdown does not lie below 0.
    """
    gained = of(results, policy, BSLD)
    if gained.relative is None or gained.high is None or gained.high >= 0:
        return ""
    prices = (of(results, policy, metric).relative or 0.0 for metric in (AWF, P2SF))
    return ", ".join(f"{price / -gained.relative:+.2f}" for price in prices)


def studied(results: Results) -> list[Policy]:
    """Each scheduler studied with each predictor and correction."""
    schedulers = results.schedulers(False)
    return [policy for policy in results.sums[SECOND] if policy.scheduler in schedulers]


def _compact(results: Results) -> list[str]:
    corrections = dict.fromkeys(policy.correction for policy in studied(results) if _corrected(policy))
    return [line for correction in corrections for line in [*_compact_under(results, correction), ""]]


def _compact_under(results: Results, correction: str) -> list[str]:
    """Every scheduler and predictor under one correction."""
    chosen = {policy[:2]: policy for policy in studied(results) if policy.correction == correction or not _corrected(policy)}
    schedulers = list(dict.fromkeys(scheduler for scheduler, _ in chosen))
    predictors = list(dict.fromkeys(predictor for _, predictor in chosen))
    predictors.sort(key=lambda name: (not name.startswith("requested"), name != "clairvoyant"))
    lines = [
        f"Slowdown, AWF, P2SF with every predictor, corrected by `{correction}` (bold: the interval excludes no change; × a factor):",
        "",
    ]
    rows = []
    for predictor in predictors:
        cells = []
        for scheduler in schedulers:
            policy = chosen.get((scheduler, predictor))
            cells.append("" if policy is None else "0" if policy == BASE else _triple(results, policy))
        rows.append([str(predictor), *cells])
    return [*lines, markdown(["predictor", *schedulers], rows)]


def draw(made: Sequence[Results], path: Path) -> None:
    """A row of panels a trace, a column for AWF and one for P2SF."""
    with figure(9.6, 2.75 * len(made) + 0.6, generated=False) as canvas:
        panels = np.atleast_2d(canvas.subplots(len(made), 2))
        schedulers = made[0].schedulers(False)
        colours = dict(zip(schedulers, _COLOURS, strict=False))
        for row, results in zip(panels, made, strict=True):
            for axes, metric, name in zip(row, (AWF, P2SF), ("AWF", "P2SF"), strict=True):
                _panel(axes, results, metric, colours)
                axes.set_title(f"{results.title}: {name}")
                axes.set_ylabel(f"change of {name}, %")
        for axes in panels[-1]:
            axes.set_xlabel("change of mean bounded slowdown, %")
        handles = [
            Line2D([], [], marker="o", color=colour, linestyle="", markersize=5, label=each) for each, colour in colours.items()
        ]
        marks = {"requested times": ("s", 5), "clairvoyant": ("*", 10), "learned": ("o", 4)}
        handles += [
            Line2D([], [], marker=mark, color=MUTED, linestyle="", markersize=size, label=each)
            for each, (mark, size) in marks.items()
        ]
        ring = Line2D(
            [], [], marker="o", markeredgecolor=INK, markerfacecolor="none", linestyle="", markersize=9, label="frontier's choices"
        )
        canvas.legend(handles=[*handles, ring], loc="outside upper center", ncols=5)
        path.write_bytes(encode(canvas, "png"))


RIGHT = 60.0
"""Slowdowns that are worse by more than this, %, are drawn at the edge."""
_TICKS = (-100, -20, -5, -2, 0, 2, 5, 20, 100, 1000, 10_000, 100_000)


def _panel(axes: Axes, results: Results, metric: str, colours: dict[str, str]) -> None:
    table = steps(results)
    chosen = {Policy(*each) for each in table[["scheduler", "predictor", "correction"]].itertuples(index=False)}
    heights = []
    for policy in dict.fromkeys([*studied(results), *chosen]):
        x, y = (100 * (of(results, policy, each).relative or 0.0) for each in (BSLD, metric))
        heights.append(y)
        bound = policy.predictor == "clairvoyant"
        mark, size = ("*", 10.0) if bound else ("s", 5.0) if policy.predictor.startswith("requested") else ("o", 4.0)
        if x > RIGHT:
            x, mark, size = RIGHT, ">", 5.0
        look: dict[str, Any] = {
            "markeredgecolor": INK if policy in BOUNDS else "none",
            "markersize": 14.0 if policy in BOUNDS else size,
        }
        axes.plot(x, y, mark, color=colours[policy.scheduler], alpha=0.85, zorder=3 if bound else 2, clip_on=False, **look)
        if policy in chosen:
            axes.plot(x, y, "o", markerfacecolor="none", markeredgecolor=INK, markersize=9, zorder=4)
    axes.axhline(0, color=INK, linewidth=0.8, linestyle=":")
    axes.axvline(0, color=INK, linewidth=0.8, linestyle=":")
    axes.set_xlim(-100, RIGHT)
    if max(abs(y) for y in heights) > 5:
        axes.set_yscale("symlog", linthresh=5, linscale=1.5)
        low, high = min(*heights, -5.0) * 1.5, max(*heights, 5.0) * 1.5
        axes.set_yticks([tick for tick in _TICKS if low <= tick <= high], minor=False)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_ylim(low, high)
    axes.fill_between([-100, -20], [axes.get_ylim()[0]] * 2, 0, color="#009e73", alpha=0.08, linewidth=0)
