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
from benchmarks.studies.expected_harm_card import by_section, card, certain, one_table
from benchmarks.studies.expected_harm_pictures import draw
from benchmarks.studies.expected_harm_runs import HALVES, HONEST, Place, Run
from benchmarks.studies.expected_harm_tables import HEADLINE, LEARNED, METRICS, REQUESTS, SECTIONS, Counts
from features.clock import DAY_S
from features.jobs.cleaning import CleanTrace, clean
from pipelines.ingest.workload import Workload, generate
from sim import evaluate, simulate
from sim.names import scheduler


@pytest.fixture(scope="module")
def trace() -> CleanTrace:
    return clean(generate(Workload(jobs=2000, procs=16, users=20, load=0.9, seed=3)))


@pytest.fixture
def place(trace, tmp_path, monkeypatch) -> Place:
    """All titles are halves of one generated trace."""
    monkeypatch.setattr(runs, "load", lambda *_: trace)
    runs.half_of.cache_clear()
    runs.told.cache_clear()
    return Place(Path("/nowhere"), HALVES[0], tmp_path)


def test_the_first_half_is_simulated_alone_and_the_second_behind_it(trace):
    first, second = (runs.halved(trace, half) for half in HALVES)
    assert list(first.trace.jobs["job_id"]) == list(first.judged["job_id"]) == list(trace.jobs["job_id"][:1000])
    assert len(second.trace.jobs) == 2000
    assert list(second.judged["job_id"]) == list(trace.jobs["job_id"][1000:])


def test_waits_are_of_the_judged_jobs_alone(trace, place):
    for half, rows in zip(HALVES, (slice(0, 1000), slice(1000, 2000)), strict=True):
        jobs = trace.jobs if half == HALVES[1] else trace.jobs.iloc[:1000].reset_index(drop=True)
        made = runs.waits(place._replace(half=half), "any", [Run("EASY-SJBF", "last2", "tsafrir")], 2)
        expected = simulate(
            jobs, procs=16, scheduler="EASY-SJBF", predictor="last2", correction="tsafrir", seed=1, shake_s=60, clock=trace.clock
        ).jobs
        wait = (expected["start_s"] - expected["submit_s"]).to_numpy()
        np.testing.assert_array_equal(made[Run("EASY-SJBF", "last2", "tsafrir")][1], wait if half == HALVES[0] else wait[rows])


def test_a_finished_simulation_is_used_again(place, monkeypatch):
    made = runs.waits(place, "any", [Run("Harm")], 2)[Run("Harm")]
    monkeypatch.setattr(runs, "simulated", lambda *_: pytest.fail("simulated again"))
    np.testing.assert_array_equal(runs.waits(place, "any", [Run("Harm")], 2)[Run("Harm")], made)


def test_metrics_of_waits_are_those_of_the_schedule(trace, place):
    half = runs.half_of("any", place.shared, place.half)
    made = runs.waits(place, "any", [Run()], 2)[Run()]
    sums = tables.judged_sums(half, made[1:]).weekly
    record = evaluate(simulate(half.trace.jobs, procs=16, seed=1, shake_s=60))
    assert [sums[metric].value() for metric in METRICS] == pytest.approx([record[metric] for metric in METRICS], rel=1e-12)


def test_quantiles_along_a_schedule_are_those_told_in_it(trace):
    schedule = simulate(trace.jobs, procs=16, predictor="quantile", clock=trace.clock)
    told = runs.told_along(trace.jobs, schedule.jobs["start_s"].to_numpy(), 16, trace.clock)
    np.testing.assert_array_equal(told, schedule.quantiles)


def test_a_late_learner_knows_nothing_of_the_last_day(trace):
    start = simulate(trace.jobs, procs=16).jobs["start_s"].to_numpy(np.int64)
    told = runs.told_along(trace.jobs, start, 16, trace.clock, DAY_S)
    heard = start + trace.jobs["runtime_s"].to_numpy() + DAY_S
    row = 1500
    changed = trace.jobs.assign(
        runtime_s=np.where(heard > trace.jobs["submit_s"].iloc[row], 1, trace.jobs["runtime_s"]).astype(np.int64)
    )
    later = runs.told_along(
        changed, np.where(heard > trace.jobs["submit_s"].iloc[row], heard - 1 - DAY_S, start), 16, trace.clock, DAY_S
    )
    np.testing.assert_array_equal(later.iloc[: row + 1], told.iloc[: row + 1])
    assert (later != told).any(axis=None)


