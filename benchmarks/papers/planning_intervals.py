"""What the page of :mod:`benchmarks.papers.planning` says of the eight intervals, from its top on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from benchmarks.common.tables import markdown
from benchmarks.papers.planning import (
    BASE,
    BESIDE,
    FEW,
    INTERVAL_DAYS,
    PLANNER,
    READINGS,
    RENEWED,
    SORTED,
    SORTS,
    SOURCES,
    SQUEEZE,
    Interval,
    changes,
)
from features.jobs.shaking import SHAKE_S

HEAD = """# Does planning with random search beat conservative backfilling?

{answer}

Klusáček & Chlumský (JSSPP 2016) plan every waiting job, move random jobs of the plan once a minute, and keep moves that improve waits, slowdowns and
fairness between users (`PlanRS`). Their baseline is the backfilling that they had before (`OrigBF`: queues by requested time, in each the user with the
least usage first, a reservation for each job). They publish changes of mean wait and mean bounded slowdown on eight contended intervals, and figures of
their site. NUWT measures fairness: the seconds that a user's jobs wait over the processor-seconds that they use, lower is better.

They do not state their intervals, so these are ours: of each trace the {days} days in which most jobs wait under EASY, begun with an empty machine, none
overlapping another. All times are divided by {squeeze:g}, and requests are what users stated (inaccurate). `PlanRS` and both baselines of
table 1 have {replicates} replicates each, other schedulers fewer: seed i moves every submission by up to {shake} s, the same for all schedulers, and draws
the search's moves. A change is the mean over the pairs of replicates, with the 95 % interval of that mean in brackets (Student). "Beyond doubt" means
that this interval lies on one side of 0. Replicates are of the same week: an interval holds what chance moves within it, and says nothing of other weeks.

HPC2N, and the paper's trace of January to April 2015, are not to be had. SDSC-SP2 stands in for HPC2N. CERIT here is December 2012 to March 2013 on its
two clusters, with memory, properties and whole nodes.
"""

LOADED = """CERIT hardly waits at its recorded load: what held its jobs back were limits that are not in the file. Intervals marked "load 3" have times between
submissions divided by 3, which is a study of contention, not of CERIT.
"""

BEST_SORT = "SAF-EASY"
"""The plain sort with the shortest waits."""
METRICS_TOLD = {"mean_wait_s": "mean wait", "mean_bounded_slowdown": "mean bounded slowdown"}
SORTS_TOLD = f"""## Does a plain sort do as well?

