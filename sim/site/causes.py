"""What may lie between replays and a record, and the export that would tell.

Accounting has no hold, no changed priority, no licenses of others and no clocks. But it shows the jobs that these may have
moved. Each cause could explain at most how far the waits of its jobs lie from those of replays.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from sim.site.parity import NOISE_S, Open, idle_nodes
from sim.slurm.begin import asked, clock_settings
from sim.slurm.lines import SSHARE, seconds
from sim.slurm.site import Site

LOG = "slurmctld.log, for --log"
QUEUES = "squeue every minute: Priority, nice, Reason"
NODES = "events.txt and reservations.txt of this time"
USAGE = "sshare.txt when the accounting begins"
LICENSES = "scontrol show licenses every minute"
_MOST_LOOKED_AT = 50


def causes(site: Site, jobs: pd.DataFrame, replays: Open, logged: bool, columns: Mapping[str, float]) -> pd.DataFrame:
    """Return what could explain the record, the largest first, and the export that would tell.

    ``logged``: the clocks' phases are known. ``columns`` are sacct's that are missing, with the share of the mean wait by which
    that moved recorded runs. Columns ``cause jobs explains_s export``; the seconds are summed over jobs, which may stand in
    several rows.
    """
    mean_s = np.nan_to_num(replays.wait_s).mean(axis=0)
    beyond_s = replays.beyond_s
    off_s = np.where(replays.starts, np.abs(np.nan_to_num(replays.recorded_s) - mean_s), 0.0)
    outside_s = np.abs(beyond_s)
    rows = [("phases of Slurm's clocks", off_s - outside_s, LOG)] if not logged else []
    late = jobs["eligible_s"].to_numpy() >= 0
    rows += [
        ("priorities changed by hand", np.where(_changed(site, jobs), outside_s, 0.0), QUEUES),
        ("holds and releases", np.where(late | (jobs["held_s"].to_numpy() >= 0), outside_s, 0.0), QUEUES),
        ("requeues, and when they may start again", np.where(jobs["requeues"], outside_s, 0.0), LOG),
        ("licenses that others hold", np.where(jobs["licenses"] != "", np.maximum(beyond_s, 0.0), 0.0), LICENSES),
        ("nodes that were not there", _without_nodes(site, jobs, beyond_s), NODES),
        ("usage before the accounting", _by_usage(site, jobs, outside_s), USAGE),
    ]
    recorded_s = float(replays.recorded_s[replays.starts].sum())
    table = [(cause, int((part_s > 0).sum()), float(part_s.sum()), export) for cause, part_s, export in rows]
    table += [
        (f"no column {name}", int(replays.starts.sum()), share * recorded_s, f"{name} of sacct") for name, share in columns.items()
    ]
    explained = pd.DataFrame(table, columns=["cause", "jobs", "explains_s", "export"])
    return explained[explained["explains_s"] > 0].sort_values("explains_s", ascending=False, kind="stable", ignore_index=True)


def exports(explained: pd.DataFrame, most: int = 3) -> list[str]:
    """Return the exports that would explain most, in order, from a table of :func:`causes`."""
    return explained.groupby("export")["explains_s"].sum().sort_values(ascending=False, kind="stable").index[:most].tolist()


def _changed(site: Site, jobs: pd.DataFrame) -> np.ndarray:
    """Tell which recorded priorities no factor gives, whatever the fair share, bool [jobs]."""
    if not site.multifactor:
        return np.zeros(len(jobs), bool)
    ask = asked(site, jobs).ask
    settings = site.settings
    age, fair = (float(settings.get(f"priorityweight{name}", 0)) for name in ("age", "fairshare"))
    longest_s = max(seconds(settings.get("prioritymaxage", "7-0")), 1)
    waited_s = (jobs["start_s"] - jobs["submit_s"]).to_numpy() + clock_settings(site)[2]
    least = np.floor(ask.fixed[ask.records[:-1]])
    most = least + 1 + fair + age * np.minimum(waited_s / longest_s, 1.0)
    priority, alone = jobs["priority"].to_numpy(), np.diff(ask.records) == 1
    return np.asarray(alone & (priority > 1) & (jobs["start_s"] >= 0).to_numpy() & ((priority < least) | (priority > most)))


def _without_nodes(site: Site, jobs: pd.DataFrame, beyond_s: np.ndarray) -> np.ndarray:
    """Return the seconds of jobs that waited beside nodes which stayed free and held them, float64 [jobs]."""
    waited_s = np.zeros(len(jobs))
    for row in np.argsort(-beyond_s, kind="stable")[:_MOST_LOOKED_AT]:
        if beyond_s[row] > NOISE_S and idle_nodes(site, jobs, row, beyond_s[row]) is not None:
            waited_s[row] = beyond_s[row]
    return waited_s


def _by_usage(site: Site, jobs: pd.DataFrame, outside_s: np.ndarray) -> np.ndarray:
    """Return how much of these seconds unknown usage can explain, float64 [jobs]: it decays."""
    shares = float(site.settings.get("priorityweightfairshare", 0)) > 0 and site.multifactor
    if not shares or SSHARE in site.files:
        return np.zeros(len(jobs))
    half_life_s = max(seconds(site.settings.get("prioritydecayhalflife", "7-0")), 1)
    since_s = (jobs["submit_s"] - jobs["submit_s"].min()).to_numpy()
    return np.asarray(outside_s * 0.5 ** (since_s / half_life_s))
