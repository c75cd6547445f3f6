"""``queuecast variability evaluate``: classifiers cross-validated on control runs."""

import click

from models.variability.classifiers import OPTIONS
from pipelines.cli.lazy import importing


@click.command()
@click.option("--system", required=True, help="System of the ingested counters and control runs.")
@click.option(
    "--classifier", "names", type=click.Choice(list(OPTIONS)), multiple=True, help="May be repeated. [default: all but ordinal]"
)
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object a line for every measure, and nothing else, on standard output."
)
def command(system: str, names: tuple[str, ...], as_json: bool) -> None:
    """Print F1, precision, recall and average precision of each classifier.

    Beside them, of what needs no counters: warning of every run, and the median of the application's last runs.
    Folds: blocks of time. Counters: of the runs' own nodes, and of all. 95 % intervals are over days.
    A line with F1 comes as soon as a classifier is judged; the table follows.
    """
    with importing():  # a wrong option is refused before pandas is imported
        from pipelines.cli.variability.evaluating import evaluate_classifiers

    evaluate_classifiers(system, names, as_json)
