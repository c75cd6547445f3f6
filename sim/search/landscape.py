"""Landscapes: what every direction of weights does to one week."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from features.clock import Clock
from features.errors import InputError
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

    def table(self) -> pd.DataFrame:
        """Return a row for each direction: ``n r wait``, of norm L1 1, and its metrics."""
        metrics = self.schedules.drop(columns=list(AXES)).iloc[self.found.region].reset_index(drop=True)
        return pd.concat([pd.DataFrame(self.directions.weights, columns=list(AXES)), metrics], axis=1)

    def best(self, metric: str) -> pd.Series:
        """Return the row of :meth:`table` with the least ``metric``.

        ``directions`` is the number of those that reach it. Of those in the largest region the first.
        """
        values = self.schedules[metric].to_numpy()[self.found.region]
        least = np.flatnonzero(values == values.min())
        regions, counts = np.unique(self.found.region[least], return_counts=True)
        row = int(np.argmax(self.found.region == regions[np.argmax(counts)]))
        chosen = pd.Series(dict(zip(AXES, self.directions.weights[row], strict=True)))
        metrics = self.schedules.drop(columns=list(AXES)).iloc[self.found.region[row]]
        return pd.concat([chosen, metrics, pd.Series({"directions": float(len(least))})])


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
    return Landscape(directions, measured_schedules(sweep, found), found)


def measured_schedules(sweep: PreparedSweep, found: Division) -> pd.DataFrame:
    """Return a row for each schedule found: ``n r wait`` and the metrics."""
    return pd.concat([pd.DataFrame(found.weights, columns=list(AXES)), sweep.table(found.sums)], axis=1)


def faces(table: pd.DataFrame, metric: str, pixels: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Return ``metric`` of a landscape's table as two images, as the paper's figure 4.

    They are [r, wait], of n <= 0 and of n >= 0. Both axes go from -1 to 1; a pixel holds the mean of its directions, NaN where
    there is none, as outside of |r| + |wait| <= 1.
    """
    if pixels < 2:
        raise InputError(f"an image of {pixels} pixels: must be at least 2")
    places = [np.rint((table[axis].to_numpy() + 1) / 2 * (pixels - 1)).astype(np.int64) for axis in ("r", "wait")]
    images = []
    for sign in (-1.0, 1.0):
        chosen = table["n"].to_numpy() * sign >= 0
        at = places[0][chosen] * pixels + places[1][chosen]
        counts = np.bincount(at, minlength=pixels**2)
        sums = np.bincount(at, weights=table[metric].to_numpy()[chosen], minlength=pixels**2)
        images.append(np.where(counts > 0, sums / np.maximum(counts, 1), np.nan).reshape(pixels, pixels))
    return images[0], images[1]
