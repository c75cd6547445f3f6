"""Machines of clusters for the simulator's tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from sim.machine.nodes import Layout, Requests


@dataclass(frozen=True)
class Described:
    """A machine described by its arrays, and by what jobs ask of it."""

    arrays: Layout
    asked: Callable[[pd.DataFrame], Requests]

    def layout(self) -> Layout:
        return self.arrays

    def requests(self, jobs: pd.DataFrame) -> Requests:
        return self.asked(jobs)


def one_node(procs: int) -> Described:
    """The pool of ``procs`` processors as one cluster with one node."""
    layout = Layout(np.array([0, 1]), np.array([[procs]]), np.zeros(1, np.int64), np.zeros((1, 0), np.int64))
    return Described(layout, anywhere)


def anywhere(jobs: pd.DataFrame) -> Requests:
    """As many processors as a job has, in one chunk, in the first cluster."""
    total = len(jobs)
    one, none, no_limits = np.ones(total, np.int64), np.zeros(total, np.int64), np.zeros((total, 0), np.int64)
    return Requests(one, jobs["procs"].to_numpy(np.int64)[:, None].copy(), none, none, none, one, no_limits, no_limits)
