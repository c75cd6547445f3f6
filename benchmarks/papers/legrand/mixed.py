"""The policies of Legrand, Trystram & Zrigui (2018): twelve pure ones, and a grid of mixed ones in whole numbers.

A mixed policy is a direction: weights multiplied by a positive number order jobs alike. The paper covers the sphere of the L1 norm
with 100 points a dimension, uniformly over [-1, 1], for three weights on (n, r, wait). Those points are odd multiples of 1/99, so
each direction is a triple of whole numbers, with which scores are computed without rounding and ties are ties.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from features.errors import InputError
from sim.campaigns.windows import Window
from sim.inputs.prepare import prepare
from sim.kernel.scratch import Scratch
from sim.outcome import simulation
from sim.policy import Policy

WEIGHTS = {
    "FCFS": (0, 0, 1, 0, 0, 0),
    "LCFS": (0, 0, -1, 0, 0, 0),
    "SPF": (0, 1, 0, 0, 0, 0),
    "LPF": (0, -1, 0, 0, 0, 0),
    "SQF": (1, 0, 0, 0, 0, 0),
    "LQF": (-1, 0, 0, 0, 0, 0),
    "SAF": (0, 0, 0, 0, 0, 1),
    "LAF": (0, 0, 0, 0, 0, -1),
    "SRF": (0, 0, 0, 1, 0, 0),
    "LRF": (0, 0, 0, -1, 0, 0),
    "SEXP": (0, 0, 0, 0, 1, 0),
    "LEXP": (0, 0, 0, 0, -1, 0),
}
"""Each pure policy as the vertex of mixed policies: weights of (n, r, wait, r/n, expansion, r n)."""
FEATURES = ("n", "r", "wait", "r/n", "expansion", "r n")
"""What the weights of mixed policies are on; those with three have the first ones."""
PURE = tuple(WEIGHTS)
BASELINE, USUAL = "SAF", "FCFS"
"""The best pure policy by the paper, and the one that sites use."""
THRESHOLDS: tuple[int | None, ...] = (None, 200_000, 72_000)
"""Starvation thresholds of the paper, seconds; its study of mixed policies has the second."""
POINTS = 100
"""Points a dimension of the paper's grid."""
SURFACE, CUBE = "surface", "cube"


def grid(points: int = POINTS, reading: str = SURFACE, *, pure: bool = True) -> np.ndarray:
    """Return the paper's grid in one of its two readings, int64 [directions, 3] on (n, r, wait), each direction once.

    ``surface``: r and wait on the grid, n = 1 - |r| - |wait| of either sign, as the paper's figure 4 shows two faces: 9,800
    directions of 100 points. ``cube``: every triple of grid points: 948,152. Neither holds a pure policy, such as SPF, as 0 is not
    among 100 points; ``pure`` adds the six of them.
    """
    if not 2 <= points <= 1000:
        raise InputError(f"a grid of {points} points a dimension: must be 2 to 1,000")
    line = 2 * np.arange(points) - (points - 1)
    if reading == SURFACE:
        r, wait = (axis.ravel() for axis in np.meshgrid(line, line, indexing="ij"))
        n = points - 1 - np.abs(r) - np.abs(wait)
        faces = [np.stack([sign * n, r, wait], axis=1)[n >= 0] for sign in (1, -1)]
        whole = np.concatenate([faces[0], faces[1][faces[1][:, 0] != 0]])
    elif reading == CUBE:
        whole = np.stack(np.meshgrid(line, line, line, indexing="ij"), axis=-1).reshape(-1, 3)
        if points % 2:
            whole //= 2
        whole = whole[np.gcd.reduce(whole, axis=1) == 1]
    else:
        raise InputError(f"unknown reading {reading!r} of the grid; known: {SURFACE}, {CUBE}")
    if pure and points % 2 == 0:  # an odd number of points has 0 among them
        whole = np.concatenate([whole, np.eye(3, dtype=np.int64), -np.eye(3, dtype=np.int64)])
    return whole


def on_sphere(whole: np.ndarray) -> np.ndarray:
    """Return directions on the sphere of the L1 norm, float64 [directions, 3]."""
    return whole / np.abs(whole).sum(axis=1, keepdims=True)


def pure_week(window: Window, procs: int, thresholds: Sequence[int | None], taus_s: Sequence[float]) -> pd.DataFrame:
    """Simulate the pure policies on one window: a row a policy, threshold and tau.

    Columns ``week jobs policy starvation_s tau_s mean_bounded_slowdown mean_wait_s max_wait_s``.
    """
    workload, scratch = prepare(window.jobs, procs), Scratch()
    rows = []
    for policy in PURE:
        for starvation_s in thresholds:
            ran = simulation(workload, Policy(f"{policy}-EASY-SPF", starvation_s=starvation_s), scratch=scratch).outcome()
            wait = ran.start - ran.submit
            for tau_s in taus_s:
                slowed = np.maximum(1.0, (wait + ran.runtime) / np.maximum(ran.runtime, tau_s))
                row = {"week": window.number, "jobs": len(wait), "policy": policy, "starvation_s": starvation_s}
                row |= {"tau_s": float(tau_s), "mean_bounded_slowdown": float(slowed.mean())}
                rows.append(row | {"mean_wait_s": float(wait.mean()), "max_wait_s": int(wait.max())})
    return pd.DataFrame(rows).astype({"starvation_s": "Int64"})
