"""``queuecast run``: materialise the whole pipeline for one trace, here and now, and print the comparison."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import click
import dagster as dg
import pandas as pd
from rich.progress import TaskID

from features.errors import InputError
from pipelines.cli.options import console, note, trace_options
from pipelines.lake import Lake

COLUMNS = ("mean_bounded_slowdown", "mean_wait_s", "awf_s", "p2sf_s")


@click.command()
@click.option(
    "--trace", default="generated", show_default=True, help="Catalogue name, SWF file, canonical Parquet or Slurm accounting."
)
@trace_options
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    help="Instead of EASY and EASY-SJBF; may be repeated. EASY is always there to compare with.",
)
@click.option("--seed", type=int, default=0, show_default=True)
def command(
    trace: str, procs: int | None, timezone: str | None, missing_request: str | None, schedulers: tuple[str, ...], seed: int
) -> None:
    """Ingest a trace, build features, train and register predictors, simulate, compare and write the report."""
    from pipelines.definitions import defs
    from pipelines.home import home
    from pipelines.instance import instance
    from pipelines.partitions import traces
    from pipelines.registry import tracking
    from pipelines.traces import remember
    from sim.names import scheduler as named

    chosen = list(dict.fromkeys(("EASY", *schedulers))) if schedulers else ["EASY", "EASY-SJBF"]
    for scheduler in chosen:
        named(scheduler)  # a wrong name is said before anything runs
    name = remember(trace, procs=procs, timezone=timezone, missing_request=missing_request)
    tracking()  # a registry that cannot be had, too
    config = {
        "ops": {
            "predict": {"config": {"seed": seed}},
            "runtime_model": {"config": {"seed": seed}},
            "schedules": {"config": {"schedulers": chosen, "seed": seed}},
            "comparison": {"config": {"seed": seed}},
        },
        "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
    }
    began = time.perf_counter()
    logging.getLogger("alembic").setLevel(logging.WARNING)
    with instance() as running, _Stages() as stages:
        running.add_dynamic_partitions(str(traces.name), [name])
        with stages.heard():
            result = defs.resolve_job_def("full_run").execute_in_process(
                run_config=config, partition_key=name, instance=running, raise_on_error=False
            )
    failed = result.get_failed_step_keys()
    if failed:
        _explain(result, failed)
    checks = result.get_asset_check_evaluations()
    wrong = [check for check in checks if not check.passed]
    print_comparison(Lake(home() / "lake"), name)
    note(f"{len(checks) - len(wrong)} of {len(checks)} checks passed, {time.perf_counter() - began:.1f} s")
    for check in wrong:
        kind = "warning" if check.severity == dg.AssetCheckSeverity.WARN else "check failed"
        found = ", ".join(f"{key} {value.value}" for key, value in check.metadata.items())
        note(f"{kind}: {check.asset_key.to_user_string()} {check.check_name} ({found})")
    click.echo(f"report      {home() / 'reports' / name}.html")
    click.echo("look at it  queuecast ui (or make ui), then Assets and the partition " + name)
    if any(check.severity == dg.AssetCheckSeverity.ERROR for check in wrong):
        sys.exit(1)


def _explain(result: dg.ExecuteInProcessResult, failed: Iterable[str]) -> None:
    """One line for input that can be mended; a defect of ours with everything known about it, and exit code 1."""
    for event in result.all_events:
        error = event.step_failure_data.error if event.is_step_failure else None
        if error is None:
            continue
        root = error
        while root.cause is not None and root.cls_name != InputError.__name__:
            root = root.cause
        if root.cls_name == InputError.__name__:
            raise InputError(root.message.strip().removeprefix(f"{InputError.__module__}.{InputError.__name__}: "))
        note(root.to_string())
        break
    note(f"queuecast: failed in {', '.join(failed)}; a defect of Queuecast's own, please report what is above")
    sys.exit(1)


class _Stages:
    """A progress bar a stage on standard error."""

    def __enter__(self) -> _Stages:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bars = Progress(*columns, console=Console(stderr=True))
        self._tasks: dict[str, TaskID] = {}
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def heard(self) -> AbstractContextManager[None]:
        from pipelines.progress import listening

        return listening(self._hear)

    def _hear(self, stage: str, done: int, total: int) -> None:
        task = self._tasks.get(stage)
        if task is None:
            task = self._tasks[stage] = self._bars.add_task(stage, total=total)
        self._bars.update(task, completed=done, total=total)


def print_comparison(lake: Lake, name: str) -> None:
    """The comparison of a trace: values, and in brackets what they are relative to the baseline with their interval."""
    from rich.table import Table

    table, settings = lake.read("comparison", name)
    kind = "generated workload" if settings["generated"] else "trace"
    title = f"{kind} {name}: relative to EASY with requested times, {settings['confidence']:.0%} intervals over {table['weeks'].iloc[0]} weeks"
    shown = Table(title=title, title_justify="left")
    shown.add_column("scheduler", no_wrap=True)
    shown.add_column("predictor", no_wrap=True)
    for metric in COLUMNS:
        shown.add_column(metric.replace("_", " "), justify="right")
    for (scheduler, predictor), rows in table.groupby(["scheduler", "predictor"], sort=False):
        values = rows.set_index("metric")[["value", "relative", "low", "high"]].to_dict("index")
        shown.add_row(str(scheduler), str(predictor), *(_cell(values[metric]) for metric in COLUMNS))
    console().print(shown)


def _cell(row: Mapping[Any, Any]) -> str:
    value = f"{row['value']:,.2f}" if row["value"] < 1e4 else f"{row['value']:,.0f}"
    if pd.isna(row["low"]) or row["relative"] == 0:
        return value
    return f"{value}  {row['relative']:+.1%} [{100 * row['low']:+.1f}, {100 * row['high']:+.1f}]"
