"""``queuecast predict``: runtimes for submissions in a file, by a registered model."""

from pathlib import Path

import click

from pipelines.cli.lazy import importing
from pipelines.cli.notes import note


@click.command()
@click.option("--model", "spec", required=True, help="NAME[@ALIAS] of the registry; champion by default.")
@click.argument("jobs", type=click.Path(path_type=Path))
def command(spec: str, jobs: Path) -> None:
    """Predict the jobs in JOBS and print them as CSV with predicted_s.

    JOBS is .csv or .parquet with procs, requested_s and, if known, user, group, executable, submit_time (by default the time of the
    model's snapshot) and elapsed_s. predicted_s orders jobs; predicted_50_s is the median, and 80 % of such jobs run at most
    predicted_80_s. user_known is true if the model has a history of the job's user.
    """
    with importing():  # a wrong option is refused before pandas is imported
        from pandas import concat

        from pipelines.lake.csv_text import csv_text
        from pipelines.readers.submissions import ASKED, KNOWN, NAMES, read_submissions

    table = read_submissions(jobs)
    from pipelines.lake.registry import predict_registered

    present = [*ASKED, *(name for name in (*NAMES, "submit_time", "elapsed_s") if name in table)]
    answers = predict_registered(spec, table[present])
    if KNOWN in answers and (unknown := int((~answers[KNOWN].astype(bool)).sum())):  # older versions lack the column
        note(
            f"{spec}: knows no user's history for {unknown:,} of {len(table):,} jobs ({KNOWN} is False); other users' histories predict these"
        )
    click.echo(csv_text(concat([table, answers], axis=1)), nl=False)
