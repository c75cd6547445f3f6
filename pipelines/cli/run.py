"""``queuecast run``: materialise the whole pipeline for a trace and a monitored system.

In this process; results are printed.
"""

from __future__ import annotations

import logging
import re
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import click
import dagster as dg
import pandas as pd
from rich.progress import TaskID

from features.errors import InputError
from features.statistics import covers
from pipelines.cli.interrupts import prompt_interrupt
from pipelines.cli.last_resort import known_cause
from pipelines.cli.notes import note
from pipelines.cli.options import options
from pipelines.dated.run_settings import RunSettings
from pipelines.report.table import Table
from pipelines.report.wording import takes_correction
from pipelines.storage.lake import Lake
from sim.settings import TraceSettings

_INTERRUPTIONS = ("DagsterExecutionInterruptedError", "KeyboardInterrupt")
COLUMNS = ("mean_bounded_slowdown", "mean_wait_s", "awf_s", "p2sf_s")


@click.command()
@click.option(
    "--trace",
    help="Catalogue name, SWF file, canonical Parquet or Slurm accounting. [default: generated, if no system is named either]",
)
@click.option(
    "--system",
    help="A monitored system that queuecast variability ingest has read, or simulated. [default: simulated, if no trace is named either]",
)
@options(RunSettings, without=("weighing",))
def command(settings: RunSettings, system: str | None) -> None:
    """Materialise everything of a trace or a monitored system, by default generated ones.

    Of a trace: ingest, features, registered predictors, their simulation, comparison, report. Of a monitored system: counters, control runs,
    features, classifiers of variation.
    """
    from pipelines.assets.partitions import system_on, trace_on
    from pipelines.sources.system import SIMULATED
    from pipelines.sources.systems import system as known_system
    from pipelines.sources.traces import remember
    from pipelines.storage.home import home
    from pipelines.storage.publishing import check_registry
    from pipelines.storage.registry import tracking

    trace, given = settings.trace, settings.model_fields_set - {"trace", "seed"}
    if not trace and system is None:
        trace, system = "generated", SIMULATED
    if not trace and given:
        raise InputError(
            "--scheduler, --predictor, --correction, --until, --procs, --time-zone, --missing-request and the like are of a trace: name one with --trace"
        )
    chosen = {
        "schedulers": list(dict.fromkeys(("EASY", *settings.schedulers))),
        "predictors": list(dict.fromkeys(("requested", *settings.predictors))),
        "corrections": list(dict.fromkeys(settings.corrections)),
    }
    check_named(**chosen)  # fails early for a wrong name
    chosen["weighing"] = [] if "schedulers" in given else list(settings.weighing)
    if system is not None:
        known_system(home(), system)
    name = remember(trace, **settings.model_dump(include={*TraceSettings.model_fields, "grows"} - {"trace"})) if trace else None
    store = tracking()  # fails early without a registry, and with one that lost what was published
    for subject in [f"runtime-{name}"] * (name is not None) + [f"variability-{system}"] * (system is not None):
        check_registry(Lake(home() / "lake"), store, subject)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    fine = True
    if name is not None:
        ops = {
            "runtime_model": {"config": {"until": settings.until, "seed": settings.seed}},
            "schedules": {"config": {**chosen, "seed": settings.seed}},
        }
        done = _materialise("full_run", name, ops)
        print_comparison(Lake(home() / "lake"), name)
        fine &= _said(done)
        click.echo("registry    " + _serves(Lake(home() / "lake"), name))
        click.echo(f"report      {home() / 'reports' / name}.html")
        click.echo("look at it  queuecast ui (or make ui), then Assets and the partition " + str(trace_on(name)))
    if system is not None:
        done = _materialise("variability", system, {"variability_model": {"config": {"seed": settings.seed}}})
        _print_variability(Lake(home() / "lake"), system)
        fine &= _said(done)
        click.echo(f"counters    {home() / 'lake' / 'counters' / system}")
        click.echo(
            "look at it  queuecast ui (or make ui), then Assets, the group variability and the partition " + str(system_on(system))
        )
    if not fine:
        sys.exit(1)


def check_named(schedulers: Sequence[str], predictors: Sequence[str], corrections: Sequence[str]) -> None:
    """Raise InputError for an unknown name, and for a correction that cannot ask a predictor."""
    from models.runtime.names import predictor as named_predictor
    from pipelines.storage.registry import PREFIX, registered_name
    from sim.policy import Policy

    for name in predictors:
        if name.startswith(PREFIX):
            registered_name(name)
        else:
            named_predictor(name)
    for name in schedulers:
        for correction in corrections:
            Policy(name, correction=correction).plan()


