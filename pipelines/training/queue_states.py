"""States of a trace's queue before a date and, for a run, after it, as a table.

Questions are about single jobs, and about the whole queue at chosen moments. Snapshots that a site kept list all
waiting jobs, also those that never started. A Slurm site's accounting gives the queue at other moments, and its own
scheduler runs ahead from all moments, as in ``queuecast when``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from features.clock import DAY_S
from features.jobs.cleaning import CleanTrace
from features.jobs.schema import recorded_end_s
from models.packed.queue_state import FEATURES
from models.packed.start_distribution import SCENARIOS
from models.packed.start_predictor import EASY, SLURM, STARTS
from models.registry.candidates import Accounting
from models.starts.model import LEARNED, Questions
from pipelines.lake.tables import Lake
from pipelines.readers.catalogue import load_catalogue
from pipelines.readers.queue_file import is_held, kept_queues, queue_at, read_queue
from pipelines.studies.when import Record, queue_of, record_of
from pipelines.training.site import site_of
from pipelines.training.work import Cutoff
from sim.simulation import FROM_RECORD
from sim.slurm.site import Site
from sim.starts.ahead import Ahead
from sim.starts.closings import closed, drained
from sim.starts.questions import PLAN, as_table, ask, from_states, moments, queued

EVERY_S, DAYS, LATER = 3 * 3_600, 30, 100
"""Seconds between moments, days before the date that have moments, and max number of moments after a run's date."""
MOST, LONG = 8, 100
"""Max number of jobs asked about in a queue of up to ``LONG`` waiting jobs. A longer queue has more, at fewer
moments."""


