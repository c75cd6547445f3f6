"""``queuecast lake`` and ``doctor``: where each table lies, and whether all is whole."""

import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import click

from features.errors import InputError
from pipelines.cli import note
from pipelines.cli.options import home_option, json_option


@click.command()
def lake() -> None:
    """Print where each published table lies, with its rows and what made it."""
    from pipelines.lake.places import home
    from pipelines.lake.versions import write_views

    lake = home() / "lake"
    rows = [*contents(lake)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:  # no frame, and paths last: they are copied
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    note(f"{lake}: {len(rows):,} tables" + (f"; as views for DuckDB: {write_views(lake)}" if rows else ""))
    sys.stdout.flush()


def contents(lake: Path) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield subject, name, rows, maker and path of each table that is published.

    Parts of counters are left out.
    """
    import pyarrow.parquet as pq

    from pipelines.lake.files import told_of
    from pipelines.lake.places import inside, opened
    from pipelines.lake.version import COUNTERS_PART, PAGES
    from pipelines.lake.versions import Versions

    for pointer in inside(lake / "current"):
        if pointer.suffix != ".json" or pointer.name.startswith("."):
            continue
        current = Versions(lake, pointer.stem).current()
        for table, file in sorted(current.files.items()):
            if table.startswith(PAGES) or COUNTERS_PART.fullmatch(table):
                continue
            path = lake / file
            with told_of(path), opened(path) as content:
                rows = pq.read_metadata(content).num_rows
            yield pointer.stem, table, f"{rows:,} rows", current.made_by, str(path)


@click.command()
@click.option("--repair", "mend", is_flag=True, help="Go back to the version before, or set aliases again.")
@home_option
@json_option
def doctor(mend: bool, home: Path | None, as_json: bool) -> None:
    """Check what is published in the home directory and what the registry's aliases need.

    The default is the site's home directory. With --json, a finding has part, where, what, mend, by_hand and repaired.
    The exit code is 1 if something needs repair, or still needs it after --repair.
    """
    from pipelines.lake.places import home as site_home
    from pipelines.lake.places import is_url
    from pipelines.lake.registry import tracking
    from pipelines.studies.doctor import Finding, examine, repair

    place = home.absolute() if home is not None else site_home()
    connect = tracking if home is None else partial(tracking, f"sqlite:///{place / 'mlflow.db'}")
    if not is_url(place) and not place.is_dir():
        raise InputError(f"{place}: is not a directory; name the home directory by $QUEUECAST_HOME or --home")
    repaired: list[Finding] = []
    left = repair(place, connect, repaired.append) if mend else [*examine(place, connect)]
    if as_json:
        for finding in (*repaired, *left):
            fields = {name: getattr(finding, name) for name in ("part", "where", "what", "mend")}
            click.echo(json.dumps({**fields, "by_hand": finding.repair is None, "repaired": finding in repaired}))
    else:
        _print("repaired", "done", repaired)
        _print("found", "would be done" if not mend else "to do", left)
        note(f"{place}: {len(repaired):,} repaired, {len(left):,} left" if mend else f"{place}: {len(left):,} found")
        if not mend and any(finding.repair for finding in left):
            note("queuecast doctor --repair makes these repairs")
    sys.exit(1 if left else 0)


def _print(title: str, done: str, findings: Sequence) -> None:
    from pipelines.report.table import Table

    if findings:
        rows = [[finding.part, finding.where, finding.what, finding.mend] for finding in findings]
        Table(title, ["part", "where", "what", done], rows, left=("where", "what", done)).show()
