"""Run campaigns and print their counts: ``python -m tests.campaigns [NAME...] [--part 0.1] [--seed N]``."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path

import click

from tests.campaigns.apart import apart, campaign
from tests.conftest import MEMORY

NAMES = ("fuzz", "kills", "properties")


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(NAMES))
@click.option("--part", default=1.0, show_default=True, help="The part of each campaign's attempts that is made.")
@click.option(
    "--seed", type=click.IntRange(0), help="Decides what is tried; of an earlier run to repeat it. [default: drawn, printed]"
)
def main(names: tuple[str, ...], part: float, seed: int | None) -> None:
    """Run the campaigns NAMES, by default all."""
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    findings = 0
    for name in names or NAMES:
        attempts = max(1, round(campaign(name).ATTEMPTS * part))
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            counts = apart(name, attempts, seed, Path(folder))
        findings += len(counts.findings)
        outcomes = ", ".join(f"{outcome} {count:,}" for outcome, count in counts.outcomes.most_common())
        print(f"{name}, seed {seed}: {counts.attempts:,} attempts, {len(counts.findings)} findings ({outcomes})", flush=True)
        print(*counts.findings, sep="\n", flush=True)
    raise SystemExit(findings > 0)


if __name__ == "__main__":
    main()