@dataclass(frozen=True)
class Moments:
    """A record, and snapshots of its queue by Unix second.

    Some are ``kept`` in files, the others made from ``accounting``. ``number`` has canonical numbers by a job's id in
    the queue.
    """

    record: Record
    at_s: tuple[int, ...]
    kept: Mapping[int, Path]
    number: Mapping[str, int]
    accounting: pd.DataFrame | None = None

    @property
    def site(self) -> Site | None:
        """Return the Slurm site whose scheduler runs ahead, if any."""
        return self.record.site

    def snapshot(self, at_s: int) -> pd.DataFrame:
        """Return the queue at a second, as in :class:`pipelines.readers.queue_file.QueueFile`."""
        if at_s in self.kept:
            return read_queue(self.kept[at_s], self.record.clean.timezone).jobs
        assert self.accounting is not None
        return queue_at(self.accounting, at_s)

    def wanted(self) -> Iterator[tuple[int, list[int]]]:
        """Yield Unix seconds, each with the canonical numbers of the jobs to ask about.

        These are waiting jobs, including the one submitted last.
        """
        for at_s in self.at_s:
            queue = self.snapshot(at_s)
            waits = queue["job_id"][~queue["runs"].astype(bool) & ~is_held(queue)].tolist()
            fewer = min(1 << max(len(waits) // LONG, 1).bit_length() - 1, MOST)
            if waits and at_s // EVERY_S % fewer == 0:
                chosen = np.unique(np.linspace(0, len(waits) - 1, min(MOST * fewer, len(waits))).astype(np.int64))
                yield at_s, [self.number[waits[at]] for at in chosen if waits[at] in self.number]

    def asked(
        self, wanted: pd.MultiIndex, origin_s: int, ahead: str, seed: int, progress: Callable[[int, int], object]
    ) -> pd.DataFrame:
        """Return the table of the questions ``wanted``, by job and second of the trace.

        ``origin_s`` is the Unix time of second 0. On one pool, the scheduler ``ahead`` runs the queues ahead.
        """
        record, tables, jobs_at = replace(self.record, ahead=ahead), [], wanted.to_frame(index=False).groupby("at_s")["job_id"]
        for done, second in enumerate(wanted.unique("at_s").tolist()):
            jobs, at_s = jobs_at.get_group(second), second + origin_s
            queue = queue_of(record, self.snapshot(at_s), at_s - (self.record.clean.origin_unix_s or 0), SCENARIOS, seed)
            number = np.array([self.number.get(job_id, -1) for job_id in queue.job_id])
            rows = queue.waiting[np.isin(number[queue.waiting], jobs)]
            tables.append(as_table(queue.questions(rows), number).assign(at_s=second))
            progress(done, len(jobs_at))
        return pd.concat(tables).set_index(list(wanted.names))


def moments_of(clean: CleanTrace, records: Accounting, date: Cutoff) -> Moments | None:
    """Return the moments of a trace before a date and, for a run, after it.

    Return None if the catalogue names neither a Slurm site nor kept queues. Raises InputError if their files cannot be
    read.
    """
    entry, site, origin_s = load_catalogue().get(clean.name), None, clean.origin_unix_s or 0
    if entry is None or not (entry.machine or entry.queues):
        return None
    site = site_of(clean.name, date.night)
    if site is None and not entry.queues:
        return None
    until_s, last_s = date.until_s + origin_s, int(clean.jobs["submit_s"].iloc[-1]) + origin_s
    kept = kept_queues(entry.queues_path) if entry.queues else {}
    times = np.array(
        [*kept, *(site.jobs.table["submit_s"] if site is not None else ())], np.int64
    )  # in a slot, kept moments come first
    times = times[(times >= until_s - DAYS * DAY_S) & (times <= last_s if date.follows else times < until_s)]
    chosen = np.sort(times[np.unique(times // EVERY_S, return_index=True)[1]])
    later = chosen[chosen >= until_s]
    later = later[np.unique(np.linspace(0, len(later) - 1, min(LATER, len(later))).astype(np.int64))]
    at_s = tuple(np.concatenate((chosen[chosen < until_s], later)).tolist())
    if site is None:
        names = clean.jobs["job_id"].tolist()
        return Moments(Record(clean, records.start_s), at_s, kept, {str(job_id): job_id for job_id in names})
    table = site.jobs.table
    return Moments(
        record_of(site.site, site.jobs, site.timezone), at_s, kept, dict(zip(table["job_id"], table["number"], strict=True)), table
    )


TABLE = "queue_states"
Progress = Callable[[int, int], object]
FEWEST = 500
"""Min number of questions whose jobs have started. With fewer, nothing is learned."""
MOST_JUDGED = 1_000
"""Max number of questions after a run's date, evenly spread."""
_WARM_JOBS = 3_000
"""Number of jobs before the first question from which runtimes are predicted."""


class QueueQuestions(NamedTuple):
    """Questions of a trace, by time.

    ``start_s`` int64 [jobs] are the starts of all its jobs; ``ahead`` is what ran ahead: EASY, Slurm, or the text of a
    pool with closings.
    """

    questions: Questions
    start_s: np.ndarray
    ahead: str = EASY


def keep_states(lake: Lake, clean: CleanTrace, records: Accounting, date: Cutoff, progress: Progress, seed: int = 0) -> str:
    """Write the table ``queue_states`` and return ""; or write nothing and return the reason.

    It has the last ``LEARNED`` questions before the date and, for a run, ``MOST_JUDGED`` later ones. Kept snapshots of
    the queue add those of :mod:`pipelines.training.queue_states`; a Slurm site has only these. Questions of an earlier
    version are reused if their moments are before any job that is new since then.
    """
    why, rows, origin_s = "", rows_by_number(clean.jobs), clean.origin_unix_s or 0
    moments, single, whole = None, _none(), _none()
    if records.source != FROM_RECORD:
        why = "waits are not recorded, so there is nothing to learn starts from"
    else:
        moments = moments_of(clean, records, date)
        if moments is None or moments.site is None:
            row, at = _wanted(clean, records.start_s, date)
            single = pd.MultiIndex.from_arrays([clean.jobs["job_id"].to_numpy()[row], at], names=single.names)
            single = single[single.isin(rows.index, level=0)]
        if moments is not None:
            pairs = [(job, at - origin_s) for at, jobs in moments.wanted() for job in jobs if job in rows.index]
            whole = pd.MultiIndex.from_tuples(pairs, names=single.names).difference(single) if pairs else whole
        came = int((records.start_s[rows[single.append(whole).get_level_values(0)]] <= date.until_s).sum())
        if came < FEWEST:
            why = f"{came:,} question{'s' * (came != 1)} before the date came true: {FEWEST} are needed"
    if why:
        return why
    ahead = SLURM if moments is not None and moments.site is not None else _ahead(lake, clean, records.start_s, date)
    old, wanted = _kept_questions(lake, clean, records.start_s, {"seed": seed, "ahead": ahead}), single.append(whole)
    single, whole = (each[~each.isin(old.index)] for each in (single, whole))
    tables = [old[old.index.isin(wanted)]]
    if len(single):
        tables.append(_asked(clean, records.start_s, single, rows, ahead, seed, progress))
    if moments is not None and len(whole):
        tables.append(moments.asked(whole, origin_s, ahead, seed, progress))
    table = pd.concat([each for each in tables if len(each)]).loc[wanted].reset_index()
    table = table.iloc[np.lexsort((rows[table["job_id"]], table["at_s"]))].reset_index(drop=True)
    marks = {"why": "", "known": len(clean.jobs), "known_s": int(recorded_end_s(clean.jobs, records.start_s).max())}
    marks |= {"until_s": date.until_s, "seed": seed, "ahead": ahead, "asked_anew": len(single) + len(whole)}
    lake.write_for(clean, TABLE, table, marks)
    return ""


def _ahead(lake: Lake, clean: CleanTrace, start_s: np.ndarray, date: Cutoff) -> str:
    """Return what runs queues of a pool ahead: EASY, or the text of a pool with closings.

    A night keeps that of the previous table. So does a run, unless the jobs ended by its date keep to others.
    """
    marks: Mapping[str, Any] = _before(lake, clean)[1]
    before = marks.get("ahead", EASY)
    if marks["why"] or before == SLURM or marks.get("until_s", 0) > date.until_s:
        before = EASY
    elif date.night:
        return str(before)
    end_s = recorded_end_s(clean.jobs, start_s)
    pool = drained(clean.jobs, clean.procs, clean.clock, start_s, end_s, date.until_s, closed(before, clean.procs))
    return EASY if pool is None else pool.text


def rows_by_number(jobs: pd.DataFrame) -> pd.Series:
    """Return the row of each job by its number, without numbers that several rows share.

    Accounting lists a requeued job once for each of its runs.
    """
    return pd.Series(np.arange(len(jobs)), jobs["job_id"])[~jobs["job_id"].duplicated(keep=False).to_numpy()]


def _none() -> pd.MultiIndex:
    return pd.MultiIndex.from_arrays([np.arange(0), np.arange(0)], names=["job_id", "at_s"])


def _asked(
    clean: CleanTrace, start_s: np.ndarray, wanted: pd.MultiIndex, rows: pd.Series, ahead: str, seed: int, progress: Progress
) -> pd.DataFrame:
    """Return the table of questions about single jobs, by job and second, on one pool."""
    row, at = rows[wanted.get_level_values(0)].to_numpy(), wanted.get_level_values(1).to_numpy(np.int64)
    there = int((recorded_end_s(clean.jobs, start_s) > at.min()).argmax())  # runs or waits at the first question
    first = min(max(int(row.min()) - _WARM_JOBS, 0), there)
    some = replace(clean, jobs=clean.jobs.iloc[first:].reset_index(drop=True))
    start = start_s[first:]
    jobs = queued(some, start, recorded_end_s(some.jobs, start), seed)
    asked = ask(jobs, row - first, at, Ahead(clean.procs, seed=seed, pool=closed(ahead, clean.procs)), clean.clock, progress)
    return as_table(asked, some.jobs["job_id"].to_numpy()).set_index(list(wanted.names))


def _wanted(clean: CleanTrace, start_s: np.ndarray, date: Cutoff) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and seconds of the questions, by time."""
    submit = clean.jobs["submit_s"].to_numpy(np.int64)
    row, at = (each[-LEARNED:] for each in moments(submit, start_s, min(int(submit[0]), 0), date.until_s))
    if not date.follows:
        return row, at
    later = moments(submit, start_s, date.until_s, int(submit[-1]) + 1)
    chosen = np.unique(np.linspace(0, len(later[0]) - 1, min(MOST_JUDGED, len(later[0]))).astype(np.int64))
    return np.concatenate((row, later[0][chosen])), np.concatenate((at, later[1][chosen]))


def _kept_questions(lake: Lake, clean: CleanTrace, start_s: np.ndarray, made_with: dict[str, object]) -> pd.DataFrame:
    """Return the questions of an earlier version that are still valid, by job and second.

    At a Slurm site all are valid: its accounting also lists running and waiting jobs.
    """
    empty, (table, marks) = _empty(), _before(lake, clean)
    new = recorded_end_s(clean.jobs, start_s) > marks.get("known_s", -1)
    same = not marks["why"] and {**marks, **made_with, "known": int((~new).sum())} == marks
    if not same or list(table.columns) != list(empty.columns):
        table = empty
    elif made_with["ahead"] != SLURM:
        table = table[table["at_s"] < clean.jobs["submit_s"].to_numpy(np.int64)[new].min(initial=1 << 60)]
    return table.set_index(["job_id", "at_s"])


def _empty() -> pd.DataFrame:
    return pd.DataFrame(columns=["job_id", "at_s", *FEATURES, *STARTS, PLAN], dtype=np.float64)


def _before(lake: Lake, clean: CleanTrace) -> tuple[pd.DataFrame, Mapping[str, Any]]:
    """Return the published table and its metadata, or an empty one."""
    published = lake.published()
    return published.read(TABLE, clean.name) if published.has(TABLE, clean.name) else (_empty(), {"why": "none yet"})


def read_states(lake: Lake, clean: CleanTrace, records: Accounting) -> QueueQuestions:
    """Return the questions that :func:`keep_states` wrote."""
    table, marks = lake.read_for(clean, TABLE)
    row = rows_by_number(clean.jobs)[table["job_id"]].to_numpy(np.int64)
    return QueueQuestions(from_states(table, row), records.start_s, marks.get("ahead", EASY))
