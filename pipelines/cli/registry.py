"""``queuecast policies`` and ``predict``: learned orders, answers of registered models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from features.errors import InputError, one_line
from pipelines.cli import importing, note
from pipelines.cli.options import check_outputs, check_used, load, options, out_option
from sim.settings import Learning

if TYPE_CHECKING:
    from models.policies import PolicyFile

_WIDEST = 1000
_WITHIN = ("tau_s", "copies", "step", "shrink", "most_jobs", "held_out", "replicates", "shake_s")
"""Settings that are no options; Python code can set them."""


@click.command()
@click.argument("trace", metavar="SUBJECT")
@options(Learning, without=_WITHIN)
@click.option("--name", help="What to call a policy that is learned or from a formula. [default: the trace's name, else formula]")
@out_option("Write the policy to this JSON file.")
@click.option(
    "--register",
    "registered",
    is_flag=False,
    flag_value="@champion",
    metavar="[TRACE][@ALIAS]",
    help="Make the policy the next version of policy-TRACE in MLflow and point ALIAS to it. [default: the trace that it was learned "
    "on, champion]",
)
@click.option("--json", "as_json", is_flag=True, help="The policy file itself on standard output.")
def policies(learning: Learning, name: str | None, out: Path | None, registered: str | None, as_json: bool) -> None:
    """Learn an order of the queue on SUBJECT, a trace; print its gain on weeks held out.

    SUBJECT may also be an existing policy: FILE.json, registry:NAME[@ALIAS], or a formula such as
    "SCORE(r**a*n;a=2)-EASY-SPF", with --name. docs/how-to/policies.md explains policies.
    """
    from models.policies import dumps
    from pipelines.lake.registry import write_policy

    check_outputs({"--out": out}, [learning.trace])
    policy = _policy(learning, name)
    if as_json:
        click.echo(dumps(policy), nl=False)
    else:
        for heading, text in _described(policy).items():
            click.echo(f"{heading:<11} {one_line(text, _WIDEST)}")
    if out is not None:
        write_policy(out, policy)
        note(f"wrote {out}")
    if registered is not None:
        _register(policy, registered, learning.trace)


def _policy(learning: Learning, name: str | None) -> PolicyFile:
    """Return the policy that the subject names, or learn one on the trace that it names."""
    from pipelines.lake.registry import policy_named, policy_of
    from pipelines.training.policy import learned_policy

    subject = learning.trace
    if subject.endswith(".json") or subject.lower().startswith("registry:"):
        check_used(learning, ("trace",), f"{subject}: an existing policy", *["--name"] * (name is not None))
        return policy_named(subject)
    if subject.upper().startswith("SCORE("):
        check_used(learning, ("trace", "starvation_s"), "a policy from a formula")
        return policy_of(name or "formula", subject, starvation_s=learning.starvation_s)
    return learned_policy(load(learning), learning, name=name or "")


def _register(policy: PolicyFile, place: str, subject: str) -> None:
    from pipelines.training.policy import register_policy

    trace, _, alias = place.partition("@")
    learned_on = policy.trained.trace if policy.trained is not None else ""
    if not trace and not learned_on:
        raise InputError(f"{subject}: does not say on which trace it was learned: name one, as in --register kth-sp2")
    version = register_policy(policy, trace or learned_on, alias or "champion")
    if version.doubt:
        note(f"{policy.name}: {version.doubt}")
    note(f"registered models:/{version.model}/{version.version}, {version.alias}; simulate it as {version.scheduler}")


def _described(policy: PolicyFile) -> dict[str, str]:
    """Return the lines that describe a policy, by heading."""
    from models.registry.policy_registration import gain, spans

    trained = policy.trained
    threshold = "none" if policy.starvation_s is None else f"{policy.starvation_s:,} s"
    lines = {
        "policy": policy.name,
        "scheduler": f"SCORE({policy.score}){policy.behind}",
        **{name: f"{feature.meaning} ({feature.unit})" for name, feature in policy.features.items()},
        "meant for": f"predictor {policy.predictor}, starvation threshold {threshold}",
        "learned": "not said",
        "gain": gain(policy),
    }
    if trained is not None:
        lines["learned"] = (
            f"on weeks {spans(trained.weeks)} of {trained.trace}: {trained.objective}, tau {trained.tau_s:g} s, seed {trained.seed}, {trained.trials:,} trials"
        )
    return lines | ({"made by": policy.made_by} if policy.made_by else {})


@click.command()
@click.option("--model", "spec", required=True, help="NAME[@ALIAS] of the registry; champion by default.")
@click.argument("jobs", type=click.Path(path_type=Path))
def predict(spec: str, jobs: Path) -> None:
    """Predict the jobs in JOBS and print them as CSV with predicted_s.

    JOBS is .csv or .parquet with procs, requested_s and, if known, user, group, executable, submit_time (by default the time of the
    model's snapshot) and elapsed_s. predicted_s orders jobs; predicted_50_s is the median, and 80 % of such jobs run at most
    predicted_80_s. user_known is true if the model has a history of the job's user.
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