def test_spoilt_quantiles_stay_within_the_request_and_shuffles_among_equal_requests():
    requested = np.array([100, 200, 100, 200, 100])
    told = np.array([[10.0, 90.0], [20.0, 150.0], [30.0, 80.0], [40.0, 190.0], [1.0, 2.0]])
    np.testing.assert_array_equal(runs.spoilt(told, "told", requested, 0), told)
    np.testing.assert_array_equal(runs.spoilt(told, "told doubled", requested, 0)[:, 1], [100, 200, 100, 200, 4])
    np.testing.assert_array_equal(runs.spoilt(told, "told halved", requested, 0)[:, 0], [5, 10, 15, 20, 1])
    shuffled = [runs.spoilt(told, "told shuffled", requested, seed) for seed in range(5)]
    for rows in (requested == 100, requested == 200):
        assert all(sorted(each[rows].tolist()) == sorted(told[rows].tolist()) for each in shuffled)
    assert any((each != told).any() for each in shuffled)


def test_a_tenth_of_the_users_ask_for_more_or_for_just_enough(trace):
    honest, theirs = runs.strategic(trace.jobs, HONEST, 1)
    doubled, exact = (runs.strategic(trace.jobs, asking, 1)[0]["requested_s"] for asking in runs.ASKING)
    assert honest is trace.jobs
    assert trace.jobs["user"][theirs].nunique() == round(0.1 * trace.jobs["user"].nunique())
    assert not trace.jobs["user"][theirs].isin(trace.jobs["user"][~theirs]).any()
    np.testing.assert_array_equal(doubled, np.where(theirs, 2, 1) * trace.jobs["requested_s"])
    above = 10 * exact - 11 * trace.jobs["runtime_s"]
    assert ((above >= 0) & (above < 10))[theirs].all()
    assert (runs.strategic(trace.jobs, HONEST, 2)[1] != theirs).any()


def test_a_load_of_two_halves_the_time_between_submissions(trace):
    submit = runs.compressed(trace.jobs, 2.0)["submit_s"].to_numpy()
    recorded = trace.jobs["submit_s"].to_numpy()
    assert np.abs(2 * (submit - submit[0]) - (recorded - recorded[0])).max() <= 1


def test_parts_of_groups_add_up_to_the_change_of_the_means(trace):
    jobs, rng = trace.jobs, np.random.default_rng(0)
    before, after = rng.integers(0, 9000, (2, 3, len(jobs)))
    group = tables.binned(jobs["procs"].to_numpy(), (1, 4, 8))
    made = tables.decomposed(jobs, group, before, after)
    area, runtime = tables.area_of(jobs), jobs["runtime_s"].to_numpy()
    means = [tables.slowdown(jobs, each).mean() for each in (before, after)]
    awf = [(area * (each + runtime)).sum() for each in (before, after)]
    assert made["slowdown_part"].sum() == pytest.approx(means[1] / means[0] - 1)
    assert made["wait_part"].sum() == pytest.approx(after.mean() / before.mean() - 1)
    assert made["weighted_part"].sum() == pytest.approx(awf[1] / awf[0] - 1)
    assert made["jobs"].sum() == pytest.approx(1)


def test_a_value_on_an_edge_is_in_the_range_below():
    assert list(tables.binned(np.array([1, 2, 4, 5]), (1, 4), " h")) == ["up to 1 h", "1 to 4 h", "1 to 4 h", "above 4 h"]


def test_every_variant_is_a_scheduler_and_changes_one_option(monkeypatch):
    asked: dict[str, Run] = {}
    monkeypatch.setattr(tables, "compared", lambda place, title, variants, *rest: asked.update(variants) or pd.DataFrame())
    for section in (tables.parts, tables.constants, tables.scenarios):
        section(None, "any", Counts())
    rules = {name: scheduler(run.scheduler).harm for name, run in asked.items()}
    assert len({str(rule) for rule in rules.values()}) == len(rules)
    usual = vars(tables.Harm())
    assert {name for rule in rules.values() for name, value in usual.items() if vars(rule)[name] != value} == set(usual)
    assert all(sum(vars(rule)[name] != value for name, value in usual.items()) <= 1 for rule in rules.values())


def _changes(**relative: float) -> pd.DataFrame:
    rows = [
        {"name": name, "trace": title, "metric": metric, "relative": value, "low": value - 0.02, "high": value + 0.02}
        for title in study.TRACES
        for name in (LEARNED, REQUESTS)
        for metric, value in relative.items()
    ]
    return pd.DataFrame(rows)


