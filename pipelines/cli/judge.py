"""``queuecast judge``: compare a service's answers with the runtimes of the jobs."""

from pathlib import Path
from typing import Any

import click

from pipelines.cli.notes import note, record
from pipelines.cli.options import json_option, load, options
from sim.settings import TraceSettings


@click.command()
@click.argument("log", type=click.Path(path_type=Path))
@click.argument("trace")
@options(TraceSettings)
@click.option(
    "--model", default="", metavar="NAME", help="Whose answers: by default runtime-TRACE's, or those of the log's only model."
)
@json_option
def command(settings: TraceSettings, log: Path, model: str, as_json: bool) -> None:
    """Judge the answers in LOG (of queuecast serve --log) by the jobs of TRACE.

    An answer is joined to the job of its user, processors and request, by the number as accounting writes it if it was asked with one,
    else by the time of submission.
    Answers without a job are counted; "later" are those that were asked after the last submission of TRACE.
    """
    from pipelines.report.terminal import print_table
    from pipelines.serving.judging import judge

    judged = judge(log, load(settings), model)
    rows = judged.versions()
    if as_json:
        for row in rows:
            record(row)
    elif rows:
        print_table([name.replace("_", " ") for name in rows[0]], [[_cell(name, row[name]) for name in rows[0]] for row in rows])
    missing = {"of running jobs, not judged": judged.running, "unreadable lines": judged.unreadable}
    if counts := ", ".join(f"{count:,} {what}" for what, count in missing.items() if count):
        note(f"other answers: {counts}")


def _cell(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if value != value:
        return "-"
    return f"{value:,.0f}" if isinstance(value, int) or name.endswith("_s") else f"{value:.1%}"
