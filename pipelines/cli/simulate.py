"""``queuecast simulate``: a trace under schedulers, predictors and corrections.

Neither Dagster nor MLflow is imported.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import click
import pandas as pd

from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from models.runtime.protocol import Predictor
from pipelines.cli.options import (
    POLICIES,
    REGISTERED,
    Finite,
    check_outputs,
    load,
    load_machine,
    load_option,
    machine_option,
    note,
    shake_option,
    squeeze_option,
    trace_options,
    users_option,
    without_policies,
)
from pipelines.cli.progress import shown_progress
from sim.metrics.names import METRICS, SHOWN
from sim.metrics.schedule_metrics import evaluate, nothing_waits
from sim.names import PLANNERS, PLANNING
from sim.names import scheduler as scheduler_named
from sim.policy import NAMES, Policy
from sim.schedule import IDENTITY, Schedule
from sim.shaken import check_seed, moved_by_seed
from sim.simulate import simulate_policy

_QUIET_S = 1.5
"""Seconds of a simulation before its progress is shown."""


@click.command()
@click.argument("trace")
@trace_options
@machine_option
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    default=("EASY",),
    show_default=True,
    help=f"[ORDER-]ALGORITHM[-BACKFILLORDER]; may be repeated. {POLICIES}",
)
@click.option(
    "--predictor", "predictors", multiple=True, default=("requested",), show_default=True, help=f"May be repeated. {REGISTERED}"
)
@click.option("--correction", "corrections", multiple=True, default=("requested",), show_default=True, help="May be repeated.")
@click.option(
    "--semantics",
    default="per-second",
    show_default=True,
    help="per-second or per-event, with options as in per-second(expiry=pass,every=30).",
)
@click.option(
    "--starvation",
    "starvation_s",
    type=click.IntRange(min=0),
    help="Seconds of waiting after which a job goes to the head of the queue.",
)
@click.option(
    "--dependencies",
    is_flag=True,
    help="Submit a job that names a preceding job (SWF field 17) when that has ended and the think time (field 18) is over.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Seed of the shake, of schedulers that draw (Harm, Rollout, PlanRS), and of random predictors (lightgbm, quantile).",
)
@users_option
@load_option
@squeeze_option
@shake_option
@click.option(
    "--tau",
    "tau_s",
    type=Finite(),
    default=10.0,
    show_default=True,
    help="Bound of the bounded slowdown, seconds.",
)
@click.option(
    "--schedule-out", type=click.Path(path_type=Path, dir_okay=False), help="Write all schedules, job by job, to this Parquet file."
)
@click.option(
    "--plans-out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write when the planned start of each job changed, and to what, to this Parquet file (PlanRS, OrigBF, Conservative, JustBF).",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line on standard output, and nothing else there.")
def command(
    trace: str,
    procs: int | None,
    timezone: str | None,
    missing_request: str | None,
    machine_file: Path | None,
    schedulers: tuple[str, ...],
    predictors: tuple[str, ...],
    corrections: tuple[str, ...],
    semantics: str,
    starvation_s: int | None,
    dependencies: bool,
    seed: int,
    users: str,
    load_by: float,
    squeeze: float,
    shake_s: int,
    tau_s: float,
    schedule_out: Path | None,
    plans_out: Path | None,
    as_json: bool,
) -> None:
    """Schedule TRACE under every combination of schedulers, predictors and corrections.

    TRACE is a name of the catalogue, an SWF file (plain or .gz), a canonical Parquet file or a Slurm accounting file.
    """
    check_outputs({"--schedule-out": schedule_out, "--plans-out": plans_out}, [trace, *table_files(predictors)])
    schedulers = without_policies(schedulers)
    for option, out in (("--schedule-out", schedule_out), ("--plans-out", plans_out)):
        if out is not None:
            check_distinct(option, schedulers, predictors, corrections)
    if plans_out is not None:
        check_planning(schedulers)
    check_seed(predictors, [seed], shake_s, schedulers)
    asked = Policy(
        semantics=semantics,
        starvation_s=starvation_s,
        dependencies=dependencies,
        shake_s=shake_s,
        users=users,
        load=load_by,
        squeeze=squeeze,
    )
    asked.plan()
    machine = load_machine(machine_file, procs)
    workload = load(trace, procs, timezone, missing_request, machine)
    chosen = [fitted(name, workload) for name in predictors]
    if dependencies:
        say_dependencies(workload)
    say_users(workload, users)
    rows, tables, plans = [], [], []
    for scheduler, predictor, correction in product(schedulers, chosen, corrections):
        moved = seed if moved_by_seed(predictor, shake_s, [scheduler]) else 0
        policy = asked._replace(scheduler=scheduler, predictor=predictor, correction=correction, seed=moved)
        with shown_progress(
            "jobs have ended", f"{scheduler} / {predictor if isinstance(predictor, str) else predictor.name}", after_s=_QUIET_S
        ) as progress:
            schedule = simulate_policy(
                workload.jobs,
                policy,
                procs=workload.procs,
                trace=workload.name,
                generated=workload.generated,
                clock=workload.clock,
                machine=machine,
                plans=plans_out is not None or policy.plan().promises,
                progress=progress,
            )
        schedule = replace(schedule, seed=seed)
        row = as_row(schedule, tau_s)
        if as_json:
            click.echo(json.dumps(row))
        rows.append(row)
        if schedule_out is not None:
            tables.append(schedule_rows(schedule))
        if plans_out is not None and schedule.plans is not None:
            plans.append(schedule.plans.assign(scheduler=schedule.scheduler, predictor=schedule.predictor))
    if not as_json:
        print_metrics(rows, workload)
    if said := nothing_waits(rows, workload.procs):
        note(f"{workload.name}: {said}")
    for out, kind, made in ((schedule_out, "schedules", tables), (plans_out, "plans", plans)):
        if out is None:
            continue
        from pipelines.storage.parquet import write_parquet

        metadata = {"trace": asked.label(workload.name), "generated": workload.generated}
        write_parquet(pd.concat(made, ignore_index=True), out, kind=kind, metadata=metadata)
        note(f"wrote {out}")


def say_dependencies(workload: CleanTrace) -> None:
    """Report the trace's dependencies on standard error; InputError if it states none."""
    from features.jobs.dependencies import preceding_rows

    stated = preceding_rows(workload.jobs)
    if stated.named == 0:
        raise InputError(f"{workload.name}: no job names a preceding job (SWF field 17), so --dependencies cannot be applied")
    for text in stated.notes():
        note(f"{workload.name}: {text}")


