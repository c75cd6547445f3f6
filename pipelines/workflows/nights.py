"""One night: ingest, train and judge a challenger, replace or refresh the champion.

:func:`night` is called by the scheduled job (``pipelines.assets.night``) and the replay of a trace
(``pipelines.workflows.night_replay``). It changes nothing until everything is complete (``pipelines.storage.publishing``), so a
night that fails leaves the night before in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from features.clock import DAY_S, local_clock_s
from features.errors import InputError
from features.jobs.cleaning import AHEAD, CleanTrace
from features.jobs.drift import input_drift
from features.jobs.inputs import model_inputs
from models.packed.methods import METHODS, Method
from models.packed.settings import FORMAT
from models.registry.accounting import Accounting
from models.registry.as_served import CHAMPION, Models, answer_columns, predict_served
from models.registry.candidates import TRAINERS
from models.registry.judged_window import judged_window
from models.registry.performance import performance_drift
from models.registry.promotion import JUDGED_DAYS
from models.registry.versions import Keep, Made, all_or_nothing, all_versions
from pipelines.storage.atomic import write
from pipelines.storage.lake import Lake
from pipelines.storage.publishing import NIGHT, aliases_of, alone, begin_night, discarded_on_error
from pipelines.storage.registry import pruned
from pipelines.workflows.night_ledger import COLUMNS, ledger_row
from pipelines.workflows.night_schedules import (
    COMPARED_DAYS,
    SCHEDULERS,
    against_the_champion,
    job_keys,
    recent_rows,
    served_schedules,
)
from pipelines.workflows.progress import report_progress
from pipelines.workflows.retraining import Incumbent, Retrained, incumbent, retrain, served_by
from pipelines.workflows.stages import user_history
from sim.metrics.comparison import compare

if TYPE_CHECKING:
    from models.registry.tracking import Tracking

NO_COMPARISON = "nothing was submitted in the last days"
STAGES = ("ingesting", "opening the registry", "predicting as served", "retraining", "looking for drift", "comparing", "reporting")


@dataclass(frozen=True)
class NightConfig:
    """The settings of a night, apart from its rule."""

    seed: int = 0
    schedulers: tuple[str, ...] = SCHEDULERS
    resamples: int = 2000
    keep: Keep = field(default_factory=Keep)


@dataclass
class Memo:
    """A cache for several nights in one process: trained and loaded models; may be empty."""

    models: Models = field(default_factory=dict)
    champions: dict[str, Method] = field(default_factory=dict)


@dataclass(frozen=True)
class Night:
    """The results of a night.

    ``row`` is its row of the table ``nights``, ``nights`` that table with it, ``drift`` and ``performance`` the results of
    ``features.jobs.drift`` and ``models.registry.performance``, ``comparison`` the result of
    :func:`sim.metrics.comparison.compare` on the last days, with a row a schedule and metric, and ``pruned`` which old versions
    were removed.
    """

    trace: str
    label: str
    clean: CleanTrace
    row: Mapping[str, object]
    nights: pd.DataFrame
    retrained: Retrained
    drift: pd.DataFrame
    performance: pd.DataFrame
    comparison: pd.DataFrame
    notes: tuple[str, ...]
    report: Path
    pruned: str = "nothing"

    @property
    def drifted(self) -> list[str]:
        """Return names of the inputs and measures that drifted."""
        return _alarms(self.drift, self.performance)


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
    """Do the night ``label`` of ``trace``.

    ``read`` returns the current accounting, ``connect`` the registry, ``home`` holds lake and reports. On any error, aliases,
    tables and pages are those of the night before, and a file ``<label>.failed.txt`` beside the pages says in one line what
    happened. Raises InputError for bad input, and any other error.
    """
    try:
        with alone(home, trace):
            return _Work(trace, label, read, connect, home, run_id, config, memo or Memo()).run()
    except Exception as error:
        _tell_failure(home, trace, label, error)
        raise


class _Work:
    """The stages of one night, in order, and their shared state."""

    def __init__(
        self,
        trace: str,
        label: str,
        read: Callable[[], CleanTrace],
        connect: Callable[[], Tracking],
        home: Path,
        run_id: str,
        config: NightConfig,
        memo: Memo,
    ) -> None:
        self.trace, self.label, self.read, self.connect = trace, label, read, connect
        self.home, self.run_id, self.config, self.memo = home, run_id, config, memo
        self.model, self.draft = f"runtime-{trace}", f"{NIGHT}{label}"
        self.lake = Lake(home / "lake", self.draft)
        self.versions = self.lake.versions(self.model)
        self.notes: list[str] = []

    def run(self) -> Night:
        with self._stage("opening the registry"):
            store = self.connect()
            self.notes += [f"{told[0].upper()}{told[1:]}." for told in begin_night(self.lake, store, self.model)]
        with discarded_on_error(self.lake, self.model), all_or_nothing(store) as made:
            return self._work(store, made)

    def _work(self, store: Tracking, versions: Made) -> Night:
        with self._stage("ingesting"):
            clean, before = self.read(), self._nights()
            if ahead := int((clean.rejected_jobs["rule"] == AHEAD).sum()):
                what = (
                    "job ahead of the accounting's own clock was" if ahead == 1 else "jobs ahead of the accounting's own clock were"
                )
                self.notes.append(f"{ahead:,} {what} left out (rejected_jobs, {AHEAD}).")
            new, gone = self._compare_with_before(clean)
            history = user_history(clean)
            known = Accounting(
                clean.jobs, history.start_s, model_inputs(clean.jobs, history.table), clean.origin_unix_s, clean.timezone
            )
            until = known.until_s
            if len(before) and until < before["until_s"].max():
                raise InputError(
                    f"{clean.source or self.trace}: ends {int(before['until_s'].max()) - until:,} s before that of the last night: accounting is missing"
                )
            self.lake.write_clean(clean)
            self.lake.write_for(clean, "user_history", history.table.assign(start_s=history.start_s), {"starts": history.source})
        with self._stage("predicting as served"):
            present = incumbent(store, self.trace)
            served = self._served(known, present, before, store)
            self.lake.write("served", self.trace, served, {"generated": clean.generated})
        with self._stage("retraining"):
            tags = {"dagster_run_id": self.run_id, "night": self.label, "history_starts": history.source}
            schedules = against_the_champion(
                clean,
                known,
                served,
                present.trained_until_s if present else 0,
                self.config.schedulers,
                resamples=self.config.resamples,
                seed=self.config.seed,
            )
            made = retrain(
                clean,
                known,
                served,
                present,
                store,
                seed=self.config.seed,
                models=self.memo.models,
                tags=tags,
                schedules=schedules,
            )
            if made.promoted:
                self.memo.champions[made.trained_version] = made.trained[made.method]
            self.lake.write_for(clean, "runtime_model", made.registered)
        with self._stage("looking for drift"):
            drift, performance = self._drift(clean, known, made, present)
        with self._stage("comparing"):
            comparison = self._comparison(clean, known, served, made)
            self.lake.write_for(clean, "night_comparison", comparison, {"days": COMPARED_DAYS})
        with self._stage("reporting"):
            row = ledger_row(self.label, clean, until, (new, gone), present, made, _alarms(drift, performance), comparison)
            nights = pd.concat([before, pd.DataFrame([row])], ignore_index=True).astype(COLUMNS)
            self.lake.write("nights", self.trace, nights, {"generated": clean.generated})
            result = self._report(clean, row, nights, made, drift, performance, comparison)
        with self._stage("publishing"):
            self.lake.name_models(self.model, {"champion": made.champion, "challenger": made.challenger})
            self.versions.publish(self.draft, lambda models: self._point(store, models, versions))
        report_progress("night", 1, 1)
        return replace(result, pruned=pruned(store, f"runtime-{self.trace}", self.config.keep))

    def _point(self, store: Tracking, models: Mapping[str, str], versions: Made) -> None:
        """Move the aliases; from then on the night's versions stay, even if its pages fail."""
        aliases_of(store, self.model)(models)
        versions.keep()

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        if name != "opening the registry":  # until then, the files there are of the night before
            self.versions.note(self.draft, made_by=f"the night {self.label}", stage=name)
        try:
            yield
        except Exception as error:
            error.add_note(f"night {self.label} of {self.trace}, while {name}")
            raise

    def _nights(self) -> pd.DataFrame:
        if not self.lake.has("nights", self.trace):
            return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in COLUMNS.items()})
        return self.lake.read("nights", self.trace)[0]

    def _compare_with_before(self, clean: CleanTrace) -> tuple[int, int]:
        """Count new jobs, and former ones gone or changed (a changed job counts as both)."""
        if not self.lake.has("jobs", self.trace):
            return len(clean.jobs), 0
        old, now = (pd.Series(_row_hashes(jobs)).value_counts() for jobs in (self.lake.read("jobs", self.trace)[0], clean.jobs))
        change = now.sub(old, fill_value=0)
        gone = int(-change[change < 0].sum())
        if gone:
            self.notes.append(f"{gone:,} jobs of the accounting of before changed or are gone.")
            self.memo.models.clear()
        return int(change[change > 0].sum()), gone

    def _served(self, known: Accounting, present: Incumbent | None, before: pd.DataFrame, store: Tracking) -> pd.DataFrame:
        """Return the table ``served`` with the jobs that have ended since the last night."""
        first = int(before["until_s"].iloc[0]) if len(before) else known.until_s
        submit = known.jobs["submit_s"].to_numpy(np.int64)
        instants = sorted({*_before_the_first(submit, known.end_s, first), *map(int, before["until_s"])})
        rows = np.flatnonzero(submit >= instants[0])
        old = self.lake.read("served", self.trace)[0] if len(before) else pd.DataFrame()
        if not set(answer_columns()) <= set(old.columns):  # a new candidate or answer: answer all jobs again
            old = old.iloc[:0]
        if len(old):
            keys, answered_keys = job_keys(known.jobs.iloc[rows].assign(end_s=known.end_s[rows])), job_keys(old)
            old = old[answered_keys.isin(keys)]  # changed jobs are answered again
            rows = rows[~keys.isin(answered_keys)]
        every = all_versions(store, f"runtime-{self.trace}")
        there = {str(each.version) for each in every if each.tags.get("queuecast_format") == str(FORMAT)}
        champions = {
            int(at): (version, self._champion(version, store))
            for at, version, method in zip(before["until_s"], before["trained_version"], before["method"], strict=True)
            if method in METHODS
            and str(version) in there  # a pruned version, or one of an older format, cannot answer
            and ((submit[rows] > at) & (submit[rows] <= (present.trained_until_s if present and present.method else 2**62))).any()
        }
        answered = predict_served(
            known,
            rows,
            instants,
            models=self.memo.models,
            champion=served_by(present, submit, champions),
            seed=self.config.seed,
            progress=lambda done, total: report_progress("predict as served", done, total),
        )
        return pd.concat([old, answered], ignore_index=True) if len(old) else answered

    def _champion(self, version: str, store: Tracking) -> Method:
        from models.registry.runtime_registration import trained_method

        if version not in self.memo.champions:
            self.memo.champions[version] = trained_method(store, self.trace, version)
        return self.memo.champions[version]

    def _drift(
        self, clean: CleanTrace, known: Accounting, made: Retrained, present: Incumbent | None
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        local = local_clock_s(clean.jobs["submit_s"].to_numpy(np.int64), clean.origin_unix_s, clean.timezone)
        trained_until = present.trained_until_s if present is not None and present.method is not None else known.until_s
        drift = input_drift(clean.jobs, known.end_s, local, known.until_s, trained_until, JUDGED_DAYS * DAY_S)
        if made.found is None:
            return drift, pd.DataFrame()
        return drift, performance_drift(dict(made.served_now), dict(made.served_then), made.found.jobs)

    def _comparison(self, clean: CleanTrace, known: Accounting, served: pd.DataFrame, made: Retrained) -> pd.DataFrame:
        rows = recent_rows(known, 0)
        if len(rows) == 0:
            self.notes.append(f"No comparison: {NO_COMPARISON}.")
            return pd.DataFrame({"scheduler": [], "predictor": [], "metric": [], "value": []})
        stand_in = made.method or next(iter(TRAINERS))
        answers = served[CHAMPION].fillna(served[stand_in] if stand_in in served else served["requested"])
        schedules = served_schedules(clean, known, rows, {CHAMPION: answers}, served, self.config.schedulers, requested=True)
        return compare(schedules, resamples=self.config.resamples, seed=self.config.seed)

    def _report(
        self,
        clean: CleanTrace,
        row: Mapping[str, object],
        nights: pd.DataFrame,
        made: Retrained,
        drift: pd.DataFrame,
        performance: pd.DataFrame,
        comparison: pd.DataFrame,
    ) -> Night:
        from pipelines.report.night import render_index, render_night

        folder = self.home / "reports" / "nights" / self.trace
        result = Night(
            self.trace,
            self.label,
            clean,
            row,
            nights,
            made,
            drift,
            performance,
            comparison,
            tuple(self.notes),
            folder / f"{self.label}.html",
        )
        pages = f"nights/{self.trace}"
        self.lake.write_page(f"{pages}/{self.label}.html", self.model, render_night(result, self.run_id))
        index = render_index(self.trace, nights, failures(folder), clean.generated)
        self.lake.write_page(f"{pages}/index.html", self.model, index)
        return result


def failures(folder: Path) -> list[str]:
    """Return one line for each night that failed, from the files beside the pages."""
    return [path.read_text(encoding="utf-8").strip() for path in sorted(folder.glob("*.failed.txt"))]


def _tell_failure(home: Path, trace: str, label: str, error: Exception) -> None:
    where = next(iter(getattr(error, "__notes__", [])), f"night {label} of {trace}")
    cause = " ".join(str(error).split()) or type(error).__name__
    path = home / "reports" / "nights" / trace / f"{label}.failed.txt"
    write(path, f"{where}: {cause}; champion, tables and reports stay those of the night before\n")


def _before_the_first(submit_s: np.ndarray, end_s: np.ndarray, first_s: int) -> list[int]:
    """Return instants in place of nights before the first one at ``first_s``.

    As far back as the comparison or the judged window reaches.
    """
    ended = end_s <= first_s
    if not ended.any():  # the accounting of that night is gone
        return [first_s]
    judging = judged_window(submit_s[ended], end_s[ended])
    return [*judging.nights, *(judging.last_s - DAY_S * number for number in range(1, COMPARED_DAYS + 1))]


def _row_hashes(jobs: pd.DataFrame) -> np.ndarray:
    columns = {name: jobs[name].astype("str") if jobs[name].dtype == "category" else jobs[name] for name in jobs.columns}
    return pd.util.hash_pandas_object(pd.DataFrame(columns), index=False).to_numpy()


def _alarms(drift: pd.DataFrame, performance: pd.DataFrame) -> list[str]:
    worse = [*performance.loc[performance["drifted"], "measure"]] if len(performance) else []
    return [*drift.loc[drift["drifted"], "input"], *worse]
