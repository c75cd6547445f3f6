"""Run campaigns and print their counts: ``python -m tests.campaigns [NAME...] [--part 0.1] [--seed 0] [--write]``."""

from __future__ import annotations

import importlib
import pkgutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import click
from rich.console import Console

import tests.campaigns
from benchmarks.common.pages import LOADED, STUDIES
from pipelines.report.table import Table, escaped
from tests.campaigns.counts import Counts
from tests.conftest import MEMORY

PAGE = STUDIES / "campaigns.md"
Made = tuple[str, Counts, float]


def names() -> list[str]:
    """List the campaigns, the longest first: the modules of this folder that have one."""
    found = [each.name for each in pkgutil.iter_modules(tests.campaigns.__path__) if not each.name.startswith(("test_", "_"))]
    return sorted((name for name in found if hasattr(_module(name), "campaign")), key=lambda name: -_module(name).ATTEMPTS)


def _module(name: str):
    return importlib.import_module(f"tests.campaigns.{name}")


def _made(name: str, part: float, seed: int) -> Made:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        counts = _module(name).campaign(max(1, round(_module(name).ATTEMPTS * part)), seed, Path(folder))
    return name, counts, time.monotonic() - began


@click.command()
@click.argument("chosen", nargs=-1)
@click.option("--part", default=1.0, show_default=True, help="The part of each campaign's attempts that is made.")
@click.option("--seed", default=0, show_default=True)
@click.option("--workers", default=2, show_default=True, help="Campaigns at a time.")
@click.option("--write", is_flag=True, help="Write the page of counts.")
def main(chosen: tuple[str, ...], part: float, seed: int, workers: int, write: bool) -> None:
    """Run the CHOSEN campaigns (all by default)."""
    unknown = sorted(set(chosen) - set(names()))
    if unknown:
        raise click.BadParameter(f"unknown: {', '.join(unknown)}; known: {', '.join(sorted(names()))}")
    made: list[Made] = []
    with ThreadPoolExecutor(workers) as pool:
        for each in as_completed([pool.submit(_made, name, part, seed) for name in chosen or names()]):
            name, counts, seconds = each.result()
            made.append((name, counts, seconds))
            said = f"{name}: {counts.attempts:,} attempts in {seconds:,.0f} s, {len(counts.findings)} findings"
            Console(stderr=True).print(said, markup=False, highlight=False)
    made.sort(key=lambda each: each[0])
    table(made).show()
    for name, counts, _ in made:
        for finding in counts.findings:
            Console().print(f"{name}: {finding}", markup=False)
    if write:
        PAGE.write_text(page(made, seed))
    raise SystemExit(any(counts.findings for _, counts, _ in made))


def table(made: list[Made]) -> Table:
    """Return the counts, a row a campaign."""
    rows = []
    for name, counts, seconds in made:
        outcomes = ", ".join(f"{outcome} {count:,}" for outcome, count in counts.outcomes.most_common())
        rows.append([name, f"{counts.attempts:,}", f"{len(counts.findings)}", f"{seconds:,.0f}", outcomes])
    return Table("", ["campaign", "attempts", "findings", "seconds", "outcomes"], rows, left=["outcomes"])


def page(made: list[Made], seed: int) -> str:
    """Return the page of counts as Markdown."""
    about = [f"* **{name}**: {(_module(name).__doc__ or '').splitlines()[0]}" for name, _, _ in made]
    found = [f"* {name}: {escaped(finding)}" for name, counts, _ in made for finding in counts.findings]
    lines = [
        "# Campaigns: what was tried to break it",
        "",
        f"Made by `make campaign` at {LOADED}, seed {seed}. A finding is an attempt that ended in a traceback, a hang, a silent change, or a lost",
        "or mixed result; its line names the seed or the input that repeats it. Files that were ever found are kept in `tests/campaigns/corpus/` and",
        "read again in every test run. [What is trusted, and what is not](../threat-model.md).",
        "",
        *about,
        "",
        table(made).markdown(),
        "",
        "## Findings of this run",
        "",
        *(found or ["None."]),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
