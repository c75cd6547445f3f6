"""A campaign's rows equal single simulations, under any map, order and interruption."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pytest

from features.clock import WEEK_S
from features.errors import InputError
from models.runtime.protocol import TablePredictor
from sim import Campaign, Point, campaign_schedules, evaluate, run_campaign, simulate
from sim.campaigns.campaign import points, policies
from sim.campaigns.maps import threads
from sim.campaigns.points import IDENTITY
from sim.campaigns.windows import Windows, split_windows
from sim.metrics.verdict import combinations as labels
from tests.support.process import LIBRARIES
from tests.support.workloads import crowd

WIDTH = 64
METRICS = list(evaluate(simulate(crowd(np.random.default_rng(0), 3).table(), procs=WIDTH)).index)


def workload(weeks: int = 6, jobs: int = 60) -> pd.DataFrame:
    """A crowd in the middle of each week, so that nothing crosses windows."""
    rng = np.random.default_rng(7)
    parts = [crowd(rng, jobs, WIDTH, origin_s=week * WEEK_S + (week > 0) * 1000).table() for week in range(weeks)]
    return pd.concat(parts, ignore_index=True).assign(
        job_id=range(1, weeks * jobs + 1), user=pd.Categorical(["ann", "bob"] * (weeks * jobs // 2))
    )


JOBS = workload()
WEEKS = split_windows(JOBS, "weeks")
ASKED = Campaign(
    schedulers=("EASY", "SAF-EASY-SPF", "JustBF"),
    predictors=("requested", "last2"),
    corrections=("requested", "tsafrir"),
    semantics=("per-second", "per-event"),
    starvation_s=(None, 300),
    taus_s=(10.0, 60.0),
)


def run(asked: Campaign = ASKED, windows: Windows | None = WEEKS, **given: Any) -> pd.DataFrame:
    return run_campaign(JOBS, asked, procs=WIDTH, windows=windows, trace="toy", **given)


def assert_same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    """Equal to the last bit, measured times aside."""
    pd.testing.assert_frame_equal(one.drop(columns="simulate_s"), other.drop(columns="simulate_s"), check_exact=True)


def test_rows_are_what_simulate_and_evaluate_give_one_by_one() -> None:
    table = run()
    assert list(table.columns) == [*IDENTITY, *METRICS]
    assert len(table) == 5 * 3 * 2 * 2 * 2 * 2 * 2
    by_number = {window.number: window for window in WEEKS.windows}
    for row in table.sample(60, random_state=1).to_dict("records"):
        window = by_number[row["window"]]
        policy = {name: row[name] for name in ("scheduler", "predictor", "correction", "semantics", "seed")}
        starvation_s = None if pd.isna(row["starvation_s"]) else int(row["starvation_s"])
        alone = evaluate(simulate(window.jobs, procs=WIDTH, starvation_s=starvation_s, **policy), row["tau_s"])
        assert {name: row[name] for name in METRICS[:-1]} == pytest.approx(alone[METRICS[:-1]].to_dict(), rel=0, abs=0, nan_ok=True)
        assert (row["trace"], row["window_begin_s"], row["procs"], row["generated"]) == ("toy", window.begin_s, WIDTH, False)


def processes(function: Callable[[Any], Any], groups: Sequence[Any]) -> Iterable[Any]:
    """What a cluster would do: function and groups are pickled, results come back."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(LIBRARIES))
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        yield from pool.map(function, groups, chunksize=2)


def backwards(function: Callable[[Any], Any], groups: Sequence[Any]) -> Iterable[Any]:
    return map(function, reversed(groups))


@pytest.mark.slow
@pytest.mark.parametrize("map_points", [threads(4), backwards, processes])
def test_whoever_computes_the_points_the_table_is_the_same(map_points) -> None:
    table = TablePredictor("half", lambda jobs: jobs["requested_s"].to_numpy() / 2)
    asked = Campaign(schedulers=("EASY", "SAF-EASY-SPF"), predictors=(table, "last2"), corrections=("tsafrir",))
    assert_same(run(asked, map_points=map_points), run(asked, map_points=map))


