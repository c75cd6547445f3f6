"""Compare ``Rollout`` with ``Harm``, and with single policies of its set, at equal information.

``python -m benchmarks.studies.rollouts --look "DATE, why"`` looks at second halves of traces, and prints the card
docs/studies/rollouts.md; ``--write`` writes it and its data. The look is listed with those of
:mod:`benchmarks.studies.expected_harm`. Needs the traces under ``--shared``.

``Rollout`` simulates some policies forward from the moment of a choice, over scenarios of how long jobs run, and goes by the one that
does best until the next choice (``sim/choices.py``). Its set of policies was chosen on first halves of KTH-SP2 and SDSC-SP2, with some
30 configurations tried by hand. Whole traces are simulated in 3 replicates with submissions moved by up to 60 s, and jobs of second
halves are judged; predictions of ``sp3`` are asked for again at every pass. Costs are microseconds of CPU a job on KTH-SP2 with the
predictor and what prepares the run, in one process, one run of each.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context

import pandas as pd

from benchmarks.common.card import Card, parser, read_rows, study, write_rows
from benchmarks.common.dots import dots
from benchmarks.common.pages import HOUSE, STUDIES
from benchmarks.studies.expected_harm import LOOKS, note_look
from benchmarks.studies.expected_harm_card import bounded
from benchmarks.studies.expected_harm_runs import HALVES, Place, Run, half_of
from benchmarks.studies.expected_harm_tables import AGAIN, BASE, METRICS, TRACES, compared
from features.jobs.cleaning import CleanTrace
from features.jobs.shaking import SHAKE_S
from sim.simulate import simulate

KNOWN = {"requested": "requested", "prior": "requested", "sp3": AGAIN, "clairvoyant": "requested"}  # with corrections
SINGLE = ("EASY-SRF", "SAF-EASY", "WFP3-EASY")  # by prior they do as by requests
RUNS = {
    f"{name} / {source}": Run(name, source, correction)
    for name in ("Rollout", "Harm", *SINGLE)
    for source, correction in KNOWN.items()
    if name not in SINGLE or source != "prior"
}
REPLICATES = 3

RIVALS = ("Harm", *SINGLE)
COSTS = STUDIES / "data" / "rollouts-cost.csv"
FAILS = (
    "Intervals are percentiles of resampled weeks and replicates, not corrected for the number of comparisons; they cover less often than "
    "those that Queuecast prints now. Three replicates. `Rollout`'s policies were chosen on first halves of KTH-SP2 and SDSC-SP2."
)
"""The first sentence is of the data of commit c25598dcb2, and goes with them."""


def measured(place: Place, title: str, replicates: int) -> pd.DataFrame:
    """Return all runs against EASY, and ``Rollout`` against each rival that knows as much.

    Columns: ``trace against`` and those of :func:`benchmarks.studies.expected_harm_tables.compared`.
    """
    tables = [compared(place, title, RUNS, BASE, replicates).assign(against=BASE.scheduler)]
    for rival in RIVALS:
        bases = {f"Rollout / {run.predictor}": run for run in RUNS.values() if run.scheduler == rival}
        tables.append(compared(place, title, {name: RUNS[name] for name in bases}, bases, replicates).assign(against=rival))
    return pd.concat(tables, ignore_index=True).assign(trace=title)


def costs(trace: CleanTrace) -> pd.DataFrame:
    """Return microseconds of CPU a job by scheduler and predictor, once kernels are loaded."""
    table = pd.DataFrame(index=["EASY", "Harm", "Rollout"], columns=list(KNOWN), dtype="float64")
    for name, (source, correction) in product(table.index, KNOWN.items()):
        for jobs in (trace.jobs.iloc[:500], trace.jobs):  # the first loads the kernels
            began = time.process_time()
            simulate(jobs, procs=trace.procs, scheduler=name, predictor=source, correction=correction, clock=trace.clock)
            table.loc[name, source] = 1e6 * (time.process_time() - began) / len(jobs)
    return table


def card(rows: pd.DataFrame, cost: pd.DataFrame, made_by: str) -> Card:
    """Return the card: ``Rollout`` and ``Harm`` against EASY and each other, a row a trace and what both know."""
    beside = rows[rows["against"] == "Harm"]
    counted = []
    for metric, part in beside.groupby("metric", sort=False):
        low, high = 100 * part["relative"].min(), 100 * part["relative"].max()
        counted.append(
            f"{metric} by {low:+.1f} to {high:+.1f} % ({int((part['high'] < 0).sum())} intervals below 0, {int((part['low'] > 0).sum())} above)"
        )
    shown = beside[beside["predictor"].isin(["prior", "sp3"])]
    wide = shown.assign(cell=shown.apply(bounded, axis=1)).pivot(index=["trace", "predictor"], columns="metric", values="cell")
    order = list(dict.fromkeys(zip(shown["trace"], shown["predictor"], strict=True)))
    spans = {name: f"{cost.loc[name].min():.0f} to {cost.loc[name].max():.0f}" for name in ("Rollout", "Harm")}
    return Card(
        question="Does simulating ahead beat weighing expected harm?",
        answer=f"Yes for slowdown, at the price of packing and fairness: in {len(beside) // 3} pairs with the same information, "
        f"`Rollout` against `Harm` changes {', '.join(counted)}. `Rollout` costs {spans['Rollout']} microseconds of CPU a job, `Harm` {spans['Harm']}.",
        picture="rollouts.png",
        picture_caption="`Rollout` against `Harm` by what both know, 95 % intervals",
        table=wide.loc[order, list(METRICS.values())].reset_index().rename(columns={"predictor": "both go by"}),
        table_caption="`Rollout` simulates policies ahead at each choice; `Harm` weighs a start's expected harm to waiting jobs. Jobs "
        "of second halves: change in % [95 %, each alone] over "
        f"{int(rows['replicates'].min())} replicates with submissions moved by up to {SHAKE_S} s; AWF is packing, P2SF fairness; lower is better. "
        "`prior`: no model, `sp3`: a predictor that learns:",
        fails=FAILS,
        data=["rollouts.csv", "rollouts-cost.csv"],
        made_by=made_by,
    )


def draw(rows: pd.DataFrame) -> bytes:
    """Draw the changes of ``Rollout`` from ``Harm``, a panel a trace."""
    beside = rows[rows["against"] == "Harm"].rename(columns={"trace": "panel", "predictor": "row", "metric": "series"})
    beside[["value", "low", "high"]] = 100 * beside[["relative", "low", "high"]]
    return dots(beside, "change, %", dict.fromkeys(TRACES, 0.0))


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--look", metavar="DATE, WHY", help="say why second halves are looked at; it is listed")
    arguments.add_argument("--trace", action="append", choices=TRACES, help="only this one; may be given again")
    options = arguments.parse_args(argv)
    options.trace = options.trace or list(TRACES)
    if not (options.look or options.card):
        arguments.error('second halves are looked at, and every look is listed: say --look "DATE, why"')

    def compute() -> pd.DataFrame:
        note_look(LOOKS, options.look, options)
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            place = Place(options.shared, HALVES[1], HOUSE / ".queuecast" / "replays", pool)
            tables = [measured(place, title, REPLICATES) for title in options.trace]
        if options.write:
            write_rows(
                COSTS, costs(half_of(options.trace[0], options.shared, HALVES[1]).trace).rename_axis("scheduler").reset_index()
            )
        return pd.concat(tables, ignore_index=True)

    def card_of(rows: pd.DataFrame, made_by: str) -> Card:
        return card(rows, read_rows(COSTS).set_index("scheduler"), made_by)

    study(options, "studies.rollouts", "rollouts.csv", compute, card_of, draw)


if __name__ == "__main__":
    main()
