"""Releases of Slurm: what the scheduler decides otherwise since which release.

From SchedMD's repository: each rule names the change in it.
"""

from __future__ import annotations

import re

Release = tuple[int, int, int]
"""Such as (24, 11, 5)."""
MODELLED: Release = (22, 5, 8)
"""The release whose rules count where a site's is not known."""
WHOLE_SECONDS: Release = (23, 11, 0)
"""Since then the background loop turns at whole seconds (849babd875)."""
THREADS_TOGETHER: Release = (23, 11, 6)
"""Since then slurmctld starts computing priorities where it starts backfill, once its state is read (f5fe8a5a47)."""
MULTIFACTOR: Release = (23, 11, 0)
"""Since then priority/multifactor is the default of PriorityType."""
BOTH_QOS: Release = (25, 11, 1)
"""Since then GrpTRES and MaxTRESPU of a job's QOS and of its partition's both count (e2fb28885b)."""
SEVERAL_QOS: Release = (24, 11, 0)
"""Since then a job may name several QOS, and has a record with each (ae61a7c88b)."""
PLAIN_FOR_GPUS, PRODUCT_FOR_GPUS = (24, 11, 0), (25, 11, 0)
"""Between these releases a job with more GPUs than processors does not take the roomiest node (measured on 24.11.5)."""
_SINCE: dict[str, Release] = {
    # plans' ends rounded up, will-run within its slot, the next look (b65719d1c2, 3d8d6cb4e9, d5e0c8e664)
    "within_slot": (24, 11, 0),
    "steps_on": (25, 5, 0),  # a look that would repeat itself goes on by bf_resolution (54327a1834)
    "throttles_plans": (23, 2, 4),  # %N counts planned tasks, too (f35ef9d5ba, ec5dbb55aa)
    "counts_tasks": (23, 2, 1),  # bf_max_job_test also ends inside an array (8ae692af8c)
    "ends_at_component": (24, 11, 0),  # the main pass ends at a component of a failed partition (c73b167049)
    "multiplies_gpus": PRODUCT_FOR_GPUS,  # nodes for GPUs by processors x GPUs, before by their sum (55f588b16e)
    "takes_first": (26, 5, 0),  # a job of at most one node takes the first that fits, by weight (295100b5f6)
    "shuns_completing": (23, 11, 0),  # COMPLETING nodes are taken last (55b5c8ca3a)
    "turns_on_seconds": WHOLE_SECONDS,
    "grows": (25, 5, 3),  # --time-min grows to the next plan (dedc92b367)
}


def rules_of(release: Release) -> dict[str, bool]:
    """Return which of the rules of :class:`sim.slurm.state.Rules` hold in a release."""
    roomiest = not PLAIN_FOR_GPUS <= release < PRODUCT_FOR_GPUS
    return {name: release >= since for name, since in _SINCE.items()} | {"roomiest_for_gpus": roomiest}


def read_release(text: str) -> Release | None:
    """Return the release that ``text`` names, None without one.

    It is written as ``SLURM_VERSION = 24.11.5``, ``slurm 24.11.5``, or in slurmctld's first line.
    """
    match = re.search(r"(?i)slurm(?:_version|ctld version)?[\s=-]+(\d\d)\.(\d\d?)(?:\.(\d+))?", text)
    return None if match is None else (int(match[1]), int(match[2]), int(match[3] or 0))


def shown(release: Release) -> str:
    """Return a release as Slurm writes it."""
    return f"{release[0]}.{release[1]:02d}.{release[2]}"
