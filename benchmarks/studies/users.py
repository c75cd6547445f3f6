"""Measure what users that react change: the load of schedulers, and the ranking of predictors.

``python -m benchmarks.studies.users`` prints the card docs/studies/users.md, ``--write`` makes it, its picture and three
tables in data/: ``users.csv`` means over replays with 95 % t intervals, ``users-carried.csv`` the load EASY carries on
KTH-SP2 until so many jobs have ended (one replay as recorded), ``users-sessions.csv`` the sessions and batches of each trace. Replays
move submissions and think times by up to a minute; predictors run under EASY-SJBF with the corrections of
``PREDICTORS``. Needs KTH-SP2, LANL-CM5 and CERIT under ``--shared``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from benchmarks.common.card import Card, parser, read_rows, study, write_rows
from benchmarks.common.dots import dots
from benchmarks.common.pages import STUDIES
from benchmarks.studies.users_runs import (
    HALVES,
    REPLAYS,
    SCHEDULERS,
    SHAKE_S,
    SIMULATED,
    by_halves,
    carried,
    choices,
    loads,
    means,
    ranking,
    sessions,
    traces,
)
from sim.users.names import LOOPS

CARRIED = STUDIES / "data" / "users-carried.csv"
UNSHOWN = {("KTH-SP2", "SPF-EASY"), ("LANL-CM5", "EASY-SJBF"), ("LANL-CM5", "JustBF")}
FAILS = (
    "Users keep recorded think times and batches on any machine. Intervals are over replays of one trace, and "
    "say nothing of other traces; predictors were ranked on KTH-SP2 alone."
)


def card(rows: pd.DataFrame, load: pd.DataFrame, made_by: str) -> Card:
    """Return the card: a row a trace and scheduler, wait and load in each loop."""
    means_of = rows.set_index(["section", "title", "users", "scheduler", "predictor", "metric"]).sort_index()["mean"]
    of_loads = means_of["loads"].xs("requested", level="predictor")
    easy, strict = (
        {loop: f"{of_loads['KTH-SP2', loop, scheduler, 'carried_load']:.1%}" for loop in LOOPS} for scheduler in ("EASY", "Strict")
    )
    slowdown = means_of.loc["ranking", "KTH-SP2", :, "EASY-SJBF", :, "mean_bounded_slowdown"]
    exact, doubled = (
        ", ".join(f"{1 - slowdown[loop, name] / slowdown[loop, 'requested']:.0%}" for loop in LOOPS)
        for name in ("clairvoyant", "requested*2")
    )
    middle, low, high = again(rows, "ranking", "closed")
    table = []
    for title, scheduler in product(SIMULATED, SCHEDULERS):
        if (title, "open", scheduler, "mean_wait_s") in of_loads and (title, scheduler) not in UNSHOWN:
            cells = [of_loads[title, loop, scheduler] for loop in LOOPS]
            table.append(
                [
                    title,
                    scheduler,
                    *(f"{each['mean_wait_s']:,.0f}" for each in cells),
                    *(f"{each['carried_load']:.1%}" for each in cells),
                ]
            )
    return Card(
        question="What do users that react change?",
        answer=f"If users submit once the jobs they waited for have ended (closed), EASY carries a load of {easy['closed']} on KTH-SP2; Strict, with long "
        f"waits, {strict['closed']}; both carry {easy['open']} if users submit as recorded (open), and about as much if "
        f"only sessions begin as recorded (semi-open). Exact runtimes cut EASY-SJBF's slowdown by {exact} (open, closed, semi-open), doubled "
        f"requests by {doubled}; predictors' ranks, open and closed, correlate by {alike(rows, 'ranking'):.2f} (two sets of closed replays "
        f"{middle:.2f}, {low:.2f} to {high:.2f}), but by {alike(rows, HALVES[1]):.2f} over the second half of the jobs.",
        picture="users.png",
        picture_caption="Slowdown of predictors on KTH-SP2 under EASY-SJBF",
        table=pd.DataFrame(
            table, columns=["trace", "scheduler", *(f"wait {loop}" for loop in LOOPS), *(f"load {loop}" for loop in LOOPS)]
        ),
        table_caption=f"Mean wait in s, and load carried until nine tenths of the jobs have ended, with requested times; means of {REPLAYS} "
        f"replays with submissions moved by up to {SHAKE_S} s:",
        fails=f"EASY's gain depends on when load is measured: {load.at['closed', 'half']:.1%} closed against "
        f"{load.at['open', 'half']:.1%} open until half of the jobs have ended, {load.at['closed', 'all']:.1%} against {load.at['open', 'all']:.1%} until all "
        f"have. {FAILS}",
        data=["users.csv", "users-carried.csv", "users-sessions.csv"],
        made_by=made_by,
    )


def ranks(rows: pd.DataFrame, loop: str, section: str = "ranking") -> pd.DataFrame:
    """Return predictors of a loop by bounded slowdown, best first, with ``rank``."""
    chosen = (rows["section"] == section) & (rows["users"] == loop) & (rows["metric"] == "mean_bounded_slowdown")
    part = rows[chosen].sort_values("mean", kind="stable").set_index("predictor")
    return part.assign(rank=np.arange(1, len(part) + 1))


def alike(rows: pd.DataFrame, section: str) -> float:
    """Return the rank correlation of predictors in the open and the closed loop."""
    return float(ranks(rows, "open", section)["rank"].corr(ranks(rows, "closed", section)["rank"]))


def again(rows: pd.DataFrame, section: str, loop: str) -> np.ndarray:
    """Return the median and the 95 % range of the rank correlation that replaying a loop once more would have with it.

    Two sets of means are drawn from normal distributions with the means and errors of ``rows``.
    """
    ranked, draw = ranks(rows, loop, section), np.random.default_rng(0)
    error = (ranked["high"] - ranked["mean"]) / stdtrit(np.maximum(ranked["replays"] - 1, 1), 0.975)
    sets = draw.normal(ranked["mean"], error, (2, 2000, len(ranked))).argsort(2).argsort(2)
    each = [np.corrcoef(one, other)[0, 1] for one, other in zip(*sets, strict=True)]
    return np.quantile(each, [0.5, 0.025, 0.975])


def draw(rows: pd.DataFrame) -> bytes:
    """Draw each predictor's bounded slowdown in the three loops."""
    order = {name: place for place, name in enumerate(ranks(rows, "open").index)}
    slowdowns = rows[(rows["section"] == "ranking") & (rows["metric"] == "mean_bounded_slowdown")]
    slowdowns = slowdowns.sort_values("predictor", key=lambda names: names.map(order), kind="stable")
    slowdowns = slowdowns.rename(columns={"title": "panel", "predictor": "row", "users": "series", "mean": "value"})
    return dots(slowdowns, "mean bounded slowdown, 95 % over replays", {}, columns=1)


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--keep", type=Path, help="folder of results to use again")
    arguments.add_argument("--replays", type=int, default=REPLAYS, help="shaken replays of each policy")
    options = arguments.parse_args(argv)

    def simulated() -> pd.DataFrame:
        """Return the means, and write what stands beside them."""
        if options.keep is not None:
            options.keep.mkdir(parents=True, exist_ok=True)
        jobs_of = traces(options.shared)
        if options.write:
            write_rows(STUDIES / "data" / "users-sessions.csv", sessions(jobs_of))
            write_rows(CARRIED, carried(jobs_of["KTH-SP2"]).reset_index())
        tables = [loads(jobs_of, options.replays, options.keep)]
        tables += [make(jobs_of["KTH-SP2"], options.replays, options.keep) for make in (ranking, by_halves, choices)]
        return means(pd.concat(tables, ignore_index=True))

    def card_of(rows: pd.DataFrame, made_by: str) -> Card:
        return card(rows, read_rows(CARRIED).set_index("users"), made_by)

    study(options, "studies.users", "users.csv", simulated, card_of, draw)


if __name__ == "__main__":
    main()
