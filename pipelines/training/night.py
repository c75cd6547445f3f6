"""Do the stages of the scheduled job ``nightly`` in this process, for replays.

A test compares the tables of both. Readers see no change before a night is published, so a failed night leaves the
previous night in place.
"""

from collections.abc import Iterator
from pathlib import Path

from features.jobs.cleaning import CleanTrace
from models.registry.tracking import Tracking
from pipelines.lake.publishing import alone
from pipelines.lake.registry import tracking
from pipelines.lake.tables import Lake, keep_features
from pipelines.report.night import Night
from pipelines.studies.progress import progress_reporter, report_progress
from pipelines.training.compare import keep_comparison
from pipelines.training.ledger import ReplayedTrace
from pipelines.training.pages import write_night
from pipelines.training.policy import learn_by_the_date
from pipelines.training.queue_states import keep_states, read_states
from pipelines.training.simulate import simulate
from pipelines.training.site import keep_parity, site_of
from pipelines.training.starts import keep_start_model
from pipelines.training.train import train
from pipelines.training.work import Work, cutoff_of
from sim.settings import Learning


def night(clean: CleanTrace, label: str, home: Path, *, seed: int = 0, starts: bool = False) -> Night:
    """Do the night ``label`` of a trace, whose accounting is ``clean``, in this process.

    ``home`` holds lake, reports and registry; ``starts`` asks for models of starts, too. On any error, aliases, tables
    and pages stay those of the previous night, and the error is raised: InputError for bad input, or any other.
    """
    trace = clean.name
    with alone(home, trace):
        work = Work(Lake(home / "lake", f"the night {label}"), own_registry(home), f"runtime-{trace}", label, "replay")
        work.lake.write_clean(clean)
        clean = work.lake.read_clean(trace)
        records = keep_features(work.lake, clean)
        train(work, clean, seed=seed)
        learn_by_the_date(work, clean, Learning(seed=seed))
        simulate(work, clean)
        keep_comparison(work.lake, clean)
        result = write_night(work, clean)
        work.publish()

        date = cutoff_of(work.lake.read_for(clean, "runtime_model")[1])
        if starts and not keep_states(work.lake, clean, records, date, progress_reporter("states"), seed):
            keep_start_model(work, clean, read_states(work.lake, clean, records), date, seed)
            work.publish()
        if (site := site_of(trace, label)) is not None:
            keep_parity(work, site)
            work.publish()
        report_progress("night", 1, 1)
        work.tidy()
        return result


def own_registry(home: Path) -> Tracking:
    """Return a registry in ``home``, separate from the site's."""
    return tracking(f"sqlite:///{home / 'mlflow.db'}")


def replay_nights(
    source: ReplayedTrace, midnights: list[int], home: Path, *, seed: int = 0, starts: bool = False
) -> Iterator[Night]:
    """Yield the nights at ``midnights``, in order, with all their results in ``home``.

    Raises the errors of :func:`night`.
    """
    for midnight in midnights:
        yield night(source.accounting(midnight), source.label(midnight), home, seed=seed, starts=starts)
