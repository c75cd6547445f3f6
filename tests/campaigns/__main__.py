"""Run campaigns and print their counts: ``python -m tests.campaigns [NAME...] [--part 0.1] [--seed 0] [--write]``."""

from __future__ import annotations

import importlib
import pkgutil
import tempfile
import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

import tests.campaigns
from benchmarks.common.pages import LOADED, STUDIES
from tests.campaigns.counts import Counts
from tests.conftest import MEMORY


def names() -> list[str]:
    """List the campaigns: the modules of this folder that have one."""
    found = sorted(each.name for each in pkgutil.iter_modules(tests.campaigns.__path__) if not each.name.startswith("test_"))
    return [name for name in found if name not in ("__main__", "counts") and hasattr(_module(name), "campaign")]


def _module(name: str):
    return importlib.import_module(f"tests.campaigns.{name}")


@click.command()
@click.argument("chosen", nargs=-1)
@click.option("--part", default=1.0, show_default=True, help="The part of each campaign's attempts that is made.")
@click.option("--seed", default=0, show_default=True)
@click.option("--write", is_flag=True, help="Write the page of counts.")
def main(chosen: tuple[str, ...], part: float, seed: int, write: bool) -> None:
    """Run the CHOSEN campaigns (all by default)."""
    unknown = sorted(set(chosen) - set(names()))
    if unknown:
        raise click.BadParameter(f"unknown: {', '.join(unknown)}; known: {', '.join(names())}")
    table = Table("campaign", "attempts", "outcomes", "findings", "seconds")
    rows: list[tuple[str, Counts, float]] = []
    for name in chosen or names():
        began = time.monotonic()
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            counts = _module(name).campaign(max(1, round(_module(name).ATTEMPTS * part)), seed, Path(folder))
        rows.append((name, counts, time.monotonic() - began))
        table.add_row(*_cells(*rows[-1]))
        Console(stderr=True).print(f"{name}: {counts.attempts:,} attempts, {len(counts.findings)} findings")
    Console().print(table)
    for name, counts, _ in rows:
        for finding in counts.findings:
            Console().print(f"{name}: {finding}", markup=False)
    if write:
        (STUDIES / "campaigns.md").write_text(_page(rows, seed))
    raise SystemExit(any(counts.findings for _, counts, _ in rows))


def _cells(name: str, counts: Counts, seconds: float) -> tuple[str, ...]:
    outcomes = ", ".join(f"{outcome} {count:,}" for outcome, count in counts.outcomes.most_common())
    return name, f"{counts.attempts:,}", outcomes, f"{len(counts.findings)}", f"{seconds:,.0f}"


def _page(rows: list[tuple[str, Counts, float]], seed: int) -> str:
    """Return the page of counts as Markdown."""
    lines = ["# Campaigns: what was tried to break it", "", f"Made by `make campaign` at {LOADED}.", f"Seed {seed}.", ""]
    lines += ["| campaign | what it does | attempts | outcomes | findings | s |", "| --- | --- | --- | --- | --- | --- |"]
    for name, counts, seconds in rows:
        cells = _cells(name, counts, seconds)
        said = (_module(name).__doc__ or "").splitlines()[0]
        lines.append(f"| {' | '.join([cells[0], said, *cells[1:]])} |")
    lines += ["", *(f"* {name}: {finding}" for name, counts, _ in rows for finding in counts.findings)]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    main()
