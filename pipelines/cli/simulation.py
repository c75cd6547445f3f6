"""``queuecast simulate``: a trace under schedulers, predictors and corrections.

Neither Dagster nor MLflow is imported.
"""

from __future__ import annotations

import json
import math
import textwrap
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from features.jobs.columns import changed, held
from models.runtime.names import predictor as named_predictor
from models.runtime.protocol import Predictor
from pipelines.cli import note
from pipelines.cli.options import check_outputs, check_used, load
from pipelines.cli.progress import shown_progress
from pipelines.report.table import Table, takes_correction
from sim.campaigns.campaign import check_policies, policies, predictor_name
from sim.metrics.names import METRICS, SHOWN
from sim.metrics.schedule_metrics import metrics, nothing_waits
from sim.metrics.verdict import of_single_replays, predictions, sources
from sim.schedule import IDENTITY, Schedule
from sim.schedulers.names import SLURM
from sim.settings import Campaign
from sim.simulation import moved_by_seed, simulate_policy, user_facts
from sim.users.closed import OPEN_LOOP, users

_QUIET_S = 1.5
"""Seconds of a simulation before its progress is shown."""
_OF_SITE = ("trace", "schedulers", "machine", "timezone", "seeds", "taus_s")
"""Settings that a replay of a Slurm site uses."""


def simulate_all(campaign: Campaign, schedule_out: Path | None, as_json: bool) -> None:
    """Simulate all combinations of ``campaign``; print their metrics and write the schedules."""
    check_outputs({"--schedule-out": schedule_out}, [campaign.trace])
    if campaign.machine is not None:
        from pipelines.readers.slurm.site import is_site

        if is_site(campaign.machine):
            check_site(campaign, schedule_out)
            simulate_site(campaign, schedule_out, as_json)
            return
    tell_of_prior(campaign.schedulers, campaign.predictors)
    if schedule_out is not None:
        from pipelines.lake.files import check_ending

        check_ending("--schedule-out", schedule_out)
        check_distinct("--schedule-out", campaign)
    workload, predictors = prepared(campaign)
    rows: list[dict[str, Any]] = []
    schedules = []
    for policy in policies(campaign.model_copy(update={"predictors": predictors})):
        moved = moved_by_seed(policy.predictor, policy.shake_s, [policy.scheduler])
        with shown_progress(
            "jobs have ended", f"{policy.scheduler} / {predictor_name(policy.predictor)}", after_s=_QUIET_S
        ) as progress:
            schedule = simulate_policy(
                held(workload),
                policy if moved else policy._replace(seed=0),
                procs=workload.procs,
                trace=workload.name,
                generated=workload.generated,
                clock=workload.clock,
                machine=workload.machine,
                progress=progress,
            )
        schedule = changed(schedule, seed=policy.seed)
        rows.append(as_row(schedule, campaign.taus_s[0]))
        if schedule_out is not None:
            schedules.append(schedule)
    weighed = of_single_replays(rows)
    if as_json:
        for row in rows:
            key = row["scheduler"], row["predictor"], row["correction"]
            click.echo(json.dumps({**row, "predictions": predictions(row["predictor"]), **weighed.record(key)}))
    else:
        print_metrics(rows, workload.name, len(held(workload)), workload.procs, generated=workload.generated)
        if len(rows) > 1:
            click.echo("\n" + textwrap.fill(weighed.text, 100))
    if sentence := nothing_waits(rows, workload.procs):
        note(f"{workload.name}: {sentence}")
    if schedule_out is not None:
        write_out(schedule_out, schedules, campaign.submissions.label(workload.name), workload.generated)


def tell_of_prior(schedulers: Iterable[str], predictors: Iterable[str]) -> None:
    """Say that Harm lacks what requests tell, if it is simulated with them alone."""
    if {*predictors} == {"requested"} and not all(map(takes_correction, schedulers)):
        note(
            "Harm takes each request for the exact runtime here: add --predictor prior, with which it knows how far requests are off"
        )


def write_out(path: Path, schedules: Sequence[Schedule], trace: str, generated: bool) -> None:
    """Write the file of ``--schedule-out``, and say so; its metadata name the trace."""
    from pipelines.lake.files import write_schedules

    write_schedules(path, schedules, {"trace": trace, "generated": generated})
    note(f"wrote {path}")


def check_site(campaign: Campaign, schedule_out: Path | None) -> None:
    """Raise InputError for settings and outputs that a replay of a Slurm site does not have."""
    if campaign.schedulers != (SLURM,):
        raise InputError(f"--machine {campaign.machine}: is a Slurm site, which runs under --scheduler {SLURM} alone")
    check_used(campaign, _OF_SITE, f"--machine {campaign.machine}: a replay of a Slurm site")
    if schedule_out is not None:
        from pipelines.lake.files import check_ending

        check_ending("--schedule-out", schedule_out)


