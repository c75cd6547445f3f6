"""Compare ``Rollout`` with ``Harm``, and with single policies of its set, at equal information.

``python -m benchmarks.studies.rollouts --look "DATE, why"`` looks at second halves of traces, and prints the page
docs/studies/rollouts.md; ``--write`` writes it and its data. The look is listed with those of
:mod:`benchmarks.studies.expected_harm`. Needs the traces under ``--shared``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import pandas as pd

from benchmarks.common.pages import HOUSE, SHARED, STUDIES, kept, made_by
from benchmarks.common.tables import markdown, write_page
from benchmarks.studies.expected_harm import LOOKS, note_look
from benchmarks.studies.expected_harm_page import bounded
from benchmarks.studies.expected_harm_protocol import wrapped
from benchmarks.studies.expected_harm_runs import HALVES, Place, Run, half_of
from benchmarks.studies.expected_harm_tables import AGAIN, BASE, METRICS, TRACES, compared
from features.jobs.cleaning import CleanTrace
from features.jobs.shaking import SHAKE_S
from sim.simulate import simulate

KNOWN = {"requested": "requested", "prior": "requested", "sp3": AGAIN, "clairvoyant": "requested"}  # with corrections
SINGLE = ("EASY-SRF", "SAF-EASY", "WFP3-EASY")  # by prior they do as by requests
RUNS = {
    f"{name} / {known}": Run(name, known, correction)
    for name in ("Rollout", "Harm", *SINGLE)
    for known, correction in KNOWN.items()
    if name not in SINGLE or known != "prior"
}
REPLICATES = 3

TEXT = """# Does simulating ahead beat weighing expected harm?

{answer}

`Rollout` simulates some policies forward from the moment of a choice, over scenarios of how long jobs run, and goes by the one that does best until
the next choice; its rule stands in `sim/choices.py`. Its default set of policies was chosen on first halves of KTH-SP2 and SDSC-SP2, with some 30
configurations tried by hand in 1 to 3 replicates; the other traces had no part in it. Nothing was tuned on what is shown here; every look at second
halves is listed in [data/expected_harm_looks.csv](data/expected_harm_looks.csv), with the commit of its simulations.

