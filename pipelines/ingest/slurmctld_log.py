"""Phases of Slurm's clocks, from slurmctld's log: what no accounting holds."""

from __future__ import annotations

import gzip
import re
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from features.errors import InputError
from sim.slurm.begin import Phases, clock_settings, origin_of
from sim.slurm.site import Site

_LINE = re.compile(r"\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+)\] (.*)")
_KINDS = {
    "turn": re.compile(r"debug:  sched: Running job scheduler"),
    "cycle": re.compile(r"sched/backfill: _attempt_backfill: (beginning|no jobs)"),
    "decay": re.compile(r"priority/multifactor: init: "),
    "submit": re.compile(r"_slurm_rpc_submit_batch_job: JobId=(\d+)"),
}


_FIRST_POLL_S = 30.8
"""Seconds from the priority plugin's start to the first poll of time limits (measured)."""


def read_phases(path: Path, site: Site, jobs: pd.DataFrame, timezone: str = "UTC") -> Phases:
    """Return the phases that a log shows.

    Slurm writes it with ``SlurmctldDebug=debug`` and ``DebugFlags=Backfill``. ``jobs`` are those of the accounting of the same
    time. InputError for a log that shows no pass.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    seen: dict[str, list[float]] = defaultdict(list)
    submitted: dict[int, float] = {}
    with opened(path, "rt", errors="replace") as lines:
        for line in lines:
            if found := _LINE.match(line):
                when = datetime.fromisoformat(found[1]).replace(tzinfo=ZoneInfo(timezone)).timestamp()
                for kind, form in _KINDS.items():
                    if told := form.search(found[2]):
                        seen[kind].append(when)
                        if kind == "submit":
                            submitted[int(told[1])] = when
    if not seen["turn"]:
        raise InputError(f"{path}: shows no scheduling pass: Slurm logs them with SlurmctldDebug=debug")
    origin, (_, interval, period) = origin_of(jobs), clock_settings(site)
    whole = jobs["submit_s"].to_numpy(np.float64)
    parts = np.array([submitted.get(group, second + 0.5) for group, second in zip(jobs["group"], whole, strict=True)]) - whole
    turns = np.array(seen["turn"]) - origin
    steps = np.round((turns - turns[0]) / 1.004)
    length = float(np.polyfit(steps, turns, 1)[0]) if len(turns) > 2 else 1.004
    first = (seen["cycle"] or [origin + 0.0])[0] - origin
    decay = (seen["decay"] or [float(origin)])[0] - origin
    return Phases(float(turns[0]), first % interval, decay % period, np.clip(parts, 0.0, 1.5), length, decay + _FIRST_POLL_S)
