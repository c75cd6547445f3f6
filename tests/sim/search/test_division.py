"""A division finds for each direction the schedule that simulating it makes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from features.jobs.cleaning import clean
from pipelines.ingest.swf import read_swf
from sim import simulate, split_windows
from sim.campaigns.maps import serial, threads
from sim.campaigns.sweep import MIXED, PreparedSweep, random_weights, sweep
from sim.search.directions import grid
from sim.search.division import Division, division, sweep_by_regions
from tests.conftest import SHARED, needs_shared
from tests.support.workloads import crowd

LOAD = crowd(np.random.default_rng(7), size=60, machine=16)
CROWD = LOAD.table()
WEEKS = {"SDSC-SP2-filtered.swf.gz": (128, 64), "KTH-SP2-1996-2.swf.gz": (None, 24)}
"""A week of each trace, with its machine."""


def prepared(jobs: pd.DataFrame = CROWD, procs: int = LOAD.machine, **policy: Any) -> PreparedSweep:
    return PreparedSweep(jobs, procs=procs, policy=MIXED._replace(**policy))


def same(sweep: PreparedSweep, points: np.ndarray, found: Division) -> bool:
    """Tell whether each point has the sums of its simulation."""
    return bool((sweep.sums(sweep.checked(points))[0] == found.sums[found.region]).all())


@pytest.mark.parametrize(
    "policy",
    [
        {},
        {"starvation_s": 300},
        {"predictor": "last2", "correction": "tsafrir"},
        {"scheduler": "MIXED(1,0,0)-EASY-LEXP"},
    ],
    ids=str,
)
def test_every_point_has_the_schedule_of_its_direction(policy: dict[str, Any]) -> None:
    """Small whole weights make many ties, which go by submission."""
    points = np.stack(np.meshgrid(*[np.arange(-6, 7)] * 3), axis=-1).reshape(-1, 3)
    points = points[points.any(axis=1)]
    sweep = prepared(**policy)
    found = division(sweep, points)
    assert same(sweep, points, found)
    assert found.complete
    assert len(found.outline) - 1 < len(points) / 4, "found one by one instead of by regions"


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), starvation_s=st.sampled_from([None, 60, 600]))
def test_all_directions_are_covered_by_cones_of_one_schedule(seed: int, starvation_s: int | None) -> None:
    load = crowd(np.random.default_rng(seed), size=20, machine=8)
    sweep = prepared(load.table(), load.machine, starvation_s=starvation_s)
    found = division(sweep, np.zeros((0, 3), np.int64), everywhere=True)
    assert found.complete
    assert found.given_up == 0
    rng = np.random.default_rng(seed)
    cones = [found.corner[begin:end] for begin, end in pairwise(found.outline)]
    inside = np.array([rng.dirichlet(np.ones(len(corner))) @ corner for corner in cones])
    np.testing.assert_array_equal(sweep.sums(sweep.checked(inside))[0], found.sums)
    assert sum(map(solid_angle, cones)) == pytest.approx(4 * np.pi)


def solid_angle(corner: np.ndarray) -> float:
    """Return that of a cone, by Van Oosterom and Strackee's formula for its triangles."""
    corner = corner / np.linalg.norm(corner, axis=1, keepdims=True)
    total = 0.0
    for b, c in pairwise(corner[1:]):
        a = corner[0]
        total += 2 * np.arctan2(abs(a @ np.cross(b, c)), 1 + a @ b + b @ c + a @ c)
    return float(total)


@needs_shared
@pytest.mark.parametrize("starvation_s", [None, 200_000, 72_000])
@pytest.mark.parametrize("file", WEEKS)
def test_directions_of_real_weeks_have_their_simulated_schedules(file: str, starvation_s: int | None) -> None:
    procs, number = WEEKS[file]
    trace = clean(read_swf(SHARED / "traces" / file), procs)
    week = next(each.jobs for each in split_windows(trace.jobs, "weeks").windows if each.number == number)
    sweep = prepared(week, trace.procs, starvation_s=starvation_s)
    points = grid(20).whole
    found = division(sweep, points)
    assert same(sweep, points, found)
    for row in (0, 201, 365):
        n, r, wait = points[row].tolist()
        schedule = simulate(week, procs=trace.procs, scheduler=f"MIXED({n},{r},{wait})-EASY-SPF", starvation_s=starvation_s)
        waits = schedule.jobs["start_s"] - schedule.jobs["submit_s"]
        assert waits.sum() == found.sums[found.region[row], 0]


def test_after_so_many_simulations_the_rest_is_left_out() -> None:
    points = grid(20).whole
    found = division(prepared(), points, most=3)
    assert not found.complete
    assert (found.region == -1).any()


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({"scheduler": "MIXED(1,0,0;standardised)-EASY-SPF"}, "raw features"),
        ({"scheduler": "MIXED(1,0,0)-JustBF"}, "EASY"),
        ({"scheduler": "MIXED(1,0,0)-EASY(reservations=2)-SPF"}, "EASY"),
        ({"semantics": "per-event"}, "per second"),
        ({"semantics": "per-second(every=30)"}, "per second"),
    ],
)
def test_policies_whose_schedules_depend_on_more_are_refused(policy: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        division(prepared(**policy), grid(4).whole)


def test_weights_with_which_scores_would_be_rounded_are_refused() -> None:
    with pytest.raises(InputError, match="without rounding"):
        division(prepared(), np.array([[1, 2, 1 << 50]]))


@pytest.mark.parametrize("starvation_s", [None, 300])
def test_a_sweep_by_regions_agrees_with_a_sweep(starvation_s: int | None) -> None:
    """Weights of all kinds: at random, near to ties of the first jobs' scores, and with zeros among them."""
    rng = np.random.default_rng(2)
    ties = np.cross(*(rng.integers(-40, 40, (2, 300, 3)) * [1, 30, 1])).astype(np.float64)
    ties /= np.abs(ties).sum(axis=1, keepdims=True).clip(1)
    weights = np.concatenate([random_weights(600), ties[ties.any(axis=1)], grid(6).weights])
    policy = MIXED._replace(starvation_s=starvation_s)
    found = sweep_by_regions(CROWD, weights, procs=LOAD.machine, policy=policy, tau_s=(10, 60), map_pieces=threads(2))
    swept = sweep(CROWD, weights, procs=LOAD.machine, policy=policy, tau_s=(10, 60), map_pieces=serial)
    pd.testing.assert_frame_equal(found, swept, check_exact=True)
    with pytest.raises(InputError, match="3"):
        sweep_by_regions(CROWD, np.ones((2, 6)), procs=LOAD.machine)


def test_a_predictor_without_an_answer_is_an_error() -> None:
    with pytest.raises(InputError, match="no finite number"):
        division(prepared(predictor="cv-triple(over=exponential,under=exponential,lambda=0)"), grid(6).whole)
