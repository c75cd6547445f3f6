"""Landscapes: what every direction of weights does to one week."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from features.clock import Clock
from sim.campaigns.sweep import MIXED, PreparedSweep
from sim.metrics.schedule_metrics import TAU_S
from sim.outcome import TRACE_SECONDS
from sim.policy import Policy
from sim.search.directions import Directions, grid
from sim.search.division import Division, division

AXES = ("n", "r", "wait")


@dataclass(frozen=True)
class Landscape:
    """The value of every direction of a grid.

    ``schedules``: a row for each schedule found, columns ``n r wait``, a policy that makes it, and the metrics of
    :class:`sim.campaigns.sweep.PreparedSweep`; one schedule may have several rows. ``found`` tells which row each direction has.
    """

    directions: Directions
    schedules: pd.DataFrame
    found: Division


def landscape(
    jobs: pd.DataFrame,
    *,
    procs: int,
    directions: Directions | None = None,
    policy: Policy = MIXED,
    clock: Clock = TRACE_SECONDS,
    taus_s: Sequence[float] = (TAU_S,),
) -> Landscape:
    """Return what each of ``directions`` does to ``jobs``.

    By default these are the surface grid of the paper. The values are those that simulating each direction gives, exactly, and
    most of them are never simulated. ``policy`` and errors as :func:`sim.search.division.division`. This thread computes them;
    several may.
    """
    directions = grid() if directions is None else directions
    sweep = PreparedSweep(jobs, procs=procs, policy=policy, clock=clock, taus_s=taus_s)
    found = division(sweep, directions.whole)
    policies = pd.DataFrame(found.weights, columns=list(AXES))
    return Landscape(directions, pd.concat([policies, sweep.table(found.sums)], axis=1), found)
