"""``queuecast doctor``: say whether what is published and served is whole, or go back."""

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from features.errors import InputError
from pipelines.cli.notes import note
from pipelines.cli.options import home_option, json_option


@click.command()
@click.option("--repair", "mend", is_flag=True, help="Go back to the version before, or set aliases again.")
@home_option
@json_option
def command(mend: bool, home: Path | None, as_json: bool) -> None:
    """Check what is published in the home directory and what the registry's aliases need.

    The default is the site's home directory. With --json, a finding has part, where, what, mend, by_hand and repaired. The exit
    code is 1 if something needs repair, or still needs it after --repair.
    """
    from pipelines.lake.home import home as site_home
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
