"""When Slurm computed priorities, as far as the accounting shows it.

Accounting keeps the priority with which a job started. It is as old as the last computation, which comes each
PriorityCalcPeriod from slurmctld's start on (priority_multifactor.c ``_decay_thread``): at the wrong times the model
gives other ages and fair shares.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from sim.slurm.begin import begin
from sim.slurm.events import Event, follow_events, held_nodes, recorded_events
from sim.slurm.phases import TRIES, clock_settings, draw_phases, origin_of
from sim.slurm.recorded import LOOK, START
from sim.slurm.site import Site

_MOST_LOOKED_AT = 500
"""Jobs, from the first on, whose priorities are looked at."""
_MOST_AGREE = 0.5
"""Max share of the tried times that may agree best: if more do, the priorities tell nothing."""


def with_computations(site: Site, jobs: pd.DataFrame) -> Site:
    """Return the site with the times at which priorities may first have been computed.

    They are the tried times of a period that most recorded priorities agree with: ``computed_s``, in Unix seconds, up
    to a period before the first submission and a second after it. A slurmctld that gave out the site's first job number
    has begun then (``begins``). ``jobs`` has ``start_s end_s nodes priority`` beside the columns of a replay.
    """
    jobs = jobs.head(_MOST_LOOKED_AT)
    if not site.multifactor or not (jobs["priority"] > 0).any():
        return site
    period, first = clock_settings(site)[2], int(jobs["submit_s"].min())
    tried_s = first + 1 - period + np.arange(1, TRIES + 1) * period / TRIES
    agree = np.array([_agreeing(site, jobs, float(second)) for second in tried_s])
    best = tried_s[agree == agree.max()]
    if len(best) > _MOST_AGREE * TRIES:
        return site
    first_id = int(site.settings.get("firstjobid", "1"))
    return replace(site, computed_s=tuple(best.tolist()), begins=int(jobs["group"].iloc[0]) == first_id)


def _agreeing(site: Site, jobs: pd.DataFrame, computed_s: float) -> int:
    """Return how many jobs start with their recorded priority if priorities are computed from ``computed_s`` on.

    A priority may be as far off as the age of a second.
    """
    phases = draw_phases(site, len(jobs), 0)._replace(decay_s=computed_s - origin_of(jobs), parts_s=np.full(len(jobs), 0.5))
    slurm, held = begin(site, jobs, phases), held_nodes(site, jobs)
    first, others = slurm.ask.records, list[Event]()
    priority = np.zeros(len(jobs), np.int64)
    for event in recorded_events(site, jobs, phases, slurm, {}):
        if event[1] != START:
            others.append(event)
            continue
        if others:
            follow_events([*others, (others[-1][0], LOOK, 0)], slurm)
            others.clear()
        priority[event[2]] = slurm.now.priority[first[event[2]]]
        follow_events([event], slurm, *held)
    recorded = jobs["priority"].to_numpy(np.int64)
    off = 1 + slurm.rules.weight_age / slurm.rules.max_age
    return int(((recorded > 0) & (priority > 0) & (np.abs(priority - recorded) <= off)).sum())
