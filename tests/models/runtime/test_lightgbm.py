"""``lightgbm`` retrained each night in the simulator: as LightGBM itself, trained and asked from outside on features counted by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest

from models.runtime import lightgbm as nightly
from models.runtime.lightgbm import loss_of_accuracy
from models.runtime.memory import Memory
from models.runtime.names import predictor
from models.runtime.protocol import CompiledPredictor
from tests.oracle.nightly import Nightly
from tests.support.workloads import Workload, by_kernel, by_oracle, crowd, dependent_crowd

DAY_S = 86_400


def days(dependent: bool = False, seed: int = 7, size: int = 700) -> Workload:
    """Ten days and more of jobs that are like others: by eight people, each with an executable whose runtime goes with its request and the day."""
    rng = np.random.default_rng(seed)
    load = (dependent_crowd if dependent else crowd)(rng, size)
    begin_s = 12 * DAY_S + 50_000
    gaps = np.diff(load.submit, prepend=load.submit[0])
    submit = begin_s + np.cumsum(gaps * (11 * DAY_S) // max(gaps.sum(), 1))
    requested = 900 * 2 ** rng.integers(0, 6, size)
    person = rng.integers(0, 8, size)
    share = np.array([0.03, 0.9, 0.3, 0.1, 0.5, 1.0, 0.02, 0.6])[person] * rng.lognormal(0, 0.3, size)
    runtime = np.clip(requested * share * np.where(submit % DAY_S < DAY_S // 2, 1.0, 0.4), 1, requested).astype(int)
    return replace(
        load,
        machine=24,
        procs=[min(procs, 12) for procs in load.procs],
        submit=submit.tolist(),
        requested=requested.tolist(),
        runtime=runtime.tolist(),
        estimates=requested.tolist(),
        user=[f"u{number}" if number else None for number in person],
        executable=[f"a{number}" if number % 3 else None for number in rng.integers(0, 9, size)],
        group=[f"g{number // 3}" for number in person],
    )


@dataclass(eq=False)
class BoostedByHand(Nightly):
    """The oracle: trees by ``lightgbm.train`` each midnight, predictions by ``Booster.predict``."""

    trees: int = 50
    leaves: int = 31
    jobs: int = 12_000
    seed: int = 0
    booster: Any = None

    def label(self) -> str:
        return f"lightgbm(trees={self.trees},leaves={self.leaves},jobs={self.jobs},seed={self.seed})"

    def begin(self, jobs: Any) -> None:
        super().begin(jobs)
        self.booster, self.trained = None, 0

    def retrain(self) -> None:
        rows = self.ended_jobs[-self.jobs :]
        if len(rows) < 200:
            return
        x = self.x(rows)
        target = np.log([self.runtime[job] for job in rows]) - [self.inputs[job]["alike"] for job in rows]
        parameters = {
            "objective": loss_of_accuracy,
            "learning_rate": 0.3,
            "num_leaves": self.leaves,
            "min_data_in_leaf": 100,
            "num_threads": 1,
            "seed": self.seed,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }
        binning = {"feature_pre_filter": False, "num_threads": 1, "max_bin": 63, "bin_construct_sample_cnt": 2000, "verbosity": -1}
        self.booster = lightgbm.train(parameters, lightgbm.Dataset(x, target, params=binning), num_boost_round=self.trees)
        self.trained += 1

    def correction_of(self, job: int) -> float:
        return 0.0 if self.booster is None else float(self.booster.predict(self.x([job]), num_threads=1)[0])


def unlike(count: int) -> Workload:
    """That many jobs on one day of which no two have anything in common, and another two days later; half take a half of their request, half a tenth."""
    requested = [1000 if job < count // 2 else 3000 for job in range(count + 1)]
    runtime = [500 if asked == 1000 else 300 for asked in requested]
    submit = [*range(count), 2 * DAY_S]
    return Workload(
        10**6, submit, runtime, list(range(1, count + 2)), requested, [f"u{job}" for job in range(count + 1)], requested
    )


@pytest.mark.parametrize(("count", "grown"), [(199, False), (200, True)])
def test_two_hundred_ended_jobs_are_enough(count: int, grown: bool) -> None:
    source = predictor("lightgbm")
    assert isinstance(source, CompiledPredictor)
    trees: list[float] = []

    def distribution(memory: Memory) -> pd.DataFrame:
        trees.append(memory.model[nightly.TREES])
        return pd.DataFrame()

    unlike(count).schedule("EASY", replace(source, distribution=distribution))
    assert trees == [grown]  # and can split nothing: one leaf


@pytest.mark.thorough
def test_of_more_than_two_thousand_jobs_the_seed_decides_from_which_the_bins_are_made() -> None:
    load = days(size=4000)
    hand = BoostedByHand(trees=2, seed=3)
    kernel = by_kernel(load, predictor=hand.label())
    assert kernel == by_oracle(load, predictor=hand)
    assert kernel.predicted != by_kernel(load, predictor="lightgbm(trees=2)").predicted
