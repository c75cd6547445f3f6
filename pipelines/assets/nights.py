"""Nights in the asset graph: the stages of a run, with the day's date.

A run of the graph is a night if it makes ``night`` or ``variability_night``, the marks of the day at the end of the graph. This
alone counts, whether a job, a backfill or a selection in the UI started the run. A night holds the lock of its trace or system to
the end. If a later night was published before, a night makes nothing, because a champion does not move back in time. It is
recorded, so that its day is no longer missing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, wraps
from typing import Any

import dagster as dg

from pipelines.assets.checks import holds, specs
from pipelines.assets.partitions import of_systems, of_traces
from pipelines.assets.resources import LakeResource
from pipelines.dated.ledger import later_night
from pipelines.dated.publish import noted
from pipelines.workflows.progress import report_progress

RETRIES, RETRY_S = 2, 60
"""A step is retried after 60 and 120 s if a registry or disk did not answer. Errors in the accounting are not retried."""
_OF_THE_INPUT = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)


def stage(
    does: str,
    recorded: Callable[[str, str], dict[str, Any]] = lambda name, day: {},
    progress: str = "",
) -> Callable[[Callable[..., Any]], Callable[..., Iterator[Any]]]:
    """Return a decorator that makes the function of an asset work in nights, too.

    ``does`` describes the stage in errors. ``recorded`` returns metadata of a night that came too late. ``progress`` is the
    stage's name on the terminal. A failed night leaves a line beside the pages. A step is retried only if that may help.
    """

    def of(compute: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
        def results(context: dg.AssetExecutionContext, given: dict[str, Any]) -> list[Any]:
            if not progress:
                return [*_each(compute(context, **given))]
            report_progress(progress, 0, 1)
            materializations = [*_each(compute(context, **given))]
            report_progress(progress, 1, 1)
            return materializations

        @wraps(compute)
        def staged(context: dg.AssetExecutionContext, **given: Any) -> Iterator[Any]:
            lake: LakeResource = given["lake"]
            lake.begin()
            if not lake.night:
                yield from results(context, given)
                return
            name, day = lake.name, lake.night
            if last := later_night(lake.lake(), lake.subject, day):
                yield from _recorded(context, day, last, recorded(name, day))
                return
            try:
                with noted(does, day, name):
                    materializations = results(context, given)
            except Exception as error:
                if _away(error) and context.retry_number < RETRIES:
                    raise dg.RetryRequested(RETRIES, RETRY_S * 2**context.retry_number) from error
                lake.tell_failure(error)
                raise dg.Failure(" ".join(str(error).split()) or type(error).__name__, allow_retries=False) from error
            yield from materializations

        return staged

    return of


def _asset(
    partitions: dg.PartitionsDefinition,
    does: str,
    name: str = "",
    checks: Mapping[str, str] | None = None,
    progress: str = "",
    **given: Any,
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Return a decorator that makes a function an asset of runs and nights.

    The asset has the function's name, or ``name``. ``checks`` block. ``given`` is for ``dg.asset``, the rest for :func:`stage`.
    """

    def of(compute: Callable[..., Any]) -> dg.AssetsDefinition:
        called = name or compute.__name__
        asset = dg.asset(name=called, partitions_def=partitions, check_specs=specs(called, checks or {}), **given)
        return asset(stage(does, progress=progress)(compute))

    return of


trace_stage, system_stage = partial(_asset, of_traces), partial(_asset, of_systems)


def _each(result: Any) -> Iterable[Any]:
    return [result] if isinstance(result, dg.MaterializeResult) else result


def _away(error: Exception) -> bool:
    """Tell whether the error or a cause of it may pass: a registry or disk does not answer."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import OperationalError

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, (MlflowException, OperationalError)):
            return True
        if isinstance(cause, OSError) and (cause is error or (cause.errno and not isinstance(cause, _OF_THE_INPUT))):
            return True
        cause = cause.__cause__
    return False


def _recorded(context: dg.AssetExecutionContext, day: str, last: str, metadata: dict[str, Any]) -> Iterator[dg.MaterializeResult]:
    """Yield the results of a night that came too late to serve anything."""
    why = f"the night {last} was published before: nothing was trained, and champion and tables stay those of that night"
    checks = context.assets_def.check_specs
    for key in context.assets_def.keys:
        passed = [holds(each.name, True, asset=key, not_looked_at=why) for each in checks if each.asset_key == key]
        facts = {"night": day, "published": False, "why": why, **metadata}
        yield dg.MaterializeResult(asset_key=key, metadata=facts, check_results=passed)
