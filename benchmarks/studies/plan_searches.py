"""Compare ways to search for better plans: on plans of real simulations, and from end to end.

``python -m benchmarks.studies.plan_searches`` prints the page docs/studies/plan-searches.md, ``--write`` makes it, its picture and
the tables beside it. Needs KTH-SP2 and CERIT under ``--shared``.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd

from benchmarks.common.pages import SHARED, STUDIES, kept, made_by
from benchmarks.common.tables import markdown
from features.jobs.cleaning import clean
from pipelines.ingest.machine_file import read_machine
from pipelines.ingest.swf import read_swf
from pipelines.report.style import INK, encode, figure
from pipelines.storage.atomic import replacing
from sim import evaluate, simulate
from sim.kernel.planning_search import METHODS, search
from sim.kernel.state import State
from sim.planner import Planner, Searches, as_rules, as_search
from sim.planning import PlanRS

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
    "NUWT: mean alone": "spread=mean",
    "NUWT: deviation alone": "spread=sd",
    "NUWT: squares": "spread=squares",
    "NUWT of all users": "users=all",
    "users have consumed at least 1 s": "least=1",
    "users have consumed at least a day": "least=86400",
    "NUWT halved every 72 h": "decay=72",
    "running jobs count": "counted=running",
    "relative to the first plan": "base=first",
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
    found = []
    for (kind, sizes), (jobs, given) in zip(PLANS.items(), runs, strict=True):
        seen = plans_of(kind, sizes, jobs.reset_index(drop=True), given)
        found += [seen[at] for at in np.linspace(0, len(seen) - 1, EACH).astype(int)]
    return found


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


def searched(found: Sequence[Plan]) -> pd.DataFrame:
    """Return the gains of all searches on all plans: with equal evaluations, and in the time that ``random`` takes for them."""
    rows = []
    one_search(found[0], PlanRS(), 0)  # compiles it
    for number, plan in enumerate(found):
        size = int(plan.planner.size.sum())
        seconds = {}
        for method in METHODS:
            rule = PlanRS(search=method, iterations=ITERATIONS)
            made = [one_search(plan, rule, seed) for seed in range(SEEDS)]
            seconds[method] = float(np.median([each for _, each in made]))
            rows += [(plan.kind, number, size, "evaluations", method, seed, *each) for seed, each in enumerate(made)]
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


def gains_table(table: pd.DataFrame, equal: str) -> str:
    """Return a row a search, a column a kind of plans."""
    seeds = by_seed(table[table["equal"] == equal])
    rows = []
    for method in METHODS:
        cells = []
        for kind in PLANS:
            part = seeds[(seeds["search"] == method) & (seeds["kind"] == kind)]
            cells.append("{:.3f} ± {:.3f}".format(*interval(part["gain"].to_numpy())))
        rows.append([f"`{method}`", *cells])
    return markdown(["search", *PLANS], rows)


def pace_table(table: pd.DataFrame) -> str:
    """Return microseconds an iteration, a row a search."""
    part = table[table["equal"] == "evaluations"].assign(us=lambda made: 1e6 * made["seconds"] / ITERATIONS)
    medians = part.groupby(["search", "kind"])["us"].median()
    rows = [[f"`{method}`", *(f"{medians[method, kind]:.1f}" for kind in PLANS)] for method in METHODS]
    return markdown(["search", *PLANS], rows)


def relative(table: pd.DataFrame, titles: Sequence[str], base: str) -> str:
    """Return the mean over the parts of each metric relative to ``base``, in percent, with intervals over seeds."""
    of_base = table[table["title"] == base].groupby("part")[list(METRICS)].mean()
    rows = []
    for title in titles:
        cells = []
        for metric in METRICS:
            part = table[table["title"] == title]
            change = 100 * (part[metric] / part["part"].map(of_base[metric]) - 1)
            mean, half = interval(change.groupby(part["seed"]).mean().to_numpy())
            cells.append(f"{mean:+.1f}" + (f" ± {half:.1f}" if half else ""))
        rows.append([title, *cells])
    return markdown(["", *(f"{title}, %" for title in METRICS.values())], rows)


HEAD = """# Which search makes the best plans?

{answer}

