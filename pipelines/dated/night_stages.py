"""The stages of a night: retrain and judge as served, compare the last days, report.

The assets of a trace call them one by one (``pipelines.assets``), :func:`pipelines.dated.night.night` in a row. Every stage
reads and writes tables of the night's draft in the lake (``pipelines.storage.versions``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from features.clock import DAY_S, local_clock_s
from features.errors import InputError
from features.jobs.cleaning import AHEAD, CleanTrace
from features.jobs.drift import input_drift
from models.packed.methods import METHODS, Method
from models.packed.settings import FORMAT
from models.registry.accounting import Accounting
from models.registry.as_served import CHAMPION, Models, answer_columns, predict_served
from models.registry.candidates import TRAINERS
from models.registry.judged_window import judged_window
from models.registry.performance import performance_drift
from models.registry.promotion import JUDGED_DAYS
from models.registry.versions import Keep, all_versions
from pipelines.dated.dated import Split
from pipelines.dated.ledger import COLUMNS, ledger_row, slowdowns
from pipelines.dated.night_schedules import (
    COMPARED_DAYS,
    SCHEDULERS,
    against_the_champion,
    champion_answers,
    job_keys,
    recent_rows,
    served_schedules,
)
from pipelines.dated.registering import whole_accounting
from pipelines.dated.simulate import keep_schedules
from pipelines.dated.stages import PRIOR, WEIGHING, read_history
from pipelines.dated.train import Incumbent, incumbent, retrain, served_by
from pipelines.report.night import Night, alarms, render_index, render_night
from pipelines.storage.lake import Lake
from pipelines.storage.publishing import begin_night
from pipelines.storage.versions import Versions
from pipelines.workflows.progress import report_progress
from sim.schedule import Schedule

if TYPE_CHECKING:
    from models.registry.tracking import Tracking

NO_COMPARISON = "nothing was submitted in the last days"


@dataclass(frozen=True)
class NightConfig:
    """The settings of a night, apart from its rule.

    By ``schedulers`` a challenger is judged, too; those ``weighing`` distributions are simulated with the champion alone.
    """

    seed: int = 0
    schedulers: tuple[str, ...] = SCHEDULERS
    weighing: tuple[str, ...] = WEIGHING
    keep: Keep = field(default_factory=Keep)


@dataclass
class Memo:
    """A cache for several nights in one process: trained and loaded models; may be empty."""

    models: Models = field(default_factory=dict)
    champions: dict[str, Method] = field(default_factory=dict)


@contextmanager
def night_stage(versions: Versions, draft: str, label: str, stage: str) -> Iterator[None]:
    """Note in the draft how far the night ``label`` is, and on errors where they happened."""
    versions.note(draft, made_by=f"the night {label}", stage=stage)
    with told_in(stage, label, versions.name):
        yield


@contextmanager
def told_in(stage: str, label: str, name: str) -> Iterator[None]:
    """Note on errors in which stage of which night they happened."""
    try:
        yield
    except Exception as error:
        error.add_note(f"night {label} of {name}, while {stage}")
        raise


@dataclass
class Tonight:
    """The stages of a night of ``trace`` that a run does not have, or has otherwise.

    ``lake`` has the night's draft. What the night knows is read from there once.
    """

    lake: Lake
    store: Tracking
    trace: str
    label: str
    run_id: str = ""
    config: NightConfig = NightConfig()
    memo: Memo = field(default_factory=Memo)
    notes: list[str] = field(default_factory=list)

    @property
    def model(self) -> str:
        return f"runtime-{self.trace}"

    @cached_property
    def clean(self) -> CleanTrace:
        """Return the accounting that the night sees."""
        return self.lake.read_clean(self.trace)

    @cached_property
    def known(self) -> Accounting:
        return whole_accounting(self.clean, read_history(self.lake, self.clean))

    def before(self, label: str) -> pd.DataFrame:
        """Return the table ``nights`` without the night ``label``."""
        if not self.lake.has("nights", self.trace):
            return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in COLUMNS.items()})
        nights = self.lake.read("nights", self.trace)[0]
        return nights[nights["night"] != label]

    def stage(self, name: str):
        """Return the context of a stage (:func:`night_stage`)."""
        return night_stage(self.lake.versions(self.model), self.lake.draft, self.label, name)

    def begin(self) -> None:
        """Finish or discard what dead processes left; the trace's lock must be held."""
        told = begin_night(self.lake, self.store, self.model)
        self.notes += [f"{each[0].upper()}{each[1:]}." for each in told]

    def retrain(self) -> None:
        """Predict as served, train, judge and register; look for drift.

        Writes ``served`` and ``runtime_model``, whose metadata hold what decided the night, and names the versions to serve.
        """
        lake, clean, known = self.lake, self.clean, self.known
        with self.stage("predicting as served"):
            if ahead := int((clean.rejected_jobs["rule"] == AHEAD).sum()):
                what = (
                    "job ahead of the accounting's own clock was" if ahead == 1 else "jobs ahead of the accounting's own clock were"
                )
                self.notes.append(f"{ahead:,} {what} left out (rejected_jobs, {AHEAD}).")
            changed = self._compare_with_before()
            present = incumbent(self.store, self.trace)
            served = self._served(known, present, self.before(self.label), self.store)
            lake.write("served", self.trace, served, {"generated": clean.generated})
        with self.stage("retraining"):
            trained_until = present.trained_until_s if present else 0
            made = retrain(
                clean,
                known,
                served,
                present,
                self.store,
                seed=self.config.seed,
                models=self.memo.models,
                tags={"dagster_run_id": self.run_id, "night": self.label, "history_starts": read_history(lake, clean).source},
                schedules=against_the_champion(
                    clean,
                    known,
                    served,
                    trained_until,
                    self.config.schedulers,
                ),
            )
            if made.promoted:
                self.memo.champions[made.trained_version] = made.trained[made.method]
        with self.stage("looking for drift"):
            local = local_clock_s(known.jobs["submit_s"].to_numpy(np.int64), clean.origin_unix_s, clean.timezone)
            learned = present.trained_until_s if present is not None and present.method is not None else known.until_s
            drift = input_drift(clean.jobs, known.end_s, local, known.until_s, learned, JUDGED_DAYS * DAY_S)
            performance = pd.DataFrame()
            if made.found is not None:
                performance = performance_drift(dict(made.served_now), dict(made.served_then), made.found.jobs)
            row = ledger_row(self.label, clean, known.until_s, changed, present, made, alarms(drift, performance))
            if not len(recent_rows(known, 0)):
                self.notes.append(f"No comparison: {NO_COMPARISON}.")
            marks = {
                "nothing_new": made.nothing_new,
                "until_s": max(known.until_s - COMPARED_DAYS * DAY_S, 0),
                "until_note": f"The last {COMPARED_DAYS} days before the night are compared.",
                "simulated": made.champion,
                "why": made.why,
                "night": {
                    "row": row,
                    "checks": dict(made.checks),
                    "notes": self.notes,
                    "drift": drift.to_dict("records"),
                    "performance": performance.to_dict("records"),
                },
            }
            lake.write_for(clean, "runtime_model", made.registered, marks)
            served_from_now = {"champion": made.champion, "challenger": made.challenger}
            lake.name_models(self.model, {**lake.models(self.model), **served_from_now})

    def simulate(self) -> tuple[list[Schedule], pd.DataFrame]:
        """Simulate the last days with the champion's answers as served, and with requests.

        Writes ``schedules`` and ``prediction_quality``; returns schedules and quality.
        """
        clean, known = self.clean, self.known
        _, marks = self.lake.read_for(clean, "runtime_model")
        served, _ = self.lake.read("served", self.trace)
        rows, made = recent_rows(known, 0), []
        if len(rows):
            stand_in = marks["night"]["row"]["method"] or next(iter(TRAINERS))
            answers = {CHAMPION: champion_answers(served, stand_in)}
            made = [
                *served_schedules(clean, known, rows, answers, served, self.config.schedulers, named=("requested",)),
                *served_schedules(clean, known, rows, answers, served, self.config.weighing, named=(PRIOR,)),
            ]
        model = {"version": marks["simulated"], "method": marks["night"]["row"]["method"], "why": marks["why"]}
        date = Split(marks["until_s"], marks["until_note"])
        quality = keep_schedules(self.lake, clean, made, date, model, first_s=date.at_s)
        return made, quality

    def report(self) -> Night:
        """Write the row of the night and its pages; return what they show.

        The report of the trace is the page of the night.
        """
        clean, pages = self.clean, f"nights/{self.trace}"
        registered, marks = self.lake.read_for(clean, "runtime_model")
        comparison, _ = self.lake.read_for(clean, "comparison")
        told = marks["night"]
        row = told["row"] | slowdowns(comparison)
        label = row["night"]
        nights = pd.concat([self.before(label), pd.DataFrame([row])], ignore_index=True).astype(COLUMNS)
        self.lake.write("nights", self.trace, nights, {"generated": clean.generated})
        folder = self.lake.root.parent / "reports" / pages
        report = folder / f"{label}.html"
        result = Night(clean, row, nights, registered, marks["nothing_new"], told, comparison, report)
        page = render_night(result, self.run_id)
        self.lake.write_page(f"{pages}/{label}.html", self.model, page)
        self.lake.write_page(f"{self.trace}.html", self.model, page.replace('href="index.html"', f'href="{pages}/index.html"'))
        index = render_index(self.trace, nights, failures(folder), clean.generated)
        self.lake.write_page(f"{pages}/index.html", self.model, index)
        return replace(result, html=page)

    def _compare_with_before(self) -> tuple[int, int]:
        """Count new jobs, and former ones gone or changed (a changed job counts as both)."""
        readers, clean = Lake(self.lake.root), self.clean
        if not readers.has("jobs", self.trace):
            return len(clean.jobs), 0
        before = readers.read("jobs", self.trace)[0]  # perhaps of a format with fewer columns
        old, now = (pd.Series(_row_hashes(jobs)).value_counts() for jobs in (before, clean.jobs[before.columns]))
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


def refuse_shorter(lake: Lake, clean: CleanTrace, until_s: int) -> None:
    """Raise InputError for accounting that ends, at ``until_s``, before the last night's."""
    before = lake.read("nights", clean.name)[0]["until_s"].max() if lake.has("nights", clean.name) else until_s
    if until_s < before:
        raise InputError(
            f"{clean.source or clean.name}: ends {int(before) - until_s:,} s before that of the last night: accounting is missing"
        )


def failures(folder: Path) -> list[str]:
    """Return one line for each night that failed, from the files beside the pages."""
    return [path.read_text(encoding="utf-8").strip() for path in sorted(folder.glob("*.failed.txt"))]


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
