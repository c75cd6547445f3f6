"""The study of Harm: what is simulated of a half, how tables are made of waits, and that a look is listed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.common.card import read_rows, write_rows
from benchmarks.studies import expected_harm as study
from benchmarks.studies import expected_harm_runs as runs
from benchmarks.studies import expected_harm_tables as tables
from benchmarks.studies.expected_harm_card import card, draw, missed
from benchmarks.studies.expected_harm_runs import HALVES, Place, Run
from benchmarks.studies.expected_harm_tables import LEARNED, METRICS, REQUESTS, SECTIONS, Counts
from features.jobs.cleaning import CleanTrace, clean
from sim import evaluate, simulate
from sim.workloads.workload import Workload, generate


@pytest.fixture(scope="module")
def trace() -> CleanTrace:
    return clean(generate(Workload(jobs=2000, procs=16, users=20, load=0.9, seed=3)))


@pytest.fixture
def place(trace, tmp_path, monkeypatch) -> Place:
    """All titles are halves of one generated trace."""
    monkeypatch.setattr(runs, "load", lambda *_: trace)
    runs.half_of.cache_clear()
    runs.kept_quantiles.cache_clear()
    return Place(Path("/nowhere"), HALVES[0], tmp_path)


def test_the_first_half_is_simulated_alone_and_the_second_behind_it(trace):
    first, second = (runs.halved(trace, half) for half in HALVES)
    assert list(first.trace.jobs["job_id"]) == list(first.judged["job_id"]) == list(trace.jobs["job_id"][:1000])
    assert len(second.trace.jobs) == 2000
    assert list(second.judged["job_id"]) == list(trace.jobs["job_id"][1000:])


def test_waits_are_of_the_judged_jobs_alone(trace, place):
    for half, rows in zip(HALVES, (slice(0, 1000), slice(1000, 2000)), strict=True):
        jobs = trace.jobs if half == HALVES[1] else trace.jobs.iloc[:1000].reset_index(drop=True)
        waits = runs.waits(place._replace(half=half), "any", [Run("EASY-SJBF", "last2", "tsafrir")], 2)
        expected = simulate(
            jobs, procs=16, scheduler="EASY-SJBF", predictor="last2", correction="tsafrir", seed=1, shake_s=60, clock=trace.clock
        ).jobs
        wait = (expected["start_s"] - expected["submit_s"]).to_numpy()
        np.testing.assert_array_equal(waits[Run("EASY-SJBF", "last2", "tsafrir")][1], wait if half == HALVES[0] else wait[rows])


def test_a_finished_simulation_is_used_again(place, monkeypatch):
    waits = runs.waits(place, "any", [Run("Harm")], 2)[Run("Harm")]
    monkeypatch.setattr(runs, "simulated", lambda *_: pytest.fail("simulated again"))
    np.testing.assert_array_equal(runs.waits(place, "any", [Run("Harm")], 2)[Run("Harm")], waits)


def test_metrics_of_waits_are_those_of_the_schedule(trace, place):
    half = runs.half_of("any", place.shared, place.half)
    waits = runs.waits(place, "any", [Run()], 2)[Run()]
    sums = tables.judged_sums(half, waits[1:]).weekly
    record = evaluate(simulate(half.trace.jobs, procs=16, seed=1, shake_s=60))
    assert [sums[metric].value() for metric in METRICS] == pytest.approx([record[metric] for metric in METRICS], rel=1e-12)


def test_quantiles_along_a_schedule_are_those_told_in_it(trace):
    schedule = simulate(trace.jobs, procs=16, predictor="quantile", clock=trace.clock)
    quantiles = runs.told_along(trace.jobs, schedule.jobs["start_s"].to_numpy(), 16, trace.clock)
    np.testing.assert_array_equal(quantiles, schedule.quantiles)


def test_a_load_of_two_halves_the_time_between_submissions(trace):
    submit = runs.compressed(trace.jobs, 2.0)["submit_s"].to_numpy()
    recorded = trace.jobs["submit_s"].to_numpy()
    assert np.abs(2 * (submit - submit[0]) - (recorded - recorded[0])).max() <= 1


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"slowdown": -0.26, "AWF": 0.01, "P2SF": 0.019}, ""),
        ({"slowdown": -0.24, "AWF": -0.1, "P2SF": -0.1}, "slowdown"),
        ({"slowdown": -0.26, "AWF": 0.03, "P2SF": 0.021}, "AWF, P2SF"),
    ],
)
def test_a_cell_misses_what_its_interval_or_its_mean_says(changes, wrong):
    rows = [
        {"name": name, "trace": "A", "load": 1.15, "metric": metric, "relative": each, "low": each - 0.02}
        for name in (LEARNED, REQUESTS)
        for metric, each in changes.items()
    ]
    misses = missed(pd.DataFrame(rows)).set_index("name")["missed"]
    assert misses[LEARNED] == wrong
    assert misses[REQUESTS] == wrong.replace("slowdown", "")
    unknown = pd.DataFrame(rows).assign(low=np.nan)
    assert missed(unknown)["missed"].str.contains("AWF, P2SF").all()


def test_a_look_must_say_why_and_is_listed_once(tmp_path, monkeypatch, capsys):
    looks = tmp_path / "looks.csv"
    monkeypatch.setattr(study, "LOOKS", looks)
    monkeypatch.setattr(study, "measured", lambda *_: pd.DataFrame())
    for wrong in ([], ["--look", "because"]):
        with pytest.raises(SystemExit):
            study.main(["--half", "second", *wrong])
    assert "every look is listed" in capsys.readouterr().err
    assert not looks.exists()
    for section in ("cells", "plain"):
        study.main(["--half", "second", "--look", "2026-01-02, to see", "--section", section], lambda _: None)
    study.main(["--half", "second", "--look", "2026-01-03, again", "--section", "bound"], lambda _: None)
    assert pd.read_csv(looks)[["date", "why"]].to_numpy().tolist() == [["2026-01-02", "to see"], ["2026-01-03", "again"]]


def test_the_card_is_the_same_from_the_data_as_from_what_was_measured(place, monkeypatch, tmp_path):
    monkeypatch.setitem(tables.LOADS, place.half, (1.0, 1.3))
    rows = study.measured(place, ["KTH-SP2", "ALCF-Theta"], list(SECTIONS), Counts(2, 1)).assign(half=place.half)
    assert set(rows["section"]) == set(SECTIONS)
    assert set(rows.loc[rows["name"] == tables.INSIDE, "replicates"]) == {1}
    write_rows(tmp_path / "x.csv", rows)
    again = read_rows(tmp_path / "x.csv")
    text, same = (card(each, "Made.").markdown() for each in (rows, again))
    assert text == same
    assert "nan" not in text
    assert text.count("| ALCF-Theta | ") == 2
    assert draw(again).startswith(b"\x89PNG")


def test_a_variant_is_compared_at_its_own_load(place, monkeypatch):
    monkeypatch.setattr(tables, "VARIANTS", ("Harm",))
    rows = tables.variants(place, "any", Counts(1, 1))
    assert sorted(set(rows["load"])) == [1.0, 1.1, 1.2, 1.3]
    base = runs.waits(place, "any", [Run(load=1.3)], 1)[Run(load=1.3)]
    half = runs.half_of("any", place.shared, place.half)
    expected = tables.judged_sums(half, base).weekly["awf_s"].value()
    assert set(rows.loc[(rows["load"] == 1.3) & (rows["metric"] == "AWF"), "baseline"]) == {expected}
