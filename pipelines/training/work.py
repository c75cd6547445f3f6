"""The work of a run or night: its date, where it reads and writes, and its publication.

The date sets the jobs to learn from, simulate and judge. Models learn from jobs that had ended by it. A run has a date
inside its trace; it simulates later submissions, and judges the registered model by them. A night has the end of its
accounting; it simulates the last days again with the answers served.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from features.clock import DAY_S, WEEK_S, Clock, local_clock_s
from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from models.registry.candidates import Accounting
from models.registry.policy_registration import POLICY
from models.registry.tracking import Tracking
from pipelines.lake.publishing import finish, publish
from pipelines.lake.registry import pruned
from pipelines.lake.tables import Lake
from pipelines.lake.versions import Published

LEFT_SHARE, LEFT_WEEKS = 1 / 3, 4
"""By default a run leaves the last third of the trace's time to judge, and at least this number of weeks."""
COMPARED_DAYS = 30
"""Days of submissions that a night simulates, also before a first night."""


@dataclass(frozen=True)
class Cutoff:
    """The times by which a run or night of ``subject`` learns, simulates and judges.

    It learns from jobs that had ended by ``until_s``, and judges jobs submitted from ``simulate_from_s`` on, both in
    seconds from the trace's origin. ``note`` says why these are not the default, else it is empty. ``night`` is the day
    of a night, or "" for a run. A run replays jobs submitted from ``replay_from_s`` on.
    """

    subject: str
    until_s: int
    simulate_from_s: int
    note: str = ""
    night: str = ""
    replay_from_s: int = 0

    @property
    def follows(self) -> bool:
        """Tell whether jobs after the date are simulated, and not those before."""
        return self.simulate_from_s >= self.until_s

    @property
    def first_s(self) -> int | None:
        """Return the first submission that is replayed; None for the whole trace.

        The judged jobs are simulated from the state at the end of the replay, in which learners have learned.
        """
        return (self.replay_from_s or None) if self.follows else self.simulate_from_s

    def judged(self, submit_s: np.ndarray) -> np.ndarray:
        """Return rows of the jobs that are judged, of those submitted at ``submit_s``."""
        return np.flatnonzero(submit_s >= self.simulate_from_s)

    def replayed(self, clean: CleanTrace) -> CleanTrace:
        """Return the trace with the jobs that are replayed."""
        if self.first_s is None:
            return clean
        return replace(clean, jobs=clean.jobs[clean.jobs["submit_s"] >= self.first_s].reset_index(drop=True))

    @property
    def marks(self) -> dict[str, Any]:
        """Return the value as the metadata of a table hold it, for :func:`cutoff_of`."""
        return {"dated": asdict(self)}


def cutoff_of(marks: Mapping[str, Any]) -> Cutoff:
    """Return the value that a table's metadata hold."""
    return Cutoff(**marks["dated"])


def choose_cutoff(
    clean: CleanTrace, end_s: np.ndarray, *, night: str = "", until: str = "", warm_up_weeks: int | None = None
) -> Cutoff:
    """Return the date of a night, or of a run, of ``clean``.

    Its jobs ended at ``end_s``; ``night`` is the day of a night. A night learns from all jobs and simulates the last
    :data:`COMPARED_DAYS`. A run divides the trace at ``until`` if that is given, else at a midnight that leaves
    :data:`LEFT_SHARE` and :data:`LEFT_WEEKS`. A trace too short for that leaves its last third, however little, or the jobs
    submitted after the first end of a job. A run replays ``warm_up_weeks`` before that, or everything. Raises InputError if no
    job has ended by the date, or none is submitted after it.
    """
    subject, begin_s = f"runtime-{clean.name}", min(int(clean.jobs["submit_s"].iloc[0]), 0)
    if night:
        last = int(end_s.max())
        note = f"The last {COMPARED_DAYS} days before the night are compared."
        return Cutoff(subject, last, max(last - COMPARED_DAYS * DAY_S, begin_s), note, night)
    at_s, note = _divided(clean, end_s, until)
    from_s = begin_s if warm_up_weeks is None else max(at_s - warm_up_weeks * WEEK_S, begin_s)
    return Cutoff(subject, at_s, at_s, note, replay_from_s=from_s)


def as_of(clean: CleanTrace, records: Accounting, at_s: int) -> tuple[CleanTrace, Accounting]:
    """Return a trace and its accounting with only the jobs that had ended by ``at_s``."""
    rows = records.ended(at_s)
    if len(rows) == len(clean.jobs):
        return clean, records
    jobs = ended_jobs(clean, rows)
    return replace(clean, jobs=jobs), replace(
        records, jobs=jobs, start_s=records.start_s[rows], features=records.features.iloc[rows]
    )


def ended_jobs(clean: CleanTrace, rows: np.ndarray) -> pd.DataFrame:
    """Return the jobs ``rows`` of a trace as a table of their own."""
    jobs = clean.jobs.iloc[rows].reset_index(drop=True)
    for name in jobs.select_dtypes("category"):
        jobs[name] = jobs[name].cat.remove_unused_categories()
    return jobs


