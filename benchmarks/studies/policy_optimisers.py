"""Compare optimisers of mixed policies: do they find the best of the grid, and how soon?

Legrand, Trystram & Zrigui (2018) cover the space of three weights with a grid, and find its best direction by xNES "every time". They do
not say how large the penalty is, where the search starts, with which step, how long it goes on, or when it stops. As declared
(:class:`benchmarks.papers.legrand.optimisers.Search`): penalty 1, step 0.5, a random start, the library's population, and a new start
once no weight of a generation differs by more than 0.1. That bound is among the best of some 33 settings tried on these very weeks.

The weeks are every third or fourth training week of SDSC-SP2 and KTH-SP2 in which the direction matters: a median random one costs 1.1 times the
best of the grid. Three seeds each, 1,000 simulations a search, bounded slowdown with tau = 60 s, no starvation threshold. Excess is over
the best of the surface grid, which is known exactly; ``after_250`` is the share of searches that had reached it after 250 simulations.
Scaled weights are over (n, r, wait, r/n, expansion, r n) in units of 1000, 1, 0.1, 10, 10,000 and 0.1, in which typical features are of
one size: a first guess. The second table has each week's least slowdown on the surface grid, on the cube of 948,158 directions, and on
the surface of weights in units of 1000 for n, 10 for r and 1 for wait.

``python -m benchmarks.studies.policy_optimisers`` prints the card docs/studies/policy-optimisers.md, ``--write`` makes it and its data,
``--card`` the card alone, of the data that are there. Needs the traces under ``--shared``. The cube alone takes half an hour of two cores.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.common.card import Card, parser, rows_of, show, write_rows
from benchmarks.common.pages import STUDIES
from benchmarks.papers.legrand.mixed import CUBE, SURFACE, grid
from benchmarks.papers.legrand.mixed_policies import SOURCES
from benchmarks.papers.legrand.optimisers import TYPICAL, Best, Search, optimise, slowdown
from sim import split_windows
from sim.campaigns.sweep import MIXED, PreparedSweep, random_weights

NAME, PAGE = "studies.policy_optimisers", "policy-optimisers"
WEEKS = {"sdsc-sp2": range(29, 65, 3), "kth-sp2": range(2, 23, 4)}
"""Weeks of training of each trace, every third or fourth."""
MATTERS = 1.1
"""How many times the best of the grid a median random direction must cost for a week to count."""
SEEDS, BUDGET, TAU_S = 3, 1000, 60.0
AFTER = (100, 250, 500, 1000)
SETTINGS: dict[str, dict[str, Any]] = {
    "xNES, as declared": {},
    "CMA-ES": {"method": "cma-es"},
    "random search": {"method": "random"},
    "penalty 0": {"penalty": 0.0},
    "penalty 0.1": {"penalty": 0.1},
    "penalty 10": {"penalty": 10.0},
    "step 0.25": {"step": 0.25},
    "step 1": {"step": 1.0},
    "step 2": {"step": 2.0},
    "population 14": {"population": 14},
    "population 30": {"population": 30},
    "new start within 0.01": {"closest": 0.01},
    "no new start": {"closest": 0.0},
}
FIRST = 3
"""How many of them are also tried with six weights, and over scaled weights."""
SHOWN = (
    *(f"{kind}: {name}" for kind in ("3 weights", "6 scaled weights") for name in ("xNES, as declared", "CMA-ES", "random search")),
    *(f"3 weights: {name}" for name in ("penalty 0", "step 2", "no new start")),
    "3 scaled weights: xNES, as declared",
)
"""Searches of the card."""


class Week(NamedTuple):
    """A prepared week, and its least bounded slowdown on three grids."""

    name: str
    sweep: PreparedSweep
    surface: float
    cube: float
    scaled_surface: float


def weeks_that_matter(shared: Path) -> list[Week]:
    """Return the weeks in which the direction matters."""
    asked = []
    for name, numbers in WEEKS.items():
        trace = SOURCES[name].read(shared)
        windows = split_windows(trace.jobs, "weeks").windows
        asked += [(f"{SOURCES[name].title} {each.number}", each.jobs, trace.procs) for each in windows if each.number in numbers]
    directions = (grid(), grid(reading=CUBE), grid(reading=SURFACE, scale=(1000, 10, 1)))

    def one(name: str, jobs: pd.DataFrame, procs: int) -> Week | None:
        sweep = PreparedSweep(jobs, procs=procs, policy=MIXED, taus_s=(TAU_S,))
        value = slowdown(sweep)
        least = float(value(directions[0]).min())
        if float(np.median(value(random_weights(200)))) < MATTERS * least:
            return None
        return Week(name, sweep, least, *(float(value(each).min()) for each in directions[1:]))

    with ThreadPoolExecutor() as pool:
        return [week for week in pool.map(one, *zip(*asked, strict=True)) if week is not None]


def searched(weeks: list[Week], search: Search, dimensions: int, scaled: bool) -> list[list[Best]]:
    """Return the best of each seed, a list a week."""
    scale = TYPICAL[:dimensions] if scaled else None

    def one(week: Week) -> list[Best]:
        return [optimise(slowdown(week.sweep), dimensions, search, seed=seed, scale=scale) for seed in range(SEEDS)]

    with ThreadPoolExecutor() as pool:
        return list(pool.map(one, weeks))


def row(weeks: list[Week], best: list[list[Best]]) -> dict[str, float]:
    """Return the excess over the best of the surface grid, and how many searches reach that after so many simulations."""
    excess = [each.value / week.surface - 1 for week, bests in zip(weeks, best, strict=True) for each in bests]
    reached = [each.reached(week.surface * (1 + 1e-9)) for week, bests in zip(weeks, best, strict=True) for each in bests]
    shares = {f"after_{after}": np.mean([each is not None and each <= after for each in reached]) for after in AFTER}
    starts = np.mean([each.starts for bests in best for each in bests])
    return {"mean_excess": np.mean(excess), "median_excess": np.median(excess), **shares, "starts": starts}


def compute(options: argparse.Namespace) -> pd.DataFrame:
    """Return a row for each search; with ``--write`` write the grids' table, too."""
    weeks, rows = weeks_that_matter(options.shared), []
    for dimensions in (3, 6):
        for scaled in (False, True):
            for name, changes in SETTINGS.items() if dimensions == 3 and not scaled else list(SETTINGS.items())[:FIRST]:
                over, search = "scaled weights" if scaled else "weights", replace(Search(budget=BUDGET), **changes)
                best = searched(weeks, search, dimensions, scaled)
                rows.append({"search": f"{dimensions} {over}: {name}", **row(weeks, best)})
    if options.write:
        grids = pd.DataFrame([week._asdict() for week in weeks]).drop(columns="sweep").rename(columns={"name": "week"})
        write_rows(STUDIES / "data" / f"{PAGE}-grid.csv", grids)
    return pd.DataFrame(rows)


