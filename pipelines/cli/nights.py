"""``queuecast nights``: replay a trace day by day with nightly retraining."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from features.errors import InputError
from pipelines.cli import note
from pipelines.cli.options import home_option, load, options
from sim.settings import TraceSettings


@click.command()
@click.argument("trace")
@click.option("--nights", "count", type=click.IntRange(min=1), default=30, show_default=True, help="How many consecutive nights.")
@click.option("--until", help="The last night, named like its page, such as 1997-08-30. [default: that after the last submission]")
@home_option
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--starts", is_flag=True, help="Learn when jobs start, too; a night then takes seconds longer.")
@options(TraceSettings)
def nights(
    settings: TraceSettings,
    count: int,
    until: str | None,
    home: Path | None,
    seed: int,
    starts: bool,
) -> None:
    """Replay TRACE day by day: ingest, retrain, judge, promote or refresh, compare, report.

    Each night does what a scheduled night does. Nights that are done are not done again: the same command resumes where
    it ended. The replay has its own registry in --home, by default replays/TRACE in the site's home directory.
    """
    from pipelines.lake.places import local_home
    from pipelines.lake.tables import Lake
    from pipelines.report.night import nights_table
    from pipelines.training.ledger import replay
    from pipelines.training.night import replay_nights

    source = replay(load(settings))
    place = (home or local_home() / "replays" / source.clean.name).absolute()
    midnights = source.midnights
    labels = [source.label(midnight) for midnight in midnights]
    if until is not None and until not in labels:
        raise InputError(f"--until {until}: the nights of {source.clean.name} are {labels[0]} to {labels[-1]}")
    last = labels.index(until) + 1 if until is not None else source.up_to_the_last_submission()
    chosen = midnights[max(last - count, 0) : last]
    lake = Lake(place / "lake")
    if lake.has("nights", source.clean.name):
        done = lake.read("nights", source.clean.name)[0]["night"].iloc[-1]
        chosen = [midnight for midnight in chosen if source.label(midnight) > done]
        note(f"{place}: the night {done} is done, {len(chosen)} left")
    began = time.perf_counter()
    for number, night in enumerate(replay_nights(source, chosen, place, seed=seed, starts=starts), 1):
        note(f"{number}/{len(chosen)} {line_of(night.row)}")
    if lake.has("nights", source.clean.name):
        nights_table(lake.read("nights", source.clean.name)[0]).show()
    note(f"nights done: {len(chosen)}, in {time.perf_counter() - began:.1f} s")
    click.echo(f"report      {place / 'reports' / f'{source.clean.name}.html'}")
    sys.stdout.flush()


def line_of(row) -> str:
    """Return the row of a night in a line: its jobs, its champion and how that served."""
    from sim.metrics.verdict import number

    verdict = "promoted" if row["promoted"] else "stays"
    drifted = f", drift: {row['drifted']}" if row["drifted"] else ""
    return (
        f"{row['night']}: {row['new_jobs']:,} new jobs, champion version {row['champion']} ({row['method']}) {verdict}, "
        f"served {number(row['accuracy_champion'], 'share')}{drifted}"
    )
