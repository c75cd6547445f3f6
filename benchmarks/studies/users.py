"""Measure what users that react change: the load of schedulers, and the ranking of predictors.

``python -m benchmarks.studies.users`` prints the page docs/studies/users.md, ``--write`` makes it, its picture and the table
beside it. Needs KTH-SP2 and LANL-CM5 under ``--shared``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D

from benchmarks.common.pages import SHARED, STUDIES, kept, made_by
from benchmarks.common.tables import markdown
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.schema import fingerprint
from pipelines.ingest.swf import read_swf
from pipelines.report.style import INK, MUTED, encode, figure
from pipelines.storage.atomic import replacing
from sim.campaigns.campaign import Campaign, run_campaign
from sim.metrics.schedule_metrics import evaluate
from sim.replays import user_facts
from sim.schedule import recorded
from sim.users.names import LOOPS, RULES, Users

TRACES = {"KTH-SP2": "KTH-SP2-1996-2.1-cln.swf.gz", "LANL-CM5": "LANL-CM5-1994-4.1-cln.swf.gz", "CERIT": "CERIT-wagap-2013.swf.gz"}
SIMULATED = ("KTH-SP2", "LANL-CM5")
CERIT_PROCS = 2176
SCHEDULERS = ("Strict", "EASY", "EASY-SJBF", "JustBF", "SPF-EASY")
PREDICTORS = {
    "requested": "requested",
    "clairvoyant": "requested",
    "last2": "tsafrir",
    "okcm": "tsafrir(steps=okcm)",
    "hierarchy": "tsafrir",
    "knn": "tsafrir",
    "nag": "tsafrir",
    "sp": "conditional",
    "quantile": "conditional",
}
"""Each with its correction."""
NIGHTLY = ("quantile",)
"""Retrained every night inside the simulation; takes half a minute a replay."""
CHOICES = (
    "closed",
    "closed(rule=max)",
    "closed(rule=arrival)",
    "closed(rule=arrival,session=3600)",
    "semi-open",
    "semi-open(rule=max)",
    "semi-open(rule=arrival,session=3600)",
)
"""Rules and thresholds by which sessions and batches may be found."""
METRICS = {
    "mean_wait_s": "mean wait, s",
    "mean_bounded_slowdown": "bounded slowdown",
    "carried_load": "carried load",
    "throughput_per_day": "jobs a day",
}
SHAKE_S, REPLAYS, NIGHTLY_REPLAYS = 60, 20, 3
PAGE = STUDIES / "users.md"
COLOURS = {"open": MUTED, "closed": "#d55e00", "semi-open": "#0072b2"}


def traces(shared: Path) -> dict[str, CleanTrace]:
    """Return the traces by their titles."""
    found = {}
    for title, file in TRACES.items():
        found[title] = clean(read_swf(shared / "traces" / file), CERIT_PROCS if title == "CERIT" else None)
    return found


def replays(trace: CleanTrace, asked: Campaign, keep: Path | None) -> pd.DataFrame:
    """Return the rows of a campaign, from ``keep`` if they were made before."""

    def make() -> pd.DataFrame:
        return run_campaign(trace.jobs, asked, procs=trace.procs, trace=trace.name, clock=trace.clock)

    return make() if keep is None else kept(keep, "studies.users", (fingerprint(trace.jobs), trace.procs, asked), make)


def loads(found: Mapping[str, CleanTrace], count: int, keep: Path | None) -> pd.DataFrame:
    """Return replays of all schedulers in all loops, by requested times."""
    tables = []
    for title in SIMULATED:
        for loop in LOOPS:
            schedulers = SCHEDULERS if title == "KTH-SP2" else SCHEDULERS[1:4]
            asked = Campaign(schedulers, seeds=tuple(range(count)), shake_s=SHAKE_S, users=loop)
            tables.append(replays(found[title], asked, keep).assign(title=title, section="loads"))
    return pd.concat(tables, ignore_index=True)


def ranking(trace: CleanTrace, count: int, keep: Path | None) -> pd.DataFrame:
    """Return replays of all predictors under EASY-SJBF in all loops."""
    tables = []
    for loop in LOOPS:
        for predictor, correction in PREDICTORS.items():
            seeds = range(min(count, NIGHTLY_REPLAYS) if predictor in NIGHTLY else count)
            asked = Campaign(("EASY-SJBF",), (predictor,), (correction,), seeds=tuple(seeds), shake_s=SHAKE_S, users=loop)
            tables.append(replays(trace, asked, keep).assign(title="KTH-SP2", section="ranking"))
    return pd.concat(tables, ignore_index=True)


def choices(trace: CleanTrace, count: int, keep: Path | None) -> pd.DataFrame:
    """Return replays of EASY-SJBF with users found by other rules."""
    asked = [Campaign(("EASY-SJBF",), seeds=tuple(range(count)), shake_s=SHAKE_S, users=users) for users in CHOICES]
    tables = [replays(trace, each, keep).assign(title="KTH-SP2", section="choices") for each in asked]
    return pd.concat(tables, ignore_index=True)


def means(table: pd.DataFrame) -> pd.DataFrame:
    """Return means over replays with 95 % t intervals, a row a policy, loop and metric."""
    from scipy.special import stdtrit

    rows = []
    keys = ["section", "title", "users", "scheduler", "predictor"]
    for policy, part in table.groupby(keys, sort=False):
        for metric in METRICS:
            values = part[metric].to_numpy(np.float64)
            half = 0.0
            if len(values) > 1:
                half = float(stdtrit(len(values) - 1, 0.975)) * values.std(ddof=1) / len(values) ** 0.5
            rows.append([*policy, metric, len(values), values.mean(), values.mean() - half, values.mean() + half])
    return pd.DataFrame(rows, columns=[*keys, "metric", "replays", "mean", "low", "high"])


def told(row: pd.Series, metric: str) -> str:
    """Return a mean with its interval."""
    form = {"carried_load": "{:.1%}", "mean_wait_s": "{:,.0f}"}.get(metric, "{:.1f}")
    return f"{form.format(row['mean'])} ± {form.format(row['high'] - row['mean'])}"


HEAD = """# What do users that react change?

