"""Run campaigns and print their counts: ``python -m tests.campaigns [NAME...] [--part 0.1] [--seed N] [--write]``."""

from __future__ import annotations

import csv
import pkgutil
import secrets
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import click
import pandas as pd
from rich.console import Console

import tests.campaigns
from benchmarks.common.card import MOST_ROWS, Card
from benchmarks.common.pages import LOADED, STUDIES
from pipelines.report.table import Table
from tests.campaigns.apart import apart, campaign
from tests.campaigns.counts import Counts
from tests.conftest import MEMORY

ROWS = STUDIES / "data" / "campaigns.csv"
Row = dict[str, str | int]


def names() -> list[str]:
    """List the campaigns, the longest first: the modules of this folder that have one."""
    modules = [each.name for each in pkgutil.iter_modules(tests.campaigns.__path__) if not each.name.startswith(("test_", "_"))]
    return sorted((name for name in modules if hasattr(campaign(name), "ATTEMPTS")), key=lambda name: -campaign(name).ATTEMPTS)


def _run(name: str, part: float, seed: int) -> tuple[str, Counts, float]:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        module = campaign(name)
        variables = module.variables(Path(folder)) if hasattr(module, "variables") else {}
        counts = apart(name, max(1, round(module.ATTEMPTS * part)), seed, Path(folder), **variables)
    return name, counts, time.monotonic() - began


@click.command()
@click.argument("chosen", nargs=-1)
@click.option("--part", default=1.0, show_default=True, help="The part of each campaign's attempts that is made.")
@click.option(
    "--seed",
    type=click.IntRange(0),
    help="What decides what is tried: of an earlier run to repeat it. [default: drawn, and printed]",
)
@click.option("--workers", default=2, show_default=True, help="Campaigns at a time.")
@click.option("--write", is_flag=True, help="Write the card of counts.")
def main(chosen: tuple[str, ...], part: float, seed: int | None, workers: int, write: bool) -> None:
    """Run the CHOSEN campaigns (all by default)."""
    unknown = sorted(set(chosen) - set(names()))
    if unknown:
        raise click.BadParameter(f"unknown: {', '.join(unknown)}; known: {', '.join(sorted(names()))}")
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    Console(stderr=True).print(f"seed {seed}", highlight=False)
    findings = 0
    with ThreadPoolExecutor(workers) as pool:
        for each in as_completed([pool.submit(_run, name, part, seed) for name in chosen or names()]):
            name, counts, seconds = each.result()
            findings += len(counts.findings)
            line = f"{name}: {counts.attempts:,} attempts in {seconds:,.0f} s, {len(counts.findings)} findings"
            Console(stderr=True).print(line, markup=False, highlight=False)
            table([_row(name, counts, seconds, seed)]).show()
            for finding in counts.findings:
                Console().print(f"{name}: {finding}", markup=False)
            if write:
                keep(_row(name, counts, seconds, seed))
    raise SystemExit(findings > 0)


def _row(name: str, counts: Counts, seconds: float, seed: int) -> Row:
    outcomes = ", ".join(f"{outcome} {count:,}" for outcome, count in counts.outcomes.most_common())
    numbers = {"attempts": counts.attempts, "findings": len(counts.findings), "seconds": round(seconds), "seed": seed}
    return {"campaign": name, **numbers, "outcomes": outcomes, "what": "; ".join(counts.findings), "code": LOADED}


def keep(row: Row) -> None:
    """Put a campaign's counts in the place of its earlier ones, and write the card anew."""
    rows = list(csv.DictReader(ROWS.open(encoding="utf-8"))) if ROWS.exists() else []
    kept = sorted([*(each for each in rows if each["campaign"] != row["campaign"]), row], key=lambda each: each["campaign"])
    with ROWS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept)
    card(kept).write(ROWS.stem)


def table(rows: Sequence[Row]) -> Table:
    """Return the counts, a row a campaign."""
    columns = ("campaign", "attempts", "findings", "seconds", "seed", "outcomes")
    cells = [[f"{int(row[name]):,}" if name in columns[1:4] else str(row[name]) for name in columns] for row in rows]
    return Table("", columns, cells, left=["outcomes"])


def card(rows: Sequence[Row]) -> Card:
    """Return the card of all counts; of more than ten campaigns those with findings and most attempts."""
    shown = sorted(rows, key=lambda row: (-int(row["findings"]), -int(row["attempts"])))[:MOST_ROWS]
    lines = [
        (
            row["campaign"],
            f"{int(row['attempts']):,}",
            str(row["findings"]),
            (campaign(str(row["campaign"])).__doc__ or "").splitlines()[0],
        )
        for row in shown
    ]
    commits = sorted({str(row["code"]).removeprefix("commit ") for row in rows})
    attempts, findings = (sum(int(row[name]) for row in rows) for name in ("attempts", "findings"))
    return Card(
        question="What do hostile inputs, kills, full disks and power losses do?",
        answer=f"In {attempts:,} attempts, {len(rows)} campaigns had {findings} finding{'s' * (findings != 1)}. A finding is a traceback, a hang, a silent "
        "change, or a lost or mixed result.",
        table=pd.DataFrame(lines, columns=["campaign", "attempts", "findings", "what it does"]),
        table_caption="The last run of each:",
        fails="Campaigns try only what they draw: no findings is no proof. Power losses are simulated at system calls. "
        "[What is trusted, and what is not](../threat-model.md).",
        data=[ROWS.name],
        made_by=f"Made by `make campaign`, which draws a seed, or in part by `python -m tests.campaigns NAME --seed N --part 0.1 --write`, at "
        f"commits {', '.join(commits)}.",
    )


if __name__ == "__main__":
    main()
