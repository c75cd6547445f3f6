"""What the model lacks, named where a site or its jobs use it.

That is keys of slurm.conf, and rules of newer releases, which are from SchedMD's repository and release notes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pandas as pd

from sim.slurm.conf import OPEN
from sim.slurm.releases import Release, shown
from sim.slurm.site import Site


class _Rule(NamedTuple):
    since: Release
    text: str
    uses: Callable[[Site], bool]


def _has_key(*keys: str) -> Callable[[Site], bool]:
    return lambda site: not set(keys).isdisjoint(key.lower() for key in site.not_modelled)


_OF_SITES = (
    _Rule((22, 5, 0), "jobs of a FLEX or ANY_NODES reservation are bound neither to its time nor to its nodes",
          lambda site: any({"FLEX", "ANY_NODES"} & reservation.flags for reservation in site.reservations)),
    _Rule((24, 11, 0), "backfill plans on nodes of one user's jobs (ExclusiveUser)", _has_key("exclusiveuser")),
    _Rule((24, 11, 0), "a requeued job's priority is computed at once",
          lambda site: bool(site.preempts_by) and "requeue" in site.settings.get("preemptmode", "").lower()),
    _Rule((24, 5, 0), "cores are kept for GPUs (RestrictedCoresPerGPU)", _has_key("restrictedcorespergpu")),
    _Rule((25, 5, 0), "jobs are preempted by their priority (PreemptMode=PRIORITY)",
          lambda site: "priority" in site.settings.get("preemptmode", "").lower().split(",")),
    _Rule((25, 11, 5), "backfill honours OverSubscribe=EXCLUSIVE",
          lambda site: any(part.exclusive for part in site.partitions.values())),
    _Rule((25, 11, 0), "a requeued job waits for requeue_delay", _has_key("schedulerparameters requeue_delay")),
)  # fmt: skip
_OF_JOBS: tuple[tuple[Release, str, Callable[[pd.DataFrame], pd.Series]], ...] = (
    (
        (24, 11, 0),
        "tiers and submissions count when srun or salloc starts a job at once",
        lambda jobs: jobs["started_by"] == "submit",
    ),
    ((25, 5, 0), "a job takes one of several licenses (a|b)", lambda jobs: jobs["licenses"].str.contains("|", regex=False)),
)


def unbuilt(site: Site, jobs: pd.DataFrame | None = None) -> list[str]:
    """Return a sentence for each rule of the site's release that it uses and replays lack."""
    used = [(rule.since, rule.text) for rule in _OF_SITES if site.known_release >= rule.since and rule.uses(site)]
    if jobs is not None:
        counts = [(since, text, int(touched(jobs).sum())) for since, text, touched in _OF_JOBS if site.known_release >= since]
        used += [(since, f"{text} ({count:,} jobs)") for since, text, count in counts if count]
    return [f"Not modelled, since Slurm {shown(since)}: {text}" for since, text in used]


def warnings_of(site: Site) -> list[str]:
    """Return the warnings at the top of every page of a site."""
    return [f"{text} changes decisions and is not modelled." for text in site.warnings]


def harmless(site: Site) -> list[str]:
    """Return the keys that are not read and say nothing on which jobs may run where."""
    return [key for key in site.not_modelled if key not in OPEN]


def changing(site: Site) -> list[str]:
    """Return a note on each key that is not modelled and changes which jobs may run where."""
    return [f"Not modelled: {key}: {OPEN[key]} in replays." for key in site.not_modelled if key in OPEN]


def not_modelled(site: Site) -> list[str]:
    """Return the notes of :func:`changing`, and one on all other keys."""
    others = harmless(site)
    return changing(site) + [
        f"{len(others)} settings that say nothing on which jobs may run where are not read: {', '.join(others)}."
    ] * bool(others)
