"""The registered form of ``lightgbm``: equal to the simulator's kernel, no future, always an answer."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from features.clock import DAY_S
from models.packed.boosting import Trees
from models.packed.methods import Boosting
from models.registry.accounting import accounting
from models.registry.boosting_training import carry_on, grow, up_to_the_second
from models.registry.candidates import train
from models.registry.walk import Walk, by_end
from models.runtime import lightgbm
from models.runtime.names import predictor
from tests.models.registry.test_quantile_training import asked_after
from tests.support.learning import ORIGIN_S, ZONE


@pytest.fixture(scope="module")
def trees(known, at):
    return grow(known, at, seed=0)


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


def test_a_night_knows_no_end_after_it_and_what_is_written_is_read_back(known, at, trees, tmp_path):
    late = known.end_s > at
    runtime = known.jobs["runtime_s"].to_numpy().copy()
    runtime[late] = np.maximum(at + 1 - known.start_s[late], 1) + 77
    jobs = known.jobs.assign(runtime_s=runtime, requested_s=np.maximum(known.jobs["requested_s"], runtime))
    other = grow(accounting(jobs, known.start_s, ORIGIN_S, ZONE), at, seed=0)
    trees.write(tmp_path)
    for again in (other, Trees.read(tmp_path)):
        for name in ("nodes", "thresholds", "values"):
            np.testing.assert_array_equal(getattr(again, name), getattr(trees, name))
        asked = known.asked(asked_after(known, at))
        np.testing.assert_array_equal(again.answer(asked), trees.answer(asked))
    assert int(trees.groups.table["last_end_s"].max()) <= at
    (tmp_path / "groups.parquet").unlink()
    with pytest.raises(OSError, match="groups"):
        Trees.read(tmp_path)


@pytest.mark.slow
def test_carried_on_trees_stay_groups_learn_and_one_walk_is_night_by_night(known, at):
    earlier, asked = grow(known, at - 3 * DAY_S, seed=0), known.asked(asked_after(known, at))
    nights = [at - 4 * DAY_S, at - DAY_S, at]
    for night, through in zip(nights, carry_on(earlier, known, nights), strict=True):
        alone = next(carry_on(earlier, known, [night]))
        assert through.groups.at_s == alone.groups.at_s == max(night, at - 3 * DAY_S)
        np.testing.assert_array_equal(through.nodes, earlier.nodes)
        np.testing.assert_array_equal(through.answer(asked), alone.answer(asked))
    assert through.groups.table["ended"].sum() > earlier.groups.table["ended"].sum()
    nameless = known.jobs.assign(group=pd.Categorical([None] * len(known.jobs)))
    ungrouped = accounting(nameless, known.start_s, ORIGIN_S, ZONE)
    with pytest.raises(ValueError, match="can only be trained anew"):
        next(carry_on(earlier, ungrouped, [at]))


@pytest.mark.slow
def test_up_to_the_second_a_job_is_told_what_a_night_at_its_submission_would_say(known, at, trees):
    rows = asked_after(known, at)
    now = up_to_the_second(trees, known, rows)
    for place in range(5, 300, 30):
        then = next(carry_on(trees, known, [int(known.jobs["submit_s"].iloc[rows[place]])]))
        assert then.answer(known.asked(rows[[place]]))[0] == now[place]
    assert (now != trees.answer(known.asked(rows))).mean() > 0.3


def test_before_there_are_enough_jobs_the_last_similar_runtime_answers(known):
    at = int(np.sort(known.end_s)[lightgbm.ENOUGH // 2])
    made, asked = grow(known, at, seed=0), known.asked(asked_after(known, at)[:30])
    assert len(made.nodes) == 0
    np.testing.assert_array_equal(made.answer(asked), np.rint(np.exp(made.groups.describe(asked)[1])))
