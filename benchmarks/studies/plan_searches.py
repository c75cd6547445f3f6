"""Compare ways to search for better plans: on plans of real simulations, and from end to end.

``PlanRS`` tries moves of its plan every minute (Klusacek & Chlumsky). Their search tries a random job at a random position, and is said to
beat simulated annealing and tabu search often. Searches (docs/reference.md, PlanRS) begin with the same plans, which simulations met:
12 plans of three kinds, 20 seeds each, with as many evaluations and in as much time as ``random`` takes for 300. The gain is the
weighted sum of the relative improvements of mean wait (1), mean bounded slowdown (1) and unfairness (10) from the first plan to the best one.
From end to end: three parts of KTH-SP2 with 1,500 jobs each, requested times, searches at passes that are a minute apart; and what the paper
leaves open, an option at a time. Intervals are 95 % t intervals over seeds of the mean over a kind's plans, or over the parts: seeds move
what is drawn alone, not the submissions, so they say nothing of other weeks.

``python -m benchmarks.studies.plan_searches`` prints the card docs/studies/plan-searches.md, ``--write`` makes it, its picture and the tables beside
it; ``--card`` makes card and picture of the data as they lie there. Needs KTH-SP2 and CERIT under ``--shared``.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd

from benchmarks.common.card import Card, made_before, parser, show, write_rows
from benchmarks.common.pages import HOUSE, STUDIES, kept, made_by
from features.jobs.cleaning import clean
from pipelines.ingest.machine_file import read_machine
from pipelines.ingest.swf import read_swf
from pipelines.report.style import INK, encode, figure
from sim import evaluate, simulate
from sim.kernel.planning_search import METHODS, search
from sim.kernel.state import State
from sim.planner import Planner, Searches, as_rules, as_search
from sim.planning import PlanRS

DATA = tuple(STUDIES / "data" / f"{name}.csv" for name in ("plan-searches", "plan-searches-replays"))
SEEDS = 20
ITERATIONS = 300
FEW_SEEDS = 5
"""Of options."""
PARTS = {"KTH-SP2 1": (5000, 6500), "KTH-SP2 2": (14000, 15500), "KTH-SP2 3": (23000, 24500)}
"""Jobs of KTH-SP2, as recorded."""
PLANS = {
    "KTH-SP2, 20 to 70 jobs": (20, 70),
    "KTH-SP2 at 2.5 times its load, 200 to 500": (200, 500),
    "CERIT at twice its load, 600 to 900": (600, 900),
}
EACH = 4
"""Plans of each kind."""
OPTIONS = {
    "as the paper": "",
    "no search": "iterations=0",
    "no fairness": "fairness=0",
    "preset program": "preset=program",
    "NUWT: squares": "spread=squares",
    "users have consumed at least 1 s": "least=1",
    "users have consumed at least a day": "least=86400",
    "waits by the root of processors": "width=sqrt",
    "60 s and 20 s of search": "clock=end,takes=20",
    "30 iterations": "iterations=30",
    "1,000 iterations": "iterations=1000",
}
BACKFILLING = "OrigBF(reservations=anew)"
"""What changes are relative to."""
METRICS = {
    "mean_wait_s": "mean wait",
    "mean_bounded_slowdown": "bounded slowdown",
    "nuwt_mean": "NUWT, mean",
    "nuwt_sd": "NUWT, sd",
}


class Plan(NamedTuple):
    """A plan as a search found it: the moment, bits of events, the planner's arrays and the state."""

    kind: str
    now: int
    bits: int
    planner: Planner
    state: State


def plans(shared: Path) -> list[Plan]:
    """Return plans of real simulations, a few of each kind, evenly spread over those that there are."""
    kth = clean(read_swf(shared / "traces" / "KTH-SP2-1996-2.1-cln.swf.gz"))
    cerit = clean(read_swf(shared / "traces" / "CERIT-wagap-2013.swf.gz"), 2176)
    machine = read_machine(shared / "traces" / "CERIT-wagap-2013.machines")
    some = cerit.jobs[machine.could_hold(cerit.jobs) != 0]
    runs = [
        (kth.jobs.iloc[:9000], {"procs": kth.procs}),
        (kth.jobs.iloc[:9000], {"procs": kth.procs, "load": 2.5}),
        (some, {"procs": cerit.procs, "load": 2.0, "machine": machine}),
    ]
    chosen = []
    for (kind, sizes), (jobs, given) in zip(PLANS.items(), runs, strict=True):
        seen = plans_of(kind, sizes, jobs.reset_index(drop=True), given)
        chosen += [seen[at] for at in np.linspace(0, len(seen) - 1, EACH).astype(int)]
    return chosen


