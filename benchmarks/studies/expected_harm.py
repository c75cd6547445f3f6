"""Measure what Harm does to a schedule, for whom, and what it depends on.

``python -m benchmarks.studies.expected_harm --half first`` prints the page docs/studies/expected-harm.md as of the first halves of
the traces; ``--write`` writes it, with its pictures and its data, below ``--pages``, and ``--again`` draws it from these data.
``--half second`` looks at the second halves: it must say ``--look "DATE, why"``, and every look is listed. ``--section`` measures only
some tables, and prints them. Finished simulations are kept under ``--keep``.
The protocol: :mod:`benchmarks.studies.expected_harm_protocol`. Needs the traces under ``--shared``.
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

from benchmarks.common.pages import HOUSE, LOADED, SHARED, STUDIES, made_by
from benchmarks.studies.expected_harm_page import NAME, bounded, kept, write
from benchmarks.studies.expected_harm_protocol import protocol_page
from benchmarks.studies.expected_harm_runs import HALVES, Place
from benchmarks.studies.expected_harm_tables import LARGE, LEARNED, METRICS, REQUESTS, SECTIONS, SPARED, TRACES, Counts
from features.statistics import surely
from pipelines.storage.atomic import replacing

LOOKS = STUDIES / "data" / "expected_harm_looks.csv"
Found = Mapping[str, pd.DataFrame]
"""Tables by section, with the column ``trace`` first."""


def measured(place: Place, titles: Sequence[str], sections: Sequence[str], counts: Counts) -> Found:
    """Return the tables of ``sections`` for all ``titles``; say on stderr how long each took."""
    found = {}
    for name in sections:
        each = []
        for title in titles:
            began = time.perf_counter()
            each.append(SECTIONS[name](place, title, counts).assign(trace=title))
            print(f"{name}, {title}: {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
        table = pd.concat(each, ignore_index=True)
        if "p" in table:  # the family is the section's table; one replay shows nothing of chaos
            table["sure"] = surely(table["p"].where(table["replicates"] > 1))
        found[name] = table[["trace", *(column for column in table if column != "trace")]]
    return found


class Check(NamedTuple):
    """A target, on what it was judged, the figures, and whether they meet it."""

    target: str
    where: str
    figures: str
    met: bool


def checks(found: Found) -> list[Check]:
    """Judge the targets of the protocol."""
    rows = found["headline"].set_index(["name", "trace", "metric"])
    made = []
    for title in found["headline"]["trace"].unique():
        slow, packing, fair = (rows.loc[LEARNED, title, metric] for metric in METRICS.values())
        if title == SPARED:
            worse = [each for each in (slow, packing, fair) if not each["low"] <= 0]  # nor without an interval
            made.append(Check("no interval above 0", title, bounded(slow, packing, fair), not worse))
            continue
        made.append(
            Check(
                "slowdown at least 25 % lower, its interval below 0",
                title,
                bounded(slow),
                slow["relative"] <= -0.25 and slow["high"] < 0,
            )
        )
        made.append(Check("interval of AWF below 0", title, bounded(packing), packing["high"] < 0))
        made.append(Check("P2SF not higher beyond its interval", title, bounded(fair), fair["low"] <= 0))
    return [
        *made,
        _requests_alone(rows, found["headline"]["trace"].unique()),
        *_costs(found["cost"]),
        *_strategic(found["strategy"]),
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
    made = []
    for place, most in ((TRACES[0], 15.0), (f"generated, {LARGE.jobs:,} jobs", 25.0)):
        each = table[(table["jobs_of"] == place) & (table["name"] == "Harm / quantiles")]["us"]
        if len(each):
            made.append(
                Check(f"under {most:g} microseconds a job beside the predictor", place, f"{each.iloc[0]:.1f}", each.iloc[0] < most)
            )
    return made


def _strategic(table: pd.DataFrame) -> list[Check]:
    """Judge whether others lose more than under EASY by over two standard errors of the difference."""
    others = table[(table["side"] == "others") & (table["metric"] == "slowdown")].set_index(["name", "trace", "asking"])
    made = []
    for name in [name for name in table["name"].unique() if name.startswith("Harm")]:
        pairs = [(others.loc[name, *key], others.loc["EASY / requests", *key], key) for key in others.loc[name].index]
        more = [
            key for mine, base, key in pairs if mine["relative"] - base["relative"] > 2 * np.hypot(mine["error"], base["error"])
        ]
        figures = "; ".join(f"{' '.join(key)} {mine['relative']:+.1%} against {base['relative']:+.1%}" for mine, base, key in pairs)
        made.append(
            Check(
                f"{name}: others do not lose more to strategic users than under EASY, by two standard errors",
                "fails with " + ", ".join(map(" ".join, more)) if more else "all",
                figures,
                not more,
            )
        )
    return made


def note_look(path: Path, said: str, options: argparse.Namespace) -> None:
    """List a look at second halves before anything of it is simulated; one row a commit and reason."""
    date, _, why = (part.strip() for part in said.partition(","))
    row = {"date": date, "commit": LOADED.removeprefix("commit "), "traces": " ".join(options.trace or TRACES), "why": why}
    listed = pd.read_csv(path, dtype=str) if path.exists() else pd.DataFrame(columns=list(row))
    if not (listed[list(row)] == list(row.values())).all(axis=1).any():
        with replacing(path) as unfinished:
            pd.concat([listed, pd.DataFrame([row])], ignore_index=True).to_csv(unfinished, index=False, lineterminator="\n")


def main(argv: Sequence[str] | None = None, say: Callable[[str], None] = print) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--half", choices=HALVES, default=HALVES[0], help="whose jobs are judged")
    parser.add_argument("--look", metavar="DATE, WHY", help="say why second halves are looked at; it is listed")
    parser.add_argument(
        "--section", action="append", choices=SECTIONS, help="only this one, printed as a table; may be given again"
    )
    parser.add_argument("--trace", action="append", choices=TRACES, help="only this one; may be given again")
    parser.add_argument("--replicates", type=int, default=Counts().replicates, help="of the headline")
    parser.add_argument("--few", type=int, default=Counts().few, help="replicates of everything else")
    parser.add_argument("--nightly", type=int, default=Counts().nightly, help="replicates of rivals with quantile inside")
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ is")
    parser.add_argument("--keep", type=Path, default=HOUSE / ".queuecast" / "replays", help="where finished simulations are kept")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--pages", type=Path, default=STUDIES, help="where --write puts the page, its pictures and data/")
    parser.add_argument("--write", action="store_true", help="write the page")
    parser.add_argument(
        "--again", action="store_true", help="draw the page of the last look again, from its data; simulate nothing"
    )
    parser.add_argument("--protocol", action="store_true", help="write the page with its protocol alone; simulate nothing")
    options = parser.parse_args(argv)
    if options.protocol:
        protocol_page(options.pages / f"{NAME}.md", LOOKS)
        return
    if options.again:
        found, made = kept(options.pages / "data" / f"{NAME}.parquet")
        made = f"{made.partition(' Drawn again')[0]} Drawn again at {LOADED}."
        write(found, checks(found), Counts(), HALVES[1], made, LOOKS, options.pages, say)
        return
    if options.half == HALVES[1]:
        if not options.look or "," not in options.look:
            parser.error('--half second is a look, and every look is listed: say --look "DATE, why"')
        note_look(LOOKS, options.look, options)
    counts = Counts(options.replicates, options.few, options.nightly)
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        place = Place(options.shared, options.half, options.keep, pool)
        found = measured(place, options.trace or TRACES, options.section or list(SECTIONS), counts)
    if options.section:
        say("\n\n".join(f"## {name}\n{table.to_string(index=False)}" for name, table in found.items()))
        return
    made = made_by("studies.expected_harm", argv)
    write(found, checks(found), counts, options.half, made, LOOKS, options.pages if options.write else None, say)


if __name__ == "__main__":
    main()
