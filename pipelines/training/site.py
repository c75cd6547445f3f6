"""The Slurm site of a trace and its jobs as of a date: what a run and a night replay."""

from datetime import UTC, date, datetime
from typing import NamedTuple

import pandas as pd

from features.clock import DAY_S
from pipelines import code_version, software
from pipelines.readers.catalogue import load_catalogue
from pipelines.readers.slurm.jobs import SlurmJobs
from pipelines.report import parity as parity_page
from pipelines.studies.parity import NIGHTLY_REPLAYS, REPLAYS, Parity, read_site_jobs
from pipelines.studies.parity import measure as measure_parity
from pipelines.studies.progress import report_progress
from pipelines.training.ledger import BEGINS
from pipelines.training.work import Work
from sim.site.explained import by_day, fall
from sim.slurm.site import Site

NO_SITE = "no site is stated: key machine of the trace in queuecast.toml"
REPLAYED_DAYS, LOOKED_AT_DAYS = 30, 60
MOST_JOBS = 20_000
"""Max number of replayed jobs, the last ones."""


class DatedSite(NamedTuple):
    """A site, its ``jobs`` as accounting had them at ``at_s`` (Unix), and its time zone."""

    site: Site
    jobs: SlurmJobs
    at_s: int
    timezone: str

    def last(self, days: int) -> SlurmJobs:
        """Return the jobs that waited or ran in the last days, at most :data:`MOST_JOBS`."""
        table, from_s = self.jobs.table, self.since(days)
        waits = (table["start_s"] < 0) & ((table["cancel_s"] < 0) | (table["cancel_s"] >= from_s))
        present = (table["submit_s"] >= from_s) | (table["end_s"] >= from_s) | waits
        return self.jobs._replace(table=table[present].tail(MOST_JOBS).reset_index(drop=True))

    def since(self, days: int) -> int:
        """Return the Unix second at which the last ``days`` days begin."""
        return self.at_s - days * DAY_S


def site_of(trace: str, night: str = "") -> DatedSite | None:
    """Return the site that the catalogue names for a trace with its jobs; None without one.

    The jobs are those as of ``night``, or all.
    """
    entry = load_catalogue().get(trace)
    if entry is None or entry.site is None:
        return None
    timezone = entry.timezone or "UTC"
    site, jobs = read_site_jobs(entry.path, entry.site, timezone)
    last = int(jobs.table[["submit_s", "end_s"]].to_numpy().max())
    begins = datetime.combine(date.fromisoformat(night), datetime.min.time(), UTC) + BEGINS if night else None
    at_s = last if begins is None else min(int(begins.timestamp()), last)
    return DatedSite(site, jobs._replace(table=_as_of(jobs.table, at_s)), at_s, timezone)


def _as_of(table: pd.DataFrame, at_s: int) -> pd.DataFrame:
    """Return the jobs as accounting had them at ``at_s``: no later job, start or end."""
    table = table[table["submit_s"] <= at_s].reset_index(drop=True)
    waits = table["start_s"] > at_s
    return table.assign(
        start_s=table["start_s"].mask(waits, -1),
        end_s=table["end_s"].clip(upper=at_s).mask(waits, -1),
        nodes=table["nodes"].mask(waits, ""),
        **{name: table[name].mask(table[name] > at_s, -1) for name in ("cancel_s", "withdrawn_s")},
    )


def keep_parity(work: Work, site: DatedSite) -> tuple[Parity, str]:
    """Replay the last days beside the record; write the table and page of ``parity``.

    Returns the measured differences, and the alarm if the rules explain the record less than before, else "".
    """
    replays = NIGHTLY_REPLAYS if work.night else REPLAYS
    measured = measure_parity(site.site, site.last(REPLAYED_DAYS), replays, 0, report_progress)
    days = by_day(site.site, site.last(LOOKED_AT_DAYS).runs, site.since(LOOKED_AT_DAYS), site.timezone)
    alarm, clean = "", work.lake.read_clean(work.name)
    if (fell := fall(days)) is not None:
        alarm = f"decisions explained fell from {fell.before:.0%} to {fell.after:.0%} on {fell.day}: "
        alarm += "were settings, limits or nodes changed that day?"
    work.lake.write_for(clean, "parity", days, {"answer": parity_page.answer(measured), "fall": alarm})
    settings = {"trace": work.name, "site": site.site.name, "replays": replays, "seed": 0}
    page = parity_page.render_parity(measured, {**settings, "code": code_version(), "software": software()})
    work.lake.write_page(f"{work.name}-parity.html", work.subject, page)
    return measured, alarm