def plans_of(kind: str, sizes: tuple[int, int], jobs: pd.DataFrame, given: Mapping[str, Any]) -> list[Plan]:
    """Return the plans of one simulation that have between so many and so many jobs: one in six, 16 at most."""
    seen: list[Plan] = []
    met = 0

    class Watching(Searches):
        def search(self, now: int) -> None:
            nonlocal met
            inside = sizes[0] <= self._planner.size.sum() <= sizes[1]
            met += int(inside)
            if inside and met % 6 == 1 and len(seen) < 16:
                seen.append(Plan(kind, now, self._bits, *copy.deepcopy((self._planner, self._state))))
            super().search(now)

    with patch("sim.outcome.Searches", Watching):
        simulate(jobs, scheduler="PlanRS(interval=3600,iterations=50)", **given)
    return seen


def one_search(plan: Plan, rule: PlanRS, seed: int) -> tuple[float, float]:
    """Return by how much a search improves a plan, weighted, and its processor seconds."""
    planner, state = copy.deepcopy((plan.planner, plan.state))
    find = as_search(*planner.order.shape, len(planner.waits), seed)
    rules, over, began = as_rules(rule), False, time.thread_time()
    while not over:
        over = search(plan.now, plan.bits, 4096, rules, planner, state, find)
    seconds = time.thread_time() - began
    gains = (find.first - find.best) / np.maximum(find.first, 1e-9)
    return float(gains @ [rule.wait, rule.slowdown, rule.fairness]), seconds


def searched(real_plans: Sequence[Plan]) -> pd.DataFrame:
    """Return the gains of all searches on all plans: with equal evaluations, and in the time that ``random`` takes for them."""
    rows = []
    one_search(real_plans[0], PlanRS(), 0)  # compiles it
    for number, plan in enumerate(real_plans):
        size = int(plan.planner.size.sum())
        seconds = {}
        for method in METHODS:
            rule = PlanRS(search=method, iterations=ITERATIONS)
            searches = [one_search(plan, rule, seed) for seed in range(SEEDS)]
            seconds[method] = float(np.median([each for _, each in searches]))
            rows += [(plan.kind, number, size, "evaluations", method, seed, *each) for seed, each in enumerate(searches)]
        for method in METHODS:
            count = max(1, round(ITERATIONS * seconds["random"] / seconds[method]))
            rule = PlanRS(search=method, iterations=count)
            rows += [(plan.kind, number, size, "time", method, seed, *one_search(plan, rule, seed)) for seed in range(SEEDS)]
    return pd.DataFrame(rows, columns=["kind", "plan", "jobs", "equal", "search", "seed", "gain", "seconds"])


def replayed(shared: Path) -> pd.DataFrame:
    """Return the metrics of whole simulations of parts of KTH-SP2, with every search and with every option."""
    trace = clean(read_swf(shared / "traces" / "KTH-SP2-1996-2.1-cln.swf.gz"))
    rows = []
    names = {f"search={method}": f"PlanRS(search={method})" for method in METHODS}
    names |= {title: f"PlanRS({options})" if options else "PlanRS" for title, options in OPTIONS.items()}
    names |= {name: name for name in ("EASY", "Conservative", BACKFILLING)}
    for part, (first, last) in PARTS.items():
        jobs = trace.jobs.iloc[first:last].reset_index(drop=True)
        for title, name in names.items():
            draws = name.startswith("PlanRS") and "iterations=0" not in name
            seeds = SEEDS if title.startswith("search=") else FEW_SEEDS
            for seed in range(seeds if draws else 1):
                schedule = simulate(jobs, procs=trace.procs, scheduler=name, seed=seed)
                facts = evaluate(schedule)
                rows.append((part, title, seed, *(float(facts[metric]) for metric in METRICS), schedule.simulate_s))
    return pd.DataFrame(rows, columns=["part", "title", "seed", *METRICS, "seconds"])


def interval(values: np.ndarray) -> tuple[float, float]:
    """Return the mean and half the width of its 95 % t interval."""
    from scipy.special import stdtrit

    if len(values) < 2:
        return float(values.mean()), 0.0
    return float(values.mean()), float(stdtrit(len(values) - 1, 0.975) * values.std(ddof=1) / len(values) ** 0.5)


def by_seed(table: pd.DataFrame) -> pd.DataFrame:
    """Return the gains of each seed, a mean over the plans of a kind."""
    return table.groupby(["kind", "equal", "search", "seed"], sort=False)["gain"].mean().reset_index()


def relative(table: pd.DataFrame, title: str, metric: str, base: str = BACKFILLING) -> str:
    """Return the mean over the parts of a metric relative to ``base``, in per cent, with its interval over seeds."""
    of_base = table[table["title"] == base].groupby("part")[metric].mean()
    rows = table[table["title"] == title]
    change = 100 * (rows[metric] / rows["part"].map(of_base) - 1)
    mean, half = interval(change.groupby(rows["seed"]).mean().to_numpy())
    return f"{mean:+.1f}±{half:.1f}"


