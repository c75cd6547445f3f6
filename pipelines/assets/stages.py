"""Stages: assets of a trace or a system, as runs and nights make them.

A stage yields what it made and the checks that it evaluated, and nothing else: Dagster then skips what is downstream of a table
that was not made, and shows no result of a check that was not evaluated.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, wraps
from typing import Any, get_args, get_origin

import dagster as dg
from pydantic import Field, create_model

from features.errors import first_line
from pipelines.assets.checks import specs
from pipelines.assets.partitions import NIGHT_TAG, systems, traces
from pipelines.studies.progress import report_progress
from sim.settings import CheckedSettings

OWNER = "team:operations"
RETRY = dg.RetryPolicy(max_retries=2, delay=60, backoff=dg.Backoff.EXPONENTIAL)
"""A step of a night is retried after 60 and 120 s if a registry, a database or a disk did not answer."""


def _stage(
    partitions: dg.PartitionsDefinition,
    names: str | Sequence[str] = "",
    *,
    group_name: str,
    description: str | Mapping[str, str],
    kinds: set[str],
    deps: Iterable[str | dg.AssetDep] = (),
    checks: Mapping[str, str] | None = None,
    in_nights: Mapping[str, str] | None = None,
    code_version: str = "1",
    progress: str = "",
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Return a decorator that makes a function the asset of its name, or the assets ``names``.

    With several assets, ``description`` has one text for each, and ``checks`` are those of the first. Checks ``in_nights`` are evaluated there alone,
    and warn. ``code_version`` is raised
    by hand when the same inputs give another table. ``progress`` is the stage's name on the terminal, by default the function's.
    """

    def decorate(compute: Callable[..., Any]) -> dg.AssetsDefinition:
        keys = [names or compute.__name__] if isinstance(names, str) else [*names]
        texts = {keys[0]: description} if isinstance(description, str) else description
        assets = [
            dg.AssetSpec(
                key,
                deps=[*deps],
                group_name=group_name,
                kinds=kinds,
                description=texts[key],
                owners=[OWNER],
                code_version=code_version,
            )
            for key in keys
        ]
        make = dg.multi_asset(
            name=compute.__name__,
            specs=assets,
            check_specs=[
                *specs(keys[0], checks or {}, partitions),
                *specs(keys[0], in_nights or {}, partitions, blocking=False),
            ],
            partitions_def=partitions,
            retry_policy=RETRY,
            can_subset=True,  # an asset that does not apply, or a check that is not evaluated, is left out
        )
        return make(_reporting(compute, progress))

    return decorate


trace_stage, system_stage = partial(_stage, traces), partial(_stage, systems)


def _reporting(compute: Callable[..., Any], progress: str) -> Callable[..., Iterator[Any]]:
    """Return ``compute`` with progress on the terminal, and with errors that retrying cannot mend."""
    stage = progress or compute.__name__.replace("_", " ")

    @wraps(compute)
    def reporting(context: dg.AssetExecutionContext, **resources: Any) -> Iterator[Any]:
        report_progress(stage, 0, 1)
        try:
            results = compute(context, **resources)
            outcomes = [results] if isinstance(results, dg.MaterializeResult) else list(results)
        except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError) as interrupt:
            raise dg.Failure("interrupted", allow_retries=False) from interrupt  # Dagster would wait and try the step again
        except Exception as error:
            raise dg.Failure(first_line(error), allow_retries=_may_pass(context.run, error)) from error
        report_progress(stage, 1, 1)
        chosen = context.selected_asset_keys
        yield from (result for result in outcomes if result.asset_key is None or result.asset_key in chosen)

    return reporting


def _may_pass(run: dg.DagsterRun, error: Exception) -> bool:
    """Tell whether a night may try a step again: something outside did not answer.

    Registry and lake raise an InputError with such an error as its cause.
    """
    from mlflow.exceptions import MlflowException
    from requests import RequestException
    from sqlalchemy.exc import OperationalError

    outside = (MlflowException, RequestException, OperationalError, TimeoutError, ConnectionError)
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, outside):
        cause = cause.__cause__
    return NIGHT_TAG in run.tags and cause is not None


def config_of(shape: type[CheckedSettings], *names: str) -> Any:
    """Return Dagster's config with the fields ``names`` of ``shape``.

    Defaults and descriptions are those of the fields. Tuples become lists, since Dagster has no tuples.
    """
    fields: dict[str, Any] = {}
    for name in names:
        field = shape.model_fields[name]
        several = get_origin(field.annotation) is tuple
        kind = list[get_args(field.annotation)[0]] if several else field.annotation  # type: ignore[misc]
        default = list(field.default) if several else field.default
        fields[name] = (kind, Field(default=default, description=field.description))
    return create_model(f"{shape.__name__}Config", __base__=dg.Config, **fields)
