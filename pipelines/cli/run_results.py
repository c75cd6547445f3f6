"""What ``queuecast run`` prints of traces, sites and systems, and where to look."""

from __future__ import annotations

import textwrap
from dataclasses import replace

import click
import pandas as pd

from features.statistics import FEWEST_BLOCKS
from pipelines.cli.notes import note
from pipelines.lake.home import home
from pipelines.lake.registry import tracking
from pipelines.lake.tables import Lake
from pipelines.report.table import Table
from pipelines.training.run_settings import ACKNOWLEDGED, FIRST

BASELINE = ("EASY", "requested")
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


def described(name: str, generated: bool, kind: str = "trace", simulated: str = "generated workload") -> str:
    """Return a trace or system by kind and name, without repeated words."""
    return simulated if name == simulated.split()[0] else f"{simulated if generated else kind} {name}"


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


def print_site(lake: Lake, name: str) -> None:
    """Print what parity found, if the trace is of a Slurm site."""
    if lake.has("parity", name):
        click.echo("your Slurm, replayed")
        for sentence in lake.read("parity", name)[1]["answer"]:
            click.echo(textwrap.fill(sentence, VERDICT_WIDTH, initial_indent="  ", subsequent_indent="  "))
        click.echo(f"  {home() / 'reports' / f'{name}-parity.html'}\n")
    from pipelines.training.site import pooled

    if sentence := pooled(name):
        click.echo(sentence)


def print_comparison(lake: Lake, name: str) -> None:
    """Print the comparison of a trace: the table of its page, and the verdict."""
    from pipelines.report.style import looks
    from pipelines.report.tables import leading, metric_table
    from pipelines.report.wording import nothing_waited
    from sim.metrics.verdict import verdict

    table, settings = lake.read("comparison", name)
    weighed = verdict(table, BASELINE, settings["confidence"])
    weeks, replays = int(table["weeks"].iloc[0]), int(table["replicates"].iloc[0])
    over = (f"{weeks} weeks" if weeks >= FEWEST_BLOCKS else "these very jobs alone") + (
        f" x {replays} shaken replays" if replays > 1 else ""
    )
    title = (
        f"{described(name, settings['generated'])}: {settings['judged_jobs']:,} of {settings['all_jobs']:,} jobs, submitted from "
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
    """Print the candidates of a system and, if simulated, the gain of asking the champion."""
    from pipelines.report.cluster import answer, overall
    from pipelines.studies.variability_table import MODEL_TABLE

    models, settings = lake.read(MODEL_TABLE, name)
    subject = described(name, bool(settings["generated"]), "system", "simulated cluster")
    variability_versions(models, f"{subject}, registered as variability-{name}").show()
    if "champion" not in set(models["alias"]):
        click.echo(settings["why"])
    if not settings["generated"]:
        return
    compared, _ = lake.read("comparison", name)
    trials = compared["replicates"].iloc[0]
    overall(compared, f"{subject}: {trials} trials, changes against EASY by requests with 95% intervals, * sure").show()
    for line in answer(compared):
        click.echo(textwrap.fill(line, VERDICT_WIDTH))


def variability_versions(registered: pd.DataFrame, title: str) -> Table:
    """Return the versions that training registered, with their F1 on the judged runs."""
    rows = []
    for row in registered.to_dict("records"):
        f1 = "–" if pd.isna(row["f1"]) else f"{row['f1']:.3f}"
        rows.append([str(row["version"]), row["method"], row["alias"], f1, f"{row['judged_runs']:,.0f}"])
    return Table(title, ["version", "classifier", "alias", "F1", "judged runs"], rows, left=["classifier", "alias"])


def print_news(lake: Lake, trace: str) -> None:
    """Print how many days of a log that arrives are to come, and how they come."""
    from pipelines.readers.catalogue import load_catalogue
    from pipelines.training.ledger import days_to_come

    entry = load_catalogue()[trace]
    if days := days_to_come(lake, entry):
        click.echo(
            f"news        one more day of the log a night, {days} to come: while make ui runs, or now by queuecast run --night"
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
