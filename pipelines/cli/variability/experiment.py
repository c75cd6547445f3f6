"""``queuecast variability experiment``: experiments of Nichols et al. (RUSH), simulated.

EASY against RUSH, an oracle, a nowcast and a coin on a simulated cluster.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from features.errors import InputError
from models.variability.classifiers import CLASSIFIERS
from pipelines.cli.options import check_outputs, note, without_policies
from sim.cluster.presets import PLACEMENTS, Cluster

if TYPE_CHECKING:
    from pipelines.workflows.cluster_experiments import Conducted, Plan, Progress
    from sim.cluster.advisers import Adviser

_PATIENT = "EASY+RUSH(model={},patience=1200,every=10)"
_MOST_TRIALS = 9_000
_SHOWN = ("varied", "varied_pooled", "wait_later_s")
"""Metrics printed by application; the page has more."""


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--cluster", "cluster_name", default="congested", show_default=True, help="A preset of the simulated cluster.")
@click.option(
    "--trials",
    type=click.IntRange(1, _MOST_TRIALS),
    default=5,
    show_default=True,
    help="Trials of each experiment; five as published.",
)
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    help="NAME or NAME@PLACEMENT, may be repeated; the first, without start decisions, is the baseline. "
    "[default: EASY, EASY+RUSH of each model, oracle, nowcast, coin]",
)
@click.option(
    "--classifier",
    "classifiers",
    type=click.Choice(CLASSIFIERS),
    multiple=True,
    help="A classifier to train for RUSH. [default: ordinal]",
)
@click.option(
    "--scope",
    type=click.Choice(["own", "all"]),
    help="Counters of the nodes a job would get, or of all. [default: all for ordinal, else own]",
)
@click.option(
    "--days",
    type=click.FloatRange(0, min_open=True),
    default=30.0,
    show_default=True,
    help="Days of continuous load for the control runs.",
)
@click.option("--model", help="A registered model instead, variability-SYSTEM@champion; in --scheduler it is called registered.")
@click.option(
    "--placement",
    type=click.Choice(PLACEMENTS),
    default=Cluster.placement,
    show_default=True,
    help="Which free nodes a job gets: of lowest number, under as few leaf switches as can be, the same away from congestion by counters, or by the truth.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--threads", type=click.IntRange(1), default=2, show_default=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write runs and comparison of each experiment as Parquet into this directory.",
)
@click.option(
    "--report", type=click.Path(path_type=Path, dir_okay=False), help="Write a page with tables and figures to this HTML file."
)
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object a line for every number, and nothing else, on standard output."
)
def command(
    names: tuple[str, ...],
    cluster_name: str,
    trials: int,
    schedulers: tuple[str, ...],
    classifiers: tuple[str, ...],
    scope: str | None,
    days: float,
    model: str | None,
    placement: str,
    seed: int,
    threads: int,
    out: Path | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """Run the experiments NAME (ADAA ADPA PDPA WS SS, by default all) and compare schedulers.

    They run on a simulated cluster. All numbers are simulated: what varies, why, and what counters show of it.
    """
    from models.variability.classifiers import ORDINAL
    from pipelines.workflows.cluster_experiments import REGISTERED, UNLEARNED, Plan, conduct
    from sim.cluster.presets import calibration
    from sim.cluster.workloads import EXPERIMENTS, experiment

    check_outputs({"--report": report, "--out": out}, [])
    asked = [REGISTERED] if model else []
    if not schedulers:
        asked += classifiers or ([] if model else [ORDINAL])
        schedulers = ("EASY", *map(_PATIENT.format, (*asked, *UNLEARNED)))
    elif classifiers:
        raise InputError("--classifier chooses among the default schedulers: with --scheduler name the model there")
    wanted = tuple(experiment(name) for name in dict.fromkeys(name.upper() for name in names or EXPERIMENTS))
    plan = Plan(
        calibration(cluster_name).but(placement=placement), wanted, without_policies(schedulers), trials, days, scope or "", seed
    )
    registered = _registered(model) if model else None
    with _shown() as progress:
        conducted = conduct(plan, registered=registered, threads=threads, progress=progress)
    for made in conducted:
        for text in made.notes:
            note(text)
        if as_json:
            _print_json(plan, made)
        else:
            _print(plan, made)
    if not as_json:
        from pipelines.report.cluster_published import beside

        if (published := beside(conducted)).rows:
            published.show()
    if out is not None:
        _write(out, plan, conducted, model)
        note(f"wrote {out}")
    if report is not None:
        from pipelines.report.cluster import render_cluster
        from pipelines.report.html import write_report

        write_report(report, render_cluster(plan.cluster.name, conducted, _provenance(plan, model)))
        note(f"wrote {report}")


def _registered(spec: str) -> Adviser:
    """Return a model of the registry, with the scope that it was trained on."""
    from models.registry.variability_registration import registered_classifier
    from pipelines.storage.home import home
    from pipelines.storage.publishing import finish_for_reader
    from pipelines.storage.registry import tracking
    from sim.cluster.advisers import Adviser

    name, at, alias = spec.partition("@")
    if not name.startswith("variability-") or (at and not alias):
        raise InputError(f"--model {spec}: not of the form variability-SYSTEM@champion")
    store = tracking()
    finish_for_reader(home(), store, name)
    found = registered_classifier(store, name, alias or "champion")
    return Adviser(found.model, found.scope, found.thresholds)


@contextmanager
def _shown() -> Iterator[Progress]:
    """Yield a progress callback: one overwritten line on a terminal, else a line a step."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.status import Status

        with Status("", console=Console(stderr=True)) as status:
            yield lambda what, done, total: status.update(f"{what} {done}/{total}" if total > 1 else what)
        return
    told: list[str] = []

    def line(what: str, done: int, total: int) -> None:
        if told[-1:] != [what]:
            told.append(what)
            note(what)

    yield line


