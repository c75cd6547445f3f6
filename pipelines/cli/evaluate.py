"""``queuecast evaluate``: quality of predictions, walk-forward in a simulated trace."""

from __future__ import annotations

import click

from pipelines.cli import importing
from pipelines.cli.options import json_option, options
from pipelines.studies.questions import Protocol


@click.command()
@click.argument("trace")
@options(Protocol)
@json_option
def evaluate(protocol: Protocol, as_json: bool) -> None:
    """Judge runtime predictions for TRACE, overall and by user experience.

    TRACE is simulated once per predictor, which predicts from the jobs that have ended by then in that simulation. 95 %
    intervals come from leaving out weeks; differences to the baseline are paired. By default all predictors are judged,
    and lightgbm and quantile learn anew each week of the trace; named without options they learn each midnight, at
    seven times the cost.
    """
    with importing():  # a wrong option is refused before the simulator is imported
        from pipelines.cli.evaluating import judge_predictors

    judge_predictors(protocol, as_json)
