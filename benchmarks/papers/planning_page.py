"""The page and pictures of :mod:`benchmarks.papers.planning`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from benchmarks.common.pages import made_by
from benchmarks.common.tables import markdown
from benchmarks.papers.planning import (
    BASE,
    FEW,
    LOOPS,
    PLAN,
    PLANNER,
    RENEWED,
    UNFAIR,
    Interval,
    Whole,
    changes,
    of_schedule,
)
from benchmarks.papers.planning_intervals import hours, of_intervals, sure
from pipelines.report import planning_plots as plots
from pipelines.workflows.planning import by_label
from sim.metrics.schedule_metrics import evaluate
from sim.metrics.user_fairness import fairness
from sim.schedule import Schedule

Traces = Mapping[str, Whole]


USERS_TOLD = (
    "Users: NUWT (mean ± standard deviation), complaints about waits that are not acceptable, and how well starts were told:\n"
)
WHOLE_TRACES = "## Whole traces\n"
WHOLE_TOLD = """Schedulers that draw random numbers are simulated with several seeds, and the tables have the means. Users are open, and submit when the
trace says, or closed: they submit a batch of jobs when all jobs that it depends on have ended and their think time is over (Zakay & Feitelson).
"""
MEMORY_TOLD = """NUWT of {trace} if memory counts: a job uses the larger of its shares of processors and memory, as in the released program, or their mean.
"""


def page(found: Sequence[Interval], table: pd.DataFrame, whole: Traces, published: pd.DataFrame) -> str:
    """Return the page as Markdown."""
    parts = [
        *of_intervals(found, table, published),
        WHOLE_TRACES,
        WHOLE_TOLD,
        _whole(whole),
        "",
        *_with_memory(whole),
        "## Claims\n",
        _claims(table, whole),
        "",
        _why(table, whole),
        "## Figures\n",
        *(f"{title} ({trace}):\n\n![{title} of {trace}]({name})\n" for trace, title, name in _pictures(whole)),
        NOT_SHOWN,
        made_by("papers.planning"),
        "",
    ]
    return "\n".join(parts)


def page_again(found: Sequence[Interval], table: pd.DataFrame, before: str, published: pd.DataFrame) -> str:
    """Return the page with what it says of intervals drawn again, and the rest as it was ``before``."""
    made = f"{made_by('papers.planning')} What follows is older; how it was made stands at its end.\n"
    return "\n".join([*of_intervals(found, table, published), made, before[before.index(WHOLE_TRACES) :]])


WHY = """## What does not match, and why

* **The baseline decides.** The paper says that every waiting job obtained a reservation, in a form of conservative backfilling, and that making the
  schedule anew in the order of updated priorities was not preferred. So a reservation is kept here when the queues are ordered. It is not said in so many
  words. As jobs then get theirs when they are submitted, queues and fair share order little: in {alike} of {intervals} intervals the mean wait is that of
  `Conservative` to within 1 % (first {few} replicates). Where all are made anew at each pass (`reservations=anew`), `OrigBF` serves short requests first and
  is itself a strong scheduler: {renewed}.
* **CERIT is not the paper's Zewura.** Its jobs waited for limits that are not in the file. One week is contended at the recorded load; the other three are
  made so.
* **The weight of fairness** is 10 in the paper. With `fairness=0`, over the first {few} replicates and beyond doubt, {unfair}.
* **The plan alone gains nothing.** Without the search (`iterations=0`) mean waits are longer than under conservative backfilling in {planless} of
  {intervals} intervals, as no job may overtake another of the plan.
* **Starvation** is what the paper's reservations are for, and it has no figure of it. Beyond doubt, longest waits under `PlanRS` are
  {longest} than under `OrigBF`: the search moves a job as often as that improves the weighted sum, with no bound.
* **Utilization** cannot rise where the same jobs are submitted at the same times; with closed users it can.
* **97 % of users below NUWT 1** is one site's figure. Here: {below}.
* **Large jobs** pay, which the paper's metrics do not show. On KTH-SP2 with open users {large}.
* **Predictability**: at least {promised:.0%} of jobs start no later than they were first told, under both schedulers. First planned starts are {nearer} times
  as far from actual ones under `PlanRS` as under `OrigBF`, and {farther} times as far as under `OrigBF(reservations=anew)`. The paper has no figure of its own.
