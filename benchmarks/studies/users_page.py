"""The page and the picture of the study of users that react."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from scipy.special import stdtrit

from benchmarks.common.pages import made_by
from benchmarks.common.tables import markdown
from benchmarks.studies.users_runs import HALVES, METRICS, NIGHTLY_REPLAYS, SCHEDULERS, SHAKE_S, SIMULATED, UNTIL
from features.jobs.cleaning import CleanTrace
from pipelines.report.style import INK, MUTED, encode, figure
from sim.metrics.schedule_metrics import evaluate
from sim.replays import user_facts
from sim.schedule import recorded
from sim.users.names import LOOPS, RULES, Users

COLOURS = {"open": MUTED, "closed": "#d55e00", "semi-open": "#0072b2"}


def told(row: pd.Series, metric: str) -> str:
    """Return a mean with its interval."""
    form = {"carried_load": "{:.1%}", "mean_wait_s": "{:,.0f}"}.get(metric, "{:.1f}")
    return f"{form.format(row['mean'])} ± {form.format(row['high'] - row['mean'])}"


HEAD = """# What do users that react change?

{answer}

A trace says when jobs were submitted on its own machine, after the waits there. Here three kinds of users are simulated ([users.md](../users.md)):

* `open`: submit as recorded.
* `closed`: submit when what they waited for has ended and they have thought.
* `semi-open`: begin their sessions as recorded and react inside them.

Each policy has {replays} replays ({nightly} of predictors that learn every night). All submissions and think times are moved by up to {shake} s. The
tables show means with 95 % t intervals over replays. Carried load is the work done until nine tenths of the jobs have ended, over what the machine
could do until then.

