"""``queuecast variability experiment``: schedulers that ask a registered model, simulated."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from features.errors import InputError
from pipelines.cli.notes import note, record
from pipelines.cli.options import check_outputs, without_policies
from pipelines.cli.progress import shown_progress

if TYPE_CHECKING:
    from sim.cluster.advisers import Adviser


@click.command()
@click.option(
    "--model",
    default="variability-simulated",
    show_default=True,
    help="A registered model, variability-SYSTEM[@ALIAS], by default its champion, else its best; in --scheduler it is called registered.",
)
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    help="May be repeated; the first, without start decisions, is the baseline. "
    "[default: EASY, EASY+RUSH(model=registered), EASY+RUSH(model=oracle)]",
)
@click.option("--trials", type=click.IntRange(1, 9_000), default=20, show_default=True, help="Trials of each scheduler, paired.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--report", type=click.Path(path_type=Path, dir_okay=False), help="Write a page to this HTML file.")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object a line for every number, and nothing else, on standard output."
)
def command(model: str, schedulers: tuple[str, ...], trials: int, seed: int, report: Path | None, as_json: bool) -> None:
    """Compare schedulers that ask a registered model before each start.

    They schedule trials of the simulated cluster. All but the model is simulated: the runs that vary, the causes, the counters.
    """
    from pipelines.report.cluster import overall, render_cluster
    from pipelines.workflows.variability_trials import SCHEDULERS, trial_plan, try_model

    check_outputs({"--report": report}, [])
    plan = trial_plan(trials, seed, without_policies(schedulers) or SCHEDULERS)
    adviser = _registered(model) if plan.asks_registered else None
    with shown_progress("trials") as progress:
        runs, table = try_model(plan, adviser, progress)
    if as_json:
        for row in table.to_dict("records"):
            record({"simulated": True, "cluster": plan.cluster.name, "seed": seed, **row})
    else:
        overall(
            table, plan.baseline, f"simulated cluster {plan.cluster.name}, {trials} trials: means, differences with intervals"
        ).show()
    if report is not None:
        from pipelines.report.html import write_report
        from pipelines.storage.provenance import code_version, software

        provenance = {"model": model if adviser else "none", "code": code_version(), "software": software()}
        write_report(report, render_cluster(plan, runs, table, provenance))
        note(f"wrote {report}")


def _registered(spec: str) -> Adviser:
    """Return an adviser: a registered model with the scope that it was trained on."""
    from models.registry.registration import version_at
    from models.registry.variability_registration import registered_classifier
    from pipelines.dated.promote import SIMULATED
    from pipelines.storage.home import home
    from pipelines.storage.lake import Lake
    from pipelines.storage.publishing import served
    from pipelines.storage.registry import tracking
    from sim.cluster.advisers import Adviser

    name, at, alias = spec.partition("@")
    if not name.startswith("variability-") or (at and not alias):
        raise InputError(f"--model {spec}: not of the form variability-SYSTEM or variability-SYSTEM@champion")
    store = tracking()
    version = served(Lake(home() / "lake"), store, name, alias or ("champion" if version_at(store, name) else SIMULATED))
    registered = registered_classifier(store, name, version)
    return Adviser(registered.model, registered.scope, registered.thresholds)