{made}"""
CHANGES = """Of jobs of second halves, whole traces being simulated, {replicates} replicates with submissions moved by up to {shake} s: change of a
metric in % against EASY with requested times in the same replicates, with 95 % intervals over weeks and replicates together, which are not corrected
for the number of comparisons. Bold: the interval excludes no change. Lower is better. Metrics are those of
[expected-harm.md](expected-harm.md). Predictions of `sp3` are asked for again at every pass. Single policies are shown by `sp3`;
[data/rollouts.csv](data/rollouts.csv) has them all."""
COST = "Microseconds of CPU a job on {title} with its predictor and what prepares the run, in one process, one run of each:"
LIMITS = "What this does not show: what `Rollout` gives with other policies, weights or scenarios, or with a nightly learner."


def measured(place: Place, title: str, replicates: int) -> pd.DataFrame:
    """Return all runs against EASY, and ``Rollout`` against each rival that knows as much.

    Columns: ``trace against`` and those of :func:`benchmarks.studies.expected_harm_tables.compared`.
    """
    tables = [compared(place, title, RUNS, BASE, replicates).assign(against=BASE.scheduler)]
    for rival in ("Harm", *SINGLE):
        bases = {f"Rollout / {run.predictor}": run for run in RUNS.values() if run.scheduler == rival}
        tables.append(compared(place, title, {name: RUNS[name] for name in bases}, bases, replicates).assign(against=rival))
    return pd.concat(tables, ignore_index=True).assign(trace=title)


def costs(trace: CleanTrace) -> pd.DataFrame:
    """Return microseconds of CPU a job by scheduler and predictor, once kernels are loaded."""
    table = pd.DataFrame(index=["EASY", "Harm", "Rollout"], columns=list(KNOWN), dtype="float64")
    for name, (known, correction) in product(table.index, KNOWN.items()):
        for jobs in (trace.jobs.iloc[:500], trace.jobs):  # the first loads the kernels
            began = time.process_time()
            simulate(jobs, procs=trace.procs, scheduler=name, predictor=known, correction=correction, clock=trace.clock)
            table.loc[name, known] = 1e6 * (time.process_time() - began) / len(jobs)
    return table


def answer(found: pd.DataFrame, cost: pd.DataFrame) -> str:
    """Say in what ``Rollout`` is better and worse beyond intervals than rivals that know as much."""
    took, takes = (f"{cost.loc[name].min():.0f} to {cost.loc[name].max():.0f}" for name in ("Rollout", "Harm"))
    lines = [
        "By what intervals leave out, one comparison at a time, and with the same information, "
        f"`Rollout` is, at {took} microseconds of CPU a job (`Harm`: {takes}):\n"
    ]
    for rival in ("Harm", *SINGLE):
        told: dict[str, list[str]] = {"better": [], "worse": [], "neither better nor worse": []}
        for metric, rows in found[found["against"] == rival].groupby("metric", sort=False):
            less, more = int((rows["high"] < 0).sum()), int((rows["low"] > 0).sum())
            low, high = 100 * rows["relative"].min(), 100 * rows["relative"].max()
            side = "better" if less > more else "worse" if more > less else "neither better nor worse"
            told[side].append(
                f"{metric} ({low:+.1f} to {high:+.1f} %, interval below 0 in {less} and above in {more} of {len(rows)} cases)"
            )
        sides = "; ".join(f"{side} in {', '.join(each)}" for side, each in told.items() if each)
        lines.append(f"* compared with `{rival}`: {sides}.")
    return "\n".join(lines)


def changes(found: pd.DataFrame, against: str) -> str:
    """Return changes against one base with intervals, a row a trace and run."""
    rows = []
    for (title, name), each in found[found["against"] == against].groupby(["trace", "name"], sort=False):
        cells = [f"**{bounded(row)}**" if row["high"] < 0 or row["low"] > 0 else bounded(row) for row in each.to_dict("records")]
        rows.append([str(title), *str(name).split(" / "), *cells])
    return markdown(["trace", "scheduler", "goes by", *METRICS.values()], rows, keys=3)


def page(found: pd.DataFrame, cost: pd.DataFrame, made: str) -> str:
    """Return the page as Markdown; the cost is of the first trace."""
    timed = [[name, *(f"{value:.1f}" for value in row)] for name, row in zip(cost.index, cost.to_numpy(), strict=True)]
    blocks = [
        wrapped(TEXT.format(answer=answer(found, cost), made=made)),
        wrapped(CHANGES.format(replicates=found["replicates"].min(), shake=SHAKE_S)),
        changes(found, BASE.scheduler),
        "`Rollout` against `Harm` with the same information:",
        changes(found, "Harm"),
        wrapped(COST.format(title=found["trace"].iloc[0])),
        markdown(["scheduler", *cost.columns], timed),
        wrapped(LIMITS),
    ]
    return "\n\n".join(blocks) + "\n"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--look", metavar="DATE, WHY", required=True, help="say why second halves are looked at; it is listed")
    parser.add_argument("--trace", action="append", choices=TRACES, help="only this one; may be given again")
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ is")
    parser.add_argument("--write", action="store_true", help="write the page")
    options = parser.parse_args(argv)
    options.trace = options.trace or list(TRACES)
    note_look(LOOKS, options.look, options)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        place = Place(options.shared, HALVES[1], HOUSE / ".queuecast" / "replays", pool)
        found = pd.concat([measured(place, title, REPLICATES) for title in options.trace], ignore_index=True)
    first = half_of(options.trace[0], options.shared, HALVES[1])
    cost = kept(place.keep, "studies.rollouts", [first.key], lambda: costs(first.trace))
    text = page(found, cost, made_by("studies.rollouts", argv))
    print(text)
    if options.write:
        write_page(STUDIES / "rollouts.md", text, rows=lambda _, cells: cells[1] not in SINGLE or cells[2] == "sp3")


if __name__ == "__main__":
    main()
