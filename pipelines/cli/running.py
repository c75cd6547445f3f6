"""Materialise the whole pipeline, for a run or a night, and print the results."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import click
import dagster as dg
import pandas as pd
from dagster._core.errors import DagsterAssetCheckFailedError
from dagster._core.storage.tags import REPOSITORY_LABEL_TAG

from features.errors import InputError, unknown
from features.statistics import FEWEST_BLOCKS
from models.runtime.names import predictor as named_predictor
from pipelines.cli import note
from pipelines.cli.nights import line_of
from pipelines.cli.progress import stage_bars
from pipelines.lake.instance import LOCATION, instance
from pipelines.lake.places import home
from pipelines.lake.publishing import check_registry
from pipelines.lake.registry import PREFIX, registered_name, tracking
from pipelines.lake.tables import Lake
from pipelines.readers import SIMULATED
from pipelines.readers.catalogue import load_catalogue
from pipelines.readers.read import remember
from pipelines.readers.systems import system as known_system
from pipelines.report.page import looks
from pipelines.report.table import console, nothing_waited
from pipelines.report.tables import BASELINE, leading, metric_table, pooled
from pipelines.studies.progress import listening
from pipelines.training.ledger import days_to_come, later_night
from pipelines.training.run_settings import ACKNOWLEDGED, FIRST, TODAY, RunSettings
from sim.metrics.verdict import verdict
from sim.policy import Policy
from sim.settings import TraceSettings

VERDICT_WIDTH = 100
"""Of the verdict, three lines at most."""
LEFT_OUT = (
    f"left out    the log before the {FIRST.warm_up_weeks} weeks that lead to the judged ones, and more replays: "
    f"queuecast run --trace {FIRST.trace} --replicates 20\n"
    f"the log     {ACKNOWLEDGED}"
)
"""Text after a first run: what the run leaves out."""
YOUR_LOG = "your log    queuecast inspect FILE (Standard Workload Format or sacct; first: source .venv/bin/activate)"
"""Text after a first run: the next command."""


def serves(lake: Lake, name: str) -> str:
    """Return a sentence on a trace's champion, its accuracy, and whether a version is new."""
    versions, settings = lake.read("runtime_model", name)
    row = versions[versions["alias"] == "champion"].iloc[0]
    judged = (
        "no record of its accuracy"
        if pd.isna(row["accuracy"])
        else f"accuracy {row['accuracy']:.1%} as served over {int(row['judged_jobs']):,} jobs"
    )
    sentence = f"{row['model']}@champion is version {row['version']}, {row['method']}: {judged}"
    return f"{sentence}; nothing new, nothing registered" if settings["nothing_new"] else sentence


def print_comparison(lake: Lake, name: str) -> None:
    """Print the comparison of a trace: the table of its page, and the verdict."""
    table, settings = lake.read("comparison", name)
    weighed = verdict(table, BASELINE, settings["confidence"])
    weeks, replays = int(table["weeks"].iloc[0]), int(table["replicates"].iloc[0])
    over = (f"{weeks} weeks" if weeks >= FEWEST_BLOCKS else "these very jobs alone") + (
        f" x {replays} shaken replays" if replays > 1 else ""
    )
    title = (
        f"{'generated workload' if settings['generated'] else 'trace'} {name}: {settings['judged_jobs']:,} of {settings['all_jobs']:,} jobs, submitted from "
        f"{settings['since']} on; changes are against EASY by requests, * sure at {settings['confidence']:.0%} over {over}"
    )
    note_below = (
        "quantile learns in the simulator and is trained anew each night; as served: the registered model, by the snapshot of the "
        "night before. Sure: for all combinations of a metric together"
    )
    first = leading(table, weighed)
    replace(metric_table(table, looks(first), first, weighed), title=title, note=note_below).show()
    click.echo(textwrap.fill(" ".join(weighed.sentences), VERDICT_WIDTH))
    if sentence := nothing_waited(table, settings["procs"]):
        note(sentence)


