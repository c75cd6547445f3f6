"""The page and pictures of :mod:`benchmarks.papers.planning`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from benchmarks.common.pages import made_by
from benchmarks.common.tables import markdown
from benchmarks.papers.planning import (
    BASE,
    BESIDE,
    FEW,
    INTERVAL_DAYS,
    KEPT,
    LOOPS,
    PLANNER,
    READINGS,
    SOURCES,
    SQUEEZE,
    Interval,
    Whole,
    changes,
    of_schedule,
)
from features.jobs.shaking import SHAKE_S
from pipelines.report import planning_plots as plots
from pipelines.workflows.planning import by_label
from sim.metrics.user_fairness import fairness
from sim.schedule import Schedule

Traces = Mapping[str, Whole]

HEAD = """# Does planning with random search beat conservative backfilling?

Klusáček & Chlumský (JSSPP 2016) plan every waiting job, move random jobs of the plan once a minute, and keep what improves waits, slowdowns and
fairness between users (`PlanRS`). Their baseline is the backfilling that they had before (`OrigBF`: queues by requested time, fair share, a
reservation for each job). They publish changes of mean wait and mean bounded slowdown on eight contended intervals, and figures of their site.

The intervals here are ours, as theirs are not stated: of each trace those {days} days in which most jobs wait under EASY, begun with an empty machine and
none overlapping another; all times divided by {squeeze:g}, requests as users stated them (inaccurate). {replicates} replicates of each scheduler: seed i
moves every submission by up to {shake} s, the same for all schedulers, and draws the search. Changes are means over the pairs of replicates, in brackets
the 95 % interval of the mean (Student). HPC2N, and the paper's trace of January to April 2015, are not to be had: CERIT here is December 2012 to March
2013 on its two clusters with memory, properties and whole nodes; SDSC-SP2 stands in for HPC2N.
"""

LOADED = """CERIT hardly waits at its recorded load: what held its jobs back were limits that are not in the file. Intervals marked "load 3" have times between
submissions divided by 3, which is a study of contention, not of CERIT.
"""


def page(found: Sequence[Interval], table: pd.DataFrame, whole: Traces, published: pd.DataFrame) -> str:
    """Return the page as Markdown."""
    changed = changes(table)
    head = HEAD.format(days=INTERVAL_DAYS, squeeze=SQUEEZE, shake=SHAKE_S, replicates=table["seed"].nunique())
    parts = [
        head,
        "## Table 1\n",
        _table_1(found, table, published),
        "",
        LOADED,
        f"The other schedulers on the same intervals, against {BASE}, over the first {FEW} replicates:\n",
        _beside(changed),
        "",
        f"{PLANNER} against other readings of the baseline, of which the paper says little: queues of long requests first, one queue, and reservations "
        f"that are kept (mean wait; bounded slowdown; the first {FEW} replicates but for {BASE} and {KEPT}):\n",
        _readings(table),
        "",
        "## Whole traces\n",
        "Schedulers that draw have several seeds, of which the mean is given. Closed: users submit a batch when those that it depends on have ended and their "
        "think time is over (Zakay & Feitelson).\n",
        _whole(whole),
        "",
        *_with_memory(whole),
        "## Claims\n",
        _claims(table, whole),
        "",
        WHY,
        "## Figures\n",
        *(f"{title} ({trace}):\n\n![{title} of {trace}]({name})\n" for trace, title, name in _pictures(whole)),
        NOT_SHOWN,
        made_by("papers.planning"),
        "",
    ]
    return "\n".join(parts)


WHY = """## What does not match, and why

* **The baseline decides.** The paper says that every waiting job obtained a reservation and that queues were reordered now and then, not whether a
  reservation survives that. If it does (`reservations=kept`), changes on KTH-SP2 and SDSC-SP2 are of the paper's size or larger, and in seven of eight
  intervals waits are shorter beyond doubt. If all are made anew in the current order at each pass, as is our default, `OrigBF` serves short requests first
  and is itself far ahead of EASY and of conservative backfilling; then little is left of the gain in slowdowns. One queue gives gains in between; with
  queues of long requests first they are the largest on most intervals.