def simulate_site(campaign: Campaign, schedule_out: Path | None, as_json: bool) -> None:
    """Replay the accounting as the site's own Slurm would schedule it.

    The seed draws the phases of its clocks.
    """
    from pipelines.cli.site import load_site_jobs
    from sim.site.replay import as_schedule, replay

    assert campaign.machine is not None
    site, jobs = load_site_jobs(Path(campaign.trace), campaign.machine, campaign.timezone)
    seed = campaign.seeds[0]
    replay(site, jobs.table.head(1), seed)  # compiled before the clock runs
    began = time.perf_counter()
    replayed = replay(site, jobs.table, seed)
    schedule = as_schedule(site, jobs.table, replayed, trace=jobs.name, seed=seed, seconds=time.perf_counter() - began)
    row = as_row(schedule, campaign.taus_s[0])
    if schedule.never_started:
        named = ", ".join(map(str, schedule.never_started[:5]))
        note(f"WARNING: {len(schedule.never_started):,} jobs never start in this replay, the first are {named}")
    if as_json:
        click.echo(json.dumps(row))
    else:
        print_metrics([row], jobs.name, len(jobs.table), site.procs)
        click.echo(
            "\nOne replay of many: the phases of Slurm's clocks are drawn by --seed; queuecast parity shows their range and the record."
        )
    if schedule_out is not None:
        write_out(schedule_out, [schedule], jobs.name, False)


def prepared(campaign: Campaign) -> tuple[CleanTrace, tuple[str | Predictor, ...]]:
    """Return the cleaned trace of ``campaign`` and its predictors, fitted.

    Raises InputError for wrong names before it reads the trace. Reports dependencies and reacting users on standard
    error.
    """
    for policy in policies(campaign):
        policy.plan()  # raises for a wrong name before a long trace is read
    check_predictors(campaign.predictors)
    workload = load(campaign)
    check_policies(held(workload), campaign, workload.procs, workload.machine)  # before anything is fitted
    if campaign.dependencies:
        say_dependencies(workload)
    say_users(workload, campaign.users)
    return workload, tuple(fitted(name, workload) for name in campaign.predictors)


def check_predictors(names: Iterable[str]) -> None:
    """Raise InputError for an unknown predictor; registered models are looked up later."""
    for name in names:
        if not name.startswith("registry:"):
            named_predictor(name)


def say_dependencies(workload: CleanTrace) -> None:
    """Report the trace's dependencies on standard error; raise InputError if it has none."""
    from features.jobs.dependencies import preceding_rows

    dependencies = preceding_rows(workload.jobs)
    if dependencies.named == 0:
        raise InputError(f"{workload.name}: no job names a preceding job (SWF field 17), so --dependencies cannot be applied")
    for text in dependencies.notes():
        note(f"{workload.name}: {text}")


def say_users(workload: CleanTrace, name: str) -> None:
    """Report batches of reacting users on standard error."""
    rule = users(name)
    if rule.loop != OPEN_LOOP:
        for text in user_facts(workload.jobs, rule, workload.procs).notes():
            note(f"{workload.name}: {text}")


def check_distinct(written: str, campaign: Campaign) -> None:
    """Raise InputError if rows of an output could not be distinguished.

    Rows name only the scheduler and the predictor.
    """
    if len(campaign.corrections) > 1:
        raise InputError(f"{written} takes one --correction, not {', '.join(campaign.corrections)}: its rows do not name it")
    for option, names in (("--scheduler", campaign.schedulers), ("--predictor", campaign.predictors)):
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"{written} takes each {option} once; {twice} is given twice")


def fitted(name: str, workload: CleanTrace) -> str | Predictor:
    """Return a predictor for the simulator: a known name, or a registered model's answers."""
    if name.startswith("registry:"):
        from pipelines.lake.registry import registered_predictor

        return registered_predictor(name, workload)
    return name


def as_row(schedule: Schedule, tau_s: float) -> dict[str, Any]:
    """Return a schedule's identity and metrics as plain Python values for JSON; NaN is null."""
    row: dict[str, Any] = {name: tau_s if name == "tau_s" else getattr(schedule, name) for name in IDENTITY}
    for name, value in metrics(schedule, tau_s).items():
        row[name] = None if math.isnan(value) else value
    return row


def print_metrics(rows: list[dict[str, Any]], trace: str, jobs: int, procs: int, *, generated: bool = False) -> None:
    """Print the main metrics of schedules; ``jobs`` and ``procs`` are for the title."""
    of_machine = f" of {rows[0]['machine']}" if rows[0]["machine"] else ""
    made_up = ", a generated workload" if generated else ""
    title = f"{rows[0]['trace'] or trace}: {jobs:,} jobs on {procs:,} processors{of_machine}{made_up}"
    shown = [(name, METRICS[name]) for name in SHOWN]
    cells = []
    words = sources([(row["scheduler"], row["predictor"], row["correction"]) for row in rows])
    for row in rows:
        took = 1000 * row["simulate_s"]
        values = (format(row[name], metric.form) for name, metric in shown)
        key = row["scheduler"], row["predictor"], row["correction"]
        cells.append([row["scheduler"], words[key], row["correction"], *values, f"{took:.1f}"])
    caption = f"slowdown: mean bounded slowdown, tau {rows[0]['tau_s']:g} s"
    headings = ["scheduler", "predictions", "correction", *(metric.short for _, metric in shown), "took ms"]
    Table(title, headings, cells, caption, keys=3).show()