@dataclass(frozen=True)
class _Done:
    result: dg.ExecuteInProcessResult
    seconds: float


def _materialise(job: str, name: str, ops: Mapping[str, Any]) -> _Done:
    """Run a job of one trace or system today in this process; a failure ends the command."""
    from pipelines.assets.partitions import system_on, systems, trace_on, traces
    from pipelines.cli.compiling import announce_compilation
    from pipelines.definitions import defs
    from pipelines.storage.instance import PROCESS_TAG, instance, process_mark

    announce_compilation()
    began = time.perf_counter()
    kind, on = (systems, system_on) if job == "variability" else (traces, trace_on)
    definition = defs.resolve_job_def(job)
    run_id = str(uuid.uuid4())
    with instance() as running, prompt_interrupt(partial(_cancel, running, run_id)), _Stages() as stages:
        running.add_dynamic_partitions(str(kind.name), [name])
        with stages.heard():
            result = definition.execute_in_process(
                run_config={"ops": ops, "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
                partition_key=on(name),
                instance=running,
                raise_on_error=False,
                run_id=run_id,
                tags={PROCESS_TAG: process_mark()},
            )
        if any(_interrupted(event) for event in result.all_events):
            _cancel(running, run_id)
            raise KeyboardInterrupt
    if not result.success:
        _explain(result)
    return _Done(result, time.perf_counter() - began)


def _cancel(running: dg.DagsterInstance, run_id: str) -> None:
    """Tell the instance that the run was interrupted."""
    if (run := running.get_run_by_id(run_id)) is not None and not run.is_finished:
        running.report_run_canceled(run)


def _interrupted(event: dg.DagsterEvent) -> bool:
    """Tell whether a step, or the run between two, failed because of Ctrl-C."""
    error = _error(event)
    while error is not None and error.cls_name not in _INTERRUPTIONS:
        error = error.cause
    return error is not None


def _error(event: dg.DagsterEvent) -> Any:
    """Return what made a step fail, or the run outside of its steps; None for other events."""
    return getattr(event.event_specific_data, "error", None) if event.is_failure else None


def _said(done: _Done) -> bool:
    """Print which checks did not pass; return True if those are warnings at most."""
    checks = done.result.get_asset_check_evaluations()
    passed = sum(check.passed for check in checks)
    note(f"{passed} of {len(checks)} checks passed, {done.seconds:.1f} s")
    return _say_checks(done.result)


def _say_checks(result: dg.ExecuteInProcessResult) -> bool:
    """Print a line for each check that did not pass; return True for warnings at most."""
    wrong = [check for check in result.get_asset_check_evaluations() if not check.passed]
    for check in wrong:
        kind = "warning" if check.severity == dg.AssetCheckSeverity.WARN else "check failed"
        found = ", ".join(f"{key} {value.value}" for key, value in check.metadata.items())
        note(f"{kind}: {check.asset_key.to_user_string()} {check.check_name} ({found})")
    return not any(check.severity == dg.AssetCheckSeverity.ERROR for check in wrong)


def _explain(result: dg.ExecuteInProcessResult) -> None:
    """Print one line for bad input; everything known about a defect of ours, with exit code 1."""
    for event in result.all_events:
        error = _error(event)
        if error is None:
            continue
        root, said = error, []
        refusals = {InputError.__name__, *(each.__name__ for each in InputError.__subclasses__())}
        while root.cause is not None and root.cls_name not in refusals:
            said.append(f"{root.cls_name}: {root.message}")
            root = root.cause
        if root.cls_name in refusals:
            raise InputError(re.sub(rf"^\S*\b{root.cls_name}: ", "", root.message.strip()))
        if root.cls_name == "DagsterAssetCheckFailedError":
            _say_checks(result)
            note("queuecast: its results were not made; earlier results stay")
            sys.exit(1)
        if cause := known_cause("\n".join([f"{root.cls_name}: {root.message}", *said])):
            note(f"queuecast: {cause}")
            sys.exit(1)
        note(root.to_string())
        break
    where = ", ".join(sorted(result.get_failed_step_keys())) or "no stage, but between them"
    note(f"queuecast: failed in {where}; a defect of Queuecast's own, please report what is above")
    sys.exit(1)


class _Stages:
    """A progress bar a stage on standard error."""

    def __enter__(self) -> _Stages:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description:<24}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self._bars = Progress(*columns, console=Console(stderr=True))
        self._tasks: dict[str, TaskID] = {}
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def heard(self) -> AbstractContextManager[None]:
        from pipelines.workflows.progress import listening

        return listening(self._hear)

    def _hear(self, stage: str, done: int, total: int) -> None:
        task = self._tasks.get(stage)
        if task is None:
            task = self._tasks[stage] = self._bars.add_task(stage, total=total)
        self._bars.update(task, completed=done, total=total)