def test_a_table_of_predictions_is_made_once_for_the_whole_trace_and_cut_to_each_window() -> None:
    seconds = JOBS["requested_s"].to_numpy() * np.random.default_rng(3).random(len(JOBS))
    asked_with = []

    def estimate(jobs: pd.DataFrame) -> np.ndarray:
        asked_with.append(len(jobs))
        return seconds

    table = run(Campaign(schedulers=("EASY-SJBF",), predictors=(TablePredictor("mine", estimate),), corrections=("doubling",)))
    assert asked_with == [len(JOBS)]
    expected = [
        evaluate(simulate(window.jobs, procs=WIDTH, scheduler="EASY-SJBF", predictor=seconds[window.rows], correction="doubling"))
        for window in WEEKS.windows
    ]
    assert table["mean_wait_s"].tolist() == [each["mean_wait_s"] for each in expected]
    assert table["corrections"].tolist() == [each["corrections"] for each in expected]
    assert table["corrections"].sum() > 0


class Learner:
    """A Python predictor that would notice if it were shared: it keeps the state of one simulation, and knows its thread."""

    name = "half-learnt"
    instances = 0

    def __init__(self) -> None:
        type(self).instances += 1
        self.begun, self.ends = 0, 0

    def begin(self, jobs: pd.DataFrame) -> None:
        self.begun += 1
        assert self.begun == 1, "used for a second simulation"
        self.requested, self.thread = jobs["requested_s"].to_numpy(), threading.get_ident()

    def submitted(self, job: int, now_s: int) -> None:
        assert threading.get_ident() == self.thread

    def started(self, job: int, now_s: int) -> None: ...

    def ended(self, job: int, now_s: int) -> None:
        self.ends += 1

    def estimate(self, question: int, job: int, now_s: int, elapsed_s: int) -> float:
        return self.requested[job] / (1 + self.ends % 3)


def test_a_python_predictor_is_made_anew_for_each_simulation() -> None:
    table = run(Campaign(schedulers=("EASY", "EASY-SJBF"), predictors=(Learner,)), map_points=threads(4))
    assert Learner.instances >= len(table) == 2 * 5
    assert set(table["predictor"]) == {"half-learnt"}
    alone = simulate(WEEKS.windows[2].jobs, procs=WIDTH, scheduler="EASY-SJBF", predictor=Learner())
    assert table.query("window == 3 and scheduler == 'EASY-SJBF'")["mean_wait_s"].item() == evaluate(alone)["mean_wait_s"]


@pytest.mark.slow
def test_what_is_done_is_not_computed_again_and_the_table_is_the_same() -> None:
    journal: dict[Point, Any] = {}
    whole = run(finished=journal.__setitem__)
    asked = points(ASKED, WEEKS)
    assert journal.keys() == set(asked)
    before = {point: journal[point] for point in asked[::3]}
    again: dict[Point, Any] = {}
    counts: list[tuple[int, int]] = []
    resumed = run(done=before, finished=again.__setitem__, progress=lambda done, total: counts.append((done, total)))
    assert_same(resumed, whole)
    assert again.keys() == set(asked) - before.keys()
    assert counts == [(done, len(asked)) for done in range(len(before) + 1, len(asked) + 1)]
    done_ones = resumed["simulate_s"]
    assert set(done_ones) >= {row["simulate_s"] for rows in before.values() for row in rows}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (Campaign(schedulers=("EASY", "EASYY")), "unknown scheduler 'EASYY'"),
        (Campaign(schedulers=("EASY",), predictors=("requested", "oracle")), "unknown predictor 'oracle'"),
        (Campaign(schedulers=("EASY",), corrections=("requested", "twice")), "unknown correction 'twice'"),
        (Campaign(schedulers=("EASY",), semantics=("per-hour",)), "unknown semantics 'per-hour'"),
        (Campaign(schedulers=("Conservative",), starvation_s=(None, 60)), "Conservative reserves for every job"),
    ],
)
def test_a_name_that_is_not_known_is_refused_before_anything_is_simulated(asked: Campaign, words: str) -> None:
    simulated: dict[Point, Any] = {}
    with pytest.raises(InputError, match=words):
        run(asked, finished=simulated.__setitem__)
    assert not simulated


