"""``queuecast variability train``: train classifiers on a system's control runs.

It registers them, and promotes the best by the rule.
"""

import uuid

import click
import pandas as pd

from models.variability.classifiers import CLASSIFIERS
from pipelines.cli.notes import note
from pipelines.report.table import Table


@click.command()
@click.option("--system", required=True, help="System of the ingested counters and control runs.")
@click.option(
    "--scope",
    type=click.Choice(["own", "all"]),
    help="Counters of the run's own nodes, or of all. [default: as systems.toml states, else own]",
)
@click.option(
    "--classifier",
    "names",
    type=click.Choice(CLASSIFIERS),
    multiple=True,
    help="A candidate; may be given often. [default: as systems.toml states, else all]",
)
@click.option(
    "--classes",
    type=click.Choice(["2", "3", "delay"]),
    help="Two (z > 1.5), three (z > 1.2, z > 1.5) or six of how much longer a run takes. [default: delay for ordinal alone, else 3]",
)
@click.option(
    "--eliminate/--no-eliminate",
    default=None,
    help="Eliminate features recursively before each training. [default: as systems.toml states, else not]",
)
@click.option("--seed", type=int, default=0, show_default=True)
def command(
    system: str,
    scope: str | None,
    names: tuple[str, ...],
    classes: str | None,
    eliminate: bool | None,
    seed: int,
) -> None:
    """Train candidates, register them as variability-SYSTEM, and report the champion and why."""
    from features.monitoring.labels import BINARY, DELAYS, THREE_CLASSES
    from models.registry.variability_registration import VARIABILITY
    from models.registry.versions import all_or_nothing
    from models.variability.classifiers import thresholds_of
    from models.variability.evaluation import ClassifierTraining
    from pipelines.dated.publish import Work
    from pipelines.dated.systems import train
    from pipelines.sources.systems import settings_of
    from pipelines.storage.home import home
    from pipelines.storage.lake import Lake
    from pipelines.storage.publishing import RUN_WAITS_S, alone
    from pipelines.storage.registry import tracking
    from pipelines.workflows.variability_table import training_table

    settings = settings_of(home(), system)
    scope, names = scope or settings.scope, names or settings.classifiers
    table = training_table(home(), system, (scope,))
    for reason, count in table.left_out.items():
        if count:
            note(f"{system}: {count:,} of {count + len(table.runs):,} runs left out: {reason}")
    thresholds = {"2": BINARY, "3": THREE_CLASSES, "delay": DELAYS}[classes] if classes else thresholds_of(names)
    learning = ClassifierTraining(names, thresholds, settings.elimination if eliminate is None else eliminate, seed=seed)
    subject = VARIABILITY.registered(system)
    work = Work(
        Lake(home() / "lake", f"queuecast variability train {uuid.uuid4()}"),
        tracking(),
        subject,
        command="queuecast variability train",
    )
    with alone(home(), subject, RUN_WAITS_S), all_or_nothing(work.store):
        retrained = train(work, table, scope, learning)
        work.publish()
    kind = ", simulated" if table.generated else ""
    variability_versions(retrained.registered, f"{retrained.name}{kind}: {len(table.runs):,} runs").show()
    click.echo(f"champion    version {retrained.champion}: {retrained.why}" if retrained.champion else retrained.why)


def variability_versions(registered: pd.DataFrame, title: str) -> Table:
    """Return the versions that training registered, with their F1 on the judged runs."""
    rows = []
    for row in registered.to_dict("records"):
        f1 = "–" if pd.isna(row["f1"]) else f"{row['f1']:.3f}"
        rows.append([str(row["version"]), row["method"], row["alias"], f1, f"{row['judged_runs']:,.0f}"])
    return Table(title, ["version", "classifier", "alias", "F1", "judged runs"], rows, left=["classifier", "alias"])
