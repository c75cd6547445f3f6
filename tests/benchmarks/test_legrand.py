"""The study of Legrand et al. chooses what it says it chooses."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.papers.legrand.claims import claims
from benchmarks.papers.legrand.mixed import CUBE, PURE, grid
from benchmarks.papers.legrand.optimisers import Search, optimise
from benchmarks.papers.legrand.study import GREEDY, ORACLE, TRAINED, Settings, Study, study_of
from benchmarks.papers.legrand.transfer import RECORDED, TESTING, sums
from tests.support.arriving import arriving

SETTINGS = Settings(points=4, budget=12, replicates=2)


@pytest.fixture(scope="module")
def study() -> Study:
    return study_of(arriving(jobs=300), SETTINGS)


def test_the_grids_are_those_of_the_paper() -> None:
    assert (len(grid()), len(grid(pure=False))) == (9806, 9800)
    assert len(grid(10, CUBE, pure=False)) < 1000
    for reading in ("surface", CUBE):
        whole = grid(10, reading)
        assert len(np.unique(whole, axis=0)) == len(whole)


def test_the_optimum_is_the_lowest_and_the_greedy_policy_that_of_the_week_before(study: Study) -> None:
    assert study.split.training == (1,)
    weekly = study.replays[(study.replays["seed"] == RECORDED) & (study.replays["tau_s"] == 60.0)]
    values = weekly.pivot(index="week", columns="policy", values="mean_bounded_slowdown")
    assert {*PURE, ORACLE, TRAINED, GREEDY, "xnes3", "xnes6"} <= {*values}
    assert (values[ORACLE] <= values[[TRAINED, GREEDY]].min(axis=1) * (1 + 1e-9)).all()
    chosen = study.chosen[study.chosen["tau_s"] == 60.0].set_index(["policy", "week"])[["n", "r", "wait"]]
    np.testing.assert_array_equal(chosen.loc[GREEDY].to_numpy()[1:], chosen.loc[ORACLE].to_numpy()[:-1])
    transfer = sums(study.replays, study.split)
    mine = transfer[(transfer["policy"] == ORACLE) & (transfer["part"] == TESTING) & (transfer["tau_s"] == 60.0)]
    assert mine["sum"].item() == pytest.approx(values.loc[list(study.split.testing), ORACLE].sum())
    assert len(claims(study, SETTINGS)) == 22


def test_searches_from_many_starts_close_in_on_the_best_direction() -> None:
    aim = np.array([0.2, -0.5, 0.3])

    def away(weights: np.ndarray) -> np.ndarray:
        return np.sqrt((1 - weights @ aim / (np.linalg.norm(weights, axis=1) * np.linalg.norm(aim))) / 2)

    for method in ("xnes", "cma-es", "random"):
        best = optimise(away, 3, Search(method, budget=500), seed=1)
        np.testing.assert_allclose(best.weights, aim, atol=0.1 if method == "random" else 0.01)
        assert (len(best.values), best.reached(best.value) is not None) == (500, True)
        assert best.starts == 1 if method == "random" else best.starts > 1
