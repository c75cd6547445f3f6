"""Run nights in this process, each all or nothing, stage by stage.

The replay of a trace runs many nights; the scheduled job runs the same stages as assets. Readers see no change before the last
step, so a failed night leaves the previous night in place.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from features.jobs.cleaning import CleanTrace
from models.registry.tracking import Tracking
from models.registry.versions import Keep, all_or_nothing
from pipelines.dated.compare import keep_comparison
from pipelines.dated.dated import dated_of
from pipelines.dated.history import keep_history, read_history
from pipelines.dated.pages import write_night
from pipelines.dated.publish import Work, noted, tell_failure
from pipelines.dated.queue_states import keep_states
from pipelines.dated.replay import Replay
from pipelines.dated.simulate import LAST_DAYS, simulate
from pipelines.dated.starts import keep_starts, point_start_champion
from pipelines.dated.traces import Memo
from pipelines.dated.train import train
from pipelines.report.night import Night
from pipelines.storage.lake import Lake
from pipelines.storage.provenance import code_version
from pipelines.storage.publishing import NIGHTS, alone
from pipelines.storage.registry import tracking
from pipelines.workflows.progress import report_progress


@dataclass(frozen=True)
class NightConfig:
    """The settings of a night, apart from its rule."""

    seed: int = 0
    keep: Keep = field(default_factory=Keep)
    starts: bool = False


def night(
    trace: str,
    label: str,
    read: Callable[[], CleanTrace],
    connect: Callable[[], Tracking],
    home: Path,
    *,
    run_id: str = "",
    config: NightConfig = NightConfig(),
    memo: Memo | None = None,
) -> Night:
    """Do the night ``label`` of ``trace`` in this process.

    ``read`` returns the current accounting, ``connect`` the registry, ``home`` holds lake and reports. On any error, aliases,
    tables and pages stay those of the previous night, a file ``<label>.failed.txt`` beside the pages has the cause in one line,
    and the error is raised: InputError for bad input, or any other.
    """
    lake, subject = Lake(home / "lake", f"{NIGHTS}{label}"), f"runtime-{trace}"
    try:
        with alone(home, trace):
            with noted("opening the registry", label, trace):
                work = Work(lake, connect(), subject, label, run_id)
                begun = work.begin()
            with all_or_nothing(work.store):
                with work.stage("ingesting"):
                    lake.write_clean(read())
                    clean = lake.read_clean(trace)
                    keep_history(lake, clean)
                train(work, clean, seed=config.seed, memo=memo, begun=begun)
                if config.starts:
                    with work.stage("learning when jobs start"):
                        _learn_starts(work, clean, config.seed)
                with work.stage("comparing"):
                    simulate(work, clean, LAST_DAYS)
                    keep_comparison(lake, clean)
                with work.stage("reporting"):
                    result = write_night(work, clean)
                with work.stage("publishing"):
                    work.publish()
                    point_start_champion(Lake(home / "lake"), trace, work.store)
            report_progress("night", 1, 1)
            return replace(result, pruned=work.tidy(config.keep))
    except Exception as error:
        tell_failure(home, trace, label, error)
        raise


def _learn_starts(work: Work, clean: CleanTrace, seed: int) -> None:
    """Do what the assets ``queue_states`` and ``start_model`` do."""
    date, users = dated_of(work.lake.read_for(clean, "runtime_model")[1]), read_history(work.lake, clean)
    keep_states(work.lake, clean, users, date, lambda done, of: report_progress("states", done, of), seed)
    keep_starts(work.lake, clean, date, work.store, {"code": code_version()}, work.tags, seed)


def own_registry(home: Path) -> Tracking:
    """Return a registry in ``home``, separate from the site's."""
    return tracking(f"sqlite:///{home / 'mlflow.db'}")


def replay_nights(source: Replay, midnights: list[int], home: Path, config: NightConfig = NightConfig()) -> Iterator[Night]:
    """Yield the nights at ``midnights``, in order, with all their results in ``home``.

    Raises the errors of :func:`night`.
    """
    memo = Memo()
    for midnight in midnights:
        yield night(
            source.clean.name,
            source.label(midnight),
            lambda at=midnight: source.accounting(at),  # type: ignore[misc]
            lambda: own_registry(home),
            home,
            run_id="replay",
            config=config,
            memo=memo,
        )
