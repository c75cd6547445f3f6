"""``queuecast policies``: mixed policies on weeks of a trace, and what is learned.

The study of Legrand, Trystram & Zrigui (2018), resumable.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from features.jobs.shaking import SHAKE_S
from pipelines.cli.campaign import tell_windows, told_how_to_go_on
from pipelines.cli.options import Finite, OrNone, check_outputs, load, note, on_option, options, simulating
from pipelines.cli.progress import shown_progress
from sim.search.directions import CUBE, SURFACE
from sim.settings import TraceSettings

_SPAN = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")
_LONGEST = 100_000


class _Numbers(click.ParamType):
    """Numbers of windows, as in ``28-64`` or ``1-5,7``."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> tuple[int, ...]:
        if not isinstance(value, str):
            return tuple(value)
        found: set[int] = set()
        for part in value.split(","):
            span = _SPAN.fullmatch(part.strip())
            first, last = (int(span[1]), int(span[2] or span[1])) if span else (1, 0)
            if first > last or last > _LONGEST:
                self.fail(f"{value!r}: give numbers and spans of them, as in 28-64 or 1-5,7", param, context)
            found |= {*range(first, last + 1)}
        return tuple(sorted(found))


@click.command()
@click.argument("trace")
@options(TraceSettings)
@click.option(
    "--windows",
    "unit",
    type=click.Choice(["weeks", "months"]),
    default="weeks",
    show_default=True,
    help="Simulate each week (7 days) or month (30 days) of submissions by itself; the first, number 0, is left out.",
)
@click.option("--last", type=click.IntRange(min=1), help="The last window. [default: the paper's for its traces, else the trace's]")
@click.option(
    "--training",
    type=_Numbers(),
    help="Windows to learn from, as 28-64. [default: the paper's for its traces; ten months; else the first half]",
)
@click.option(
    "--testing", type=_Numbers(), help="Windows to judge by, as 65-100. [default: the paper's; else those after training]"
)
@click.option(
    "--week", "landscapes", multiple=True, type=click.IntRange(min=1), help="Draw the landscape of this window; may be repeated."
)
@click.option(
    "--points",
    type=click.IntRange(2, 200),
    default=100,
    show_default=True,
    help="Points a dimension of the grid of directions.",
)
@click.option(
    "--grid",
    "reading",
    type=click.Choice([SURFACE, CUBE]),
    default=SURFACE,
    show_default=True,
    help="Which directions: both faces of the paper's figure 4, or every triple of points, 948,158 of 100 a dimension.",
)
@click.option(
    "--budget",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    help="Simulations of each search by xNES, with three weights and with six, in each window; 0: no search.",
)
@click.option(
    "--starvation",
    "starvation_s",
    type=OrNone(click.IntRange(min=0)),
    default=200_000,
    show_default=True,
    help="Threshold for mixed policies: seconds of waiting after which a job goes to the head of the queue, or none. Pure ones are simulated "
    "with none, 200,000 and 72,000 too.",
)
@click.option(
    "--tau",
    "taus_s",
    multiple=True,
    type=Finite(min=0, min_open=True),
    default=(10.0, 60.0),
    show_default=True,
    help="Bound of the bounded slowdown, seconds; may be repeated.",
)
@click.option(
    "--replicates",
    type=click.IntRange(min=2),
    default=20,
    show_default=True,
    help="Replays with shaken submissions, of which intervals are.",
)
@click.option(
    "--shake",
    "shake_s",
    type=click.IntRange(min=0),
    default=SHAKE_S,
    show_default=True,
    metavar="SECONDS",
    help="Move each submission of a replicate by up to so many seconds.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the first shake; replicates count on from it."
)
@click.option("--workers", type=click.IntRange(min=1), help="Threads. [default: one a core]")
@on_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Write the tables into this folder, as Parquet; an interrupted study resumes from the journal beside it.",
)
@click.option(
    "--report", type=click.Path(path_type=Path, dir_okay=False), help="Also write a page with tables and figures to this HTML file."
)
@click.option("--restart", is_flag=True, help="Discard the journal of an interrupted study.")
def command(
    settings: TraceSettings,
    unit: str,
    last: int | None,
    training: tuple[int, ...] | None,
    testing: tuple[int, ...] | None,
    landscapes: tuple[int, ...],
    points: int,
    reading: str,
    budget: int,
    starvation_s: int | None,
    taus_s: tuple[float, ...],
    replicates: int,
    shake_s: int,
    seed: int,
    workers: int | None,
    on: str | None,
    out: Path,
    report: Path | None,
    restart: bool,
) -> None:
    """Simulate pure and mixed policies on every week of TRACE; learn on some, judge on others.

    After Legrand, Trystram & Zrigui (2018): the order of EASY's queue by a weighted sum of processors, requested time and wait. TRACE is a
    name of the catalogue, an SWF file (plain or .gz), a canonical Parquet file or a Slurm accounting file.
    """
    from pipelines.workflows.policy_study import asked, resumable_study

    check_outputs({"--out": out, "--report": report}, [settings.trace])
    workload = load(settings)
    windows, study_settings = asked(
        workload,
        unit,
        last,
        training,
        testing,
        tuple(dict.fromkeys(landscapes)),
        starvation_s=starvation_s,
        taus_s=tuple(dict.fromkeys(taus_s)),
        points=points,
        reading=reading,
        budget=budget,
        replicates=replicates,
        shake_s=shake_s,
        seed=seed,
    )
    tell_windows(windows)
    with simulating(on, workers) as map_steps, shown_progress("steps") as progress, told_how_to_go_on():
        study = resumable_study(out, workload, study_settings, windows, restart=restart, map_steps=map_steps, progress=progress)
    note(f"wrote {out}: {', '.join(study.tables.by_name())}")
    print_study(study)
    if report is not None:
        from pipelines.report.html import write_report
        from pipelines.report.policies import render_policies
        from pipelines.storage.provenance import software

        page = render_policies(study, {**study.facts, "software": software()}, workload.notes)
        write_report(report, page)
        note(f"wrote {report}")


def print_study(study: Any) -> None:
    """Print what transfers, for each tau, and the paper's claims."""
    from pipelines.report.policies import claims_table, spans, transfer_table
    from sim.search.claims import claims
    from sim.search.transfer import sums

    settings = study.settings
    found = sums(study.tables.replays, settings.split, seed=settings.seed)
    for tau_s in settings.taus_s:
        which = f"{settings.unit} {spans(settings.split.training)} and {spans(settings.split.testing)}"
        title = f"{study.facts['trace']}: sums of mean bounded slowdowns, τ = {tau_s:g} s, {which}"
        replace(transfer_table(found, tau_s, settings.unit), title=title).show()
    claims_table(claims(study.tables, settings)).show()
