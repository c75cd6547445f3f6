"""Compare ``Rollout`` with ``Harm``, and with single policies of its set, at equal information.

``python -m benchmarks.studies.rollouts --look "DATE, why"`` looks at second halves of two traces, and prints the page
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

KNOWN = {"requested": "requested", "prior": "requested", "sp3": AGAIN, "clairvoyant": "requested"}
"""What schedulers go by, with the correction, which ``Harm`` does not need."""
SINGLE = ("EASY-SRF", "SAF-EASY", "WFP3-EASY")
"""Policies of the set of ``Rollout``. By ``prior`` they are what they are by requests."""
RUNS = {
    f"{name} / {known}": Run(name, known, correction)
    for name in ("Rollout", "Harm", *SINGLE)
    for known, correction in KNOWN.items()
    if name not in SINGLE or known != "prior"
}
REPLICATES = 3

TEXT = """# Does simulating ahead beat weighing expected harm?

{answer}

`Rollout` simulates some policies forward from the moment of a choice, over scenarios of how long jobs run, and goes by the one that does best
until the next choice; its rule stands in `sim/choices.py`. Its default set of policies was chosen on first halves of KTH-SP2 and
SDSC-SP2, with some 30 configurations tried by hand in 1 to 3 replicates. Nothing was tuned on what is shown here; as a
look at second halves it is listed in [data/expected_harm_looks.csv](data/expected_harm_looks.csv).

{made}"""
CHANGES = """Of jobs of second halves, whole traces being simulated, {replicates} replicates with submissions moved by up to {shake} s: change of a metric in %
against EASY with requested times in the same replicates, with 95 % intervals over weeks and replicates together, which are
not corrected for the number of comparisons. Bold is sure: the interval excludes no change. Lower is better. Metrics
are those of [expected-harm.md](expected-harm.md). Predictions of `sp3` are asked for
again at every pass."""
COST = "Microseconds of CPU a job on {title} with its predictor and what prepares the run, in one process, one run of each:"
LIMITS = """What this does not show: what `Rollout` gives with other policies, weights or scenarios, on other traces, or with a
predictor that learns every night."""


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
    """Say where ``Rollout`` is surely better or worse than ``Harm`` and than single policies, and what it costs."""
    beside, counted = [], []
    for metric, rows in found[found["against"] != BASE.scheduler].groupby("metric", sort=False):
        sides = {"less": rows[rows["sure"] & (rows["relative"] < 0)], "more": rows[rows["sure"] & (rows["relative"] > 0)]}
        for side, sure in sides.items():
            where = [f"`{row['predictor']}` on {row['trace']}" for row in sure[sure["against"] == "Harm"].to_dict("records")]
            beside.append(f"{side} {metric} with {', '.join(where) or 'none'}")
        less, more = (sum(sure["against"] != "Harm") for sure in sides.values())
        counted.append(f"less {metric} in {less} and more in {more} of {sum(rows['against'] != 'Harm')}")
    took, takes = (f"{cost.loc[name].min():.0f} to {cost.loc[name].max():.0f}" for name in ("Rollout", "Harm"))
    return (
        f"Than `Harm` with the same information, `Rollout` has surely {'; '.join(beside)}. Compared with each of {', '.join(SINGLE)}, policies of its "
        f"set, with the same information, it has surely {', '.join(counted)} cases. It takes {took} microseconds of CPU a job, `Harm` {takes}."
    )


def changes(found: pd.DataFrame, against: str) -> str:
    """Return changes against one base with intervals, a row a trace and run."""
    rows = []
    for (title, name), each in found[found["against"] == against].groupby(["trace", "name"], sort=False):
        cells = [f"**{bounded(row)}**" if row["sure"] else bounded(row) for row in each.to_dict("records")]
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
    parser.add_argument("--trace", action="append", choices=TRACES, help="instead of the first two; may be given again")
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ is")
    parser.add_argument("--write", action="store_true", help="write the page")
    options = parser.parse_args(argv)
    options.trace = options.trace or list(TRACES[:2])
    note_look(LOOKS, options.look, options)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        place = Place(options.shared, HALVES[1], HOUSE / ".queuecast" / "replays", pool)
        found = pd.concat([measured(place, title, REPLICATES) for title in options.trace], ignore_index=True)
    first = half_of(options.trace[0], options.shared, HALVES[1])
    cost = kept(place.keep, "studies.rollouts", [first.key], lambda: costs(first.trace))
    text = page(found, cost, made_by("studies.rollouts", argv))
    if options.write:
        write_page(STUDIES / "rollouts.md", text)
    else:
        print(text)


if __name__ == "__main__":
    main()
