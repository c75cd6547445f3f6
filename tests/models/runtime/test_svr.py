"""``svr`` retrained each night in the simulator: as scikit-learn's own regression on features counted by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from tests.models.runtime.by_hand import agree_retrained
from tests.models.runtime.test_lightgbm import days, unlike
from tests.oracle.nightly import Nightly
from tests.support.workloads import by_kernel, by_oracle


@dataclass(eq=False)
class SvrByHand(Nightly):
    """The oracle: standardised, trained and asked by scikit-learn."""

    c: float = 1.0
    epsilon: float = 0.1
    gamma: float = 0.02
    jobs: int = 2000
    machine: Any = None

    def label(self) -> str:
        return f"svr(c={self.c},epsilon={self.epsilon},gamma={self.gamma},jobs={self.jobs})"

    def begin(self, jobs: Any) -> None:
        super().begin(jobs)
        self.machine, self.trained = None, 0

    def retrain(self) -> None:
        rows = self.ended_jobs[-self.jobs :]
        if len(rows) < 200:
            return
        x = self.x(rows)
        target = np.log([self.runtime[job] for job in rows]) - [self.inputs[job]["alike"] for job in rows]
        self.scaler = StandardScaler().fit(x)
        self.machine = SVR(kernel="rbf", C=self.c, epsilon=self.epsilon, gamma=self.gamma).fit(self.scaler.transform(x), target)
        self.trained += 1

    def correction_of(self, job: int) -> float:
        return 0.0 if self.machine is None else float(self.machine.predict(self.scaler.transform(self.x([job])))[0])


@pytest.mark.slow
def test_what_was_the_same_of_all_jobs_learned_from_may_be_new_of_another() -> None:
    load = days()
    agree_retrained(replace(load, procs=[1] * 500 + [8] * 200), SvrByHand())


@pytest.mark.parametrize(("count", "learned"), [(199, False), (200, True)])
def test_two_hundred_ended_jobs_are_enough(count: int, learned: bool) -> None:
    load, hand = unlike(count), SvrByHand()
    kernel = by_kernel(load, predictor=hand.label())
    assert kernel == by_oracle(load, predictor=hand)
    assert (kernel.predicted[-1] < load.requested[-1] / 4) == learned == hand.trained
