"""The ledger of a trace's nights: a row for each, and what was served in them."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from models.registry.candidates import TRAINERS
from pipelines.dated.dated import Dated
from pipelines.storage.lake import Lake

COLUMNS: dict[str, str] = {
    "night": "str",
    "until_s": "int64",
    "fingerprint": "str",
    "jobs": "int64",
    "new_jobs": "int64",
    "gone_jobs": "int64",
    "champion": "str",
    "champion_before": "str",
    "trained_version": "str",
    "method": "str",
    "challenger": "str",
    "challenger_method": "str",
    "promoted": "bool",
    "why": "str",
    "judged_jobs": "int64",
    "champion_accuracy": "float64",
    "challenger_accuracy": "float64",
    "difference": "float64",
    "low": "float64",
    "high": "float64",
    "evidence": "float64",
    "evidence_needed": "float64",
    "champion_underpredicts": "float64",
    "challenger_underpredicts": "float64",
    "drifted": "str",
    "accuracy_requested": "float64",
    **{f"accuracy_{name}{form}": "float64" for name in TRAINERS for form in ("", "_now")},
    "accuracy_champion": "float64",
    "slowdown_easy": "float64",
    "slowdown_sjbf_requested": "float64",
    "slowdown_sjbf_champion": "float64",
    "slowdown_harm_champion": "float64",
}
"""Columns of the table ``nights``; accuracies are means over the judged window, shares. The evidence alone is of all jobs since the champion's training."""
_SLOWDOWNS = {
    "slowdown_easy": ("EASY", "requested"),
    "slowdown_sjbf_requested": ("EASY-SJBF", "requested"),
    "slowdown_sjbf_champion": ("EASY-SJBF", "champion"),
    "slowdown_harm_champion": ("Harm", "champion"),
}


def _no_nights() -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in COLUMNS.items()})


@dataclass(frozen=True)
class Ledger:
    """The rows of the ``nights`` before one, and the table ``served`` of them; a run has none.

    ``new_jobs`` came since what was published last, ``gone_jobs`` of then changed or are gone.
    """

    nights: pd.DataFrame = field(default_factory=_no_nights)
    served: pd.DataFrame = field(default_factory=pd.DataFrame)
    new_jobs: int = 0
    gone_jobs: int = 0
    night: str = ""

    @property
    def until_s(self) -> list[int]:
        """Return the instants of the nights."""
        return [int(each) for each in self.nights["until_s"]]

    def keep(self, lake: Lake, clean: CleanTrace, served: Callable[[], pd.DataFrame]) -> None:
        """Write what was ``served`` until this night, for the next one; of a run nothing."""
        if self.night:
            lake.write("served", clean.name, served(), {"generated": clean.generated})


def ledger_of(lake: Lake, clean: CleanTrace, date: Dated) -> Ledger:
    """Return the nights before that of ``date``, and what changed since.

    InputError for accounting that ends before the last night's: some is missing.
    """
    if not date.night:
        return Ledger()
    refuse_shorter(lake, clean, date.until_s)
    nights = nights_before(lake, clean.name, date.night)
    served = lake.read("served", clean.name)[0] if len(nights) else pd.DataFrame()
    return Ledger(nights, served, *_changed(lake, clean), date.night)


def nights_before(lake: Lake, trace: str, night: str) -> pd.DataFrame:
    """Return the table ``nights`` without ``night``."""
    if not lake.has("nights", trace):
        return _no_nights()
    nights = lake.read("nights", trace)[0]
    return nights[nights["night"] != night]


def refuse_shorter(lake: Lake, clean: CleanTrace, until_s: int) -> None:
    """Raise InputError for accounting that ends, at ``until_s``, before the last night's."""
    before = lake.read("nights", clean.name)[0]["until_s"].max() if lake.has("nights", clean.name) else until_s
    if until_s < before:
        raise InputError(
            f"{clean.source or clean.name}: ends {int(before) - until_s:,} s before that of the last night: accounting is missing"
        )


def later_night(lake: Lake, subject: str, day: str) -> str:
    """Return the last night done of ``runtime-<trace>`` if it is later than ``day``; else "".

    A champion does not move back in time: it would be replaced by one with less training data. Counters are not cut at a day, so
    no night of a system is too late.
    """
    kind, _, trace = subject.partition("-")
    if kind != "runtime" or not lake.has("nights", trace):
        return ""
    last = str(lake.read("nights", trace)[0]["night"].iloc[-1])
    return last if last > day else ""


def slowdowns(comparison: pd.DataFrame) -> dict[str, float]:
    """Return the part of a night's row that is of the comparison of its last days."""
    values = comparison[comparison["metric"] == "mean_bounded_slowdown"].set_index(["scheduler", "predictor"])["value"]
    return {name: float(values.get(key, np.nan)) for name, key in _SLOWDOWNS.items()}


def _changed(lake: Lake, clean: CleanTrace) -> tuple[int, int]:
    """Count new jobs, and former ones gone or changed (a changed job counts as both)."""
    published = Lake(lake.root)
    if not published.has("jobs", clean.name):
        return len(clean.jobs), 0
    before = published.read("jobs", clean.name)[0]  # perhaps of a format with fewer columns
    old, now = (pd.Series(_row_hashes(jobs)).value_counts() for jobs in (before, clean.jobs[before.columns]))
    change = now.sub(old, fill_value=0)
    return int(change[change > 0].sum()), int(-change[change < 0].sum())


def _row_hashes(jobs: pd.DataFrame) -> np.ndarray:
    columns = {name: jobs[name].astype("str") if jobs[name].dtype == "category" else jobs[name] for name in jobs.columns}
    return pd.util.hash_pandas_object(pd.DataFrame(columns), index=False).to_numpy()