def print_variability(lake: Lake, name: str) -> None:
    """Print the champion of a system and, if simulated, the gain of asking it."""
    from pipelines.studies.monitored import MODEL_TABLE
    from pipelines.training.trials import answer

    models, settings = lake.read(MODEL_TABLE, name)
    for row in models[models["alias"] == "champion"].to_dict("records"):
        judged = "no record of its F1" if pd.isna(row["f1"]) else f"F1 {row['f1']:.3f} over {row['judged_runs']:,.0f} runs"
        click.echo(f"registry    {row['model']}@champion is version {row['version']}, {row['method']}: {judged}")
    if "champion" not in set(models["alias"]):
        click.echo(settings["why"])
    if settings["generated"]:
        compared, _ = lake.read("comparison", name)
        click.echo(f"simulated cluster, {compared['replicates'].iloc[0]} trials:")
        for line in answer(compared):
            click.echo(textwrap.fill(line, VERDICT_WIDTH))


def print_news(lake: Lake, trace: str) -> None:
    """Print how many days of a log that arrives are to come, and how they come."""
    entry = load_catalogue()[trace]
    if days := days_to_come(lake, entry):
        click.echo(
            f"news        one more day of the log a night, {days} to come: while make ui runs, or now by "
            f"queuecast run --trace {trace} --night"
        )
    elif entry.arrives_days:
        click.echo("news        none: the log has ended, all its days have arrived")


def look_at(*names: str) -> None:
    """Print how to look at what was made of traces and systems, in Dagster and in MLflow."""
    partitions = " and ".join(names)
    click.echo(f"look at it  queuecast ui (make ui): assets and checks, partition{'s' * (len(names) > 1)} {partitions}")
    uri = tracking().uri
    click.echo(
        f"            {uri if uri.startswith('http') else f'mlflow ui --backend-store-uri {uri}'}: models and their versions"
    )


LEADS = "QUEUECAST_BESIDE"
"""Set in the environment of a run beside another one, which prints how to go on."""


def run_pipeline(settings: RunSettings, system: str | None, night: str | None) -> None:
    """Do what the options of ``queuecast run`` say; exit with 1 if that failed."""
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
    lake = Lake(home() / "lake")
    if system is not None:
        known_system(home(), system)
        if system == SIMULATED:  # its trials come last, after minutes of training
            from pipelines.training.trials import check_accounting

            check_accounting(lake)
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
    fine, lake = _materialise("full_run", name, ops), Lake(home() / "lake")
    if sentence := pooled(name):
        click.echo(sentence)
    print_comparison(lake, name)
    click.echo("registry    " + serves(lake, name))
    click.echo(f"report      {home() / 'reports' / name}.html")
    if lake.has("parity", name):
        click.echo(f"your Slurm  {home() / 'reports' / name}-parity.html")
    print_news(lake, name)
    return fine


def _run_system(name: str, seed: int) -> bool:
    """Run all assets of a monitored system, as :func:`_run_trace` does for a trace.

    A trace of its name, which is its accounting, is run before it.
    """
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
    from pipelines.assets.stages import NIGHT_TAG, applicable, systems, traces
    from pipelines.assets.starts import NOT_LEARNED
    from pipelines.cli.compiling import announce_compilation
    from pipelines.definitions import defs

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
            if (run := running.get_run_by_id(run_id)) is not None and not run.is_finished:
                running.report_run_canceled(run)
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


def _say_checks(checks: Sequence[dg.AssetCheckEvaluation]) -> bool:
    """Print a line for each check that did not pass; return False if one is an error."""
    wrong = [check for check in checks if not check.passed]
    for check in wrong:
        kind = "warning" if check.severity == dg.AssetCheckSeverity.WARN else "check failed"
        details = ", ".join(f"{key} {value.value}" for key, value in check.metadata.items())
        note(f"{kind}: {check.asset_key.to_user_string()} {check.check_name} ({details})")
    return not any(check.severity == dg.AssetCheckSeverity.ERROR for check in wrong)
