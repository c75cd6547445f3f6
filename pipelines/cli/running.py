"""Materialise the whole pipeline, for a run or a night, and print the results."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, date, datetime
from typing import Any

import click
import dagster as dg
from dagster._core.errors import DagsterAssetCheckFailedError
from dagster._core.storage.tags import REPOSITORY_LABEL_TAG

from features.errors import InputError, unknown
from pipelines.cli.notes import note
from pipelines.cli.progress import stage_bars
from pipelines.cli.run_results import (
    LEFT_OUT,
    YOUR_LOG,
    look_at,
    print_comparison,
    print_news,
    print_site,
    print_variability,
    serves,
)
from pipelines.lake.registry import PREFIX
from pipelines.lake.tables import Lake
from pipelines.studies.progress import listening
from pipelines.training.run_settings import FIRST, TODAY, RunSettings
from sim.settings import TraceSettings

LEADS = "QUEUECAST_BESIDE"
"""Set in the environment of a run beside another one, which prints how to go on."""


def run(settings: RunSettings, system: str | None, night: str | None) -> None:
    """Do what the options of ``queuecast run`` say; exit with 1 if that failed."""
    from pipelines.lake.home import home
    from pipelines.lake.publishing import check_registry
    from pipelines.lake.registry import tracking
    from pipelines.readers.system import SIMULATED
    from pipelines.readers.systems import system as known_system
    from pipelines.readers.traces import remember

    changed, both = settings.model_fields_set - {"trace", "seed"}, not settings.trace and system is None
    if night is not None:
        day = _day(night)
        if (settings.trace and system is not None) or changed:
            raise InputError("--night goes with --trace NAME or --system NAME and nothing else: a night has its own settings")
        with _also("--system", SIMULATED, "--night", day) if both else nullcontext():
            fine = _night(day, FIRST.trace if both else settings.trace, system)
        sys.exit(0 if fine else 1)
    if both:
        settings = FIRST.model_copy(update={name: getattr(settings, name) for name in (*changed, "seed")})
    if not settings.trace and changed:
        raise InputError(
            "--scheduler, --predictor, --correction, --until, --procs, --time-zone, --missing-request and the like are of a trace: name one with --trace"
        )
    chosen = {
        "schedulers": list(dict.fromkeys(("EASY", *settings.schedulers))),
        "predictors": list(dict.fromkeys(("requested", *settings.predictors))),
        "corrections": list(dict.fromkeys(settings.corrections)),
    }
    check_named(**chosen)  # fails early for a wrong name
    if system is not None:
        known_system(home(), system)
    name, trace_settings = "", settings.model_dump(include={*TraceSettings.model_fields, "grows", "starts"} - {"trace"})
    if settings.trace:
        name = remember(settings.trace, note, **trace_settings)
    store = tracking()  # fails early without a registry, or if the registry lost published versions
    for subject in [f"runtime-{name}"] * bool(name) + [f"variability-{system}"] * (system is not None):
        check_registry(Lake(home() / "lake"), store, subject)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    fine = True
    with _also("--system", SIMULATED, "--seed", str(settings.seed)) if both else nullcontext():
        if name:
            ops = {
                "runtime_model": {"config": settings.model_dump(include={"until", "warm_up_weeks", "seed"})},
                "schedules": {"config": {**chosen, "replicates": settings.replicates, "seed": settings.seed}},
            }
            fine &= _run_trace(name, ops)
            if both:
                click.echo(LEFT_OUT)
    if system is not None:
        fine &= _run_system(system, settings.seed)
    if LEADS not in os.environ:
        look_at(*filter(None, (name, SIMULATED if both else system)))
    if both:
        click.echo(YOUR_LOG)
    if not fine:
        sys.exit(1)


def _day(night: str) -> str:
    """Return the day of a night: as given, or today's, in UTC as the schedule counts."""
    if night == TODAY:
        return f"{datetime.now(UTC):%Y-%m-%d}"
    try:
        date.fromisoformat(night)
    except ValueError as error:
        raise InputError(f"--night {night}: is not a day such as 2026-03-01") from error
    return night


def _night(day: str, trace: str, system: str | None) -> bool:
    """Do a night of a trace or a system that was run before; return False if a check is an error."""
    from pipelines.cli.nights import line_of
    from pipelines.lake.home import home
    from pipelines.readers.catalogue import load_catalogue
    from pipelines.readers.systems import system as known_system
    from pipelines.training.ledger import later_night

    lake = Lake(home() / "lake")
    if system is not None:
        known_system(home(), system)
        fine = _materialise("nightly_variability", system, {}, day)
        click.echo(f"{system}, {day}: {lake.read('variability_model', system)[1]['why']}")
        return fine
    if trace not in load_catalogue():
        raise unknown("trace", trace, load_catalogue())
    if last := later_night(lake, trace, day):
        note(f"{trace}: a later night, {last}, is published, so nothing is made for {day}")
        return True
    fine = _materialise("nightly", trace, {}, day)
    night = lake.read("nights", trace)[0].set_index("night", drop=False).loc[day]
    click.echo(f"{trace}, {line_of(night)}")
    click.echo(night["why"])
    click.echo(f"report      {home() / 'reports' / 'nights' / trace / f'{day}.html'}")
    print_news(lake, trace)
    return fine