* **CERIT is not the paper's Zewura.** Its jobs waited for limits that are not in the file. One week is contended at the recorded load; the other three are
  made so. What the search weighs matters there: with `fairness=0` (three replicates, not in the tables) waits on CERIT 1 and 2 are 22 and 20 % shorter and
  slowdowns 22 and 51 % lower than with the paper's weight of 10, and slowdowns on CERIT 3 and 4 are 103 and 46 % higher.
* **The search is what gains.** Without it (`iterations=0`) waits are longer than under conservative backfilling in seven of eight intervals, as no job of the
  plan may overtake another.
* **Utilization** cannot rise where the same jobs are submitted at the same times. With closed users it can: on KTH-SP2 it does, on CERIT not.
* **97 % of users below NUWT 1** is CERIT's figure, under every scheduler here. On KTH-SP2, where jobs wait for hours and many run for minutes, it
  is 68 to 89 %.
* **The tail** is cut on KTH-SP2. On CERIT it is longer than under our default baseline, for the first reason.
* **Predictability**: 95 to 100 % of jobs start no later than they were first told, under both schedulers. Starts planned by `PlanRS` are not closer to
  the actual ones than those planned by `OrigBF`: requests are inaccurate, and the search moves jobs. The paper has no figure of its own.

Costs of searches (figure 5) were measured while other programs used the machine.
"""

NOT_SHOWN = """What this does not show: the authors' intervals, their machine's failures, limits and GPUs. Eight intervals are few, and were
chosen for contention.