`PlanRS` tries moves of its plan every minute (Klusacek & Chlumsky). Their search tries a random job at a random position, and is said to beat simulated
annealing and tabu search often. Here six searches ([reference.md](../reference.md#planrs)) begin with the same plans, which simulations met: {count} plans of
three kinds, {seeds} seeds each. The gain is the weighted sum of the relative improvements of mean wait (1), mean bounded slowdown (1) and unfairness (10)
from the first plan to the best one found; ± is half a 95 % t interval over seeds of the mean over a kind's plans.

![Gain of each search on three kinds of plans](plan-searches.png)

## With {iterations} evaluations

{evaluations}

## In the time that `random` takes for {iterations}

{times}

Microseconds of processor time an evaluation, medians:

{pace}

## From end to end

Three parts of KTH-SP2 with 1,500 jobs each, requested times, searches at passes that are a minute apart; changes against `{backfilling}`, means over
the parts, {seeds} seeds.

{ends}

## What the paper leaves open

The same with {few} seeds, against the options as they are by default ([reference.md](../reference.md#planrs)). {moved}

{options}

What this does not show: other traces, predicted runtimes, machines of nodes from end to end. Seeds move what is drawn alone, not the submissions:
an interval says nothing of other weeks.

The data: [data/plan-searches.csv](data/plan-searches.csv), [data/plan-searches-replays.csv](data/plan-searches-replays.csv).

{made}
"""


def answer(table: pd.DataFrame, ends: pd.DataFrame) -> str:
    """Return the best searches in a sentence or two."""
    said = []
    for equal, words in (("evaluations", "with equal evaluations"), ("time", "in equal time")):
        seeds = by_seed(table[table["equal"] == equal])
        mean = seeds.groupby(["kind", "search"])["gain"].mean()
        each = []
        for kind in PLANS:
            best = mean[kind].idxmax()
            each.append(f"`{best}` {mean[kind, best]:.2f} (`random` {mean[kind, 'random']:.2f}) on {kind}")
        said.append(f"{words}: " + "; ".join(each))
    base = ends[ends["title"] == BACKFILLING].groupby("part")["mean_bounded_slowdown"].mean()
    change, half = {}, {}
    for method in METHODS:
        part = ends[ends["title"] == f"search={method}"]
        of_seeds = (100 * (part["mean_bounded_slowdown"] / part["part"].map(base) - 1)).groupby(part["seed"]).mean()
        change[method], half[method] = interval(of_seeds.to_numpy())
    best = min(change, key=lambda method: change[method])
    apart = change[best] + half[best] < change["random"] - half["random"]
    return (
        f"Gains {said[0]}. {said[1][:1].upper()}{said[1][1:]}. From end to end the least bounded slowdown is `{best}`'s, "
        f"{change[best]:+.0f} % against `{BACKFILLING}`; `random` has {change['random']:+.0f} %{'' if apart else ', and their intervals overlap'}."
    )


def moved(ends: pd.DataFrame) -> str:
    """Return which options move bounded slowdown and mean NUWT most."""
    said = []
    for metric in ("mean_bounded_slowdown", "nuwt_mean"):
        mean = ends.groupby(["title", "part"])[metric].mean()
        change = {
            title: float((mean[title] / mean["as the paper"] - 1).mean())
            for title in OPTIONS
            if title not in ("as the paper", "no search")
        }
        first = sorted(change, key=lambda title: -abs(change[title]))[:3]
        said.append(
            f"{METRICS[metric]} is moved most by " + ", ".join(f"{title} ({100 * change[title]:+.0f} %)" for title in first)
        )
    return f"{said[0][:1].upper()}{said[0][1:]}; {said[1]}."


def page(table: pd.DataFrame, ends: pd.DataFrame) -> str:
    """Return the page as Markdown."""
    return HEAD.format(
        answer=answer(table, ends),
        count=table["plan"].nunique(),
        seeds=SEEDS,
        few=FEW_SEEDS,
        iterations=ITERATIONS,
        evaluations=gains_table(table, "evaluations"),
        times=gains_table(table, "time"),
        pace=pace_table(table),
        ends=relative(
            ends, ["EASY", "Conservative", BACKFILLING, "no search", *(f"search={method}" for method in METHODS)], BACKFILLING
        ),
        backfilling=BACKFILLING,
        options=relative(ends, list(OPTIONS), "as the paper"),
        moved=moved(ends),
        made=made_by("studies.plan_searches"),
    )


def picture(table: pd.DataFrame) -> bytes:
    """Draw each search's gain on each kind of plans, with equal evaluations and in equal time."""
    seeds = by_seed(table)
    with figure(9.0, 3.4, generated=False) as drawn:
        for column, kind in enumerate(PLANS):
            axes = drawn.add_subplot(1, len(PLANS), column + 1)
            for shift, equal, colour in ((0.15, "evaluations", "#0072b2"), (-0.15, "time", "#d55e00")):
                for place, method in enumerate(METHODS[::-1]):
                    part = seeds[(seeds["kind"] == kind) & (seeds["equal"] == equal) & (seeds["search"] == method)]
                    mean, half = interval(part["gain"].to_numpy())
                    axes.hlines(place + shift, mean - half, mean + half, color=colour, linewidth=1.6)
                    axes.plot(mean, place + shift, "o", color=colour, markersize=4, label=f"equal {equal}" if place == 0 else None)
            axes.set_yticks(range(len(METHODS)), METHODS[::-1] if column == 0 else [""] * len(METHODS))
            axes.set_title(kind.replace(", ", ",\n"), fontsize=8, color=INK)
            axes.set_xlabel("gain", color=INK)
            if column == 0:
                axes.legend(fontsize=7)
        return encode(drawn, "png")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ is")
    parser.add_argument("--keep", type=Path, help="folder of results to use again")
    parser.add_argument("--write", action="store_true", help="write the page, its picture and its data")
    options = parser.parse_args(argv)

    def remembered(name: str, make: object) -> pd.DataFrame:
        if options.keep is None:
            return make()  # type: ignore[operator, no-any-return]
        options.keep.mkdir(parents=True, exist_ok=True)
        return kept(options.keep, "studies.plan_searches", (name,), make)  # type: ignore[arg-type]

    table = remembered("plans", lambda: searched(plans(options.shared)))
    ends = remembered("ends", lambda: replayed(options.shared))
    text = page(table, ends)
    if not options.write:
        print(text)
        return
    files: Mapping[Path, bytes] = {
        STUDIES / "plan-searches.md": text.encode(),
        STUDIES / "plan-searches.png": picture(table),
        STUDIES / "data" / "plan-searches.csv": table.to_csv(index=False, float_format="%.6g").encode(),
        STUDIES / "data" / "plan-searches-replays.csv": ends.to_csv(index=False, float_format="%.6g").encode(),
    }
    for path, content in files.items():
        with replacing(path) as unfinished:
            unfinished.write_bytes(content)


if __name__ == "__main__":
    main()