def say_users(workload: CleanTrace, name: str) -> None:
    """Report sessions and batches of reacting users on standard error."""
    from sim.replays import user_facts
    from sim.users.names import OPEN, users

    rule = users(name)
    if rule.loop != OPEN:
        for text in user_facts(workload.jobs, rule, workload.procs).notes():
            note(f"{workload.name}: {text}")


def check_planning(schedulers: tuple[str, ...]) -> None:
    """Raise InputError for a scheduler that plans no starts."""
    for name in schedulers:
        if scheduler_named(name).algorithm not in (*PLANNING, *PLANNERS):
            raise InputError(f"--plans-out: {name} plans no starts; {', '.join((*PLANNERS, *PLANNING))} do")


def check_distinct(written: str, schedulers: tuple[str, ...], predictors: tuple[str, ...], corrections: tuple[str, ...]) -> None:
    """Raise InputError if rows of an output could not be told apart.

    They name the scheduler and the predictor alone.
    """
    if len(corrections) > 1:
        raise InputError(f"{written} takes one --correction, not {', '.join(corrections)}: its rows do not name it")
    for option, names in (("--scheduler", schedulers), ("--predictor", predictors)):
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"{written} takes each {option} once, and {twice} is given again: its rows could not be told apart")


def table_files(predictors: tuple[str, ...]) -> list[str]:
    """Return the files among the predictors."""
    from pipelines.ingest.prediction_table import PREFIX

    return [name.removeprefix(PREFIX) for name in predictors if name.startswith(PREFIX)]


def fitted(name: str, workload: CleanTrace) -> str | Predictor:
    """Return a predictor for the simulator: a known name, or a table.

    A table comes from a file or a registered model.
    """
    from pipelines.ingest.prediction_table import PREFIX, table_predictor

    if name.startswith(PREFIX):
        return table_predictor(name, workload.jobs)

    if name.startswith("registry:"):
        from pipelines.storage.registry import registered_predictor

        return registered_predictor(name, workload)
    return name


def as_row(schedule: Schedule, tau_s: float) -> dict[str, object]:
    """Return a schedule's identity and metrics as plain Python values for JSON; NaN is null."""
    row: dict[str, object] = {name: tau_s if name == "tau_s" else getattr(schedule, name) for name in IDENTITY}
    for name, value in evaluate(schedule, tau_s=tau_s).items():
        row[str(name)] = None if math.isnan(value) else value
    return row


def schedule_rows(schedule: Schedule) -> pd.DataFrame:
    """Return the columns of ``--schedule-out``."""
    columns = ["job_id", "submit_s", "start_s", "end_s", "procs", "predicted_s", "corrections"]
    rows = schedule.jobs[columns].copy()
    rows.insert(0, "predictor", schedule.predictor)
    rows.insert(0, "scheduler", schedule.scheduler)
    return rows


def print_metrics(rows: list[dict[str, object]], workload: CleanTrace) -> None:
    """Print the main metrics."""
    from pipelines.report.table import Table

    of_machine = f" of {rows[0]['machine']}" if rows[0]["machine"] else ""
    made_up = ", a generated workload" if workload.generated else ""
    title = f"{rows[0]['trace']}: {len(workload.jobs):,} jobs on {workload.procs:,} processors{of_machine}{made_up}"
    shown = [(name, METRICS[name]) for name in SHOWN]
    cells = []
    for row in rows:
        took = 1000 * row["simulate_s"]  # type: ignore[operator]
        values = (format(row[name], metric.form) for name, metric in shown)
        cells.append([*(str(row[name]) for name in NAMES), *values, f"{took:.1f}"])
    caption = f"* mean bounded slowdown, tau {rows[0]['tau_s']:g} s"
    headings = [*NAMES, *(metric.short for _, metric in shown), "took ms"]
    Table(title, headings, cells, caption, keys=len(NAMES)).show()