def described(name: str, generated: bool) -> str:
    """Return a trace by kind and name, without repeated words."""
    if name == "generated":
        return "generated workload"
    return f"{'generated workload' if generated else 'trace'} {name}"


def described_system(name: str, generated: bool) -> str:
    """Return a monitored system by kind and name, without repeated words."""
    if name == "simulated":
        return "simulated cluster"
    return f"{'simulated cluster' if generated else 'system'} {name}"


def _serves(lake: Lake, name: str) -> str:
    """Return a trace's champion, its judgement, and whether this run registered anything."""
    versions, settings = lake.read("runtime_model", name)
    row = versions[versions["alias"] == "champion"].iloc[0]
    judged = (
        "no record of its accuracy"
        if pd.isna(row["accuracy"])
        else f"accuracy {row['accuracy']:.1%} as served over {int(row['judged_jobs']):,} jobs"
    )
    said = f"{row['model']}@champion is version {row['version']}, {row['method']}: {judged}"
    return f"{said}; nothing new, nothing registered" if settings["nothing_new"] else said


def print_comparison(lake: Lake, name: str) -> None:
    """Print the comparison of a trace: values, and changes to the baseline with intervals."""
    from pipelines.report.wording import nothing_waited
    from sim.policy import NAMES

    table, settings = lake.read("comparison", name)
    weeks = int(table["weeks"].iloc[0])
    title = (
        f"{described(name, settings['generated'])}, {settings['judged_jobs']:,} of {settings['all_jobs']:,} jobs, submitted from "
        f"{settings['since']} on: relative to EASY with requested times, {settings['confidence']:.0%} intervals over {weeks} week{'s' * (weeks != 1)}"
    )
    caption = (
        "registry: the registered model as served, the others learn in the simulator; "
        "one replay of each: intervals leave out a schedule's chaos (queuecast campaign --replicates 20 --shake)"
    )
    cells = []
    policy = list(NAMES)
    for (scheduler, predictor, correction), rows in table.groupby(policy, sort=False):
        values = rows.set_index("metric")[["value", "relative", "low", "high", "coverage"]].to_dict("index")
        shown = "–" if predictor and not takes_correction(str(scheduler)) else str(correction)
        cells.append([str(scheduler), str(predictor), shown, *(_cell(values[metric]) for metric in COLUMNS)])
    Table(title, [*policy, *(metric.replace("_", " ") for metric in COLUMNS)], cells, caption, keys=len(policy)).show()
    if said := nothing_waited(table, settings["procs"]):
        note(said)


def _print_variability(lake: Lake, name: str) -> None:
    """Print the candidates of a system and, if simulated, the gain of asking the champion."""
    from pipelines.cli.variability.train import variability_versions
    from pipelines.report.cluster import overall
    from pipelines.storage.home import home
    from pipelines.workflows.variability_table import MODEL_TABLE
    from pipelines.workflows.variability_trials import SCHEDULERS, TRIALS_PAGE, TRIALS_TABLE

    models, settings = lake.read(MODEL_TABLE, name)
    subject = described_system(name, bool(settings["generated"]))
    variability_versions(models, f"{subject}, registered as variability-{name}").show()
    if not settings["generated"]:
        return
    compared, _ = lake.read(TRIALS_TABLE, name)
    title = f"{subject}: means over {compared['trials'].iloc[0]} trials, differences from EASY with 95% intervals"
    overall(compared, SCHEDULERS[0], title).show()
    click.echo(f"report      {home() / 'reports' / TRIALS_PAGE.format(name)}")


def _cell(row: Mapping[Any, Any]) -> str:
    value = f"{row['value']:,.2f}" if row["value"] < 1e4 else f"{row['value']:,.0f}"
    if pd.isna(row["low"]) or row["relative"] == 0:
        return value
    return f"{value}  {row['relative']:+.1%} [{100 * row['low']:+.1f}, {100 * row['high']:+.1f}]{covers(row['coverage'])}"
