"""The study of Rollout: equal information on both sides, and an answer that counts intervals without 0."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.studies import expected_harm_runs as runs
from benchmarks.studies import rollouts as study
from benchmarks.studies.expected_harm_runs import HALVES, Place
from benchmarks.studies.expected_harm_tables import TRACES
from benchmarks.studies.rollouts import KNOWN, RUNS, SINGLE, card, costs, measured
from features.jobs.cleaning import CleanTrace, clean
from pipelines.ingest.workload import Workload, generate
from sim.names import scheduler


@pytest.fixture
def trace(monkeypatch) -> CleanTrace:
    log = clean(generate(Workload(jobs=150, procs=16, users=8, load=0.9, seed=3)))
    monkeypatch.setattr(runs, "load", lambda *_: log)
    runs.half_of.cache_clear()
    return log


def row(against: str, predictor: str, metric: str, relative: float, sure: bool, trace: str = "KTH-SP2") -> dict[str, object]:
    reach = 0.01 if sure else 1.0
    bounds = {"low": relative - reach, "high": relative + reach, "replicates": 3}
    names = {"name": f"Rollout / {predictor}", "against": against, "predictor": predictor, "metric": metric, "trace": trace}
    return names | {"relative": relative} | bounds


FOUND = pd.DataFrame([
    row("EASY", "sp3", "slowdown", -0.9, sure=True),
    row("Harm", "sp3", "slowdown", -0.2, sure=True),
    row("Harm", "sp3", "slowdown", -0.2, sure=True, trace="SDSC-SP2"),
    row("Harm", "prior", "slowdown", 0.2, sure=True),
    row("Harm", "requested", "slowdown", -0.7, sure=False),
    row("EASY-SRF", "sp3", "slowdown", -0.1, sure=True),
    row("SAF-EASY", "sp3", "slowdown", -0.1, sure=False),
    row("SAF-EASY", "requested", "slowdown", 0.1, sure=True),
    row("WFP3-EASY", "sp3", "slowdown", -0.2, sure=True),
    row("Harm", "sp3", "AWF", 0.05, sure=True),
    row("Harm", "sp3", "P2SF", 0.01, sure=False),
    row("EASY-SRF", "sp3", "AWF", 0.05, sure=False),
])  # fmt: skip
COST = pd.DataFrame({"sp3": [1.0, 14.2, 300.4], "prior": [1.0, 19.8, 410.0]}, index=["EASY", "Harm", "Rollout"])


def test_every_single_policy_is_one_that_rollout_may_choose():
    rule = scheduler("Rollout").rollout
    assert rule is not None
    assert {scheduler(name) for name in SINGLE} <= {scheduler(name) for name in rule.policies}


def test_the_answer_counts_what_intervals_leave_out_and_nothing_else():
    text = card(FOUND, COST, "Made.").markdown()
    assert "slowdown by -70.0 to +20.0 % (2 intervals below 0, 1 above)" in text
    assert "AWF by +5.0 to +5.0 % (0 intervals below 0, 1 above)" in text
    assert "P2SF by +1.0 to +1.0 % (0 intervals below 0, 0 above)" in text
    assert "300 to 410 microseconds of CPU a job, `Harm` 14 to 20" in text
    assert "| KTH-SP2 | sp3 | -20.0 [-21.0, -19.0] | +5.0 [+4.0, +6.0] | +1.0 [-99.0, +101.0] |" in text


def test_rollout_is_compared_with_rivals_that_know_as_much(trace, tmp_path):
    changes = measured(Place(Path("/nowhere"), HALVES[0], tmp_path), "KTH-SP2", 1)
    rows = changes[changes["metric"] == "slowdown"].set_index(["against", "name"])
    for rival in ("Harm", *SINGLE):
        for knowledge in (knowledge for knowledge in KNOWN if f"{rival} / {knowledge}" in RUNS):
            mine, theirs = (rows.loc[("EASY", f"{name} / {knowledge}"), "value"] for name in ("Rollout", rival))
            assert tuple(rows.loc[(rival, f"Rollout / {knowledge}"), ["value", "baseline"]]) == (mine, theirs)
    cost = costs(trace)
    assert (cost > 0).all(axis=None)
    assert "nan" not in card(changes, cost, "Made.").markdown()


def test_the_look_is_listed_before_anything_is_simulated(tmp_path, monkeypatch):
    looks = tmp_path / "looks.csv"
    monkeypatch.setattr(study, "LOOKS", looks)
    monkeypatch.setattr(study, "measured", lambda *_: pytest.fail("listed") if looks.exists() else argparse.Namespace())
    with pytest.raises(pytest.fail.Exception, match="listed"):
        study.main(["--look", "2026-01-02, to see"])
    assert pd.read_csv(looks)[["date", "traces", "why"]].to_numpy().tolist() == [["2026-01-02", " ".join(TRACES), "to see"]]
    with pytest.raises(SystemExit):
        study.main([])
