"""The registered form of ``lightgbm``: equal to the simulator's kernel, always an answer."""

from __future__ import annotations

import numpy as np
import pytest

from models.packed.boosting import Trees
from models.packed.methods import Boosting
from models.registry.boosting_training import grow
from models.registry.candidates import train
from models.registry.walk import Walk, by_end
from models.runtime import lightgbm
from models.runtime.names import predictor
from tests.support.learning import asked_after


@pytest.mark.slow
def test_one_name_is_one_learner(known, at):
    """Every job is told what the simulator's own predictor says with the same memory."""
    assert train("lightgbm", known, at, 0).name == predictor("lightgbm").name == Boosting.name
    walk = Walk(known, by_end(known), predictor("lightgbm"))
    walk.go(at)
    walk.retrain(at)
    rows = asked_after(known, at)
    place = np.argsort(by_end(known))[rows]
    kernel = [lightgbm.estimate(walk.memory, job, walk.columns) for job in place]
    said = Trees(*lightgbm.grown(walk.memory), walk.groups(at)).answer(known.asked(rows))
    np.testing.assert_array_equal(said, kernel)
    assert len(np.unique(said)) > 100
    assert known.asked(rows)["user"].isna().any()


def test_before_there_are_enough_jobs_the_last_similar_runtime_answers(known):
    at = int(np.sort(known.end_s)[lightgbm.ENOUGH // 2])
    made, asked = grow(known, at, seed=0), known.asked(asked_after(known, at)[:30])
    assert len(made.nodes) == 0
    np.testing.assert_array_equal(made.answer(asked), np.rint(np.exp(made.groups.describe(asked)[1])))
