"""The study of reacting users: ranks by slowdown, and a card of what was measured."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from benchmarks.studies import users, users_runs
from features.jobs.cleaning import CleanTrace, clean
from pipelines.ingest.workload import Workload, generate
from sim.simulate import simulate


def replays(section: str, users: str, predictor: str, slowdowns: list[float], loads: list[float]) -> pd.DataFrame:
    names = {"section": section, "title": "KTH-SP2", "users": users, "scheduler": "EASY-SJBF", "predictor": predictor}
    measured = {"mean_bounded_slowdown": slowdowns, "carried_load": loads, "mean_wait_s": 1234.5, "throughput_per_day": 90.0}
    return pd.DataFrame(measured).assign(**names)


RANKED = [("open", "a", [9.0, 11.0]), ("open", "b", [50.0, 50.5]), ("open", "c", [51.0, 51.5])]
FOUND = users_runs.means(
    pd.concat(
        [replays("ranking", *row, [0.5, 0.52]) for row in RANKED]
        + [replays("ranking", loop, name, [5.0], [0.625]) for loop in ("closed", "semi-open") for name in "abc"]
    )
)


def test_ranks_are_by_mean_slowdown() -> None:
    assert users.ranks(FOUND, "open")["rank"].to_dict() == {"a": 1, "b": 2, "c": 3}


def test_a_loop_replayed_again_correlates_with_itself_as_far_as_its_intervals_are_apart() -> None:
    alike = FOUND.assign(low=FOUND["mean"] - 500, high=FOUND["mean"] + 500)
    assert users.again(alike, "ranking", "open")[1] < 0
    apart = FOUND.assign(low=FOUND["mean"] - 1e-9, high=FOUND["mean"] + 1e-9)
    assert users.again(apart, "ranking", "open").tolist() == [1.0, 1.0, 1.0]


def waited() -> CleanTrace:
    trace = clean(generate(Workload(jobs=200, procs=16, users=8, load=0.9, seed=3)))
    return replace(trace, jobs=trace.jobs.assign(wait_s=pd.array([5] * 200, "Int64")))


def test_load_is_carried_until_a_share_of_jobs_has_ended_and_waits_delay_it() -> None:
    load, jobs = users_runs.carried(waited()), simulate(waited().jobs, procs=16).jobs
    seconds = jobs["end_s"].max() - jobs["submit_s"].min()
    assert load.loc["open", "all"] == pytest.approx((jobs["procs"] * jobs["runtime_s"]).sum() / (16 * seconds))
    assert load.loc["closed, no waits", "all"] >= load.loc["closed", "all"]


def test_a_campaign_on_a_small_trace_fills_every_table(monkeypatch) -> None:
    traces = dict.fromkeys(users_runs.TRACES, waited())
    monkeypatch.setattr(users_runs, "PREDICTORS", dict.fromkeys(("requested", "requested*2", "clairvoyant"), "requested"))
    kth = traces["KTH-SP2"]
    parts = [
        users_runs.loads(traces, 2, None),
        *(make(kth, 2, None) for make in (users_runs.ranking, users_runs.by_halves, users_runs.choices)),
    ]
    table = users_runs.means(pd.concat(parts, ignore_index=True))
    text = users.card(table, users_runs.carried(kth), "Made.").markdown()
    assert text.count("| KTH-SP2 | EASY |") == text.count("| LANL-CM5 | EASY |") == 1
    assert "Exact runtimes cut EASY-SJBF's slowdown by " in text
    assert "nan" not in text
    assert users.draw(table).startswith(b"\x89PNG")
    facts = users_runs.sessions({"KTH-SP2": kth}).set_index("rule")
    assert facts.loc["max", "of_several"] == 0
    assert set(facts["jobs"]) == {200}
