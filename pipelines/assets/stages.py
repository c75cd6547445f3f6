"""Stages: assets of a trace or a system, as runs and nights make them.

A stage yields what it made and the checks that it evaluated, and nothing else: Dagster then skips what is downstream of
a table that was not made, and shows no result of a check that was not evaluated.

A table has one current version for each trace or system, so these alone are the partitions of the assets that make
tables. A night is a run of the same assets whose tag :data:`NIGHT_TAG` names the day. It leaves a materialisation of
``night`` in the partition of that day, so that a missed night is missing there. Dagster copies tags to a run that is
executed again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial, wraps
from pathlib import Path
from typing import Any, get_args, get_origin

import dagster as dg
from pydantic import Field, PrivateAttr, create_model

from features.errors import first_line
from models.registry.tracking import Tracking
from pipelines.assets.checks import specs
from pipelines.lake.places import home
from pipelines.lake.publishing import RUN_WAITS_S, alone, lock_of
from pipelines.lake.registry import tracking
from pipelines.lake.tables import Lake
from pipelines.readers import SIMULATED
from pipelines.readers.catalogue import load_catalogue
from pipelines.readers.read import TRACES, first_night
from pipelines.studies.progress import report_progress
from pipelines.training.work import Work
from sim.settings import CheckedSettings

NIGHT_TAG = "queuecast/night"
"""Tag of a run that is a night: its day, such as 2026-03-01."""

traces = dg.DynamicPartitionsDefinition(name=TRACES)
systems = dg.DynamicPartitionsDefinition(name="systems")
# a day's night is due on that day, at 02:00: so today is a partition, too
_night_days = dg.DailyPartitionsDefinition(start_date=first_night().isoformat(), end_offset=1)
nights_of_traces = dg.MultiPartitionsDefinition({"day": _night_days, "trace": traces})
nights_of_systems = dg.MultiPartitionsDefinition({"day": _night_days, "system": systems})


def night_of(run: dg.DagsterRun) -> tuple[str, str]:
    """Return the trace or system of a run and the day of its night, "" if it is none."""
    return run.tags.get("dagster/partition", ""), run.tags.get(NIGHT_TAG, "")


OF_SITES = {"parity"}
OF_STARTS = {"queue_states", "start_model"}
OF_THE_SIMULATED = {"system_comparison"}


def applicable(job: dg.JobDefinition, name: str) -> list[dg.AssetKey]:
    """Return the assets of ``job`` that apply to the trace or system ``name``.

    A site is replayed where the trace states its machine, models of starts are learned where the catalogue asks for
    them, and only the simulated system has trials.
    """
    entry = load_catalogue().get(name)
    left_out: set[str] = set()
    if entry is None or entry.site is None:
        left_out |= OF_SITES
    if entry is None or not entry.starts:
        left_out |= OF_STARTS
    if name != SIMULATED:
        left_out |= OF_THE_SIMULATED
    return sorted(key for key in job.asset_layer.selected_asset_keys if key.to_user_string() not in left_out)


class LakeResource(dg.ConfigurableResource):
    """The home directory with its lake: Parquet tables, counters, pages, systems.

    All assets of a partition write into one draft and read from it; ``published_trace`` and ``published_system``
    publish it. A run holds the lock of its trace or system to its end.
    """

    kind: str = Field(default="runtime", description="What a partition is: runtime for a trace, variability for a system")
    _name: str = PrivateAttr(default="")
    _night: str = PrivateAttr(default="")
    _run_id: str = PrivateAttr(default="")
    _held: ExitStack = PrivateAttr(default_factory=ExitStack)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Take the lock of the run's trace or system."""
        if context.run is None:
            return
        self._name, self._night = night_of(context.run)
        self._run_id = context.run.root_run_id or context.run.run_id
        if self._name:
            self._held.enter_context(alone(self.place(), lock_of(self.subject), RUN_WAITS_S))

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Release the lock."""
        self._held.close()

    @property
    def night(self) -> str:
        """Return the day of the run if it is a night, else ""."""
        return self._night

    @property
    def name(self) -> str:
        """Return the trace or system of the run's partition."""
        return self._name

    @property
    def subject(self) -> str:
        """Return ``runtime-<trace>`` or ``variability-<system>`` of the run's partition."""
        return f"{self.kind}-{self._name}"

    def lake(self) -> Lake:
        """Return the lake, which notes what an asset reads as what it is made from."""
        return Lake(self.place() / "lake", self._run_id, system=self.kind == "variability")

    def place(self) -> Path:
        """Return the home directory, which holds the lake, reports, locks, ``systems.toml``."""
        return home()

    def work(self, registry: "RegistryResource") -> Work:
        """Return where the stages of the run or night read and write."""
        return Work(self.lake(), registry.tracking(), self.subject, self._night, self._run_id)


def simulate_if_needed(lake: LakeResource, nights: int) -> None:
    """Simulate the simulated cluster, with a day for each of ``nights``, before it is read.

    Real systems, and other traces, are left alone.
    """
    if lake.name != SIMULATED:
        return
    from pipelines.readers.simulated_site import DAYS, simulate_site

    report_progress("simulate the cluster", 0, 1)
    simulate_site(lake.place(), DAYS + nights)
    report_progress("simulate the cluster", 1, 1)


class RegistryResource(dg.ConfigurableResource):
    """The model registry: an MLflow store."""

    def tracking(self) -> Tracking:
        """Return the opened store; raise InputError if it cannot be opened."""
        return tracking()


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

    With several assets, ``description`` has one text for each, and ``checks`` are those of the first. Checks
    ``in_nights`` are evaluated there alone, and warn. ``code_version`` is raised by hand when the same inputs give
    another table. ``progress`` is the stage's name on the terminal, by default the function's.
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