The control: schedulers that sort the queue and never search, over the first {SORTED} replicates. `EASY-SJBF` serves in order of submission, and lets the
shortest requests pass first. `SPF-EASY` and `SPF-JustBF` serve the shortest requests first, `SAF-EASY` the smallest areas (requested time times
processors). Changes against {BASE} (mean wait; mean bounded slowdown):
"""


def of_intervals(found: Sequence[Interval], table: pd.DataFrame, published: pd.DataFrame) -> list[str]:
    """Return what is said of the eight intervals, from the top of the page on."""
    against = {name: changes(table, name) for name in (BASE, *READINGS)}
    first = table[table["seed"] < SORTED]
    answer = _answer(against, changes(first, PLANNER))
    head = HEAD.format(answer=answer, days=INTERVAL_DAYS, squeeze=SQUEEZE, shake=SHAKE_S, replicates=table["seed"].nunique())
    parts = [head, "## Table 1\n"]
    for metric, column in (
        ("mean_wait_s", "relative_change_mean_wait_pct"),
        ("mean_bounded_slowdown", "relative_change_mean_bounded_slowdown_pct"),
    ):
        parts += [_table_1(found, against, published, metric, column), ""]
    parts += ["\\* Minimum and maximum change of the paper's intervals of that system; of HPC2N beside SDSC-SP2.\n", LOADED]
    parts += [
        SORTS_TOLD,
        _sorts(changes(first)),
        "",
        *_unevenness(first),
        _sorts_say(first),
        "## Other schedulers and other baselines\n",
    ]
    for metric, told in METRICS_TOLD.items():
        parts += [f"Change of {told} against {BASE}, over the first {FEW} replicates:\n", _beside(against[BASE], metric), ""]
    return [
        *parts,
        f"Longest wait, hours, mean of the first {FEW} replicates:\n",
        _longest(table[table["seed"] < FEW]),
        "",
        "Mean difference between the first planned start and the actual one, hours:\n",
        _errors(against[BASE]),
        "",
        f"`{PLANNER}` against other readings of the baseline, of which the paper says little: queues of long requests first, one queue, and reservations "
        f"made anew (mean wait; mean bounded slowdown; the first {FEW} replicates but for {BASE} and {RENEWED}):\n",
        _readings(against),
        "",
    ]


def _answer(against: Mapping[str, pd.DataFrame], to_planner: pd.DataFrame) -> str:
    """Answer the question of the page in a few sentences."""
    of_planner = {base: changed[changed["scheduler"] == PLANNER] for base, changed in against.items()}
    intervals = of_planner[BASE]["interval"].nunique()
    kept, renewed = (
        "; ".join(
            f"{told} {sure(of_planner[base], metric)}"
            for metric, told in {**METRICS_TOLD, "longest_wait_s": "longest wait"}.items()
        )
        for base in (BASE, RENEWED)
    )
    few = of_planner[RENEWED].set_index("metric").loc["longest_wait_s", "seeds"].min()
    sort = to_planner[to_planner["scheduler"] == BEST_SORT]
    waits, slowdowns = (_count(sort, metric) for metric in METRICS_TOLD)
    less_fair = int((sort.loc[sort["metric"] == "nuwt_mean", "change"] > 0).sum())
    return (
        f"**Answer.** In {intervals} contended weeks `{PLANNER}` has, against `{BASE}`, which keeps its reservations as the paper's baseline does: {kept}. "
        f"Against `{RENEWED}`, which makes them anew whenever its queues are ordered: {renewed} (longest waits: {few} replicates). Counted is "
        "what lies outside the chance of replays of the same week; nothing is said of other weeks. The paper finds mean wait and slowdown "
        f"lower in all of its 8 intervals, and has no longest waits. A plain sort without any search (`{BEST_SORT}`, smallest requested area "
        f"first; {SORTED} replicates) has shorter mean waits than `{PLANNER}` in {waits} of {intervals} and lower slowdowns in {slowdowns}, "
        f"but a higher mean NUWT of users, which the search is to lower, in {less_fair}."
    )


def sure(part: pd.DataFrame, metric: str) -> str:
    """Say in how many intervals a metric is lower and higher beyond doubt, and by how much."""
    mine, told = part[part["metric"] == metric], []
    for side, sign, found in (("lower", "−", mine[mine["high"] < 0]), ("higher", "+", mine[mine["low"] > 0])):
        least_first = sorted(found["change"].abs())
        by = dict.fromkeys(f"{sign}{change:.0%}" for change in (*least_first[:1], *least_first[-1:]))
        told.append(f"{side} in {len(found)} ({' to '.join(by)})" if by else f"{side} in none")
    return ", ".join(told)


def _count(part: pd.DataFrame, metric: str, column: str = "change") -> int:
    """Return in how many intervals a metric is lower, or by ``high`` lower beyond doubt."""
    return int((part.loc[part["metric"] == metric, column] < 0).sum())


def _table_1(
    found: Sequence[Interval], against: Mapping[str, pd.DataFrame], published: pd.DataFrame, metric: str, column: str
) -> str:
    """Return the changes of one metric against both baselines, beside what is published of that system."""
    mine = [against[name].set_index(["interval", "scheduler", "metric"]) for name in (BASE, RENEWED)]
    systems = {source.title: source.published or "hpc2n" for source in SOURCES}
    waits = metric == "mean_wait_s"
    rows = []
    for each in found:
        theirs = published[published["workload"].str.startswith(systems[each.name.rpartition(" ")[0]])]
        changed = [one.loc[(each.name, PLANNER, metric)] for one in mine]
        row = [each.name + (f", load {each.load:g}" if each.load != 1 else "")]
        row += [f"{len(each.trace.jobs):,}", f"{each.waiting:,.0f}"] if waits else []
        rows.append([*row, f"{changed[0]['value']:,.{0 if waits else 1}f}", *map(_told, changed), _range(theirs[column])])
    heads = [
        "interval",
        *(("jobs", "waiting on average") if waits else ()),
        f"{METRICS_TOLD[metric]} under {PLANNER}{', s' if waits else ''}",
    ]
    return markdown([*heads, f"against {BASE}", f"against {RENEWED}", "published*"], rows)


def _sorts(changed: pd.DataFrame) -> str:
    found = changed.set_index(["interval", "scheduler", "metric"])["change"]
    return markdown(
        ["interval", PLANNER, *SORTS],
        [
            [each, *("; ".join(f"{found[each, name, metric]:+.0%}" for metric in METRICS_TOLD) for name in (PLANNER, *SORTS))]
            for each in changed["interval"].unique()
        ],
    )


def _unevenness(table: pd.DataFrame) -> list[str]:
    """Return tables of the longest wait and of mean NUWT under plain sorts."""
    names, intervals = (BASE, PLANNER, *SORTS), table["interval"].unique()
    means = table.groupby(["interval", "scheduler"], sort=False)[["longest_wait_s", "nuwt_mean"]].mean()
    parts = []
    for metric, told, show in (
        ("longest_wait_s", "Longest wait, hours", hours),
        ("nuwt_mean", "Mean NUWT of users", lambda value: f"{value:.3g}"),
    ):
        rows = [[each, *(show(means.loc[(each, name), metric]) for name in names)] for each in intervals]
        parts += [f"{told}, mean of these replicates:\n", markdown(["interval", *names], rows), ""]
    return parts


def _sorts_say(table: pd.DataFrame) -> str:
    """Say in how many intervals the planner is ahead of each sort, and what sorts do to the longest wait."""
    to_base = changes(table)
    longest = to_base[to_base["metric"] == "longest_wait_s"].groupby("scheduler", sort=False)["change"]
    said = []
    for name in SORTS:
        to_sort = changes(table, name)
        part = to_sort[to_sort["scheduler"] == PLANNER]
        ahead = ", ".join(
            f"{told} in {_count(part, metric)} ({_count(part, metric, 'high')} beyond doubt)"
            for metric, told in (*METRICS_TOLD.items(), ("longest_wait_s", "longest wait"), ("nuwt_mean", "mean NUWT"))
        )
        of_sort = longest.get_group(name)
        said.append(
            f"* Against `{name}`, lower under `{PLANNER}`: {ahead}. The sort's longest wait is {of_sort.min():+.0%} to {of_sort.max():+.0%} to {BASE}'s."
        )
    return "\n".join(
        [f"Of {table['interval'].nunique()} intervals, over these replicates:\n", *said, "", "Sorts tell users no start.", ""]
    )


def _beside(changed: pd.DataFrame, metric: str) -> str:
    rows = []
    for interval, part in changed[changed["metric"] == metric].groupby("interval", sort=False):
        mine = part.set_index("scheduler")
        rows.append([str(interval), *(_told(mine.loc[name]) for name in BESIDE)])
    return markdown(["interval", *BESIDE], rows)


def _longest(table: pd.DataFrame) -> str:
    names = (PLANNER, RENEWED, *BESIDE)
    means = table.groupby(["interval", "scheduler"])["longest_wait_s"].mean()
    rows = [[each, *(hours(means[each, name]) for name in names)] for each in table["interval"].unique()]
    return markdown(["interval", *names], rows)


def _errors(changed: pd.DataFrame) -> str:
    names, rows = (BASE, RENEWED, PLANNER, "Conservative"), []
    for interval, part in changed[changed["metric"] == "predicted_start_error_s"].groupby("interval", sort=False):
        mine = part.set_index("scheduler")
        rows.append([str(interval), *(hours(mine.loc[name, "value"]) for name in names)])
    return markdown(["interval", *names], rows)


def _readings(against: Mapping[str, pd.DataFrame]) -> str:
    rows = []
    for interval in against[BASE]["interval"].unique():
        cells = [str(interval)]
        for changed in against.values():
            mine = changed[(changed["interval"] == interval) & (changed["scheduler"] == PLANNER)].set_index("metric")
            cells.append("; ".join(f"{mine.loc[metric, 'change']:+.1%}" for metric in METRICS_TOLD))
        rows.append(cells)
    return markdown(["interval", *against], rows)


def _told(row: pd.Series) -> str:
    """Return a change with its interval."""
    if np.isnan(row["change"]):
        return "–"
    return f"{row['change']:+.1%} [{row['low']:+.1%}, {row['high']:+.1%}]"


def _range(values: pd.Series) -> str:
    return f"{values.max():+.1f} to {values.min():+.1f} %" if len(values) else "–"


def hours(seconds: float) -> str:
    return "–" if np.isnan(seconds) else f"{seconds / 3600:.2f}"