def _divided(clean: CleanTrace, end_s: np.ndarray, until: str) -> tuple[int, str]:
    """Return the date and note of a run for :func:`choose_cutoff`, with the same errors."""
    submit = clean.jobs["submit_s"].to_numpy(np.int64)
    if until:
        at_s = _second(clean, until)
        ended, left = int((end_s <= at_s).sum()), int((submit >= at_s).sum())
        if not ended or not left:
            raise InputError(
                f"{clean.name}: by {until} {ended:,} jobs have ended and {left:,} are submitted from then on: "
                f"give a date between {date_of(clean, int(end_s.min()))} and {date_of(clean, int(submit[-1]))}"
            )
        return at_s, ""
    first, last = int(submit[0]), int(submit[-1])
    left_s = max(int((last - first) * LEFT_SHARE), LEFT_WEEKS * WEEK_S)
    note = ""
    if last - first < 2 * left_s and left_s > (last - first) * LEFT_SHARE:
        left_s = int((last - first) * LEFT_SHARE)
        note = f"The trace covers {(last - first) / DAY_S:.1f} days, too few to leave {LEFT_WEEKS} weeks and learn from as many: its last third is left."
    at_s = _midnight_before(clean.clock, last - left_s)
    if not (end_s <= at_s).any():  # as of a trace of a day, whose midnight comes before its jobs
        at_s = last - left_s
    if not (end_s <= at_s).any():
        at_s = int(end_s.min())
        note = "No job has ended by two thirds of the trace's time: everything submitted after the first end is left."
    if not (submit >= at_s).any():
        raise InputError(
            f"{clean.name}: every job is submitted before the first one ends, so no model can learn before it predicts; queuecast simulate replays this trace"
        )
    return at_s, note


def midnights(clean: CleanTrace, at_s: int) -> list[int]:
    """Return the instants of nightly snapshots for jobs submitted from ``at_s`` on."""
    instants, last = [at_s], int(clean.jobs["submit_s"].iloc[-1])
    while (following := clean.clock.next_midnight(instants[-1])) <= last:
        instants.append(following)
    return instants


def date_of(clean: CleanTrace, at_s: int) -> str:
    """Return a second of the trace as its site's wall clock shows it, if it has a clock."""
    if clean.origin_unix_s is None:
        return f"second {at_s}"
    local = local_clock_s(np.array([at_s]), clean.origin_unix_s, clean.timezone)[0]
    return f"{pd.Timestamp(int(local), unit='s'):%Y-%m-%d %H:%M}".removesuffix(" 00:00")


def _midnight_before(clock: Clock, at_s: int) -> int:
    """Return the last midnight at or before ``at_s``."""
    midnight = clock.next_midnight(at_s - 2 * DAY_S)
    while (following := clock.next_midnight(midnight)) <= at_s:
        midnight = following
    return midnight


def _second(clean: CleanTrace, until: str) -> int:
    """Return a date of the site's wall clock, or a second of the trace, as a second."""
    if until.strip().isdecimal():
        return int(until)
    try:
        moment = datetime.fromisoformat(until)
    except ValueError as error:
        raise InputError(f"{until!r} is neither a date such as 1997-05-01 nor a second of the trace") from error
    if clean.origin_unix_s is None:
        raise InputError(f"{clean.name} does not say on what date it begins: give a second of the trace instead of {until}")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=ZoneInfo(clean.timezone or "UTC"))
    return int(moment.timestamp()) - clean.origin_unix_s


@dataclass(frozen=True)
class Work:
    """Where a run or night of ``subject`` reads and writes: a lake and a registry.

    ``night`` is the day of a night, "" for a run. ``run_id`` is the Dagster run that versions record.
    """

    lake: Lake
    store: Tracking
    subject: str
    night: str = ""
    run_id: str = ""

    @property
    def name(self) -> str:
        """Return the trace or system."""
        return self.subject.partition("-")[2]

    @property
    def tags(self) -> dict[str, str]:
        """Return the tags that record on a version which run or night registered it."""
        tags = {RUN: self.run_id, "night": self.night}
        return {name: value for name, value in tags.items() if value}

    @property
    def made_by(self) -> str:
        """Return the origin that a publication records: a night or a run."""
        return f"the night {self.night}" if self.night else f"run {self.run_id}"

    def begin(self) -> list[str]:
        """Set the aliases of what was published before, if they were lost; return a line for each.

        The caller must hold the lock of the subject.
        """
        lines = finish(self.lake, self.store, self.subject)
        for line in lines:
            print(line, file=sys.stderr)
        return lines

    def publish(self, accepted: Callable[[str], bool] | None = None) -> Published:
        """Publish what this run or night, or all ``accepted`` makers, have made.

        The champions of learned orders and of models of starts then follow what was published. The caller must hold the
        lock of the subject.
        """
        published = publish(self.lake, self.subject, self.made_by, self.store, accepted)
        if self.subject.startswith("runtime-"):
            seen = self.lake.published().at_once(self.subject)
            point_champions(seen, self.name, self.store)
        return published

    def tidy(self) -> str:
        """Remove old registered versions; return how many, in words.

        What the pointer's versions or the draft name stays, wherever a person moved the aliases.
        """
        versions = self.lake.versions(self.subject)
        models = [versions.draft().models, *(version.models for version in versions.kept())]
        named = {number for by_alias in models for number in by_alias.values()}
        return pruned(self.store, self.subject, named)


RUN = "dagster_run_id"
"""Tag of a version: the Dagster run that registered it."""


def point_champions(lake: Lake, trace: str, store: Tracking) -> None:
    """Point the aliases of ``policy-<trace>`` and ``start-<trace>`` to the published versions."""
    order = lake.read("learned_policy", trace)[1]["version"] if lake.has("learned_policy", trace) else ""
    serves = lake.read("start_model", trace)[1].get("serves", {}) if lake.has("start_model", trace) else {}
    pointed = [(POLICY.registered(trace), "champion", order)]
    pointed += [(f"start-{trace}", alias, number) for alias, number in serves.items()]
    for model, alias, number in pointed:
        if number:
            store.client.set_registered_model_alias(model, alias, number)
