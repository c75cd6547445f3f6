"""Questions about the whole queue of a trace at chosen moments.

Snapshots that a site kept list all waiting jobs, also those that never started. A Slurm site's accounting gives the queue at
other moments, and its own scheduler runs ahead from all moments, as in ``queuecast when``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from features.clock import DAY_S
from features.jobs.cleaning import CleanTrace
from models.packed.start_distribution import SCENARIOS
from models.registry.accounting import Accounting
from pipelines.readers.catalogue import load_catalogue
from pipelines.readers.queue_file import is_held, kept_queues, queue_at, read_queue
from pipelines.studies.when import Record, queue_of, record_of
from pipelines.training.cutoff import Cutoff
from pipelines.training.site import site_of
from sim.slurm.site import Site
from sim.starts.questions import as_table

EVERY_S, DAYS, LATER = 3 * 3_600, 30, 100
"""Seconds between moments, days before the date that have moments, and max number of moments after a run's date."""
MOST, LONG = 8, 100
"""Max number of jobs asked about in a queue of up to ``LONG`` waiting jobs. A longer queue has more, at fewer moments."""


@dataclass(frozen=True)
class Moments:
    """A record, and snapshots of its queue by Unix second.

    Some are ``kept`` in files, the others made from ``accounting``. ``number`` has canonical numbers by a job's id in the queue.
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

    Return None if the catalogue names neither a Slurm site nor kept queues. Raises InputError if their files cannot be read.
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
