"""What tests of compiled learners share: agreement with an oracle in plain Python, and whole traces."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import reject

from features.jobs.cleaning import clean
from models.runtime.evaluation import accuracy
from pipelines.readers.read import read_trace
from sim import simulate
from tests.conftest import SHARED
from tests.support.workloads import Outcome, Workload, by_kernel, by_oracle


def agree(load: Workload, learner: Any, scheduler: str = "FCFS-EASY-SPF", **policy: Any) -> Outcome:
    """Return what the oracle makes of a workload with a learner by hand; the compiled one of its ``label`` makes the same of it."""
    try:
        expected = by_oracle(load, scheduler, learner, **policy)
    except OverflowError:  # of exponential losses
        reject()
    assert by_kernel(load, scheduler, learner.label(), **policy) == expected
    return expected


def agree_retrained(load: Workload, hand: Any, **policy: Any) -> Outcome:
    """:func:`agree` with a learner of each night, which has to have learned something."""
    expected = agree(load, hand, **policy)
    assert hand.trained > 4
    guesses = [round(np.exp(hand.inputs[job]["alike"])) for job in range(len(load.submit))]
    assert sum(one != other for one, other in zip(guesses, expected.predicted, strict=True)) > 200, "nothing was learned"
    return expected


@cache
def whole_trace(trace: str) -> pd.DataFrame:
    return clean(read_trace(str(SHARED / "traces" / f"{trace}-filtered.swf.gz"))).jobs


def second_half(table: pd.DataFrame, procs: int, name: str) -> float:
    """Mean accuracy over the second half, of predictions that learn from the first job on."""
    half = simulate(table, procs=procs, scheduler="EASY-SJBF", predictor=name).jobs[len(table) // 2 :]
    return float(accuracy(half["predicted_s"].to_numpy(), half["runtime_s"].to_numpy()).mean())
