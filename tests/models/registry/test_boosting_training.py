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
def test_one_name_is_one_learner(records, at):
    """Every job is told what the simulator's own predictor says with the same memory."""
    assert train("lightgbm", records, at, 0).name == predictor("lightgbm").name == Boosting.name
    walk = Walk(records, by_end(records), predictor("lightgbm"))
    walk.go(at)
    walk.retrain(at)
    rows = asked_after(records, at)
    place = np.argsort(by_end(records))[rows]
    kernel = [lightgbm.estimate(walk.memory, job, walk.columns) for job in place]
    answers = Trees(*lightgbm.grown(walk.memory), walk.groups(at)).answer(records.asked(rows))
    np.testing.assert_array_equal(answers, kernel)
    assert len(np.unique(answers)) > 100
    assert records.asked(rows)["user"].isna().any()


def test_before_there_are_enough_jobs_the_last_similar_runtime_answers(records):
    at = int(np.sort(records.end_s)[lightgbm.ENOUGH // 2])
    trees, asked = grow(records, at, seed=0), records.asked(asked_after(records, at)[:30])
    assert len(trees.nodes) == 0
    np.testing.assert_array_equal(trees.answer(asked), np.rint(np.exp(trees.groups.describe(asked)[1])))