![Bounded slowdown of predictors under EASY-SJBF, by the users' loop](users.png)

## Sessions and batches

By the rule `last` a session begins after more than 1,200 s of think time, by `max` after so many seconds in which no job of the user ran, by `arrival` after
so many without a submission. The last three columns count jobs: those submitted as recorded, those whose batch waits for several batches, and those whose wait
one preceding job and a think time (SWF's fields 17 and 18) cannot state.
"""

LOADS = """
## The load of schedulers

By requested times. In the record jobs of KTH-SP2 wait {kth:,.0f} s on average, those of LANL-CM5 {lanl:,.0f} s. Under a scheduler with shorter waits the
same users submit sooner, under one with longer waits later.
"""

UNTIL_TEXT = """
How much load EASY gains depends on when it is taken. The work is the same, so what comes earlier is missing at the end, and the last user's chain of
jobs ends later than the trace. KTH-SP2, one replay as recorded, load carried until so many of the jobs have ended:
"""

RANKING = """
## The ranking of predictors

KTH-SP2 under EASY-SJBF, in the order of bounded slowdown with `open` users. Ranks by bounded slowdown are in brackets; = where the interval
overlaps with that of the rank before. `requested*2` is no prediction but a constant: the request, doubled.
"""

HALVES_TEXT = """
Rank correlations of these predictors, for all jobs and for each half of them (in the order of the trace, without predictors that learn every night). "And
again" is what a loop would have with itself, replayed once more: the median, and the range of 95 %. In the closed loop more of the work has been done before
the second half: by requested times its bounded slowdown is {closed:.1f} there, and {open:.1f} with open users.
"""

LOADS_OF_PREDICTORS = """
Load follows the mean wait, not the slowdown: predictors that lower the bounded slowdown and make jobs wait longer on average carry less than requested times.
"""

CHOSEN = """
## What the rules move

KTH-SP2 under EASY-SJBF by requested times; sessions end by other rules and thresholds.
"""

TAIL = """
What this does not show: what users would do that found a better or worse machine than they had; think times and batches stay as recorded. Replays move
submissions by a minute and say nothing of other traces.

The data: [data/users.csv](data/users.csv).
"""


def answer(table: pd.DataFrame) -> str:
    """Return in sentences what the loops change on KTH-SP2."""
    value = table[table["title"] == "KTH-SP2"].set_index(["section", "users", "scheduler", "predictor", "metric"])["mean"]
    load = {users: value[("loads", users, "EASY", "requested", "carried_load")] for users in LOOPS}
    slow = {users: value[("loads", users, "Strict", "requested", "carried_load")] for users in LOOPS}
    wait = {users: value[("loads", users, "Strict", "requested", "mean_wait_s")] for users in LOOPS}

    def gained(predictor: str) -> str:
        slowdown = {users: value.loc["ranking", users, "EASY-SJBF", :, "mean_bounded_slowdown"] for users in LOOPS}
        each = (f"{100 * (1 - slowdown[users][predictor] / slowdown[users]['requested']):.0f} % ({users})" for users in LOOPS)
        return ", ".join(each)

    middle, low, high = again(table, "ranking", "closed")
    return (
        f"In the closed loop a scheduler that shortens the mean wait gets more load: on KTH-SP2 EASY carries {load['closed']:.1%} of the "
        f"machine ({load['open']:.1%} with open users) and Strict, which keeps users waiting, {slow['closed']:.1%}. Strict's mean wait is "
        f"{wait['closed']:,.0f} s instead of {wait['open']:,.0f}, as users that wait submit nothing. In the semi-open loop, where sessions "
        f"begin as recorded, the load hardly moves ({slow['semi-open']:.1%} to {load['semi-open']:.1%}). Exact runtimes cut the bounded "
        f"slowdown of EASY-SJBF by {gained('clairvoyant')}, and a constant, the request doubled, by {gained('requested*2')}. Over all "
        f"jobs ranks of predictors with open and closed users correlate by {alike(table, 'ranking', 'open', 'closed'):.2f}, "
        f"two sets of closed replays by {middle:.2f} ({low:.2f} to {high:.2f}). Among the second half of the jobs the two loops' ranks correlate "
        f"by {alike(table, HALVES[1], 'open', 'closed'):.2f}."
    )


def page(found: Mapping[str, CleanTrace], table: pd.DataFrame, load: pd.DataFrame, count: int) -> str:
    """Return the page as Markdown."""
    waits = {title: evaluate(recorded(found[title].jobs, found[title].procs))["mean_wait_s"] for title in SIMULATED}
    parts = [HEAD.format(answer=answer(table), replays=count, shake=SHAKE_S, nightly=NIGHTLY_REPLAYS), facts_table(found)]
    parts += [LOADS.format(kth=waits["KTH-SP2"], lanl=waits["LANL-CM5"]), loads_table(table), UNTIL_TEXT]
    parts += [until_table(load), RANKING, ranking_table(table), LOADS_OF_PREDICTORS, halves_text(table), halves_table(table)]
    parts += [CHOSEN, choices_table(table)]
    return "\n".join([*parts, TAIL, made_by("studies.users"), ""])


def facts_table(found: Mapping[str, CleanTrace]) -> str:
    """Return the sessions and batches of each trace."""
    rows = []
    for title, trace in found.items():
        for rule in RULES:
            facts = user_facts(trace.jobs, Users("closed", rule=rule))
            numbers = (
                facts.users,
                facts.sessions,
                facts.batches,
                facts.jobs,
                facts.as_recorded,
                facts.of_several,
                facts.beyond_swf,
            )
            rows.append([title, f"`{rule}`", *(f"{number:,}" for number in numbers)])
    heads = ["users", "sessions", "batches", "jobs", "as recorded", "wait for several batches", "beyond SWF fields 17, 18"]
    return markdown(["trace", "rule", *heads], rows, keys=2)


def loads_table(table: pd.DataFrame) -> str:
    """Return the loops of each scheduler side by side."""
    rows = []
    for (title, scheduler, users), part in table[table["section"] == "loads"].groupby(["title", "scheduler", "users"], sort=False):
        cells = part.set_index("metric")
        rows.append([title, scheduler, users, *(told(cells.loc[metric], metric) for metric in METRICS)])
    rows.sort(key=lambda row: (SIMULATED.index(row[0]), SCHEDULERS.index(row[1]), LOOPS.index(row[2])))
    return markdown(["trace", "scheduler", "users", *METRICS.values()], rows, keys=3)


def choices_table(table: pd.DataFrame) -> str:
    """Return a row for each rule."""
    rows = []
    for users, part in table[table["section"] == "choices"].groupby("users", sort=False):
        cells = part.set_index("metric")
        rows.append([f"`{users}`", *(told(cells.loc[metric], metric) for metric in METRICS)])
    return markdown(["users", *METRICS.values()], rows)


def alike(table: pd.DataFrame, section: str, one: str, other: str) -> float:
    """Return the rank correlation of predictors in two loops."""
    return float(ranks(table, one, section)["rank"].corr(ranks(table, other, section)["rank"]))


def again(table: pd.DataFrame, section: str, loop: str) -> np.ndarray:
    """Return the median and the 95 % range of the rank correlation that replaying a loop once more would have with it.

    Two sets of means are drawn from normal distributions with the means and errors of ``table``.
    """
    found, draw = ranks(table, loop, section), np.random.default_rng(0)
    error = (found["high"] - found["mean"]) / stdtrit(np.maximum(found["replays"] - 1, 1), 0.975)
    sets = draw.normal(found["mean"], error, (2, 2000, len(found))).argsort(2).argsort(2)
    each = [np.corrcoef(one, other)[0, 1] for one, other in zip(*sets, strict=True)]
    return np.quantile(each, [0.5, 0.025, 0.975])


def halves_text(table: pd.DataFrame) -> str:
    """Return the text above the table of halves."""
    slowdown = {loop: ranks(table, loop, HALVES[1])["mean"]["requested"] for loop in LOOPS}
    return HALVES_TEXT.format(**slowdown)


def halves_table(table: pd.DataFrame) -> str:
    """Return the rank correlations of loops by part of the trace, and those of a loop with itself."""
    rows = []
    for section, name in zip(("ranking", *HALVES), ("all jobs", *HALVES), strict=True):
        cells = [f"{alike(table, section, 'open', loop):.2f}" for loop in LOOPS[1:]]
        for loop in LOOPS:
            middle, low, high = again(table, section, loop)
            cells.append(f"{middle:.2f} ({low:.2f} to {high:.2f})")
        rows.append([name, *cells])
    return markdown(["jobs", *(f"open and {loop}" for loop in LOOPS[1:]), *(f"{loop} and again" for loop in LOOPS)], rows)


def until_table(load: pd.DataFrame) -> str:
    """Return the load carried until so many jobs have ended."""
    rows = [[name, *(f"{load.loc[name, until]:.1%}" for until in UNTIL)] for name in ("open", "closed", "closed, no waits")]
    return markdown(["users", *UNTIL], rows)


def ranks(table: pd.DataFrame, loop: str, section: str = "ranking") -> pd.DataFrame:
    """Return predictors of a loop by bounded slowdown, best first, with ``rank`` and whether it is ``tied`` with the one before."""
    chosen = (table["section"] == section) & (table["users"] == loop) & (table["metric"] == "mean_bounded_slowdown")
    part = table[chosen].sort_values("mean", kind="stable").set_index("predictor")
    before = part["high"].shift(1)
    return part.assign(rank=np.arange(1, len(part) + 1), tied=(part["low"] <= before).fillna(False))


def ranking_table(table: pd.DataFrame) -> str:
    """Return a row a predictor: slowdown and rank in each loop, and the load that it brings about."""
    of_loop = {loop: ranks(table, loop) for loop in LOOPS}
    chosen = table[(table["section"] == "ranking") & (table["users"] == "closed")]
    load, wait = (chosen[chosen["metric"] == metric].set_index("predictor") for metric in ("carried_load", "mean_wait_s"))
    rows = []
    for predictor in of_loop["open"].index:
        cells = []
        for found in of_loop.values():
            row = found.loc[predictor]
            value = told(row, "mean_bounded_slowdown")
            cells.append(f"{value} ({row['rank']}{' =' if row['tied'] else ''})")
        rows.append([predictor, *cells, told(wait.loc[predictor], "mean_wait_s"), told(load.loc[predictor], "carried_load")])
    return markdown(["predictor", *LOOPS, "mean wait, closed, s", "carried load, closed"], rows)


def picture(table: pd.DataFrame) -> bytes:
    """Draw each predictor's bounded slowdown in the three loops."""
    order = list(ranks(table, "open").index)[::-1]
    with figure(7.2, 3.8, generated=False) as drawn:
        axes = drawn.add_subplot()
        for shift, loop in zip((0.22, 0.0, -0.22), LOOPS, strict=True):
            part = ranks(table, loop).loc[order]
            places = np.arange(len(order)) + shift
            axes.hlines(places, part["low"], part["high"], color=COLOURS[loop], linewidth=1.6)
            axes.plot(part["mean"], places, "o", color=COLOURS[loop], markersize=5)
        axes.set_yticks(np.arange(len(order)), order)
        axes.set_xlabel("mean bounded slowdown, KTH-SP2 under EASY-SJBF (lines: 95 % intervals over replays)", color=INK)
        handles = [Line2D([], [], marker="o", color=COLOURS[loop], label=loop) for loop in LOOPS]
        drawn.legend(handles=handles, title="users", loc="outside upper center", ncols=len(handles))
        return encode(drawn, "png")