def card(rows: pd.DataFrame, made_by: str) -> Card:
    """Return the card of the searches."""
    of, grids = rows.set_index("search"), pd.read_csv(STUDIES / "data" / f"{PAGE}-grid.csv")
    reached = of["after_1000"].map("{:.0%}".format)
    table = of.loc[list(SHOWN)].reset_index()[["search", "mean_excess", "median_excess", "after_250", "after_1000"]]
    for name in list(table)[1:]:
        table[name] = table[name].map("{:+.1%}".format if "excess" in name else "{:.0%}".format)
    gain = {name: 1 - grids[name] / grids["surface"] for name in ("cube", "scaled_surface")}
    return Card(
        "Does xNES find the best mixed policy of a week?",
        f"Not every time: {reached['3 weights: xNES, as declared']} of its searches with three weights reach the best of the grid, and "
        f"{reached['3 weights: random search']} of random ones do. In units in which features are of one size, six weights find better "
        "policies than the grid has.",
        table.rename(columns=lambda name: str(name).replace("_", " ")),
        f"{len(grids)} training weeks, {SEEDS} seeds, {BUDGET:,} simulations a search. Excess over the grid's best; share of searches that had "
        "reached it after so many simulations:",
        f"{len(grids) * SEEDS} searches do not separate neighbouring rows, and the declared setting was chosen on these weeks. The grid is no bound: "
        f"the cube of 948,158 directions is {gain['cube'].mean():.1%} better on average ({gain['cube'].max():.0%} at most), the scaled surface "
        f"{gain['scaled_surface'].mean():.0%} ({gain['scaled_surface'].max():.0%}). All are optima of a week known beforehand, and say nothing of the next.",
        [f"{PAGE}.csv", f"{PAGE}-grid.csv"],
        made_by,
    )


def main() -> None:
    options = parser(__doc__).parse_args()
    show(card(*rows_of(options, NAME, f"{PAGE}.csv", lambda: compute(options))), PAGE, options)


if __name__ == "__main__":
    main()
