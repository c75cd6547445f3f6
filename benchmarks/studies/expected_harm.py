"""Measure what Harm does to a schedule at the recorded load and above.

``--section frontier`` compares values of the rule's two knobs on first halves. ``--half second --look "DATE, why" --write`` looks at
the second halves and writes the card docs/studies/expected-harm.md, its picture and its data; every look is listed in
data/expected_harm_looks.csv. ``--section`` measures only one table, and prints it. Finished simulations are kept under ``--keep``.
Needs the traces under ``--shared``.

The protocol, written before the second halves were looked at:

* A job of the first half is one of the first n // 2 submitted. Form and constants of ``Harm`` were chosen on first halves alone, at 1 to
  1.3 times the recorded load; the first half is simulated alone, for the second all jobs are simulated, and its own are judged.
* Traces: four, CERIT as one pool, and two logs widened by hand, with half of their area in jobs of a sixth of the machine.
* Loads compress the time between submissions: 1, 1.15 and 1.3. EASY is compared with at the same load.
* Information: ``prior``, a fixed distribution of runtime / request; what ``quantile`` tells at each submission along EASY with requested
  times at the same load, a table.
* Replicates: a seed moves every submission by up to 60 s, and draws the scenarios; replicate i of every policy has the same moves.
  Baseline: EASY with requested times in the same replicates.
* Metrics: mean bounded slowdown (threshold 10 s), area-weighted response time (AWF), P2SF of Goponenko et al. with alpha = 2; their
  intervals of 95 % are ``features.statistics.interval_of_change``. The mean of the longest 1 % of waits and the longest wait; their
  intervals are Student's over replicates. Surely: Holm's correction over all cells of a metric.
* Claims, in each cell of trace, load and information: slowdown at least 25 % lower; no other metric surely higher; AWF and P2SF
  lower in the mean on four of the five traces.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pandas as pd

from benchmarks.common.card import parser, study
from benchmarks.common.pages import HOUSE, LOADED, STUDIES
from benchmarks.studies.expected_harm_card import card, draw
from benchmarks.studies.expected_harm_runs import HALVES, Place
from benchmarks.studies.expected_harm_tables import SECTIONS, TITLES, Counts
from pipelines.lake.places import replacing

NAME = "expected-harm"
LOOKS = STUDIES / "data" / "expected_harm_looks.csv"


def measured(place: Place, titles: Sequence[str], sections: Sequence[str], counts: Counts) -> pd.DataFrame:
    """Return the rows of ``sections`` for all ``titles``, with the columns ``section trace`` first.

    Say on stderr how long each took.
    """
    tables = []
    for name in sections:
        for title in titles:
            began = time.perf_counter()
            table = SECTIONS[name](place, title, counts)
            tables.append(table.assign(section=name, trace=title))
            print(f"{name}, {title}: {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
    rows = pd.concat(tables, ignore_index=True)
    return rows[["section", "trace", *(column for column in rows if column not in ("section", "trace"))]]


def note_look(path: Path, note: str, options: argparse.Namespace) -> None:
    """List a look at second halves before anything of it is simulated; one row a commit and reason."""
    date, _, why = (part.strip() for part in note.partition(","))
    row = {"date": date, "commit": LOADED.removeprefix("commit "), "traces": " ".join(options.trace or TITLES), "why": why}
    listed = pd.read_csv(path, dtype=str) if path.exists() else pd.DataFrame(columns=list(row))
    if not (listed[list(row)] == list(row.values())).all(axis=1).any():
        with replacing(path) as unfinished:
            pd.concat([listed, pd.DataFrame([row])], ignore_index=True).to_csv(unfinished, index=False, lineterminator="\n")


def main(argv: Sequence[str] | None = None, say: Callable[[str], None] = print) -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--half", choices=HALVES, default=HALVES[0], help="whose jobs are judged")
    arguments.add_argument("--look", metavar="DATE, WHY", help="say why second halves are looked at; it is listed")
    arguments.add_argument("--section", action="append", choices=SECTIONS, help="only this one, as a table; may be given again")
    arguments.add_argument("--trace", action="append", choices=TITLES, help="only this one; may be given again")
    arguments.add_argument("--replicates", type=int, default=Counts().replicates, help="of the cells")
    arguments.add_argument(
        "--keep", type=Path, default=HOUSE / ".queuecast" / "replays", help="where finished simulations are kept"
    )
    arguments.add_argument("--workers", type=int, default=2, help="processes")
    options = arguments.parse_args(argv)
    if options.half == HALVES[1] and not options.card:
        if not options.look or "," not in options.look:
            arguments.error('--half second is a look, and every look is listed: say --look "DATE, why"')
        note_look(LOOKS, options.look, options)

    def compute() -> pd.DataFrame:
        counts = Counts(options.replicates)
        with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
            place = Place(options.shared, options.half, options.keep, pool)
            rows = measured(place, options.trace or TITLES, options.section or list(SECTIONS), counts)
        return rows.assign(
            half=rows["section"].map({"frontier": HALVES[0]}).fillna(options.half)
        )  # knobs are compared on first halves

    if options.section:
        say(compute().to_string(index=False))
        return
    study(options, "studies.expected_harm", f"{NAME}.csv", compute, card, draw)


if __name__ == "__main__":
    main()
