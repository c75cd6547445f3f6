"""An order is learned from earlier weeks alone; a sweep says of each policy what simulating and evaluating it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from features.clock import WEEK_S
from features.errors import InputError
from features.jobs.schema import conform
from features.jobs.workload_changes import moves, shaken
from sim import evaluate, simulate
from sim.campaigns.learned_order import MEASURED, MIXED, LearnedOrder, PreparedSweep, learn_order, random_weights
from sim.campaigns.windows import split_windows
from sim.policy import Policy
from sim.settings import Learning
from tests.support.workloads import Told, crowd

PROCS, WEEKS, JOBS = 16, 19, 20
SMALL = Learning(budget=12, copies=2, replicates=2)


def busy(weeks: int = WEEKS, seed: int = 4) -> pd.DataFrame:
    """Return a crowd at the beginning of each week, with the start of each job recorded."""
    rng = np.random.default_rng(seed)
    tables = [crowd(rng, JOBS, machine=PROCS, origin_s=week * WEEK_S + 1000).table() for week in range(weeks)]
    jobs = pd.concat(tables, ignore_index=True)
    columns = {name: jobs[name].to_numpy() for name in ("submit_s", "runtime_s", "procs", "requested_s")}
    columns |= {"job_id": np.arange(1, len(jobs) + 1), "wait_s": np.zeros(len(jobs), np.int64)}
    return conform(columns, len(jobs))


JOBS_OF_ALL = busy()


def small(**changes: object) -> Learning:
    return Learning(**{**SMALL.model_dump(), **changes})


def learned(jobs: pd.DataFrame = JOBS_OF_ALL, learning: Learning = SMALL, until_s: int | None = None):
    return learn_order(jobs, learning, trace="busy", procs=PROCS, until_s=until_s)


@pytest.fixture(scope="module")
def first() -> LearnedOrder:
    return learned()


def changed_from(begin_s: int) -> pd.DataFrame:
    """Return the jobs with other runtimes, sizes and submissions from ``begin_s`` on."""
    later = JOBS_OF_ALL["submit_s"].to_numpy(np.int64) >= begin_s
    runtime, procs = (JOBS_OF_ALL[name].to_numpy(np.int64) for name in ("runtime_s", "procs"))
    other = {"runtime_s": np.where(later, np.maximum(runtime // 3, 1), runtime), "procs": np.where(later, PROCS + 1 - procs, procs)}
    return JOBS_OF_ALL.assign(**other)


@pytest.mark.slow
def test_held_out_weeks_decide_the_evidence_and_nothing_of_what_is_learned(first: LearnedOrder) -> None:
    assert first.trained.weeks == tuple(range(1, 13))
    assert first.evidence is not None
    assert first.evidence.weeks == tuple(range(13, 19))
    begin_s = int(JOBS_OF_ALL["submit_s"].iloc[0]) + 13 * WEEK_S
    other = learned(changed_from(begin_s))
    assert other.score == first.score
    assert other.evidence is not None
    assert other.evidence.relative != first.evidence.relative
    assert learned(changed_from(begin_s - 8 * WEEK_S)).score != first.score, "weeks that are learned from count"


@pytest.mark.slow
def test_nothing_that_comes_after_the_date_changes_anything(first: LearnedOrder) -> None:
    until_s = int(JOBS_OF_ALL["submit_s"].iloc[0]) + 17 * WEEK_S + 5 * 3600  # within a week: that is left out, too
    then = learned(until_s=until_s)
    assert then.evidence is not None
    assert (then.trained.weeks[-1], then.evidence.weeks[-1]) == (11, 16)
    whole_weeks_end_s = int(JOBS_OF_ALL["submit_s"].iloc[0]) + 17 * WEEK_S
    assert learned(changed_from(whole_weeks_end_s), until_s=until_s) == then
    assert learned(changed_from(whole_weeks_end_s)) != first


@pytest.mark.slow
def test_the_same_seed_learns_the_same_and_better_than_where_it_began(first: LearnedOrder) -> None:
    assert first == learned()
    assert first.trained.trials == SMALL.budget
    assert learned(learning=small(seed=1)).score != first.score
    bad = small(formula="a*log(n)+b*log(r);a=-1;b=-1", budget=40)
    weeks = split_windows(JOBS_OF_ALL, "weeks").windows[:12]
    slowdowns = [
        sum(slowdown(week.jobs, f"SCORE({text})-EASY-SPF") for week in weeks)
        for text in (bad.formula, str(learned(learning=bad).score))
    ]
    assert slowdowns[1] < slowdowns[0]


def slowdown(jobs: pd.DataFrame, scheduler: str) -> float:
    schedule = simulate(jobs, procs=PROCS, scheduler=scheduler, starvation_s=SMALL.starvation_s).jobs
    wait, runtime = schedule["start_s"] - schedule["submit_s"], schedule["runtime_s"]
    return float(np.maximum(1.0, (wait + runtime) / np.maximum(runtime, 10)).mean())


def test_the_evidence_is_what_simulations_of_the_held_out_weeks_say(first: LearnedOrder) -> None:
    evidence = first.evidence
    assert evidence is not None
    assert evidence.low <= evidence.relative <= evidence.high
    sums = []
    for scheduler in (f"SCORE({first.score})-EASY-SPF", "SAF-EASY-SPF"):
        sums.append(0.0)
        for week in split_windows(JOBS_OF_ALL, "weeks").windows[12:]:
            for copy in range(SMALL.replicates):
                by_s = moves(len(week.jobs), SMALL.shake_s if copy else 0, 1000 * week.number + copy)
                sums[-1] += slowdown(shaken(week.jobs, by_s)[0], scheduler)
    assert evidence.relative == pytest.approx(sums[0] / sums[1] - 1)
    assert (evidence.against, evidence.replicates) == ("SAF-EASY-SPF", SMALL.replicates)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"formula": "r*n"}, "fewer than the two parameters"),
        ({"formula": "r*n**a;a=1"}, "fewer than the two parameters"),
        ({"formula": "r*m"}, "'m' at letter 3 is not a feature"),
        ({"budget": 0}, "budget"),
        ({"replicates": 1}, "replicates"),
    ],
)
def test_what_cannot_be_learned_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        small(**changes)


LOAD = crowd(np.random.default_rng(7), size=150, machine=32)


def by_simulation(weights: np.ndarray, backfill: str, tau_s: float, **policy: Any) -> list[list[float]]:
    names = [f"MIXED({','.join(map(repr, row))})-EASY-{backfill}" for row in weights.tolist()]
    return [evaluate(LOAD.schedule(name, **policy), tau_s=tau_s)[list(MEASURED)].tolist() for name in names]


@pytest.mark.parametrize("features", [3, 6])
@pytest.mark.parametrize(
    "policy",
    [
        {"predictor": "requested"},
        {"predictor": "last2", "correction": "tsafrir", "semantics": "per-event"},
        {"predictor": "requested", "starvation_s": 300},
        {"predictor": "last2", "correction": "conditional"},
    ],
    ids=lambda policy: " ".join(map(str, policy.values())),
)
def test_a_sweep_agrees_with_simulations_one_by_one(features: int, policy: dict[str, Any]) -> None:
    weights = random_weights(6, features, seed=features)
    scheduler = "MIXED(1,0,0)-EASY-SPF"
    prepared = PreparedSweep(LOAD.table(), procs=LOAD.machine, policy=Policy(scheduler, **policy), taus_s=(60.0,))
    swept = prepared.measure(weights)
    expected = by_simulation(weights, "SPF", 60.0, **policy)
    np.testing.assert_allclose(swept[list(MEASURED)].to_numpy(), expected, rtol=1e-12)
    assert swept["mean_wait_s"].nunique() > 1, "policies that all do the same would hide that weights are not used"


def test_random_weights_lie_on_the_unit_sphere_of_the_l1_norm_in_all_directions() -> None:
    weights = random_weights(4000, 3, seed=1)
    np.testing.assert_allclose(np.abs(weights).sum(axis=1), 1.0)
    np.testing.assert_allclose((weights > 0).mean(axis=0), 0.5, atol=0.05)
    np.testing.assert_allclose(np.abs(weights).mean(axis=0), 1 / 3, atol=0.02)
    assert np.array_equal(weights, random_weights(4000, 3, seed=1))


@pytest.mark.parametrize(
    ("weights", "predictor", "message"),
    [
        ([[1.0, 2.0]], "requested", "policies, 3 or 6"),
        ([[0.0, 0.0, 0.0]], "requested", "with no row of zeros alone"),
        ([[float("nan"), 0.0, 1.0]], "requested", "finite"),
        ([[1.0, 0.0, 0.0]], Told([], [], []), "told is written in Python"),
        ([[1.0, 0.0, 0.0]], [-5.0], "predictions for 150 jobs"),
        ([[1.0, 0.0, 0.0]], "lightgbm", "not retrained each night"),
    ],
)
def test_what_a_sweep_cannot_take_is_refused_in_one_line(weights: list, predictor: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        PreparedSweep(LOAD.table(), procs=LOAD.machine, policy=MIXED._replace(predictor=predictor)).measure(weights)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"correction": "nonsense"}, "unknown correction 'nonsense'"),
        ({"semantics": "per-minute"}, "unknown semantics 'per-minute'"),
        ({"starvation_s": -1}, "must be 0 to"),
        ({"scheduler": "MIXED(1,0,0)-EASY-XYZ"}, "unknown order"),
        (
            {"scheduler": "EASY-SPF"},
            r"takes MIXED\(...\) or SCORE\(...\) with EASY, JustBF, List, Strict on the jobs as recorded, not EASY-SPF",
        ),
        ({"shake_s": 60}, "on the jobs as recorded"),
        ({"predictor": np.array(LOAD.estimates, float), "correction": "conditional"}, "a table of one answer a job"),
    ],
)
def test_a_sweep_refuses_what_a_simulation_refuses(policy: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        PreparedSweep(LOAD.table(), procs=LOAD.machine, policy=MIXED._replace(**policy)).measure(random_weights(2))