* **Figure 5** is shown in part. It has four panels: the time to backfill a job, to update the schedule, both together, and an iteration of the search. Only
  searches are timed here, so the first three are missing. What they sum up to is known: a whole replay that plans and never searches
  (`PlanRS(iterations=0)`) takes {plan_ms} ms a job in these intervals; 61 % of the paper's jobs take less than 200 ms. Times were measured while other
  programs used the machine.
"""

NOT_SHOWN = """What this does not show: the authors' intervals, their machine's failures, limits and GPUs. Eight intervals are few, and were
chosen for contention.

The data: [data/planning.csv](data/planning.csv), a row a replicate. Rows of plain sorts and of `reservations=anew` are of commit
d0e2cf6a30, and have longest waits of the first five replicates at most; all others were simulated again, and those recorded before came out the same.
"""


def _why(table: pd.DataFrame, whole: Traces) -> str:
    """Return what does not match, and why, with its numbers."""
    to_base, to_renewed = changes(table), changes(table, RENEWED)
    first = table[table["seed"] < FEW]
    unfair = changes(first, PLANNER)
    unfair = unfair[unfair["scheduler"] == UNFAIR]
    plan = changes(first, "Conservative")
    plan = plan[(plan["scheduler"] == PLAN) & (plan["metric"] == "mean_wait_s")]
    alike = to_base[(to_base["scheduler"] == "Conservative") & (to_base["metric"] == "mean_wait_s")]
    longest = to_base[(to_base["scheduler"] == PLANNER) & (to_base["metric"] == "longest_wait_s")]
    seconds = table[table["scheduler"] == PLAN].groupby("interval")[["seconds", "jobs"]].sum()
    told = table[table["scheduler"].isin((PLANNER, BASE))].groupby(["interval", "scheduler"])["started_by_first_plan"].mean()
    return WHY.format(
        renewed="; ".join(
            f"against {name}'s its mean waits are shorter in {_higher(to_renewed, name, 'mean_wait_s')} and its slowdowns lower in "
            f"{_higher(to_renewed, name, 'mean_bounded_slowdown')} of {table['interval'].nunique()} intervals"
            for name in ("EASY", "Conservative")
        ),
        few=FEW,
        unfair=f"mean waits are {sure(unfair, 'mean_wait_s')} of {len(plan)} intervals, mean bounded slowdowns {sure(unfair, 'mean_bounded_slowdown')}",
        alike=int((alike["change"].abs() < 0.01).sum()),
        planless=int((plan["change"] > 0).sum()),
        intervals=len(plan),
        longest=f"{sure(longest, 'longest_wait_s')} of {len(longest)} intervals",
        below="; ".join(
            f"{trace} {min(shares):.0%} to {max(shares):.0%} under all of these" for trace, shares in _below_1(whole).items()
        ),
        large=_large(whole),
        promised=told.min(),
        nearer=_span(to_base),
        farther=_span(to_renewed),
        plan_ms="{:,.2g} to {:,.2g}".format(*(1e3 * seconds["seconds"] / seconds["jobs"]).agg(["min", "max"])),
    )


def _higher(changed: pd.DataFrame, scheduler: str, metric: str) -> int:
    """Return in how many intervals a scheduler's metric is higher than the base's."""
    return int((changed.loc[(changed["scheduler"] == scheduler) & (changed["metric"] == metric), "change"] > 0).sum())


def _span(changed: pd.DataFrame) -> str:
    """Return the least and the largest ratio of the errors of planned starts."""
    part = changed[(changed["scheduler"] == PLANNER) & (changed["metric"] == "predicted_start_error_s")]
    return f"{1 + part['change'].min():.1f} to {1 + part['change'].max():.1f}"


def _below_1(whole: Traces) -> dict[str, list[float]]:
    return {trace: [fairness(one)["nuwt_below_1"] for one in each.schedules] for trace, each in whole.items()}


def _large(whole: Traces) -> str:
    """Say what AWF and P2SF are on KTH-SP2 with open users."""
    groups = {label: made for label, made in by_label(whole["KTH-SP2"].schedules).items() if ", " not in label}
    means = {label: pd.DataFrame([evaluate(one) for one in made])[["awf_s", "p2sf_s"]].mean() for label, made in groups.items()}
    awf, p2sf = (
        ", ".join(f"{found[name]:,.0f} s under `{label}`" for label, found in means.items()) for name in ("awf_s", "p2sf_s")
    )
    return f"AWF is {awf}, and P2SF {p2sf}"


def _whole(whole: Traces) -> str:
    found = [
        (trace, label, pd.DataFrame([of_schedule(one) for one in made]).mean())
        for trace, each in whole.items()
        for label, made in by_label(each.schedules).items()
    ]
    waits = [
        [
            *(trace, label, f"{row['utilization']:.1%}", f"{row['mean_wait_s']:,.0f}", f"{row['within_mean']:.0%}"),
            *(f"{row['mean_bounded_slowdown']:,.1f}", f"{row['seconds']:,.1f}"),
        ]
        for trace, label, row in found
    ]
    users = [
        [
            *(
                trace,
                label,
                f"{row['nuwt_mean']:.3g} ± {row['nuwt_sd']:.3g}",
                f"{row['nuwt_below_1']:.0%}",
                f"{row['complaints']:,.0f}",
            ),
            hours(row["predicted_start_error_s"]),
            "–" if np.isnan(row["started_by_first_plan"]) else f"{row['started_by_first_plan']:.0%}",
        ]
        for trace, label, row in found
    ]
    heads = [
        "trace",
        "policy",
        "utilization",
        "mean wait, s",
        "jobs that wait at most the mean",
        "bounded slowdown",
        "simulated in, s",
    ]
    of_users = ["trace", "policy", "NUWT", "users below 1", "complaints", "error of planned starts, h", "started by the first plan"]
    return f"{markdown(heads, waits, keys=2)}\n\n{USERS_TOLD}\n{markdown(of_users, users, keys=2)}"


def _with_memory(whole: Traces) -> list[str]:
    """Return what NUWT is where a job counts as the share of processors or memory that it holds, a table a trace with memory."""
    told = []
    for trace, each in whole.items():
        if each.memory_share is None:
            continue
        rows = []
        for label, made in by_label(each.schedules).items():
            found = [fairness(made[0], memory_share=each.memory_share, resource=reading) for reading in ("larger", "mean")]
            rows.append([label, *(f"{one['nuwt_mean']:.3g} ± {one['nuwt_sd']:.3g}" for one in found)])
        told += [MEMORY_TOLD.format(trace=trace), markdown(["policy", "larger share", "mean of the shares"], rows), ""]
    return told


def _claims(table: pd.DataFrame, whole: Traces) -> str:
    """Return the paper's claims beside what is found, a row a claim."""
    rows = []
    for base in (BASE, RENEWED):
        mine = changes(table, base)
        for metric, claim in (
            ("mean_wait_s", "mean wait: −7 to −81 %, all 8 intervals"),
            ("mean_bounded_slowdown", "bounded slowdown: −33 to −90 %, all 8 intervals"),
        ):
            part = mine[(mine["metric"] == metric) & (mine["scheduler"] == PLANNER)]
            lower, sure = int((part["change"] < 0).sum()), int((part["high"] < 0).sum())
            least, most = part["change"].max(), part["change"].min()
            said = f"against {base}: lower in {lower} of {len(part)}, in {sure} beyond doubt; {least:+.1%} to {most:+.1%}"
            rows.append([claim, said, _yes(sure == len(part))])
    for trace, each in whole.items():
        groups = by_label(each.schedules)
        for loop in LOOPS:
            names = [name if loop == LOOPS[0] else f"{name}, {loop} users" for name in (BASE, PLANNER)]
            base, planner = (pd.DataFrame([of_schedule(each) for each in groups[name]]).mean() for name in names)
            where = f"{trace}, {loop} users"
            text = ", ".join(
                f"{what} {base[name]:.1%} to {planner[name]:.1%}"
                for name, what in (("utilization", "to the last end"), ("carried_load", "until 90 % ended"))
            )
            rows.append(
                ["utilization rises (their site: 9.3 %)", f"{where}: {text}", _yes(planner["carried_load"] > base["carried_load"])]
            )
            rows.append(
                [
                    "97 % of users have NUWT below 1 under both",
                    f"{where}: {base['nuwt_below_1']:.0%} and {planner['nuwt_below_1']:.0%}",
                    _yes(min(base["nuwt_below_1"], planner["nuwt_below_1"]) >= 0.965),
                ]
            )
            rows.append(
                [
                    "NUWT is lower, mean and deviation",
                    f"{where}: {base['nuwt_mean']:.3g} ± {base['nuwt_sd']:.3g} to {planner['nuwt_mean']:.3g} ± {planner['nuwt_sd']:.3g}",
                    _yes(planner["nuwt_mean"] < base["nuwt_mean"] and planner["nuwt_sd"] < base["nuwt_sd"]),
                ]
            )
            bulk, tail = _tails(groups[names[0]][0], groups[names[1]][0])
            rows.append(
                [
                    "85 % of waits are as before, and the tail is cut",
                    f"{where}: 85 % of jobs wait at most {bulk[0]:,.0f} s before and {bulk[1]:,.0f} s after; the longest 15 % wait {tail:+.1%} on average",
                    _yes(tail < 0),
                ]
            )
            rows.append(
                [
                    "fewer complaints",
                    f"{where}: {base['complaints']:,.0f} to {planner['complaints']:,.0f}",
                    _yes(planner["complaints"] < base["complaints"]),
                ]
            )
    return markdown(["claim of the paper", "here", "holds"], rows, left=["here", "holds"])