def card(table: pd.DataFrame, ends: pd.DataFrame, provenance: str) -> Card:
    """Return the card of :func:`searched` and :func:`replayed`."""
    seeds = by_seed(table)
    mean = seeds[seeds["equal"] == "time"].groupby(["kind", "search"])["gain"].mean()
    best = "; ".join(
        f"`{mean[kind].idxmax()}` {mean[kind].max():.2f} (`random` {mean[kind, 'random']:.2f}) on {kind}" for kind in PLANS
    )
    rows = []
    for method in table["search"].unique():
        of_method = seeds[(seeds["search"] == method) & (seeds["equal"] == "time")]
        gains = ["{:.2f}±{:.2f}".format(*interval(of_method.loc[of_method["kind"] == kind, "gain"].to_numpy())) for kind in PLANS]
        rows.append([f"`{method}`", *gains, *(relative(ends, f"search={method}", metric) for metric in METRICS)])
    slowdown = {row[0]: row[5] for row in rows}
    least = min(slowdown, key=lambda method: float(slowdown[method].partition("±")[0]))
    return Card(
        question="Which search makes the best plans?",
        answer=f"In equal time, the largest gains are {best}. In whole simulations little of that remains: against `{BACKFILLING}`, the least bounded "
        f"slowdown is {least}'s, {slowdown[least]} %, and `random` has {slowdown['`random`']} %.",
        table=pd.DataFrame(
            rows, columns=["search", "few jobs", "200 to 500", "600 to 900", "wait, %", "slowdown, %", "NUWT, %", "its sd, %"]
        ),
        table_caption=f"Gain by number of jobs in the plan, in the time of {ITERATIONS} iterations of `random` (more is better); changes in whole "
        f"simulations (less is better); means of {SEEDS} seeds.",
        fails="Whole simulations of other traces, predicted runtimes and machines of nodes are not shown. Seeds change only random draws, not submissions: an "
        "interval says nothing of other weeks. Options that the paper leaves open have five seeds. Only `random` and `smith` can still be simulated.",
        data=["plan-searches.csv", "plan-searches-replays.csv"],
        made_by=provenance,
        picture="plan-searches.png",
        picture_caption="Gain of each search on three kinds of plans.",
    )


def picture(table: pd.DataFrame) -> bytes:
    """Draw each search's gain on each kind of plans, with equal evaluations and in equal time."""
    seeds, methods = by_seed(table), table["search"].unique()
    with figure(9.0, 3.4, generated=False) as drawn:
        for column, kind in enumerate(PLANS):
            axes = drawn.add_subplot(1, len(PLANS), column + 1)
            for shift, equal, colour in ((0.15, "evaluations", "#0072b2"), (-0.15, "time", "#d55e00")):
                for place, method in enumerate(methods[::-1]):
                    part = seeds[(seeds["kind"] == kind) & (seeds["equal"] == equal) & (seeds["search"] == method)]
                    mean, half = interval(part["gain"].to_numpy())
                    axes.hlines(place + shift, mean - half, mean + half, color=colour, linewidth=1.6)
                    axes.plot(mean, place + shift, "o", color=colour, markersize=4, label=f"equal {equal}" if place == 0 else None)
            axes.set_yticks(range(len(methods)), methods[::-1] if column == 0 else [""] * len(methods))
            axes.set_title(kind.replace(", ", ",\n"), fontsize=8, color=INK)
            axes.set_xlabel("gain", color=INK)
            if column == 0:
                axes.legend(fontsize=7)
        return encode(drawn, "png")


def main(argv: Sequence[str] | None = None) -> None:
    """Search and replay what is not kept; print the card, or write it with its picture and data."""
    arguments = parser(__doc__)
    arguments.add_argument(
        "--keep", type=Path, default=HOUSE / ".queuecast" / "plan-searches", help="folder of results to use again"
    )
    options = arguments.parse_args(argv)
    if options.card:
        table, ends = (pd.read_csv(path) for path in DATA)
        how = made_before("plan-searches")
    else:
        options.keep.mkdir(parents=True, exist_ok=True)
        table = kept(options.keep, "studies.plan_searches", ("plans",), lambda: searched(plans(options.shared)))
        ends = kept(options.keep, "studies.plan_searches", ("ends",), lambda: replayed(options.shared))
        how = made_by("studies.plan_searches", argv)
    show(card(table, ends, how), "plan-searches", options)
    if options.write or options.card:
        (STUDIES / "plan-searches.png").write_bytes(picture(table))
    for path, rows in zip(DATA, (table, ends), strict=True):
        if options.write:
            write_rows(path, rows)


if __name__ == "__main__":
    main()