The data: [data/planning.csv](data/planning.csv), a row a replicate.
"""


def _table_1(found: Sequence[Interval], table: pd.DataFrame, published: pd.DataFrame) -> str:
    """Return the changes of waits and slowdowns against both baselines, beside what is published of that system."""
    against = [changes(table, name).set_index(["interval", "scheduler", "metric"]) for name in (BASE, KEPT)]
    systems = {source.title: source.published or "hpc2n" for source in SOURCES}
    rows = []
    for each in found:
        theirs = published[published["workload"].str.startswith(systems[each.name.rpartition(" ")[0]])]
        row = [each.name + (f", load {each.load:g}" if each.load != 1 else ""), f"{len(each.trace.jobs):,}", f"{each.waiting:,.0f}"]
        for metric, column in (
            ("mean_wait_s", "relative_change_mean_wait_pct"),
            ("mean_bounded_slowdown", "relative_change_mean_bounded_slowdown_pct"),
        ):
            row += [f"{against[0].loc[(each.name, PLANNER, metric), 'value']:,.{0 if metric == 'mean_wait_s' else 1}f}"]
            row += [_told(changed.loc[(each.name, PLANNER, metric)]) for changed in against] + [_range(theirs[column])]
        rows.append(row)
    heads = [
        "interval",
        "jobs",
        "waiting on average",
        f"mean wait under {PLANNER}, s",
        f"against {BASE}",
        f"against {KEPT}",
        "published*",
    ]
    heads += [f"bounded slowdown under {PLANNER}", f"against {BASE} ", f"against {KEPT} ", "published* "]
    return (
        markdown(heads, rows)
        + "\n\n\\* The least and the largest change of the paper's intervals of that system; of HPC2N beside SDSC-SP2."
    )


def _beside(changed: pd.DataFrame) -> str:
    rows = []
    for interval, part in changed.groupby("interval", sort=False):
        cells = [str(interval)]
        for scheduler in BESIDE:
            mine = part[part["scheduler"] == scheduler].set_index("metric")
            cells += [_told(mine.loc[metric]) for metric in ("mean_wait_s", "mean_bounded_slowdown")]
        for scheduler in (BASE, PLANNER, "Conservative"):
            mine = part[part["scheduler"] == scheduler].set_index("metric")
            cells.append(_hours(mine.loc["predicted_start_error_s", "value"]))
        rows.append(cells)
    heads = ["interval", *(f"{name}: {what}" for name in BESIDE for what in ("mean wait", "bounded slowdown"))]
    heads += [f"error of planned starts, h: {name}" for name in (BASE, PLANNER, "Conservative")]
    return markdown(heads, rows)


def _readings(table: pd.DataFrame) -> str:
    against = {name: changes(table, name) for name in (BASE, *READINGS)}
    rows = []
    for interval in table["interval"].unique():
        cells = [str(interval)]
        for changed in against.values():
            mine = changed[(changed["interval"] == interval) & (changed["scheduler"] == PLANNER)].set_index("metric")
            cells.append("; ".join(f"{mine.loc[metric, 'change']:+.1%}" for metric in ("mean_wait_s", "mean_bounded_slowdown")))
        rows.append(cells)
    return markdown(["interval", *against], rows)


def _whole(whole: Traces) -> str:
    rows = []
    for trace, each in whole.items():
        for label, made in by_label(each.schedules).items():
            found = pd.DataFrame([of_schedule(each) for each in made]).mean()
            rows.append(
                [
                    trace,
                    label,
                    f"{found['utilization']:.1%}",
                    f"{found['mean_wait_s']:,.0f}",
                    f"{found['mean_bounded_slowdown']:,.1f}",
                    f"{found['nuwt_mean']:.3g} ± {found['nuwt_sd']:.3g}",
                    f"{found['nuwt_below_1']:.0%}",
                    f"{found['complaints']:,.0f}",
                    f"{found['within_mean']:.0%}",
                    _hours(found["predicted_start_error_s"]),
                    "–" if np.isnan(found["started_by_first_plan"]) else f"{found['started_by_first_plan']:.0%}",
                    f"{found['seconds']:,.1f}",
                ]
            )
    heads = ["trace", "policy", "utilization", "mean wait, s", "bounded slowdown", "NUWT", "users below 1", "complaints"]
    heads += ["wait at most the mean", "error of planned starts, h", "started by the first plan", "simulated in, s"]
    return markdown(heads, rows, keys=2)


def _with_memory(whole: Traces) -> list[str]:
    """Say what NUWT is where a job counts as the share of processors or memory that it holds, a line a trace with memory."""
    said = []
    for trace, each in whole.items():
        if each.memory_share is None:
            continue
        texts = []
        for label, made in by_label(each.schedules).items():
            found = [fairness(made[0], memory_share=each.memory_share, resource=reading) for reading in ("larger", "mean")]
            texts.append(label + " " + " and ".join(f"{one['nuwt_mean']:.3g} ± {one['nuwt_sd']:.3g}" for one in found))
        said.append(
            f"NUWT of {trace} with memory, where a job uses the larger of its shares of processors and memory (the released program) and their mean: "
            f"{'; '.join(texts)}.\n"
        )
    return said


def _claims(table: pd.DataFrame, whole: Traces) -> str:
    """Return the paper's claims beside what is found, a row a claim."""
    rows = []
    for base in (BASE, KEPT):
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
    "costs": "Figure 5: what a search costs",
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


def _told(row: pd.Series) -> str:
    """Return a change with its interval."""
    if np.isnan(row["change"]):
        return "–"
    return f"{row['change']:+.1%} [{row['low']:+.1%}, {row['high']:+.1%}]"


def _range(values: pd.Series) -> str:
    return f"{values.max():+.1f} to {values.min():+.1f} %" if len(values) else "–"


def _hours(seconds: float) -> str:
    return "–" if np.isnan(seconds) else f"{seconds / 3600:.2f}"


def _yes(holds: bool) -> str:
    return "yes" if holds else "**no**"
