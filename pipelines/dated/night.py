"""One night in this process, all or nothing: its stages in a row.

The replay of a trace does many of them (``pipelines.dated.replay``); the scheduled job does the same stages as assets.
Nothing changes for readers before the last step, so a night that fails leaves the night before in place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from features.jobs.cleaning import CleanTrace
from models.registry.versions import all_or_nothing
from pipelines.dated.night_stages import Memo, NightConfig, Tonight, refuse_shorter, told_in
from pipelines.dated.simulate import keep_comparison
from pipelines.dated.stages import keep_history
from pipelines.report.night import Night
from pipelines.storage.atomic import write
from pipelines.storage.lake import Lake
from pipelines.storage.publishing import NIGHT, NIGHTS, alone, discarded_on_error, publish
from pipelines.storage.registry import pruned
from pipelines.storage.versions import PUBLISHED
from pipelines.workflows.progress import report_progress

if TYPE_CHECKING:
    from models.registry.tracking import Tracking


def night(
    trace: str,
    label: str,
    read: Callable[[], CleanTrace],
    connect: Callable[[], Tracking],
    home: Path,
    *,
    run_id: str = "",
    config: NightConfig = NightConfig(),  # noqa: B008 - frozen
    memo: Memo | None = None,
) -> Night:
    """Do the night ``label`` of ``trace`` in this process.

    ``read`` returns the current accounting, ``connect`` the registry, ``home`` holds lake and reports. On any error, aliases,
    tables and pages are those of the night before, and a file ``<label>.failed.txt`` beside the pages says in one line what
    happened. Raises InputError for bad input, and any other error.
    """
    lake, model = Lake(home / "lake", f"{NIGHT}{label}"), f"runtime-{trace}"
    try:
        with alone(home, trace):
            with told_in("opening the registry", label, trace):
                store = connect()
                tonight = Tonight(lake, store, trace, label, run_id, config, memo or Memo())
                tonight.begin()
            with discarded_on_error(lake, model), all_or_nothing(store):
                with tonight.stage("ingesting"):
                    lake.write_clean(read())
                    keep_history(lake, tonight.clean)
                    refuse_shorter(lake, tonight.clean, tonight.known.until_s)
                tonight.retrain()
                with tonight.stage("comparing"):
                    tonight.simulate()
                    keep_comparison(lake, tonight.clean)
                with tonight.stage("reporting"):
                    result = tonight.report()

                with tonight.stage("publishing"):
                    publish(lake, model, f"{NIGHTS}{label}", store)
            report_progress("night", 1, 1)
            return replace(result, pruned=pruned(store, model, config.keep))
    except Exception as error:
        tell_failure(home, trace, label, error)
        raise


def tell_failure(home: Path, trace: str, label: str, error: Exception) -> None:
    """Leave a line beside the pages that says why the night failed, and what readers see now."""
    notes = getattr(error, "__notes__", [])
    where = next((each for each in notes if each.startswith(f"night {label} ")), f"night {label} of {trace}")
    cause = " ".join(str(error).split()) or type(error).__name__
    now = PUBLISHED if PUBLISHED in notes else "champion, tables and reports stay those of the night before"
    path = home / "reports" / "nights" / trace / f"{label}.failed.txt"
    write(path, f"{where}: {cause}; {now}\n")
