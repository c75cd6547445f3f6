"""``queuecast policies`` and ``predict``: a learned order, answers of registered models."""

from __future__ import annotations

from pathlib import Path

import click

from pipelines.cli import importing, note
from pipelines.cli.options import check_outputs, load, options, out_option
from sim.settings import Learning

_WITHIN = ("tau_s", "copies", "step", "shrink", "most_jobs", "held_out", "replicates", "shake_s")
"""Settings that are no options; Python code can set them."""


@click.command()
@click.argument("trace")
@options(Learning, without=_WITHIN)
@out_option("Write the policy to this JSON file.")
def policies(learning: Learning, out: Path | None) -> None:
    """Learn an order of the queue on TRACE; print its gain on weeks held out.

    Schedulers take the file as POLICY(FILE.json). Runs and nights learn one, too, and register it as policy-TRACE.
    docs/how-to/policies.md explains policies.
    """
    from models.registry.policy_registration import gain
    from pipelines.lake.registry import write_policy
    from pipelines.training.policy import learned_policy

    check_outputs({"--out": out}, [learning.trace])
    policy = learned_policy(load(learning), learning)
    click.echo(f"scheduler   SCORE({policy.score}){policy.behind}, for predictor {policy.predictor}")
    click.echo(f"gain        {gain(policy)}")
    if out is not None:
        write_policy(out, policy)
        note(f"wrote {out}")


@click.command()
@click.option("--model", "spec", required=True, help="NAME[@ALIAS] of the registry; champion by default.")
@click.argument("jobs", type=click.Path(path_type=Path))
def predict(spec: str, jobs: Path) -> None:
    """Predict the jobs in JOBS and print them as CSV with predicted_s.

    JOBS is .csv or .parquet with procs, requested_s and, if known, user, group, executable, submit_time (by default the
    time of the model's snapshot) and elapsed_s. predicted_s orders jobs; predicted_50_s is the median, and 80 % of such
    jobs run at most predicted_80_s. user_known is true if the model has a history of the job's user.
    """
    with importing():  # a wrong option is refused before pandas is imported
        from pandas import concat

        from pipelines.lake.files import csv_text
        from pipelines.readers.people_tables import ASKED, KNOWN, NAMES, read_submissions

    table = read_submissions(jobs)
    from pipelines.lake.registry import predict_registered

    present = [*ASKED, *(name for name in (*NAMES, "submit_time", "elapsed_s") if name in table)]
    answers = predict_registered(spec, table[present])
    if KNOWN in answers and (unknown := int((~answers[KNOWN].astype(bool)).sum())):  # older versions lack the column
        note(
            f"{spec}: knows no user's history for {unknown:,} of {len(table):,} jobs ({KNOWN} is False); other users' histories predict these"
        )
    click.echo(csv_text(concat([table, answers], axis=1)), nl=False)
