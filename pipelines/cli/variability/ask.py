"""``queuecast variability ask``: whether a job would vary if it started on these nodes.

The champion answers from the ingested counters.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

import click

from features.errors import InputError
from pipelines.cli.notes import note, record
from pipelines.cli.options import json_option, system_option

if TYPE_CHECKING:
    from pipelines.studies.variability_ask import VariationAnswer

_SHOWN = 3


@click.command()
@system_option
@click.option(
    "--nodes", "node_list", required=True, help="The nodes the job would get: n1,n2 or a Slurm list such as quartz[1-16,20]."
)
@click.option("--application", required=True, help="Name of the application, as in the control runs.")
@click.option("--at", "when", help="When it would start: Unix seconds, or ISO 8601 with its offset from UTC.  [default: now]")
@json_option
def command(name: str, node_list: str, application: str, when: str | None, as_json: bool) -> None:
    """Ask the champion of SYSTEM whether APPLICATION would vary if it started on these nodes.

    It uses the ingested counters of the five minutes before, and prints their number of samples.
    """
    from features.node_list import expand_nodes
    from pipelines.lake.home import home
    from pipelines.lake.registry import tracking
    from pipelines.studies.variability_ask import ask

    at_s = moment(when) if when is not None else time.time()
    try:
        nodes = expand_nodes(node_list)
    except ValueError as error:
        raise InputError(f"--nodes {node_list!r} is not {error}") from error
    if not nodes:
        raise InputError("--nodes names no node")
    answer = ask(home(), tracking(), name, nodes, application, at_s)
    if as_json:
        record(asdict(answer))
    else:
        _print(answer)


def moment(text: str) -> float:
    """Return Unix seconds from a number or ISO 8601 with an offset; else raise InputError."""
    try:
        number = float(text)
    except ValueError:
        try:
            instant = datetime.fromisoformat(text)
        except ValueError:
            instant = None
        if instant is None or instant.tzinfo is None:
            raise InputError(f"--at {text!r} is neither Unix seconds nor a time such as 2026-03-01T09:00:00+01:00") from None
        number = instant.timestamp()
    if not 0 < number < 1e10:
        raise InputError(f"--at {text} is not of the years 1970 to 2286 in Unix seconds")
    return number


def _print(answer: VariationAnswer) -> None:
    from pipelines.studies.variability_ask import time_text

    on = f"{len(answer.nodes)} node{'s' if len(answer.nodes) > 1 else ''}"
    click.echo(
        f"{answer.application} on {on} at {time_text(answer.at_s)}: {'predicted: variation' if answer.varies else 'predicted: no variation'}"
    )
    side = "reaches" if answer.varies else "is below"
    does = "let it wait" if answer.varies else "start it"
    click.echo(
        f"probability   {answer.variation:.3f}, which {side} the cutoff {answer.cutoff:.3f}: a scheduler that asks would {does}"
    )
    if math.isfinite(answer.varies_above_s):
        click.echo(f"varies above  {answer.varies_above_s:,.0f} s")
    else:
        note(f"{answer.application}: {answer.model} has no baseline for it, because it learned from no control runs of it")
    click.echo(f"model         {answer.model} version {answer.version}, {answer.classifier}, counters of {answer.scope} nodes")
    click.echo(f"rests on      {answer.samples:,} samples, where {answer.expected:,.0f} are usual")
    if answer.silent:
        few = ", ".join(answer.silent[:_SHOWN]) + (", ..." if len(answer.silent) > _SHOWN else "")
        note(f"no counter of {len(answer.silent):,} of these nodes was sampled just before, so nothing is known of them: {few}")
    if answer.missing:
        few = ", ".join(answer.missing[:_SHOWN]) + (", ..." if len(answer.missing) > _SHOWN else "")
        note(f"{len(answer.missing)} columns have no value, and the model takes usual values: {few}")
