"""The ledger of a trace's nights: one row per night, and the answers served in them."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from pipelines.lake.tables import Lake
from pipelines.readers.catalogue import Entry
from pipelines.training.cutoff import Cutoff

TRACE_NIGHTS, SYSTEM_NIGHTS = "nights", "variability_nights"
"""Tables with a row a night, of a trace and of a system."""
_SLOWDOWNS = {
    "slowdown_easy": ("EASY", "requested"),
    "slowdown_sjbf_requested": ("EASY-SJBF", "requested"),
    "slowdown_sjbf_champion": ("EASY-SJBF", "champion"),
    "slowdown_harm_champion": ("Harm", "champion"),
}


def _no_nights() -> pd.DataFrame:
    return pd.DataFrame({"night": [], "until_s": [], "trained_version": [], "method": []})


@dataclass(frozen=True)
class Ledger:
    """The rows of ``nights`` before one, and the answers ``served`` in them; a run has none.

    ``new_jobs`` jobs are new since the last publication; ``gone_jobs`` of its jobs have changed or are gone.
    """

    nights: pd.DataFrame = field(default_factory=_no_nights)
    served: pd.DataFrame = field(default_factory=pd.DataFrame)
    new_jobs: int = 0
    gone_jobs: int = 0
    night: str = ""

    @property
    def until_s(self) -> list[int]:
        """Return the instants of the nights."""
        return [int(instant) for instant in self.nights["until_s"]]

    def keep(self, lake: Lake, clean: CleanTrace, served: Callable[[], pd.DataFrame]) -> None:
        """Write the answers ``served`` until this night, for the next night; a run writes none."""
        if self.night:
            lake.write("served", clean.name, served(), {"generated": clean.generated, "origin_unix_s": clean.origin_unix_s})


def ledger_of(lake: Lake, clean: CleanTrace, date: Cutoff) -> Ledger:
    """Return the nights before that of ``date``, and the changes since.

    Raises InputError if the accounting ends before that of the last night: some is missing.
    """
    if not date.night:
        return Ledger()
    last_s = nights_before(lake, clean.name, "")["until_s"].max()
    if date.until_s < last_s:
        raise InputError(
            f"{clean.source or clean.name}: ends {int(last_s) - date.until_s:,} s before the accounting of the last night does: part of it is missing"
        )
    nights = nights_before(lake, clean.name, date.night)
    served = lake.published().read("served", clean.name)[0] if len(nights) else pd.DataFrame()
    return Ledger(nights, served, *_changed(lake, clean), date.night)


def nights_before(lake: Lake, name: str, night: str, table: str = TRACE_NIGHTS) -> pd.DataFrame:
    """Return the published ``table`` of nights of a trace or system, without ``night``."""
    published = lake.published()
    if not published.has(table, name):
        return _no_nights()
    nights = published.read(table, name)[0]
    return nights[nights["night"] != night]


def days_arrived(lake: Lake, name: str, night: str = "", table: str = TRACE_NIGHTS) -> int:
    """Return how many days of what arrives have come in ``night``, or in a run.

    What arrives is a log, or the simulated cluster. Each published night has brought one, and ``night`` brings another: it sees
    the same day however often it is done. So the ``table`` of nights is the clock, which only moves forward.
    """
    return len(nights_before(lake, name, night, table)) + bool(night)


def days_to_come(lake: Lake, entry: Entry, night: str = "") -> int:
    """Return how many days of a log that arrives are still to come, in ``night`` or in a run."""
    return max(entry.arrives_days - days_arrived(lake, entry.name, night), 0)


def later_night(lake: Lake, trace: str, day: str) -> str:
    """Return the last published night if it is later than that of ``day``; else ""."""
    nights = nights_before(lake, trace, "")["night"]
    last = str(nights.iloc[-1]) if day and len(nights) else ""
    return last if last > day else ""


def slowdowns(comparison: pd.DataFrame) -> dict[str, float]:
    """Return the slowdowns of a night's row, from the comparison of its last days."""
    values = comparison[comparison["metric"] == "mean_bounded_slowdown"].set_index(["scheduler", "predictor"])["value"]
    return {name: float(values.get(key, np.nan)) for name, key in _SLOWDOWNS.items()}


def _changed(lake: Lake, clean: CleanTrace) -> tuple[int, int]:
    """Count new jobs, and former ones gone or changed (a changed job counts as both)."""
    published = lake.published()
    if not published.has("jobs", clean.name):
        return len(clean.jobs), 0
    before = published.read("jobs", clean.name)[0]  # perhaps of a format with fewer columns
    old, now = (pd.Series(_row_hashes(jobs)).value_counts() for jobs in (before, clean.jobs[before.columns]))
    change = now.sub(old, fill_value=0)
    return int(change[change > 0].sum()), int(-change[change < 0].sum())


def _row_hashes(jobs: pd.DataFrame) -> np.ndarray:
    columns = {name: jobs[name].astype("str") if jobs[name].dtype == "category" else jobs[name] for name in jobs.columns}
    return pd.util.hash_pandas_object(pd.DataFrame(columns), index=False).to_numpy()