@pytest.mark.parametrize("map_points", [map, threads(2)])
def test_an_error_names_the_point(map_points) -> None:
    seconds = JOBS["requested_s"].to_numpy(np.float64).copy()
    seconds[WEEKS.windows[1].rows[3]] = np.nan
    broken = TablePredictor("broken", lambda jobs: seconds)
    with pytest.raises(
        InputError, match=r"^EASY / broken / requested, per-second, seed 0, window 2: predictor broken: predicts nan"
    ):
        run(Campaign(schedulers=("EASY",), predictors=(broken,)), map_points=map_points)


def test_schedules_of_the_whole_workload_come_in_the_order_of_the_points() -> None:
    asked = Campaign(schedulers=("EASY", "List"), predictors=("requested", "last2"))
    schedules = campaign_schedules(JOBS, asked, procs=WIDTH, trace="toy", generated=True, map_points=backwards)
    assert [(each.scheduler, each.predictor, each.trace, each.generated) for each in schedules] == [
        (scheduler, predictor, "toy", True) for scheduler in asked.schedulers for predictor in asked.predictors
    ]
    alone = simulate(JOBS, procs=WIDTH, scheduler="List", predictor="last2")
    pd.testing.assert_frame_equal(schedules[3].jobs, alone.jobs)


def test_dependencies_are_those_of_simulate_and_stay_within_their_window() -> None:
    first = WEEKS.windows[0].rows[0]
    preceding = pd.array([pd.NA] * len(JOBS), dtype="Int64")
    preceding[first + 5], preceding[first] = JOBS["job_id"][first], JOBS["job_id"][first - 1]  # the latter in the week before
    jobs = JOBS.assign(preceding_job=preceding, think_s=pd.array([50_000] * len(JOBS), dtype="Int64"))
    weeks = split_windows(jobs, "weeks")
    makespans = {
        follow: run_campaign(jobs, Campaign(schedulers=("EASY",), dependencies=follow), procs=WIDTH, windows=weeks)["makespan_s"]
        for follow in (False, True)
    }
    alone = evaluate(simulate(weeks.windows[0].jobs, procs=WIDTH, dependencies=True))
    assert makespans[True][0] == alone["makespan_s"] >= makespans[False][0] + 40_000
    assert makespans[True][1:].tolist() == makespans[False][1:].tolist()
    with pytest.raises(InputError, match="no job names a preceding job"):
        run(Campaign(schedulers=("EASY",), dependencies=True))


def test_where_requests_and_their_distribution_are_both_chosen_each_scheduler_has_the_one_it_goes_by() -> None:
    def combinations(*predictors: str) -> list[tuple[str, str]]:
        return [policy[:2] for policy in policies(Campaign(schedulers=("EASY", "Harm"), predictors=predictors))]

    assert combinations("requested", "prior") == [("EASY", "requested"), ("Harm", "prior")]
    shown = labels([(*names, "requested") for names in [("Harm", "requested"), ("Harm", "prior")]])
    assert list(shown.values()) == ["Harm / requests", "Harm / prior"], "two simulations have two names"
    own = Campaign(schedulers=("EASY", "a policy in Python"), predictors=("requested", "prior"))
    assert [policy.predictor for policy in policies(own)] == ["requested", "requested"]
    assert combinations("prior") == [("EASY", "prior"), ("Harm", "prior")]
    assert combinations("requested") == [("EASY", "requested"), ("Harm", "requested")]
