"""``queuecast variability experiment``: other schedulers with the registered models."""

from __future__ import annotations

import click

from pipelines.cli.notes import record
from pipelines.cli.options import without_policies
from pipelines.cli.progress import shown_progress


@click.command()
@click.option(
    "--scheduler", "schedulers", multiple=True, required=True, help="May be repeated; +RUSH(model=registered) asks the classifier."
)
@click.option(
    "--predictor",
    type=click.Choice(("requested", "served", "clairvoyant")),
    default="requested",
    show_default=True,
    help="Of runtimes; served is the registered model.",
)
@click.option("--trials", type=click.IntRange(1, 9_000), default=100, show_default=True, help="Trials of each scheduler, paired.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object a line for every number, and nothing else, on standard output."
)
def command(schedulers: tuple[str, ...], predictor: str, trials: int, seed: int, as_json: bool) -> None:
    """Compare schedulers with EASY by requests on trials of the simulated cluster.

    They may ask the published models of its run. All but the models is simulated: users, runs that vary, causes, counters.
    """
    from pipelines.report.cluster import overall
    from pipelines.storage.home import home
    from pipelines.storage.registry import tracking
    from pipelines.workflows.trials import SERVED, TrialPlan, policy, published_models, simulate_trials

    source = SERVED if predictor == "served" else predictor
    plan = TrialPlan(trials, seed, (policy("EASY"), *(policy(name, source) for name in without_policies(schedulers))))
    with shown_progress("trials") as progress:
        _, table = simulate_trials(plan, *published_models(plan, home(), tracking()), progress)
    if as_json:
        for row in table.to_dict("records"):
            record({"simulated": True, "seed": seed, **row})
    else:
        overall(table, f"simulated cluster, {trials} trials: changes against EASY by requests with 95% intervals, * sure").show()
