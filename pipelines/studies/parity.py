"""The difference of replays of a Slurm site from its accounting, as values.

The command and the asset show them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from features.errors import InputError
from features.node_list import expand_nodes
from pipelines.readers.slurm.jobs import SlurmJobs, read_slurm_jobs
from pipelines.readers.slurm.lines import ABSENT
from pipelines.readers.slurm.site import load_site
from pipelines.readers.slurm.slurmctld_log import read_phases, with_log
from sim.site.computed import with_computations
from sim.site.explained import decisions
from sim.site.parity import BY, by_group, causes, fitted, open_replays, too_far, unexplained
from sim.slurm.site import Site
from sim.slurm.unbuilt import unbuilt

REPLAYS, NIGHTLY_REPLAYS = 40, 8
_SHOWN = 10
"""Max number of jobs that are shown with what may explain their waits."""
_NOTED_S = 2
"""Max seconds between the end of a drained node's last job and the note of its drain."""
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Parity:
    """The results of replays beside the record.

    ``summary`` holds the figures of ``queuecast parity --json``, with :func:`sim.site.parity.too_far` as ``far``;
    ``groups``, ``unexplained`` and ``causes`` are the tables of :mod:`sim.site.parity`. ``lost`` names jobs that some
    replay never starts; all figures leave them out.
    """

    site: Site
    jobs: SlurmJobs
    summary: dict[str, Any]
    groups: pd.DataFrame
    unexplained: pd.DataFrame
    causes: pd.DataFrame
    lost: tuple[str, ...]


def read_site_jobs(accounting: Path, machine: Path, timezone: str, log: Path | None = None) -> tuple[Site, SlurmJobs]:
    """Read a site and its accounting; raise InputError if the two do not belong together.

    What the site's folder does not have of release, reservations and outages comes from slurmctld's ``log``.
    """
    site = load_site(machine, timezone)
    if log is not None:
        site = with_log(log, site, timezone)
    jobs = read_slurm_jobs(accounting, site, timezone)
    if unknown := set(jobs.table["qos"]) - set(site.qos):
        raise InputError(
            f"{accounting}: has jobs of the QOS {min(unknown)}, but the site's qos.txt describes only {', '.join(site.qos)}: "
            "write it anew, by 'sacctmgr -P show qos > qos.txt'"
        )
    if unknown := {partition for text in set(jobs.table["partition"]) for partition in text.split(",")} - set(site.partitions):
        raise InputError(
            f"{accounting}: names the partition {min(unknown)}, which slurm.conf does not: is it newer than the jobs? known: "
            f"{', '.join(site.partitions)}"
        )
    names = {node.name for node in site.nodes}
    held = jobs.table.loc[jobs.table["start_s"] >= 0, "nodes"]
    elsewhere = [text for text in held.unique() if not names.issuperset(expand_nodes(text))]
    if count := int(held.isin(elsewhere).sum()):
        note = f"Jobs that ran on nodes that slurm.conf does not describe: {count:,}; the record is followed without those nodes."
        jobs = jobs._replace(notes=(*jobs.notes, note))
    return _with_drains(site, jobs.table), jobs._replace(
        notes=(*(f"{note}." for note in (*site.assumed, *site.notes, *unbuilt(site, jobs.table))), *jobs.notes)
    )


def _with_drains(site: Site, jobs: pd.DataFrame) -> Site:
    """Let each drain that ends a node's last job begin between the last start on the node and the next end there.

    Slurm notes a drain when the last job has ended. But the node takes no job after the order to drain, whose time is
    in no file: by the next end, at the latest, a waiting job would have shown that it had not come.
    """
    runs = jobs.loc[jobs["start_s"] >= 0, ["nodes", "start_s", "end_s"]]
    runs["nodes"] = runs["nodes"].map(lambda text: expand_nodes(text) if text else ())
    runs = runs.explode("nodes")
    outages = []
    for outage in site.outages:
        here = runs[(runs["nodes"] == outage.node) & (runs["start_s"] < outage.start_s)]
        ended = ((here["end_s"] - outage.start_s).abs() <= _NOTED_S).any()
        if outage.down or outage.ordered_s is not None or not ended:
            outages.append(outage)
            continue
        last_s = int(here["start_s"].max())
        latest_s = min(outage.start_s, int(here["end_s"][here["end_s"] > last_s].min()))
        outages.append(replace(outage, start_s=latest_s, ordered_s=min(last_s + 1, latest_s)))
    return replace(site, outages=tuple(outages))


def measure(
    site: Site, jobs: SlurmJobs, replays: int, seed: int, progress: Progress, log: Path | None = None, timezone: str = "UTC"
) -> Parity:
    """Replay the jobs ``replays`` times, and compare single decisions.

    Phases are those of slurmctld's ``log``, or drawn from ``seed``. Raises InputError if no job starts.
    """
    table = jobs.table
    if not (table["start_s"] >= 0).any():
        raise InputError(f"{jobs.name}: none of its jobs has started: there is no schedule to compare with")
    phases = None if log is None else read_phases(log, site, table, timezone)
    if phases is not None and phases.decay_spread_s and site.multifactor:
        note = (
            "The log does not have slurmctld's start: when limits are polled and priorities computed is fitted to the recorded starts, "
            f"the latter within the {phases.decay_spread_s:.0f} s that the priorities in the log leave."
        )
        progress("fitting phases", 0, 1)
        jobs, phases = jobs._replace(notes=(*jobs.notes, note)), fitted(site, table, phases)
    if phases is None:
        site = with_computations(site, jobs.runs)
    replayed = open_replays(site, table, replays, seed, lambda done, total: progress("replays", done, total), phases)
    if not replayed.starts.any():
        raise InputError(f"{jobs.name}: no job starts on the site's nodes: its files do not have what the jobs ask for")
    progress("single decisions", 0, 1)
    logged = phases
    if phases is not None and log is not None and jobs.runs is not table:
        logged = read_phases(log, site, jobs.runs, timezone)._replace(decay_s=phases.decay_s)
    decided = decisions(site, jobs.runs, seed, logged)
    figures = {**replayed.summary(), **decided.summary(), "phases_from_log": phases is not None}
    summary = {"trace": jobs.name, "machine": site.name, **figures, "far": too_far(figures)}
    progress("what explains the rest", 0, 1)
    waits = unexplained(site, table, replayed)
    moved = {name: ABSENT[name].median_percent / 100 for name in jobs.lacking}
    return Parity(
        site=site,
        jobs=jobs,
        summary=summary,
        groups=pd.concat([by_group(table, replayed, by, site.timezone) for by in BY], ignore_index=True),
        unexplained=waits.head(_SHOWN),
        causes=causes(replayed, waits, log is not None, moved),
        lost=tuple(table["job_id"][replayed.lost]),
    )
