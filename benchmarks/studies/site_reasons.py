"""How often the reason that Queuecast gives for a wait is the one that slurmctld logged.

    python -m benchmarks.studies.site_reasons FOLDER

FOLDER has, for each run NAME, ``NAME.sacct.txt``, ``NAME.slurmctld.log.gz`` (``SlurmctldDebug=debug2``) and ``sites/NAME``.
Just before each pass that logs a reason, the record until then is asked why each waiting job waits. What comes later is hidden;
times are the log's, as accounting rounds them to seconds. The first of an array's tasks stands for it.
slurmctld logs the reason of jobs behind the first blocked one only, so none of ``resources``.
"""

from __future__ import annotations

import gzip
import re
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import click
import numpy as np
import pandas as pd

from pipelines.readers.slurm.slurmctld_log import read_phases
from pipelines.studies.parity import read_site_jobs
from sim.site.reasons import standings
from sim.slurm.phases import LEAD_S
from sim.slurm.site import Site
from sim.starts.reasons import class_of

_TIME = re.compile(r"\[(\S+)\] ")
_PASS = re.compile(r"debug:  sched: Running job scheduler")
_LOGGED = re.compile(r"sched: JobId=(\d+)(?:_(\S+?))?\.? unable to schedule .*(?:New-| scheduling )Reason=(\w+)")
_STARTED = re.compile(r"(?:sched: Allocate|sched/backfill: _start_job: Started) JobId=(\d+(?:_\d+)?)")
_ENDED = re.compile(r"_job_complete: JobId=(\d+(?:_\d+)?)(?:\(\d+\))? done")
_BEFORE_S, _TOGETHER_S = 0.001, 0.2
"""Seconds before a pass at which it is asked, and those within which a pass logs its reasons."""


class Logged(NamedTuple):
    """A log: (number, task, class) of waiting jobs by the second of a pass, and when jobs started and ended, by ``job_id``."""

    reasons: dict[float, list[tuple[str, str, str]]]
    starts: dict[str, float]
    ends: dict[str, float]


def read_log(log: Path) -> Logged:
    """Read the reasons, starts and ends in a log of slurmctld."""
    logged, began = Logged(defaultdict(list), {}, {}), 0.0
    with gzip.open(log, "rt") as lines:
        for line in lines:
            if not (time := _TIME.match(line)):
                continue
            if not any(form.search(line) for form in (_PASS, _LOGGED, _STARTED, _ENDED)):
                continue
            second = datetime.fromisoformat(time[1]).replace(tzinfo=ZoneInfo("UTC")).timestamp()
            if _PASS.search(line):
                began = second
            elif entry := _LOGGED.search(line):
                began = began if second - began < _TOGETHER_S else second
                kind = "reservation" if "May be reserved" in line else class_of(entry[3]) or entry[3]
                logged.reasons[began].append((entry[1], entry[2] or "", kind))
            elif entry := _STARTED.search(line):
                logged.starts[entry[1]] = second
            elif entry := _ENDED.search(line):
                logged.ends[entry[1]] = second
    return logged


def seen_at(jobs: pd.DataFrame, submitted_s: np.ndarray, log: Logged, now_s: float) -> pd.DataFrame:
    """Return the jobs that are submitted by a second, with starts and ends by then."""
    there = jobs[submitted_s <= now_s].reset_index(drop=True)
    times = {}
    for name, logged in (("start_s", log.starts), ("end_s", log.ends)):
        recorded = zip(there["job_id"].astype(str), there[name], strict=True)
        second = np.array([logged.get(job_id, float(value)) for job_id, value in recorded])
        times[name] = np.where((second >= 0) & (second <= now_s), second, np.nan)
    cancelled = {name: there[name].where(there[name] <= now_s, -1) for name in ("cancel_s", "withdrawn_s")}
    return there.assign(**times, **cancelled)


def compared(site: Site, jobs: pd.DataFrame, log: Path) -> pd.DataFrame:
    """Return ``second job logged ours`` of each waiting job with a logged reason."""
    phases, logged, rows, before = read_phases(log, site, jobs), read_log(log), [], dict[str, str]()
    submitted_s, usage_s = jobs["submit_s"].to_numpy(np.float64) + phases.parts_s, float(jobs["submit_s"].min()) - LEAD_S
    for second, entries in logged.reasons.items():
        now_s = second - _BEFORE_S
        table = seen_at(jobs, submitted_s, logged, now_s)
        ours = standings(site, table, now_s, set(table["job_id"]), before=before, usage_s=usage_s, phases=phases)
        before, arrays = {job_id: each.why for job_id, each in ours.items()}, dict[str, str]()
        for job_id, kind in before.items():
            arrays.setdefault(job_id.partition("_")[0], kind)
        for number, task, kind in entries:
            name = f"{number}_{task}" if task else number
            rows.append((second, name, kind, before.get(name) or arrays.get(number, "does not wait")))
    return pd.DataFrame(rows, columns=["second", "job", "logged", "ours"])


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(folder: Path) -> None:
    """Print the agreement of each run, and the confusion of classes over all."""
    every = []
    for log in sorted(folder.glob("*.slurmctld.log.gz")):
        name = log.name.removesuffix(".slurmctld.log.gz")
        place = folder / "sites" / name
        site, jobs = read_site_jobs(folder / f"{name}.sacct.txt", place if place.exists() else folder / "sites" / name[:-2], "UTC")
        table = compared(site, jobs.table, log)
        click.echo(f"{name}: {(table['logged'] == table['ours']).mean():.1%} of {len(table):,}")
        every.append(table)
    table = pd.concat(every)
    click.echo(f"all: {(table['logged'] == table['ours']).mean():.1%} of {len(table):,}")
    click.echo(pd.crosstab(table["logged"], table["ours"]).to_string())


if __name__ == "__main__":
    main()
