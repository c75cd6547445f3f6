"""Distributions of waits: what is learned, censored jobs, calibration, and the packed form."""

import json
from pathlib import Path

import numpy as np
import pytest

from models.packed.queue_state import FEATURES
from models.packed.settings import FORMAT, SETTINGS
from models.packed.start_distribution import (
    EDGES_S,
    LEVELS,
    SCENARIOS,
    Hazard,
    at_levels,
    at_waits,
    given_waiting,
    of_scenarios,
)
from models.packed.start_predictor import HAZARD, StartModel
from models.runtime.evaluation import pinball
from models.starts.bulk import chances
from models.starts.model import Growth, Questions, calibrate, fit, grow, predict, restricted, uncalibrated


def waits_by_state(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return states, plans, scenarios and waits: half of the jobs start at once, the others around what the state says."""
    draw = np.random.default_rng(seed)
    scale, room = draw.uniform(6.0, 11.0, count), draw.random(count) < 0.5
    waits = np.where(room, 0.0, np.exp(scale + 0.5 * draw.standard_normal(count)))
    states = np.column_stack((scale, room, draw.random(count)))
    scenarios = np.where(room[:, None], 0.0, np.exp(scale[:, None] + 0.5 * draw.standard_normal((count, SCENARIOS))))
    return states, np.exp(scale)[:, None], np.sort(scenarios, axis=1), np.floor(waits)


@pytest.mark.slow
@pytest.mark.parametrize("read", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_learned_quantiles_hold_at_their_levels_and_chances_rise(read: bool) -> None:
    states, plans, scenarios, waits = waits_by_state(6000)
    learned, judged = slice(0, 4000), slice(4000, 6000)
    ahead = scenarios if read else None
    model = grow(states[learned], plans[learned], ahead[learned] if read else None, waits[learned], np.zeros(4000, bool))  # type: ignore[index]
    curves = chances(model, states[judged], plans[judged], ahead[judged] if read else None)  # type: ignore[index]
    assert (np.diff(curves, axis=1) >= -1e-12).all()
    assert (curves[:, -1] == 1.0).all()
    waited = waits[judged]
    rest = waited > 60
    held = (waited[rest, None] <= at_levels(given_waiting(curves[rest]), np.array(LEVELS))).mean(axis=0)
    assert np.abs(held - LEVELS).max() < 0.06
    constant = np.quantile(waits[learned], LEVELS)
    assert pinball(at_levels(curves, np.array(LEVELS)), waited[:, None], np.array(LEVELS)).mean() < 0.5 * np.mean(
        [np.maximum(q * (waited - c), (q - 1) * (waited - c)) for q, c in zip(LEVELS, constant, strict=True)]
    )


def test_the_packed_form_answers_as_the_compiled_one() -> None:
    states, plans, scenarios, waits = waits_by_state(1500)
    model = grow(states, plans, scenarios, waits, np.zeros(1500, bool), growth=Growth(trees=30))
    assert isinstance(model, Hazard)
    here = model.chances(states[:100], plans[:100], scenarios[:100])
    assert np.abs(chances(model, states[:100], plans[:100], scenarios[:100]) - here).max() < 1e-12


@pytest.mark.slow
def test_a_model_keeps_beside_the_state_what_was_better_and_is_read_back_so(tmp_path: Path) -> None:
    draw = np.random.default_rng(4)
    states, count = draw.uniform(size=(300, len(FEATURES))), 300
    scenarios = np.sort(draw.exponential(3_000.0, (count, SCENARIOS)), axis=1)
    start = (np.median(scenarios, axis=1) + 1e6).astype(np.int64)
    asked = Questions(np.arange(count), np.full(count, 1_000_000), states, scenarios, np.zeros(count))
    model = fit(HAZARD, asked, start, 2_000_000, 0)
    by_kind = uncalibrated(model, asked)
    assert by_kind["pooled"] == pytest.approx((by_kind["both"] + of_scenarios(scenarios)) / 2)
    for kind in ("pooled", "both"):
        one = restricted(model, kind)
        settings = one.write(tmp_path)
        (tmp_path / SETTINGS).write_text(json.dumps({"format": FORMAT, **settings}))
        back = StartModel.read(tmp_path)
        assert set(back.trees) == {"state", kind}
        assert back.chances(states, scenarios) == pytest.approx(predict(one, uncalibrated(one, asked)))
        assert back.chances(states, scenarios) == pytest.approx(by_kind[kind])
        assert back.chances(states) == pytest.approx(by_kind["state"])


@pytest.mark.slow
def test_jobs_that_still_wait_are_censored_and_not_dropped() -> None:
    states, plans, _, waits = waits_by_state(3000)
    still = waits > 3000  # all that is known at some moment is that these wait for longer
    seen = np.minimum(waits, 3000.0)
    whole = grow(states, plans, None, seen, still)
    dropped = grow(states[~still], plans[~still], None, waits[~still], np.zeros((~still).sum(), bool))
    edge = int(np.searchsorted(EDGES_S, 2700))
    came = (waits <= 2700).mean()
    right, wrong = (chances(each, states, plans, None)[:, edge].mean() for each in (whole, dropped))
    assert abs(right - came) < 0.02
    assert wrong > came + 0.1


def test_calibration_mends_chances_that_are_off_for_jobs_with_room_and_for_jobs_that_wait() -> None:
    draw = np.random.default_rng(3)
    waits = np.where(draw.random(8000) < 0.7, 0.0, 60.0 + draw.exponential(20_000.0, 8000))
    curves = np.where(EDGES_S <= 60, 0.5, 1.0 - 0.5 * np.exp(-(EDGES_S - 60) / 10_000.0))
    curves = np.tile(curves, (8000, 1))
    curves[:, -1] = 1.0
    mended = calibrate(curves[:4000], waits[:4000], np.zeros(4000, bool), np.full(4000, 1e9)).apply(curves[4000:])
    came = (waits[4000:, None] <= EDGES_S).mean(axis=0)
    assert np.abs(curves[0] - came).max() > 0.19
    assert np.abs(mended[0] - came)[:-2].max() < 0.03


def test_calibration_counts_jobs_that_still_wait_as_far_as_they_have_come() -> None:
    draw = np.random.default_rng(4)
    waits = 61.0 + draw.exponential(10_000.0, 6000)
    curves = np.where(EDGES_S <= 60, 0.0, 1.0 - np.exp(-np.maximum(EDGES_S - 61, 0) / 10_000.0))
    curves = np.tile(curves, (6000, 1))
    curves[:, -1] = 1.0
    seen = draw.uniform(100.0, 20_000.0, 6000)  # how long each could be watched
    right = calibrate(curves, np.minimum(waits, seen), waits > seen, seen)
    assert np.abs(np.interp([0.25, 0.5, 0.75], right.forecast, right.came) - [0.25, 0.5, 0.75]).max() < 0.04


def test_scenarios_tell_a_chance_between_their_starts() -> None:
    curve = of_scenarios(np.array([[0.0] * 8 + [7200.0] * 8]))
    assert curve[0, 0] == pytest.approx(0.5, abs=0.03)
    assert curve[0, int(np.searchsorted(EDGES_S, 3600))] == pytest.approx(0.5, abs=0.06)
    assert curve[0, int(np.searchsorted(EDGES_S, 86_400))] == pytest.approx(1.0, abs=0.02)
    assert at_waits(curve, np.array([0.0])) == curve[0, 0]
