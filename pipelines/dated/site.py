"""The Slurm site of a trace and its jobs as of a date: what a run and a night replay."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from features.clock import DAY_S
from features.jobs.cleaning import CleanTrace
from features.jobs.schema import fingerprint
from pipelines.dated.replay import BEGINS
from pipelines.ingest.slurm_jobs import SlurmJobs
from pipelines.ingest.slurm_site import is_site
from pipelines.report.site_night import SiteNight
from pipelines.sources.catalogue import load_catalogue
from pipelines.storage.lake import Lake
from pipelines.workflows.parity import read_site_jobs
from sim.slurm.site import Site

REPLAYED_DAYS, LOOKED_AT_DAYS = 30, 60
MOST_JOBS = 20_000
"""Max number of replayed jobs, the last ones."""


class Dated(NamedTuple):
    """A site, its ``jobs`` as accounting had them at ``at_s`` (Unix), and its time zone.

    ``machine`` is the folder of its files.
    """

    site: Site
    jobs: SlurmJobs
    at_s: int
    timezone: str
    machine: Path

    def last(self, days: int) -> SlurmJobs:
        """Return the jobs that waited or ran in the last days, at most :data:`MOST_JOBS`."""
        table, from_s = self.jobs.table, self.since(days)
        waits = (table["start_s"] < 0) & ((table["cancel_s"] < 0) | (table["cancel_s"] >= from_s))
        there = (table["submit_s"] >= from_s) | (table["end_s"] >= from_s) | waits
        return self.jobs._replace(table=table[there].tail(MOST_JOBS).reset_index(drop=True))

    def since(self, days: int) -> int:
        """Return the Unix second at which the last ``days`` days begin."""
        return self.at_s - days * DAY_S


def site_of(trace: str, night: str = "") -> Dated | None:
    """Return the site that the catalogue names for a trace with its jobs; None without one.

    The jobs are those as of ``night``, or all.
    """
    entry = load_catalogue()[trace]
    if not (entry.machine and is_site(entry.machine_path)):
        return None
    timezone = entry.timezone or "UTC"
    site, jobs = read_site_jobs(entry.path, entry.machine_path, timezone, entry.cluster)
    last = int(jobs.table[["submit_s", "end_s"]].to_numpy().max())
    begins = datetime.combine(date.fromisoformat(night), datetime.min.time(), UTC) + BEGINS if night else None
    at_s = last if begins is None else min(int(begins.timestamp()), last)
    return Dated(site, jobs._replace(table=_as_of(jobs.table, at_s)), at_s, timezone, entry.machine_path)


def _as_of(table: pd.DataFrame, at_s: int) -> pd.DataFrame:
    """Return the jobs as accounting had them at ``at_s``: no later job, start or end."""
    table = table[table["submit_s"] <= at_s].reset_index(drop=True)
    waits = table["start_s"] > at_s
    return table.assign(
        start_s=table["start_s"].mask(waits, -1),
        end_s=table["end_s"].clip(upper=at_s).mask(waits, -1),
        nodes=table["nodes"].mask(waits, ""),
        cancel_s=table["cancel_s"].mask(table["cancel_s"] > at_s, -1),
    )


def site_night(lake: Lake, clean: CleanTrace) -> SiteNight | None:
    """Return the results of the site's stages for these jobs; None without results."""
    tables = [lake.read(table, clean.name) for table in ("parity", "what_if") if lake.has(table, clean.name)]
    if len(tables) < 2 or any(marks["jobs"] != fingerprint(clean.jobs) for _, marks in tables):
        return None
    (days, parity_marks), (changes, what_if_marks) = tables
    return SiteNight(days, parity_marks["answer"], parity_marks["fall"], changes, what_if_marks["answer"])
