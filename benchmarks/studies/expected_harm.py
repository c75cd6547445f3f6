"""Measure what Harm does to a schedule, for whom, and what it depends on.

``python -m benchmarks.studies.expected_harm --half first`` prints the card docs/studies/expected-harm.md as of the first halves of
the traces; ``--write`` writes it, with its picture and its data. ``--half second`` looks at the second halves: it must say
``--look "DATE, why"``, and every look is listed in data/expected_harm_looks.csv. ``--section`` measures only some tables, and prints
them. Finished simulations are kept under ``--keep``. Needs the traces under ``--shared``.

The protocol, written before the second halves were looked at:

* A job of the first half is one of the first n // 2 submitted. Constants of ``Harm`` were chosen on first halves
  (:mod:`benchmarks.studies.expected_harm_constants`); the first half is simulated alone, for the second all jobs are simulated.
* Information: ``prior``, a fixed distribution of runtime / request; requests as points; ``quantile`` learning inside the simulation,
  and of a running job what remains given how long it has run; exact runtimes.
* Replicates: 20 of the headline. A seed moves every submission by up to 60 s, draws the scenarios and grows the forest; replicate i of
  every policy has the same moves. Baseline: EASY with requested times in the same replicates.
* Metrics: mean bounded slowdown (threshold 10 s), area-weighted response time (AWF), P2SF of Goponenko et al. with alpha = 2. Intervals
  of 95 %: ``features.statistics.interval_of_change``. *Surely*: a change that survives Holm's correction over its table.
* Claims: :func:`checks`. Everything else is description, and nothing is chosen by it.
* Rivals go by requested times, ``last2``, ``quantile`` and exact runtimes, corrected by ``conditional(when=pass)``.
* Variants go by ``told``: quantiles that ``quantile`` tells at each submission along a run of EASY. *Shuffled* among jobs of the
  same request; *halved* and *doubled* within 1 s and the request; *late*: the learner hears of ends a day or a week later; *its median*
  is a point. Loads compress the time between submissions.
* Which jobs lose: chosen by waits in one half of the replicates, measured in the other; the same among replicates of EASY is chance.
* Strategic users: a tenth of the users ask for twice their requests, or for 1.1 times what they will use.
* Cost: medians of simulations interleaved with EASY's in one process.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.common.card import parser, rows_of, show
from benchmarks.common.pages import HOUSE, LOADED, STUDIES
from benchmarks.studies.expected_harm_card import bounded, by_section, card, one_table
from benchmarks.studies.expected_harm_pictures import draw
from benchmarks.studies.expected_harm_runs import HALVES, Place
from benchmarks.studies.expected_harm_tables import LARGE, LEARNED, METRICS, REQUESTS, SECTIONS, SPARED, TRACES, Counts
from features.statistics import surely
from pipelines.storage.atomic import replacing

NAME = "expected-harm"
LOOKS = STUDIES / "data" / "expected_harm_looks.csv"
Tables = Mapping[str, pd.DataFrame]
"""Tables by section, with the column ``trace`` first."""


def measured(place: Place, titles: Sequence[str], sections: Sequence[str], counts: Counts) -> Tables:
    """Return the tables of ``sections`` for all ``titles``; say on stderr how long each took."""
    tables = {}
    for name in sections:
        each = []
        for title in titles:
            began = time.perf_counter()
            each.append(SECTIONS[name](place, title, counts).assign(trace=title))
            print(f"{name}, {title}: {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
        table = pd.concat(each, ignore_index=True)
        if "p" in table:  # the family is the section's table; one replay shows nothing of chaos
            table["sure"] = surely(table["p"].where(table["replicates"] > 1))
        tables[name] = table[["trace", *(column for column in table if column != "trace")]]
    return tables


class Check(NamedTuple):
    """A target, on what it was judged, the figures, and whether they meet it."""

    target: str
    where: str
    figures: str
    met: bool


def checks(tables: Tables) -> list[Check]:
    """Judge the targets of the protocol."""
    rows = tables["headline"].set_index(["name", "trace", "metric"])
    verdicts = []
    for title in tables["headline"]["trace"].unique():
        slow, packing, fair = (rows.loc[LEARNED, title, metric] for metric in METRICS.values())
        if title == SPARED:
            worse = [each for each in (slow, packing, fair) if not each["low"] <= 0]  # nor without an interval
            verdicts.append(Check("no interval above 0", title, bounded(slow, packing, fair), not worse))
            continue
        verdicts.append(
            Check(
                "slowdown at least 25 % lower, its interval below 0",
                title,
                bounded(slow),
                slow["relative"] <= -0.25 and slow["high"] < 0,
            )
        )
        verdicts.append(Check("interval of AWF below 0", title, bounded(packing), packing["high"] < 0))
        verdicts.append(Check("P2SF not higher beyond its interval", title, bounded(fair), fair["low"] <= 0))
    return [
        *verdicts,
        _requests_alone(rows, tables["headline"]["trace"].unique()),
        *_costs(tables["cost"]),
        *_strategic(tables["strategy"]),
    ]


def _requests_alone(rows: pd.DataFrame, titles: Sequence[str]) -> Check:
    each = {title: [rows.loc[REQUESTS, title, metric] for metric in METRICS.values()] for title in titles}
    good = [
        title
        for title, (slow, packing, fair) in each.items()
        if slow["relative"] <= -0.15 and packing["relative"] <= 0 and fair["relative"] <= 0
    ]
    figures = "; ".join(f"{title} {bounded(*metrics)}" for title, metrics in each.items())
    return Check(
        "requests alone: slowdown at least 15 % lower, AWF and P2SF not higher, on two traces",
        ", ".join(good) or "none",
        figures,
        len(good) >= 2,
    )


def _costs(table: pd.DataFrame) -> list[Check]:
    verdicts = []
    for place, most in ((TRACES[0], 15.0), (f"generated, {LARGE.jobs:,} jobs", 25.0)):
        each = table[(table["jobs_of"] == place) & (table["name"] == "Harm / quantiles")]["us"]
        if len(each):
            verdicts.append(
                Check(f"under {most:g} microseconds a job beside the predictor", place, f"{each.iloc[0]:.1f}", each.iloc[0] < most)
            )
    return verdicts


def _strategic(table: pd.DataFrame) -> list[Check]:
    """Judge whether others lose more than under EASY by over two standard errors of the difference."""
    others = table[(table["side"] == "others") & (table["metric"] == "slowdown")].set_index(["name", "trace", "asking"])
    verdicts = []
    for name in [name for name in table["name"].unique() if name.startswith("Harm")]:
        pairs = [(others.loc[name, *key], others.loc["EASY / requests", *key], key) for key in others.loc[name].index]
        more = [
            key for mine, base, key in pairs if mine["relative"] - base["relative"] > 2 * np.hypot(mine["error"], base["error"])
        ]
        figures = "; ".join(f"{' '.join(key)} {mine['relative']:+.1%} against {base['relative']:+.1%}" for mine, base, key in pairs)
        verdicts.append(
            Check(
                f"{name}: others do not lose more to strategic users than under EASY, by two standard errors",
                "fails with " + ", ".join(map(" ".join, more)) if more else "all",
                figures,
                not more,
            )
        )
    return verdicts


def note_look(path: Path, note: str, options: argparse.Namespace) -> None:
    """List a look at second halves before anything of it is simulated; one row a commit and reason."""
    date, _, why = (part.strip() for part in note.partition(","))
    row = {"date": date, "commit": LOADED.removeprefix("commit "), "traces": " ".join(options.trace or TRACES), "why": why}
    listed = pd.read_csv(path, dtype=str) if path.exists() else pd.DataFrame(columns=list(row))
    if not (listed[list(row)] == list(row.values())).all(axis=1).any():
        with replacing(path) as unfinished:
            pd.concat([listed, pd.DataFrame([row])], ignore_index=True).to_csv(unfinished, index=False, lineterminator="\n")


def main(argv: Sequence[str] | None = None, say: Callable[[str], None] = print) -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--half", choices=HALVES, default=HALVES[0], help="whose jobs are judged")
    arguments.add_argument("--look", metavar="DATE, WHY", help="say why second halves are looked at; it is listed")
    arguments.add_argument("--section", action="append", choices=SECTIONS, help="only this one, as a table; may be given again")
    arguments.add_argument("--trace", action="append", choices=TRACES, help="only this one; may be given again")
    arguments.add_argument("--replicates", type=int, default=Counts().replicates, help="of the headline")
    arguments.add_argument("--few", type=int, default=Counts().few, help="replicates of everything else")
    arguments.add_argument("--nightly", type=int, default=Counts().nightly, help="replicates of rivals with quantile inside")
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
        counts = Counts(options.replicates, options.few, options.nightly)
        with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
            place = Place(options.shared, options.half, options.keep, pool)
            tables = measured(place, options.trace or TRACES, options.section or list(SECTIONS), counts)
        return one_table(tables).assign(half=options.half)

    if options.section:
        say(compute().to_string(index=False))
        return
    rows, made_by = rows_of(options, "studies.expected_harm", "expected-harm.parquet", compute)
    half, tables = str(rows["half"].iloc[0]), by_section(rows)
    show(card(tables, checks(tables), half, made_by), NAME, options)
    if options.write or options.card:
        draw(tables, STUDIES / f"{NAME}.png")


if __name__ == "__main__":
    main()
