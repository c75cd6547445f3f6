"""Do the stages of the scheduled job ``nightly`` in this process, for replays.

A test compares the tables of both. Readers see no change before a night is published, so a failed night leaves the previous night
in place.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from features.jobs.cleaning import CleanTrace
from models.registry.tracking import Tracking
from pipelines.lake.publishing import alone
from pipelines.lake.registry import tracking
from pipelines.lake.tables import Lake, keep_features, read_features
from pipelines.report.night import Night
from pipelines.studies.progress import progress_reporter, report_progress
from pipelines.training.compare import keep_comparison
from pipelines.training.ledger import ReplayedTrace
from pipelines.training.pages import write_night
from pipelines.training.policy import learn_by_the_date
from pipelines.training.queue_states import keep_states, read_states
from pipelines.training.simulate import LAST_DAYS, simulate
from pipelines.training.site import keep_parity, site_of
from pipelines.training.starts import keep_start_model
from pipelines.training.traces import Memo
from pipelines.training.train import train
from pipelines.training.work import Work, cutoff_of
from sim.settings import Learning


@dataclass(frozen=True)
class NightConfig:
    """The settings of a night, apart from its rule; ``starts`` asks for models of starts, too."""

    seed: int = 0
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
    tables and pages stay those of the previous night, and the error is raised: InputError for bad input, or any other.
    """
    with alone(home, trace):
        work = Work(Lake(home / "lake", f"the night {label}"), connect(), f"runtime-{trace}", label, run_id)
        work.lake.write_clean(read())
        clean = work.lake.read_clean(trace)
        keep_features(work.lake, clean)
        train(work, clean, seed=config.seed, memo=memo)
        learn_by_the_date(work, clean, Learning(seed=config.seed))
        simulate(work, clean, LAST_DAYS)
        keep_comparison(work.lake, clean)
        result = write_night(work, clean)
        work.publish()
        _after(work, clean, config)
        report_progress("night", 1, 1)
        work.tidy()
        return result


def _after(work: Work, clean: CleanTrace, config: NightConfig) -> None:
    """Do the stages that follow the published trace, where they apply."""
    if config.starts:
        date = cutoff_of(work.lake.read_for(clean, "runtime_model")[1])
        records = read_features(work.lake, clean)
        if not keep_states(work.lake, clean, records, date, progress_reporter("states"), config.seed):
            keep_start_model(work, clean, read_states(work.lake, clean, records), date, config.seed)
            work.publish()
    if (site := site_of(work.name, work.night)) is not None:
        keep_parity(work, site)
        work.publish()


def own_registry(home: Path) -> Tracking:
    """Return a registry in ``home``, separate from the site's."""
    return tracking(f"sqlite:///{home / 'mlflow.db'}")


def replay_nights(source: ReplayedTrace, midnights: list[int], home: Path, config: NightConfig = NightConfig()) -> Iterator[Night]:
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
