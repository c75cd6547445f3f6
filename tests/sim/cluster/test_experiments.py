"""Experiments on the simulated cluster: pairing, variation, and tables and pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import pipelines.workflows.cluster_experiments as experiments
from benchmarks.common.marked import marks, replace_parts
from benchmarks.common.pages import STUDIES
from benchmarks.papers import rush
from benchmarks.papers.calibrations import busy, quiet, relative, variation, volta
from benchmarks.papers.rush_page import ASSUMED, PICTURES, PUBLISHED
from benchmarks.papers.rush_trials import LEARNERS, Bench, by_day
from features.errors import InputError
from pipelines.report import cluster_plots
from pipelines.report.cluster import render_cluster
from pipelines.report.cluster_published import beside
from pipelines.report.cluster_tables import by_storm, looked_up, overall
from pipelines.report.wording import signed
from pipelines.workflows.cluster_experiments import Conducted, Plan, conduct, label
from sim.cluster.advisers import Adviser
from sim.cluster.background import Level
from sim.cluster.comparison import ALL, STRATA, asking_rate, by_trial, compared, decisions, described, maxima
from sim.cluster.experiments import LOAD, VARIES, judged, usual
from sim.cluster.presets import calibration
from sim.cluster.simulate import STORM, ClusterRun, simulate_on
from sim.cluster.workloads import EXPERIMENTS, continuous, trial
from sim.metrics.names import TRIAL
from sim.names import ANY_SKIPS, Rush
from sim.names import scheduler as named_scheduler
from tests.conftest import SHARED, needs_shared

RUSH, ORACLE, COIN = "EASY+RUSH(model=extra-trees,skips=10)", "EASY+RUSH(model=oracle,skips=10)", "EASY+RUSH(model=coin,skips=10)"
SMALL = calibration("congested").but(name="small", nodes=128, nodes_per_leaf=16, noise_leaves=2, uplink=40.0, storage=20.0)


def plan(*names: str, schedulers: Sequence[str] = ("EASY", RUSH, ORACLE, COIN), trials: int = 3) -> Plan:
    return Plan(SMALL, tuple(EXPERIMENTS[name] for name in names), tuple(schedulers), trials=trials, days=0.4, scope="all")


@pytest.fixture(scope="module")
def learned() -> dict[str, object]:
    """ADAA and PDPA on a small cluster, and the models that were learned for them."""
    models: list[Adviser] = []
    real = experiments.learn

    def listened(*given: object, **named: object) -> Adviser:
        models.append(real(*given, **named))  # type: ignore[arg-type]
        return models[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiments, "learn", listened)
        conducted = conduct(plan("ADAA", "PDPA"))
    return {"conducted": conducted, "models": models}


@pytest.fixture(scope="module")
def conducted(learned: dict[str, list[Conducted]]) -> list[Conducted]:
    return learned["conducted"]


def test_trials_of_all_schedulers_are_of_the_same_jobs_with_the_same_luck(conducted: list[Conducted]) -> None:
    for made in conducted:
        assert made.trials == 3
        alone = made.runs.pivot(index=["seed", "job_id"], columns="scheduler", values="work_s")
        assert set(alone.columns) == set(made.schedulers)
        assert (alone.nunique(axis=1) == 1).all()
        assert len(made.runs) == 4 * 3 * made.experiment.jobs


def test_the_model_of_pdpa_has_not_seen_the_applications_it_is_asked_about(learned: dict[str, list]) -> None:
    full, partial = (set(adviser.model.baselines.index) for adviser in learned["models"])
    asked = set(learned["conducted"][1].runs["application"])
    assert asked == {"Laghos", "LBANN", "PENNANT"}
    assert not partial & asked
    assert asked < full


def test_the_coin_skips_as_often_as_the_model(conducted: list[Conducted]) -> None:
    for made in conducted:
        of_model = made.runs[made.runs["scheduler"] == RUSH].drop_duplicates("seed")
        assert made.coin == of_model["skipped"].sum() / of_model["asked"].sum() > 0
        tossed = asking_rate(made.runs, COIN)
        asked = made.runs[made.runs["scheduler"] == COIN].drop_duplicates("seed")["asked"].sum()
        assert abs(tossed - made.coin) < 4 * np.sqrt(made.coin * (1 - made.coin) / asked) + 1e-9


def test_who_may_not_skip_is_easy() -> None:
    made = conduct(plan("ADPA", schedulers=("EASY", "EASY+RUSH(model=oracle,skips=0)"), trials=1))[0]
    first, second = (rows.drop(columns=["scheduler", "asked"]) for _, rows in made.runs.groupby("scheduler", sort=False))
    pd.testing.assert_frame_equal(first.reset_index(drop=True), second.reset_index(drop=True))


def test_a_scheduler_may_have_a_placement_of_its_own() -> None:
    names = ("EASY", "EASY@best-fit", "EASY@first-fit")
    of_names = [
        rows.drop(columns="scheduler").reset_index(drop=True)
        for _, rows in conduct(plan("ADAA", schedulers=names, trials=1))[0].runs.groupby("scheduler", sort=False)
    ]
    pd.testing.assert_frame_equal(*of_names[:2])
    assert (of_names[0]["runtime_s"] != of_names[2]["runtime_s"]).any()


def test_control_runs_and_the_baseline_judge_apart(conducted: list[Conducted]) -> None:
    runs, known = conducted[0].runs, conducted[0].known
    for name, rows in runs.groupby("application"):
        usual = known.loc[(name, 16)]
        assert (rows["varied"] == (rows["runtime_s"] > usual["mean_s"] + VARIES * usual["sigma_s"])).all()
        easy = rows.loc[rows["scheduler"] == "EASY", "runtime_s"].to_numpy()
        limit = easy.sum() / len(easy) + 1.5 * np.sqrt(((easy - easy.mean()) ** 2).sum() / len(easy))
        assert (rows["varied_pooled"] == (rows["runtime_s"] > limit)).all()
    assert (runs["varied"] != runs["varied_pooled"]).any()


def test_what_is_measured_of_a_trial_is_what_anybody_would_count(conducted: list[Conducted]) -> None:
    made = conducted[0]
    values = by_trial(made.runs)
    seed = values.index[1]
    rows = [row for row in made.runs.to_dict("records") if row["seed"] == seed and row["scheduler"] == RUSH]
    found = values.loc[seed, RUSH]
    assert found[ALL, "makespan_s"] == max(row["start_s"] + row["runtime_s"] for row in rows)
    assert found[ALL, "varied"] == sum(row["varied"] for row in rows)
    laghos = [row for row in rows if row["application"] == "Laghos"]
    later = [row["start_s"] - row["submit_s"] for row in laghos if row["submit_s"] > 0]
    assert len(later) < len(laghos)
    assert found["Laghos", "wait_later_s"] == pytest.approx(sum(later) / len(later))
    assert found["Laghos", "worst"] == pytest.approx(
        max(row["runtime_s"] for row in laghos) / made.known.loc[("Laghos", 16), "mean_s"]
    )


def shifted(trials: int, by: np.ndarray) -> pd.DataFrame:
    """Values of ``trials`` trials that differ wildly, and under B by ``by`` from those under A."""
    first = np.random.default_rng(1).uniform(100, 1000, trials)
    columns = pd.MultiIndex.from_tuples([("A", ALL, "wait_s"), ("B", ALL, "wait_s")], names=["scheduler", "application", "metric"])
    return pd.DataFrame(np.column_stack([first, first + by]), columns=columns)


def test_differences_are_paired_by_trial() -> None:
    row = looked_up(compared(shifted(20, np.full(20, 10.0)), "A"))["B", ALL, "wait_s"]
    assert (row["difference"], row["low"], row["high"]) == pytest.approx((10, 10, 10))
    assert row["relative_low"] < 10 / row["baseline"] < row["relative_high"]


def test_standard_errors_are_those_of_paired_differences() -> None:
    by = np.random.default_rng(3).normal(5.0, 20.0, 400)
    values = shifted(400, by)
    base = values["A", ALL, "wait_s"].to_numpy()
    row = looked_up(compared(values, "A"))["B", ALL, "wait_s"]
    assert row["error"] == pytest.approx(by.std(ddof=1) / 20, rel=0.1)
    assert row["mean_error"] == pytest.approx((base + by).std(ddof=1) / 20, rel=0.1)
    spread = (by - row["relative"] * base).std(ddof=1) / 20 / base.mean()  # of a ratio of means, by its linear part
    assert row["relative_error"] == pytest.approx(spread, rel=0.1)
    assert np.isnan(looked_up(compared(values.iloc[:4], "A"))["B", ALL, "wait_s"]["error"])


def test_a_storm_is_where_others_alone_ask_for_more_than_its_share_of_the_file_system() -> None:
    def storm_s(level: Level) -> tuple[float, float]:
        run = simulate_on(SMALL.but(storage_background=level), trial(EXPERIMENTS["ADPA"], 1), seed=1)
        return run.storm_s, (run.runs["start_s"] + run.runs["runtime_s"]).max()

    whole, lasted = storm_s(Level(STORM + 0.01))
    assert lasted <= whole < lasted + SMALL.tick_s
    assert storm_s(Level(STORM - 0.01))[0] == 0
    now_and_then, lasted = storm_s(Level(STORM - 0.01, pause_s=600, lasting_s=300, height=0.5))
    assert 0 < now_and_then < lasted


def test_trials_with_a_storm_under_the_baseline_are_a_stratum_of_their_own(conducted: list[Conducted]) -> None:
    runs = conducted[1].runs
    struck = runs["seed"].unique()[1:]
    made = replace(
        conducted[1], runs=runs.assign(storm_s=np.where(runs["seed"].isin(struck) & (runs["scheduler"] == "EASY"), 10, 0))
    )
    values = by_trial(runs)[ORACLE, ALL, "varied"]
    means = {stratum: looked_up(made.strata, stratum)[ORACLE, ALL, "varied"]["mean"] for stratum in STRATA}
    assert list(means.values()) == [values.mean(), values.drop(struck).mean(), values[struck].mean()]
    table = by_storm(made)
    assert table.title == "Trials without storm (1) and with storm (2)"
    assert table.cells[3][3].text == f"{values[struck].mean():.1f}"
    assert by_storm(replace(made, runs=runs.assign(storm_s=0.0))).rows == []


@pytest.mark.slow
def test_intervals_hold_the_true_difference_as_often_as_they_say() -> None:
    held = 0
    for number in range(200):
        by = np.random.default_rng(number + 7).normal(5.0, 20.0, 20)
        row = looked_up(compared(shifted(20, by), "A", seed=number))["B", ALL, "wait_s"]
        held += row["low"] <= 5.0 <= row["high"]
    assert 180 <= held <= 199


def test_with_fewer_than_five_trials_there_is_no_interval_and_it_is_said(conducted: list[Conducted]) -> None:
    found = conducted[0].found
    assert found["low"].isna().all()
    assert found["relative_low"].isna().all()
    assert set(found["note"]) == {"no interval: 3 trials are too few"}
    assert np.isfinite(found.loc[found["metric"] == "makespan_s", "difference"]).all()


def test_largest_runtimes_are_those_of_all_trials(conducted: list[Conducted]) -> None:
    runs = conducted[0].runs
    rows = maxima(runs, "EASY").set_index(["scheduler", "application"])
    largest = {
        name: runs[(runs["scheduler"] == name) & (runs["application"] == "AMG")]["runtime_s"].max() for name in ("EASY", ORACLE)
    }
    assert rows.loc[(ORACLE, "AMG"), "max_s"] == largest[ORACLE]
    assert rows.loc[(ORACLE, "AMG"), "improvement"] == pytest.approx((largest["EASY"] - largest[ORACLE]) / largest["EASY"])


def test_decisions_are_counted_by_trial_and_by_job(conducted: list[Conducted]) -> None:
    made = conducted[0]
    table = decisions(made.runs, made.schedulers).set_index("scheduler")
    assert table.loc["EASY", ["asked", "skipped", "most_skips"]].tolist() == [0, 0, 0]
    of_model = made.runs[made.runs["scheduler"] == RUSH]
    assert table.loc[RUSH, "skipped"] * 3 == of_model["skips"].sum()
    assert table.loc[RUSH, "most_skips"] <= 10


@pytest.mark.parametrize(
    ("schedulers", "said"),
    [
        ((RUSH, "EASY"), "is the baseline and takes no start decisions"),
        (("EASY", "EASY"), "twice"),
        (("EASY", "EASY+RUSH(model=nobody)"), "known models"),
        (("EASY", "EASY+RUSH"), "known models"),
        (("EASY", COIN), "as a model does"),
        (("EASY", "nothing"), "unknown scheduler"),
        (("EASY", "EASY@nowhere"), "placement 'nowhere' is unknown"),
    ],
)
def test_schedulers_that_cannot_be_compared_are_refused(schedulers: tuple[str, ...], said: str) -> None:
    with pytest.raises(InputError, match=said):
        plan("ADAA", schedulers=schedulers)


def test_a_registered_model_is_asked_if_it_is_given(learned: dict[str, list]) -> None:
    registered = "EASY+RUSH(model=registered,skips=10)"
    asked = plan("PDPA", schedulers=("EASY", registered), trials=1)
    with pytest.raises(InputError, match="none is given"):
        conduct(asked)
    made = conduct(asked, registered=learned["models"][0])[0]
    assert made.runs.loc[made.runs["scheduler"] == registered, "asked"].iloc[0] > 0
    assert "may have learned" in made.notes[0]


def test_the_classifier_of_delays_learns_from_more_runs_and_all_nodes(
    learned: dict[str, list], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[str, tuple[ClusterRun, str]] = {}

    def listened(run: ClusterRun, *, classifier: str, scope: str, **named: object) -> Adviser:
        told[classifier] = run, scope
        return learned["models"][0]

    monkeypatch.setattr(experiments, "learn", listened)
    monkeypatch.setattr(experiments, "CONTROL_RUNS", 5)
    monkeypatch.setattr(experiments, "DELAY_RUNS", 20)
    asked = plan("ADAA", schedulers=("EASY", "EASY+RUSH(model=ordinal,skips=1)", "EASY+RUSH(model=knn,skips=1)"), trials=1)
    conduct(replace(asked, scope=""))
    (many, every), (few, own) = told["ordinal"], told["knn"]
    assert (every, own) == ("all", "own")
    assert set(many.runs["application"].value_counts()) == {20}
    assert set(few.runs["application"].value_counts()) == {5}
    assert len(few.own) == len(few.all) == len(few.situation) == len(few.runs)
    kept = many.runs["job_id"].isin(few.runs["job_id"]).to_numpy()
    pd.testing.assert_frame_equal(many.own[kept].reset_index(drop=True), few.own)


@pytest.mark.slow
def test_the_page_says_that_it_is_simulated_and_prints_what_was_found(conducted: list[Conducted]) -> None:
    struck = replace(conducted[0], runs=conducted[0].runs.assign(storm_s=10.0 * (conducted[0].runs["seed"] % 2)))
    page = render_cluster("small", [struck, *conducted[1:]], {"seed": 0, "schedulers": ["EASY"]}, notes=["a note of ours"])
    assert "with storm: makespan" in page
    assert "Simulated: cluster, counters and runtimes" in page
    assert page.count("data:image/svg+xml;base64,") == 6
    for made in conducted:
        row = looked_up(made.found)[RUSH, ALL, "makespan_s"]
        assert f"{row['mean']:,.0f}<small" in page
        assert signed(row["difference"], ",.0f") in page
    assert "17 to 4" in page
    assert "a note of ours" in page
    assert "no interval: 3 trials are too few" in page.lower()


def test_statements_of_the_paper_stand_beside_by_figure(conducted: list[Conducted]) -> None:
    table = beside(conducted)
    figures = [int(row[0].split()[1].strip(":,")) for row in table.rows]
    assert figures == sorted(figures)
    assert set(figures) == {3, 4, 5, 6, 7, 10, 11}
    row = looked_up(conducted[0].found)[RUSH, ALL, "varied_pooled"]
    stated, here = next(
        (stated, here) for what, stated, here in table.rows if what.endswith("a trial, by EASY's runs") and "ADAA" in what
    )
    assert (stated, here.split(",")[0]) == ("17 to 4", f"{row['baseline']:.1f} to {row['mean']:.1f}")
    runs = conducted[0].runs
    scaled = replace(
        conducted[0],
        experiment=EXPERIMENTS["WS"],
        runs=runs.assign(nodes=np.where(runs["job_id"] % 3 == 0, 8, np.where(runs["job_id"] % 3 == 1, 16, 32))),
    )
    told = {what: here for what, _, here in beside([scaled]).rows}["figure 8, WS: largest runtime of a trial on 8, 16, 32 nodes"]
    on_eight = runs[runs["job_id"] % 3 == 0].groupby(["scheduler", "seed"])["relative"].max().groupby("scheduler").mean()
    assert told.startswith(f"8 {signed(100 * (on_eight[RUSH] / on_eight['EASY'] - 1), '.1f')} %")


def test_a_page_of_the_baseline_alone_can_be_made() -> None:
    made = conduct(plan("ADPA", schedulers=("EASY",), trials=1))
    assert "so there is no summary" in render_cluster("small", made, {})
    assert beside(made).rows == []


def test_tables_have_all_metrics_and_all_schedulers(conducted: list[Conducted]) -> None:
    rows = overall(conducted[1]).cells
    assert [row[0].text for row in rows] == [metric.title for metric in TRIAL.values()]
    assert all(len(row) == 5 and row[1].below == () for row in rows)
    assert [label(name) for name in conducted[1].schedulers] == ["EASY", "RUSH extra-trees", "oracle", "coin"]
    assert label("SJF-EASY+RUSH(model=lightgbm,skips=2,classes=little)") == "SJF-EASY RUSH lightgbm, 2 skips, little too"
    assert label("EASY+RUSH(model=oracle,patience=1200,harm=yes)@first-fit") == "oracle, harm, 1,200 s, first fit"
    assert label("EASY+RUSH(model=knn,cutoff=0.2)") == "RUSH knn, from 0.2"
    assert label("EASY@best-fit") == "EASY, best fit"


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_is_drawn_the_same_twice(conducted: list[Conducted], name: str) -> None:
    draw = getattr(cluster_plots, name)
    assert draw(conducted, image="png") == draw(conducted, image="png")


def tried(rows: dict[rush.Choice, tuple[float, float, float]]) -> tuple[pd.DataFrame, dict[str, rush.Choice]]:
    """What ``rush.choice`` sees: by choice, runs with variation, and relative changes of makespan and wait."""
    table = [
        {"scheduler": str(name), "application": ALL, "stratum": ALL, "metric": metric, "mean": mean, "relative": change}
        for name, (varied, makespan, wait) in rows.items()
        for metric, mean, change in (("varied", varied, 0.0), ("makespan_s", 1.0, makespan), ("wait_s", 1.0, wait))
    ]
    return pd.DataFrame(table), {str(name): name for name in rows}


def test_the_cutoff_chosen_leaves_fewest_runs_with_variation_at_no_more_than_the_price() -> None:
    first, second, third = rush.Choice(0.5, 300), rush.Choice(0.5, 600), rush.Choice(0.6, 300)
    dear = 2 * rush.PRICE
    assert rush.choice(*tried({first: (1, 0.0, dear), second: (2, 0.0, rush.PRICE), third: (3, 0.0, 0.0)})) == second
    assert rush.choice(*tried({first: (1, 1.5 * dear, dear), second: (2, 2 * dear, 0.0)})) == first


def test_every_setting_of_the_benchmark_is_a_scheduler_with_a_model_that_can_be_learned() -> None:
    settings = rush.Settings(rush.Choice(0.5, 300), rush.Choice(0.2, 600))
    asked = {**settings.conducted(), **settings.apart(), **settings.steps()["model"], **settings.steps()["oracle"]}
    for setting in asked.values():
        name, placement = experiments.split(setting.scheduler)
        assert named_scheduler(name).rush is not None or name == "EASY"
        assert SMALL.but(placement=placement or SMALL.placement)
        assert setting.learner in ("", *LEARNERS)
    assert named_scheduler(settings.model().scheduler).rush == Rush("model", ANY_SKIPS, "variation", 300, rush.EVERY)
    assert named_scheduler(settings.shipped().scheduler).rush == Rush("shipped", 10)
    assert named_scheduler(settings.harm().scheduler).rush == Rush("model", ANY_SKIPS, "variation", 600, rush.EVERY, True)


@pytest.mark.parametrize(("page", "names"), [("rush.md", PUBLISHED), ("rush-assumptions.md", ASSUMED)])
def test_the_pages_have_a_place_for_every_table(page: str, names: tuple[str, ...]) -> None:
    text = (STUDIES / page).read_text(encoding="utf-8")
    assert [text.count(mark) for name in names for mark in marks(name)] == [1] * (2 * len(names))


def test_sums_over_days_are_those_of_the_runs() -> None:
    jobs = continuous(2.0, 1, procs=SMALL.procs, load=0.3)
    made = simulate_on(SMALL, jobs, seed=1)
    known = usual(SMALL, EXPERIMENTS["ADAA"], days=0.4, seed=2)
    days = by_day(made, known, SMALL.procs)
    assert days["day"].tolist() == [0, 1]
    assert days["jobs"].sum() == len(jobs)
    assert days["wait_s"].sum() == made.runs["wait_s"].sum()
    late = made.runs["submit_s"] >= 86_400
    assert days["varied"].iloc[1] == judged(made.runs[late], known)["varied"].sum()
    found = looked_up(
        rush.of_month(pd.concat([days.assign(scheduler="EASY"), days.assign(scheduler="B", varied=days["varied"] + 1)]))
    )
    assert found["B", ALL, "varied"]["difference"] == 1


def test_the_benchmark_keeps_what_it_made(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, trials=5, quiet=True)
    table = pd.DataFrame({"a": [1.0]})
    made: list[int] = []
    for _ in range(2):
        pd.testing.assert_frame_equal(bench.kept("x", (1, "y"), lambda: (made.append(1), table)[1]), table)
    assert len(made) == 1
    bench.kept("x", (2, "y"), lambda: (made.append(1), table)[1])
    monkeypatch.setattr("benchmarks.common.pages.code", lambda: "other code")
    bench.kept("x", (1, "y"), lambda: (made.append(1), table)[1])
    assert len(made) == 3


def test_fewer_trials_are_judged_by_themselves(conducted: list[Conducted]) -> None:
    made = rush.first_trials(conducted[0], 2)
    assert made.trials == 2
    again = described(conducted[0].runs[conducted[0].runs["seed"].isin(made.runs["seed"])], made.known, "EASY")
    assert made.runs["varied_pooled"].tolist() == again["varied_pooled"].tolist()


def test_parts_of_a_page_are_replaced_and_its_text_stays(tmp_path) -> None:
    page = tmp_path / "page.md"
    begin, end = marks("one")
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    replace_parts(page, {"one": "| new |"})
    assert page.read_text() == f"before\n{begin}\n| new |\n{end}\nafter\n"
    with pytest.raises(ValueError, match="no place for two"):
        replace_parts(page, {"two": ""})


@needs_shared
def test_quiet_spreads_as_real_runs_do() -> None:
    real, made = volta(SHARED), quiet(0, days=0.3)
    assert (len(variation(real)), len(variation(made))) == (17, 21)
    for share in (0.25, 0.5, 0.75):
        assert 0.6 < variation(made).quantile(share) / variation(real).quantile(share) < 1.6
    central = [np.quantile(relative(runs), [0.25, 0.75]) for runs in (real, made)]
    assert np.abs(central[0] - central[1]).max() < 0.003


@pytest.mark.slow
def test_congested_has_ratios_like_the_papers_figure() -> None:
    runs = busy("congested", 0, days=10)
    top = runs.groupby("application")["ratio"].max()
    assert (runs.groupby("application")["ratio"].min() == 1).all()
    assert (runs["application"].value_counts() == 25).all()
    assert 1.5 < top.max() < 30
    assert LOAD < 1