def _judged(changes: pd.DataFrame) -> dict[str, bool]:
    costs = pd.DataFrame([{"jobs_of": "KTH-SP2", "name": "Harm / quantiles", "us": 15.0}])
    sides = [("EASY / requests", 0.01), ("Harm / prior", 0.2), ("Harm / told", 0.02)]
    rows = [
        {
            "name": name,
            "trace": "KTH-SP2",
            "asking": "double",
            "side": "others",
            "metric": "slowdown",
            "relative": each,
            "error": 0.01,
        }
        for name, each in sides
    ]
    return {
        f"{each.target} {each.where}": each.met
        for each in study.checks({"headline": changes, "cost": costs, "strategy": pd.DataFrame(rows)})
    }


def test_targets_are_met_only_where_their_intervals_say_so():
    good = _judged(_changes(slowdown=-0.26, AWF=-0.021, P2SF=0.019))
    assert [met for where, met in good.items() if "SP2" in where and "below 0" in where] == [True] * 4
    assert good["P2SF not higher beyond its interval LANL-CM5"]
    assert good["no interval above 0 ALCF-Theta"]
    bad = _judged(_changes(slowdown=-0.24, AWF=-0.019, P2SF=0.021))
    assert not any(met for where, met in bad.items() if where.split()[0] in ("slowdown", "interval", "P2SF", "no"))


def test_requests_alone_must_be_better_in_everything_and_others_must_not_pay_for_strategies():
    for p2sf, met in ((0.0, True), (0.001, False)):
        found = _judged(_changes(slowdown=-0.15, AWF=0.0, P2SF=p2sf))
        assert [each for where, each in found.items() if where.startswith("requests alone")] == [met]
    assert [each for where, each in found.items() if "strategic" in where] == [False, True]
    assert [each for where, each in found.items() if "microseconds" in where] == [False]


def test_a_look_must_say_why_and_is_listed_once(tmp_path, monkeypatch, capsys):
    looks = tmp_path / "looks.csv"
    monkeypatch.setattr(study, "LOOKS", looks)
    monkeypatch.setattr(study, "measured", lambda *_: {"cost": pd.DataFrame({"group": [None], "sure": [None]})})
    for wrong in ([], ["--look", "because"]):
        with pytest.raises(SystemExit):
            study.main(["--half", "second", *wrong])
    assert "every look is listed" in capsys.readouterr().err
    assert not looks.exists()
    for section in ("headline", "rivals"):
        study.main(["--half", "second", "--look", "2026-01-02, to see", "--section", section], lambda _: None)
    study.main(["--half", "second", "--look", "2026-01-03, again", "--section", "cost"], lambda _: None)
    assert pd.read_csv(looks)[["date", "why"]].to_numpy().tolist() == [["2026-01-02", "to see"], ["2026-01-03", "again"]]


def test_the_card_is_the_same_from_the_data_as_from_what_was_measured(place, monkeypatch, tmp_path):
    monkeypatch.setattr(tables, "LARGE", Workload(jobs=300, procs=16, users=5, load=0.8))
    monkeypatch.setattr(tables, "COST_REPEATS", 3)
    monkeypatch.setattr(tables, "RIVALS_PREDICTORS", {"requested": "requested", "last2": "tsafrir"})
    monkeypatch.setattr(tables, "NIGHTLY", "last2")
    monkeypatch.setitem(HEADLINE, LEARNED, Run("Harm", "sp3"))
    counts = Counts(2, 2, 1)
    found = study.measured(place, ["KTH-SP2", "ALCF-Theta"], list(SECTIONS), counts)
    rows = one_table(found)
    assert set(rows["section"]) == set(SECTIONS)
    assert len(rows) > 300
    write_rows(tmp_path / "x.parquet", rows)
    again = by_section(read_rows(tmp_path / "x.parquet"))
    text, same = (card(each, study.checks(each), "first", "Made.").markdown() for each in (found, again))
    assert text == same
    assert "nan" not in text
    assert text.count("| ALCF-Theta | ") == 1
    draw(again, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_the_answer_names_only_what_survives_the_correction_for_all_its_changes():
    rows = pd.DataFrame(
        [
            {"trace": trace, "metric": metric, "relative": change, "p": p, "replicates": 20}
            for trace, metric, change, p in (
                ("A", "slowdown", -0.4, 0.001),
                ("B", "slowdown", -0.3, 0.03),
                ("A", "AWF", 0.1, 0.012),
                ("B", "AWF", -0.1, float("nan")),
            )
        ]
    )
    assert (
        certain(rows) == "Corrected for these 4 comparisons (Holm), sure decreases are: slowdown on A, B; sure increases: AWF on A."
    )
    assert "sure decreases are: slowdown on A; sure increases: none" in certain(rows.assign(p=[0.001, 0.03, 0.03, 0.9]))
    assert "sure decreases are: none" in certain(rows.assign(replicates=1))