def _run_trace(name: str, ops: Mapping[str, Any]) -> bool:
    """Run all assets of a trace and print the results; return False if a check is an error."""
    from pipelines.lake.home import home

    fine, lake = _materialise("full_run", name, ops), Lake(home() / "lake")
    print_site(lake, name)
    print_comparison(lake, name)
    click.echo("registry    " + serves(lake, name))
    click.echo(f"report      {home() / 'reports' / name}.html")
    print_news(lake, name)
    return fine


def _run_system(name: str, seed: int) -> bool:
    """Run all assets of a monitored system, as :func:`_run_trace` does for a trace.

    A trace of its name, which is its accounting, is run before it.
    """
    from pipelines.lake.home import home
    from pipelines.readers.catalogue import load_catalogue

    fine = True
    if name in load_catalogue():
        policies = {"schedulers": ["EASY", "EASY-SJBF"], "predictors": ["requested"], "corrections": ["requested"]}
        fine = _materialise("full_run", name, {"schedules": {"config": {**policies, "replicates": 1, "seed": seed}}})
        click.echo("registry    " + serves(Lake(home() / "lake"), name))
    fine &= _materialise("variability", name, {"variability_model": {"config": {"seed": seed}}})
    print_variability(Lake(home() / "lake", system=True), name)
    click.echo(f"counters    {home() / 'lake' / 'counters' / name}")
    return fine


def check_named(schedulers: Sequence[str], predictors: Sequence[str], corrections: Sequence[str]) -> None:
    """Raise InputError for an unknown name, and for a correction that cannot ask a predictor."""
    from models.runtime.names import predictor as named_predictor
    from pipelines.lake.registry import registered_name
    from sim.policy import Policy

    for name in predictors:
        if name.startswith(PREFIX):
            registered_name(name)
        else:
            named_predictor(name)
    for name in schedulers:
        for correction in corrections:
            Policy(name, correction=correction).plan()


@contextmanager
def _also(*arguments: str) -> Iterator[None]:
    """Do ``queuecast run`` with other ``arguments`` in another process during the body; then print its output."""
    from pipelines.report.terminal import console

    command = [sys.executable, "-m", "pipelines", "run", *arguments]
    environment = {**os.environ, "COLUMNS": str(console().width), LEADS: "yes"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as running:
        try:
            yield
        except BaseException:
            running.terminate()
            raise
        printed, notes = running.communicate()
    click.echo(printed, nl=False)
    if running.returncode:
        note(notes.rstrip())
        sys.exit(running.returncode)


def _materialise(job: str, name: str, ops: Mapping[str, Any], night: str = "") -> bool:
    """Run a job of one trace or system in this process, as a ``night`` or not; a failure ends the command.

    Prints the checks that did not pass; returns False if one of them is an error.
    """
    from pipelines.assets.partitions import NIGHT_TAG, applicable, systems, traces
    from pipelines.assets.starts import NOT_LEARNED
    from pipelines.cli.compiling import announce_compilation
    from pipelines.definitions import defs
    from pipelines.lake.instance import LOCATION, instance

    announce_compilation()
    began = time.perf_counter()
    kind = systems if "variability" in job else traces
    definition = defs.resolve_job_def(job)
    run_id = str(uuid.uuid4())
    with instance() as running, stage_bars() as bars:
        running.add_dynamic_partitions(str(kind.name), [name])
        try:
            with listening(bars):
                definition.execute_in_process(
                    run_config={"ops": ops, "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
                    partition_key=name,
                    asset_selection=applicable(definition, name),
                    instance=running,
                    run_id=run_id,
                    tags={REPOSITORY_LABEL_TAG: f"__repository__@{LOCATION}"} | ({NIGHT_TAG: night} if night else {}),
                )
        except dg.Failure as error:
            if isinstance(error.__cause__, dg.DagsterExecutionInterruptedError):
                raise KeyboardInterrupt from error
            raise error.__cause__ or error from None  # a stage's own error, which it wraps for Dagster
        except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError) as error:
            _cancel(running, run_id)
            raise KeyboardInterrupt from error
        except DagsterAssetCheckFailedError:
            _say_checks(_checks(running, run_id))
            note("queuecast: the run published nothing, because a check failed; earlier results stay")
            sys.exit(1)
        checks = _checks(running, run_id)
        for entry in running.all_logs(run_id):
            if NOT_LEARNED in entry.user_message:
                note(entry.user_message)
    note(f"{sum(check.passed for check in checks)} of {len(checks)} checks passed, {time.perf_counter() - began:.1f} s")
    return _say_checks(checks)


def _checks(running: dg.DagsterInstance, run_id: str) -> list[dg.AssetCheckEvaluation]:
    """Return the checks that a run evaluated."""
    entries = running.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    return [entry.dagster_event.asset_check_evaluation_data for entry in entries if entry.dagster_event]


def _cancel(running: dg.DagsterInstance, run_id: str) -> None:
    """Report to the instance that the run was interrupted."""
    if (run := running.get_run_by_id(run_id)) is not None and not run.is_finished:
        running.report_run_canceled(run)


def _say_checks(checks: Sequence[dg.AssetCheckEvaluation]) -> bool:
    """Print a line for each check that did not pass; return False if one is an error."""
    wrong = [check for check in checks if not check.passed]
    for check in wrong:
        kind = "warning" if check.severity == dg.AssetCheckSeverity.WARN else "check failed"
        details = ", ".join(f"{key} {value.value}" for key, value in check.metadata.items())
        note(f"{kind}: {check.asset_key.to_user_string()} {check.check_name} ({details})")
    return not any(check.severity == dg.AssetCheckSeverity.ERROR for check in wrong)
