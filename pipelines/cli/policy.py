"""``queuecast policy``: write, show and register learned policies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from features.errors import InputError, one_line
from models.policies import PolicyFile, dumps
from pipelines.cli.options import check_outputs, note

_WIDEST = 1000


@click.group("policy")
def command() -> None:
    """Policies as files and in the registry: an order of waiting jobs by a formula.

    POLICY is FILE.json or registry:NAME[@ALIAS]; schedulers take it as POLICY(...)-EASY-SPF. docs/policies.md says what is in it.
    """


@command.command()
@click.argument("formula")
@click.option("--name", required=True, help="What to call it, such as area.")
@click.option(
    "--algorithm", default="EASY", show_default=True, help="What it is meant for, with options: EASY(plans=requested), JustBF."
)
@click.option("--backfill", default="SPF", show_default=True, help="The order of backfilling behind; empty for none.")
@click.option("--starvation", "starvation_s", type=click.IntRange(min=0), help="The threshold it is meant for, seconds.")
@click.option("--predictor", default="requested", show_default=True, help="What r is meant to be: the name of a predictor.")
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="Write the policy to this JSON file.")
def write(formula: str, name: str, algorithm: str, backfill: str, starvation_s: int | None, predictor: str, out: Path) -> None:
    """Write the policy of FORMULA, such as "r**a*n; a=2", to a file.

    It says nothing of where it was learned or what it gains.
    """
    from pipelines.storage.policies import make_policy, write_policy

    check_outputs({"--out": out}, [])
    meant = {"algorithm": algorithm, "backfill": backfill, "starvation_s": starvation_s, "predictor": predictor}
    write_policy(out, make_policy(name, formula, **meant))
    note(f"wrote {out}")


@command.command()
@click.argument("policy")
@click.option("--json", "as_json", is_flag=True, help="The policy file itself on standard output.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Also write the policy to this JSON file.")
def show(policy: str, as_json: bool, out: Path | None) -> None:
    """Say what POLICY is: its formula, features, where it was learned and what it gained."""
    from pipelines.storage.policies import policy_named, write_policy

    check_outputs({"--out": out}, [policy])
    found = policy_named(policy)
    if as_json:
        click.echo(dumps(found), nl=False)
    else:
        for what, text in _said(found).items():
            click.echo(f"{what:<11} {one_line(text, _WIDEST)}")
    if out is not None:
        write_policy(out, found)
        note(f"wrote {out}")


@command.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--trace", help="Register it as policy-TRACE. [default: the trace that it was learned on]")
@click.option("--alias", default="champion", show_default=True, help="Point this alias to the new version.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output: model, version, alias, scheduler.")
def register(file: Path, trace: str | None, alias: str, as_json: bool) -> None:
    """Register the policy in FILE as the next version of policy-TRACE in MLflow.

    From then on every scheduler may be named POLICY(registry:policy-TRACE@ALIAS)-EASY-SPF.
    """
    from pipelines.storage.policies import read_policy
    from pipelines.workflows.registered_policy import register_policy

    policy = read_policy(file)
    name = trace or (policy.trained.trace if policy.trained is not None else None)
    if name is None:
        raise InputError(f"{file}: does not say on which trace it was learned: name one with --trace")
    made = register_policy(policy, name, alias)
    if made.doubt:
        note(f"{policy.name}: {made.doubt}")
    if as_json:
        click.echo(json.dumps({"model": made.model, "version": made.version, "alias": alias, "scheduler": made.scheduler}))
    else:
        click.echo(f"registered  models:/{made.model}/{made.version}, {alias}; simulate it as {made.scheduler}")


def _said(policy: PolicyFile) -> dict[str, str]:
    """Return what is said of a policy, by its heading."""
    from models.registry.policy_registration import gain, spans

    trained = policy.trained
    said: dict[str, Any] = {
        "policy": policy.name,
        "scheduler": f"SCORE({policy.score}){policy.behind}",
        **{name: f"{feature.meaning} ({feature.unit})" for name, feature in policy.features.items()},
        "meant for": f"predictor {policy.predictor}, starvation threshold {'none' if policy.starvation_s is None else f'{policy.starvation_s:,} s'}",
        "learned": "not said",
        "gain": gain(policy),
    }
    if trained is not None:
        said["learned"] = (
            f"on weeks {spans(trained.weeks)} of {trained.trace}: {trained.objective}, tau {trained.tau_s:g} s, seed {trained.seed}, {trained.trials:,} trials"
        )
    return said | ({"made by": policy.made_by} if policy.made_by else {})