def _tails(base: Schedule, planner: Schedule) -> tuple[tuple[float, float], float]:
    """Return the 85 % quantiles of waits, and the change of the mean wait beyond them."""
    waits = [np.sort((each.jobs["start_s"] - each.jobs["submit_s"]).to_numpy(np.float64)) for each in (base, planner)]
    cut = [int(0.85 * len(each)) for each in waits]
    means = [float(each[at:].mean()) for each, at in zip(waits, cut, strict=True)]
    return (float(waits[0][cut[0]]), float(waits[1][cut[1]])), means[1] / means[0] - 1.0 if means[0] else np.nan


_DRAWN = {
    "overall": "Figures 1 and 6: utilization, waits and slowdowns",
    "by_class": "Figure 2: mean waits by class of jobs",
    "fairness": "Figures 3 and 7: NUWT",
    "moves": "Figure 4: accepted moves of the search",
    "costs": "Figure 5, the last of its four panels: what a search costs",
    "waits": "Figure 6: waits",
    "satisfaction": "Figure 8: acceptable waits and complaints",
}


def _pictures(whole: Traces) -> list[tuple[str, str, str]]:
    """Return trace, title and file of each picture."""
    return [
        (trace, title, f"planning-{trace.lower()}-{name.replace('_', '-')}.png")
        for trace in whole
        for name, title in _DRAWN.items()
    ]


def pictures(whole: Traces) -> dict[str, bytes]:
    """Return the figures of every trace by file name."""
    drawn = {}
    for (trace, _, name), kind in zip(_pictures(whole), [*_DRAWN] * len(whole), strict=True):
        groups = by_label(whole[trace].schedules)
        if kind == "moves":
            drawn[name] = plots.moves(groups[PLANNER][0])
        elif kind == "costs":
            drawn[name] = plots.costs({label: made[0] for label, made in groups.items() if made[0].search_costs is not None})
        else:
            drawn[name] = getattr(plots, kind)(groups, image="png")
    return drawn


def _yes(holds: bool) -> str:
    return "yes" if holds else "**no**"