def _provenance(plan: Plan, model: str | None) -> dict[str, Any]:
    from pipelines.storage.provenance import code_version, software

    return {
        "simulated": "everything",
        "cluster": repr(plan.cluster),
        "experiments": [of.name for of in plan.experiments],
        "schedulers": list(plan.schedulers),
        "trials": plan.trials,
        "control runs": f"{plan.days:g} days",
        "scope": plan.scope or "each classifier's",
        "registered model": model or "none",
        "seed": plan.seed,
        "code": code_version(),
        "software": software(),
    }


def _write(out: Path, plan: Plan, conducted: Sequence[Conducted], model: str | None) -> None:
    from pipelines.storage.atomic import made_folder
    from pipelines.storage.parquet import write_parquet

    made_folder(out)
    metadata = {**_provenance(plan, model), "generated": True}
    for made in conducted:
        name = made.experiment.name
        write_parquet(made.runs, out / f"{name}.runs.parquet", kind="cluster_runs", metadata=metadata)
        found = made.strata.assign(experiment=name)
        write_parquet(found, out / f"{name}.comparison.parquet", kind="cluster_comparison", metadata=metadata)


def _print_json(plan: Plan, made: Conducted) -> None:
    same = {"simulated": True, "cluster": plan.cluster.name, "experiment": made.experiment.name, "seed": plan.seed}
    for row in made.strata.to_dict("records"):
        values = {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}
        click.echo(json.dumps({**same, **values}))


def _print(plan: Plan, made: Conducted) -> None:
    from pipelines.report.cluster_tables import by_application, by_storm, decision_table, largest_table, overall

    of = made.experiment
    remark = made.found["note"].iloc[0]
    replace(
        overall(made),
        title=f"{of.name}, {of.title}: {made.trials} trials on the simulated cluster {plan.cluster.name}",
        note="simulated; below each mean the paired difference from the first column, 95 % intervals over trials"
        + (f"; {remark}" if remark else ""),
    ).show()
    if (storms := by_storm(made)).rows:
        replace(storms, title=f"{of.name}, simulated: {storms.title}").show()
    for table in (*(by_application(made, metric) for metric in _SHOWN), largest_table(made), decision_table(made)):
        if table.rows:
            replace(table, title=f"{of.name}, simulated: {table.title}").show(below=False)
