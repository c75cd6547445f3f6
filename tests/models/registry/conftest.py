"""Accounting that the registered forms of the learners are tested on, and what they learned of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from features.clock import DAY_S
from features.jobs.runtime_features import States
from models.packed.methods import Forest, Trees
from models.registry.candidates import Accounting, accounting, fit
from tests.support.learning import ORIGIN_S, ZONE, people, workload


@pytest.fixture(scope="session")
def records() -> Accounting:
    jobs, start = workload(2500, weeks=5)
    return accounting(people(jobs), start, ORIGIN_S, ZONE)


@pytest.fixture(scope="session")
def at(records: Accounting) -> int:
    return records.until_s - 6 * DAY_S


class Learned(NamedTuple):
    """Jobs with their starts, and what is known at the last submission: users' histories, trees and a forest."""

    jobs: pd.DataFrame
    start: np.ndarray
    at: int
    states: States
    trees: Trees
    forest: Forest


@pytest.fixture(scope="session")
def learned() -> Learned:
    jobs, start = workload()
    at, past = int(jobs["submit_s"].iloc[-1]), accounting(jobs, start, ORIGIN_S, ZONE)
    trees, forest = (fit(name, past, at, 0).state for name in ("lightgbm", "quantile(order=accuracy)"))
    return Learned(jobs, start, at, past.snapshot(at), trees, forest)
