"""The asset group ``planning``: what it keeps, what its page shows, and that it is published with the jobs it was made from."""

from dataclasses import replace
from pathlib import Path

import dagster as dg
import numpy as np
import pandas as pd
import pytest

import pipelines.assets.planning as assets
from pipelines.assets.partitions import trace_on
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.report.planning import render_planning
from pipelines.storage.lake import Lake
from pipelines.storage.policies import make_policy, write_policy
from pipelines.workflows import planning
from tests.sim.metrics.test_schedule_metrics import schedule_of
from tests.support.arriving import arriving

NAME = "arriving"


def searched(seed: int = 0):
    """A schedule with all that a planner tells: two jobs, the second told 40 s late."""
    return schedule_of(
        [0, 10],
        [0, 90],
        [100, 50],
        [4, 8],
        user=["a", "b"],
        scheduler="Conservative",
        seed=seed,
        plans=pd.DataFrame({"job_id": [1, 2], "time_s": [0, 10], "planned_start_s": [0, 140], "cluster": "", "nodes": None}),
        searches=pd.DataFrame(
            {
                "time_s": [10, 20],
                "search": [0, 0],
                "iteration": [3, 7],
                "plan_jobs": [1, 1],
                "wait_gain": [0.1, -0.2],
                "slowdown_gain": [0.0, 0.3],
                "fairness_gain": [0.0, 0.1],
            }
        ),
        search_costs=pd.DataFrame({"time_s": [10], "plan_jobs": [1], "iterations": [300], "accepted": [2], "seconds": [0.01]}),
    )


def test_what_a_planner_told_reads_back_as_it_was_kept(tmp_path: Path) -> None:
    clean = arriving(jobs=60)
    part = planning.busiest(clean, 1.0)
    assert 0 < len(part.jobs) < 60
    assert part.jobs["submit_s"].max() - part.jobs["submit_s"].min() <= 86_400
    plain = planning.plan_trace(part, ("EASY", "Harm"), ("open", "closed"), 2)
    assert [*planning.by_label(plain)] == ["EASY", "Harm", "EASY, closed users", "Harm, closed users"]
    assert [(each.scheduler, each.seed) for each in plain[:3]] == [("EASY", 0), ("Harm", 0), ("Harm", 1)]
    told = searched()
    ids = part.jobs["job_id"].to_numpy()
    moved = plain[0].jobs.assign(submit_s=plain[0].jobs["submit_s"] - 1)
    plans = told.plans.assign(job_id=ids[:2])
    made = [plain[1], plain[3], replace(plain[0], jobs=moved, plans=plans, searches=told.searches, search_costs=told.search_costs)]
    lake = Lake(tmp_path / "lake")
    lake.write_clean(clean)
    planning.keep_planned(lake, clean, made)
    kept = planning.kept_planned(lake, clean)
    for one, other in zip(made, kept, strict=True):
        pd.testing.assert_frame_equal(one.jobs, other.jobs)
        assert (one.policy, one.procs, one.trace) == (other.policy, other.procs, other.trace)
        for name in planning.PLANS:
            mine, theirs = getattr(one, name), getattr(other, name)
            assert (mine is None) == (theirs is None)
            if mine is not None:
                pd.testing.assert_frame_equal(mine, theirs, check_dtype=False)


@pytest.mark.slow
def test_the_page_shows_every_figure_that_the_schedules_can_fill() -> None:
    plain, told = schedule_of([0, 10], [0, 95], [100, 50], [4, 8], user=["a", "b"]), [searched(0), searched(1)]
    html = render_planning("t", {"EASY": [plain], "Conservative": told}, {"code": "x"}, ["a note"], of_all=10)
    for title in (
        "Mean waits by class of jobs",
        "Fairness between users",
        "Satisfaction",
        "Accepted moves of Conservative",
        "What a search costs",
    ):
        assert title in html
    assert html.count("<img") == 7
    assert "jobs of a real trace, of 10" in html
    assert "Conservative: 50% of jobs wait no longer than the mean of 45 s" in html
    assert "100% of jobs started no later than they were first told" in html
    bare = render_planning("t", {"EASY": [schedule_of([0], [5], [10], [1], user=pd.Categorical([None], categories=["x"]))]}, {})
    assert bare.count("<img") == 3
    assert "NUWT" not in bare


@pytest.mark.slow
def test_the_group_keeps_tables_and_page_in_its_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    monkeypatch.setattr(
        assets, "render_planning", lambda name, schedules, *_: f"{name}: {', '.join(schedules)}"
    )  # seconds of figures
    clean, lake = arriving(jobs=60), Lake(tmp_path / "lake")
    lake.write_clean(clean)
    write_policy(tmp_path / "area.json", make_policy("area", "r*n"))
    asked = ["EASY", "Conservative", f"POLICY({tmp_path}/area.json)-EASY-SPF"]
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("traces", [NAME])
        done = dg.materialize(
            [assets.planned_schedules, assets.planning_report],
            instance=instance,
            resources={"lake": LakeResource(), "registry": RegistryResource()},
            partition_key=trace_on(NAME),
            run_config={"ops": {"planned_schedules": {"config": {"schedulers": asked, "days": 0.0}}}},
        )
    checks = done.get_asset_check_evaluations()
    assert done.success
    assert [check.passed for check in checks] == [True] * 4
    assert not lake.has(planning.TABLE, NAME), "nothing is seen before it is published"
    versions = lake.versions(f"runtime-{NAME}")
    versions.publish(done.run_id)
    kept = planning.by_label(planning.kept_planned(lake, lake.read_clean(NAME)))
    shown = ["EASY", "Conservative", "SCORE(r*n)-EASY-SPF"]
    assert [*kept] == [*shown, *(f"{name}, closed users" for name in shown)]
    assert np.array_equal(kept["EASY"][0].jobs["start_s"], planning.plan_trace(clean, ("EASY",), ("open",), 1)[0].jobs["start_s"])
    page = lake.root / versions.current().files[f"reports/planning/{NAME}.html"]
    assert page.read_text() == f"arriving: {', '.join(kept)}"
    lake.write_clean(arriving(jobs=61))
    assert not lake.has(planning.TABLE, NAME), "plans of other jobs are not read any more"
    assert f"reports/planning/{NAME}.html" not in versions.current().files


def test_users_react_where_the_trace_says_enough_of_them() -> None:
    asked = ("open", "closed", "semi-open(session=600)")
    for users, waits, possible in (
        (True, True, [*asked]),
        (True, False, ["open", "closed(ends=EASY)", "semi-open(session=600)"]),
        (False, True, ["open"]),
    ):
        assert planning.possible(arriving(jobs=60, users=users, waits=waits), asked) == possible