{answer}

A trace says when jobs were submitted after the waits of its own machine. Here three kinds of users are simulated ([users.md](../users.md)): `open` submit
as recorded, `closed` when what they had waited for has ended and they have thought, `semi-open` begin their sessions as recorded and react inside
them. {replays} replays each ({nightly} of predictors that learn every night), all submissions and think times moved by up to {shake} s; means with
95 % t intervals over replays. Carried load is the work done until nine tenths of the jobs have ended, over what the machine could do until then.

![Bounded slowdown of predictors under EASY-SJBF, by the users' loop](users.png)

## Sessions and batches

A session begins after more than 1,200 s of think time (rule `last`), after so many seconds without a running job of the user (`max`) or without a
submission (`arrival`).
"""

LOADS = """
## The load of schedulers

By requested times. The recorded schedule of KTH-SP2 has a mean wait of {kth:,.0f} s, that of LANL-CM5 of {lanl:,.0f} s: users were slower than they would have
been under a scheduler that waits less, and faster than under one that waits more.
"""

RANKING = """
## The ranking of predictors

KTH-SP2 under EASY-SJBF, in the order of bounded slowdown with `open` users. Ranks by bounded slowdown in brackets; = where the interval
overlaps with that of the rank before.
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
    gains = [
        1 - value[("ranking", users, "EASY-SJBF", "clairvoyant", "mean_bounded_slowdown")]
        / value[("ranking", users, "EASY-SJBF", "requested", "mean_bounded_slowdown")]
        for users in LOOPS
    ]  # fmt: skip
    of_loop = {users: ranks(table, users)["rank"] for users in LOOPS}
    alike = [of_loop["open"].corr(of_loop[users]) for users in LOOPS[1:]]
    gained = ", ".join(f"{100 * gain:.0f} % ({users})" for gain, users in zip(gains, LOOPS, strict=True))
    return (
        f"A scheduler that shortens waits gets more load: on KTH-SP2 EASY carries {load['closed']:.1%} of the machine in the closed loop "
        f"({load['open']:.1%} open), and Strict, which keeps users waiting, {slow['closed']:.1%} ({slow['open']:.1%}); its mean wait is "
        f"{wait['closed']:,.0f} s instead of {wait['open']:,.0f}, as users that wait submit nothing. Exact runtimes still cut the bounded slowdown of "
        f"EASY-SJBF by {gained}; the ranks of {len(of_loop['open'])} predictors with open users correlate by {alike[0]:.2f} with those of closed "
        f"and by {alike[1]:.2f} with those of semi-open ones."
    )


def page(found: Mapping[str, CleanTrace], table: pd.DataFrame, count: int) -> str:
    """Return the page as Markdown."""
    waits = {title: evaluate(recorded(found[title].jobs, found[title].procs))["mean_wait_s"] for title in SIMULATED}
    parts = [HEAD.format(answer=answer(table), replays=count, shake=SHAKE_S, nightly=NIGHTLY_REPLAYS), facts_table(found)]
    parts += [LOADS.format(kth=waits["KTH-SP2"], lanl=waits["LANL-CM5"]), loads_table(table), RANKING, ranking_table(table)]
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


def ranks(table: pd.DataFrame, loop: str) -> pd.DataFrame:
    """Return predictors of a loop by bounded slowdown, best first, with ``rank`` and whether it is ``tied`` with the one before."""
    chosen = (table["section"] == "ranking") & (table["users"] == loop) & (table["metric"] == "mean_bounded_slowdown")
    part = table[chosen].sort_values("mean", kind="stable").set_index("predictor")
    before = part["high"].shift(1)
    return part.assign(rank=np.arange(1, len(part) + 1), tied=(part["low"] <= before).fillna(False))


def ranking_table(table: pd.DataFrame) -> str:
    """Return a row a predictor: slowdown and rank in each loop, and the load that it brings about."""
    of_loop = {loop: ranks(table, loop) for loop in LOOPS}
    chosen = (table["section"] == "ranking") & (table["metric"] == "carried_load") & (table["users"] == "closed")
    load = table[chosen].set_index("predictor")
    rows = []
    for predictor in of_loop["open"].index:
        cells = []
        for found in of_loop.values():
            row = found.loc[predictor]
            value = told(row, "mean_bounded_slowdown")
            cells.append(f"{value} ({row['rank']}{' =' if row['tied'] else ''})")
        rows.append([predictor, *cells, told(load.loc[predictor], "carried_load")])
    return markdown(["predictor", *LOOPS, "carried load, closed"], rows)


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


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ is")
    parser.add_argument("--keep", type=Path, help="folder of results to use again")
    parser.add_argument("--write", action="store_true", help="write the page, its picture and its data")
    parser.add_argument("--replays", type=int, default=REPLAYS, help="shaken replays of each policy")
    options = parser.parse_args(argv)
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
    found = traces(options.shared)
    kth = found["KTH-SP2"]
    simulated = [loads(found, options.replays, options.keep)]
    simulated += [make(kth, options.replays, options.keep) for make in (ranking, choices)]
    table = means(pd.concat(simulated, ignore_index=True))
    text = page(found, table, options.replays)
    if not options.write:
        print(text)
        return
    files: Mapping[Path, bytes] = {
        PAGE: text.encode(),
        STUDIES / "users.png": picture(table),
        STUDIES / "data" / "users.csv": table.to_csv(index=False, float_format="%.6g").encode(),
    }
    for path, content in files.items():
        with replacing(path) as unfinished:
            unfinished.write_bytes(content)


if __name__ == "__main__":
    main()
