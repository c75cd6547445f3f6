"""The registered form of ``lightgbm``: grown from rows of the table, always an answer."""

from __future__ import annotations

import numpy as np

from models.packed.methods import Boosting
from models.registry.candidates import fit
from models.runtime import lightgbm
from models.runtime.names import predictor
from tests.support.learning import asked_after


def test_one_name_is_one_learner():
    assert predictor("lightgbm").name == Boosting.name


def test_before_there_are_enough_jobs_the_last_similar_runtime_answers(records):
    at = int(np.sort(records.end_s)[lightgbm.ENOUGH // 2])
    method, asked = fit("lightgbm", records, at, 0), records.served(asked_after(records, at)[:30], at)
    assert len(method.state.nodes) == 0
    np.testing.assert_array_equal(method.predict(asked)["predicted_s"], np.rint(np.exp(asked["alike_log_s"])))
