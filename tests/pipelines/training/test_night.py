"""Nights of a trace that arrives day by day: what consumers load each morning, and when the champion changes."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import replace
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest

from features.clock import DAY_S
from features.errors import InputError
from models.packed.methods import DATED
from models.registry.promotion import JUDGED_DAYS, served_evidence
from pipelines.lake.registry import submissions
from pipelines.lake.tables import Lake
from pipelines.training.night import night, own_registry, replay_nights
from pipelines.training.work import choose_cutoff
from sim.simulation import history_starts
from tests.support.answers import numbers_from_nowhere
from tests.support.arriving import CHANGE_DAY, PROCS, arriving, source

pytestmark = pytest.mark.usefixtures("undrawn_pictures", "quick_methods")
FIRST, NIGHTS = CHANGE_DAY - 2, 6
"""The first night, counted in days, and how many there are: two up to when people change their ways, four after."""


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory):
    before = mlflow.get_tracking_uri()
    home = tmp_path_factory.mktemp("nights") / "home"
    trace = source()
    nights = replay_nights(trace, trace.midnights[FIRST : FIRST + NIGHTS], home)
    first = next(nights)
    shutil.copytree(home, home.with_name("begun"))
    yield home, trace, [first, *nights], own_registry(home)
    mlflow.set_tracking_uri(before)


@pytest.fixture
def begun(replayed, tmp_path: Path) -> Path:
    """A home with the first night alone."""
    return Path(shutil.copytree(replayed[0].with_name("begun"), tmp_path / "home"))


def versions(store) -> dict[str, object]:
    return {str(each.version): each for each in store.client.search_model_versions("name = 'runtime-arriving'")}


def test_every_morning_the_champion_has_the_histories_of_the_night(replayed) -> None:
    _home, _, outcomes, store = replayed
    registered = versions(store)
    for each in outcomes:
        version = registered[str(each.row["champion"])]
        assert version.tags["snapshot_s"] == str(each.row["until_s"])
        assert version.tags["snapshot_fingerprint"] == each.row["fingerprint"]
        assert version.tags["night"] == each.label
        assert version.tags["data_fingerprint"]
    assert len({each.row["champion"] for each in outcomes}) == NIGHTS
    assert str(store.client.get_model_version_by_alias("runtime-arriving", "champion").version) == outcomes[-1].row["champion"]


def test_a_refreshed_version_has_the_old_model_and_says_whose_it_is(replayed) -> None:
    _, _, outcomes, store = replayed
    registered = versions(store)
    refreshed = [each for each in outcomes if not each.row["promoted"]]
    assert len(refreshed) == NIGHTS - 2
    for each in refreshed:
        version = registered[str(each.row["champion"])]
        trained = registered[str(each.row["trained_version"])]
        assert version.tags["refreshed_from"] == str(trained.version)
        assert "refreshed_from" not in trained.tags
        for tag in ("method", "training_window_s", "training_jobs", "data_fingerprint", "recorded_accuracy"):
            assert version.tags[tag] == trained.tags[tag]
        old, new = (learned(number) for number in (trained.version, version.version))
        assert old == new
        assert ("trees.npz" in new) == (version.tags["method"] == "lightgbm")
        assert ("forest.npz" in new) == (version.tags["method"] == "quantile(order=accuracy)")


def learned(number: object) -> dict[str, bytes]:
    """Files of a version but for settings and what is dated: what was learned."""
    folder = Path(mlflow.artifacts.download_artifacts(f"models:/runtime-arriving/{number}")) / "artifacts" / "runtime_model"
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in ("model.json", "history.parquet", *DATED)}


def test_what_counts_as_served_is_what_a_consumer_got_that_morning(replayed) -> None:
    """Loaded from the registry, each night's version is asked for the next day's submissions."""
    home, trace, outcomes, _ = replayed
    served, _ = Lake(home / "lake").read("served", "arriving")
    everything = submissions(trace.clean).set_index(trace.clean.jobs["job_id"])
    compared = 0
    for each in outcomes[:-1]:
        rows = served[(served["at_s"] == each.row["until_s"]) & served["champion"].notna()]
        model = mlflow.pyfunc.load_model(f"models:/runtime-arriving/{each.row['champion']}")
        answers = model.predict(everything.loc[rows["job_id"]].reset_index(drop=True))
        np.testing.assert_allclose(answers["predicted_s"], rows["champion"], rtol=1e-9)
        assert (answers["snapshot_age_s"] >= 0).all()
        compared += len(rows)
    assert compared > 120 * (NIGHTS - 1)
    assert served["job_id"].is_unique


def test_nobody_is_promoted_until_people_change_their_ways_and_then_somebody_is(replayed) -> None:
    _, trace, outcomes, store = replayed
    change = trace.midnights[CHANGE_DAY - 1]
    assert outcomes[0].row["promoted"]
    assert outcomes[0].row["champion_before"] == ""
    promoted = [each for each in outcomes[1:] if each.row["promoted"]]
    assert promoted
    assert all(each.row["until_s"] > change for each in promoted)
    for each in promoted:
        assert each.row["evidence"] >= each.row["evidence_needed"]
        why = versions(store)[str(each.row["champion"])].description
        assert why.startswith("Promoted over version")
        assert f"difference {each.row['difference']:+.4f} [{each.row['low']:+.4f}, {each.row['high']:+.4f}]" in why
    # a challenger's score stands beside that of the requests of the same jobs, which are fewer than those of the window
    challengers = [each for each in versions(store).values() if str(each.description).startswith(("Not promoted", "Promoted"))]
    for each in challengers:
        measured = store.client.get_run(each.run_id).data.metrics
        assert f", that of the requests {measured['judged_requested_accuracy']:.4f}." in str(each.description)
    assert challengers
    stays = next(each for each in outcomes[1:] if not each.row["promoted"])
    assert "200 are needed" in str(stays.row["why"])
    for each in outcomes[1:]:
        assert each.row["promoted"] <= (each.row["evidence"] >= each.row["evidence_needed"])


def test_the_evidence_begins_anew_with_a_champion_and_can_be_told_again_from_what_was_served(replayed) -> None:
    home, _, outcomes, store = replayed
    served, _ = Lake(home / "lake").read("served", "arriving")
    registered = versions(store)
    for before, each in itertools.pairwise(outcomes):
        trained = str(before.row["trained_version"])
        trained_until = int(registered[trained].tags["training_window_s"].split("..")[1])
        name, until = str(each.row["challenger_method"]), int(each.row["until_s"])
        rows = served[(served["champion_version"] == trained) & (served["end_s"] <= until)]
        score = {
            column: np.minimum(rows[column] / rows["runtime_s"], rows["runtime_s"] / rows[column]) for column in (name, "champion")
        }
        user, end = pd.factorize(rows["user"])[0], rows["end_s"].to_numpy()
        again = served_evidence((score[name] - score["champion"]).to_numpy(), user, end, trained_until, until, 3, trained_until)
        assert again.value == pytest.approx(each.row["evidence"], rel=1e-9)
        if before.row["promoted"]:
            assert each.row["evidence"] == 1.0


def test_every_night_simulates_harm_with_the_champion_as_served(replayed) -> None:
    _, _, outcomes, _ = replayed
    compared = outcomes[-1].comparison
    assert set(zip(compared["scheduler"], compared["predictor"], strict=True)) == {
        *itertools.product(("EASY", "EASY-SJBF"), ("requested", "champion")),
        *itertools.product(("Harm",), ("prior", "champion")),
    }


def test_only_jobs_that_no_judged_model_has_seen_judge(replayed) -> None:
    home, trace, outcomes, store = replayed
    served, _ = Lake(home / "lake").read("served", "arriving")
    registered = versions(store)
    submit, end = trace.clean.jobs["submit_s"].to_numpy(), trace.start_s + trace.clean.jobs["runtime_s"].to_numpy()
    for before, each in itertools.pairwise(outcomes):
        trained_until = int(registered[str(before.row["trained_version"])].tags["training_window_s"].split("..")[1])
        until = each.row["until_s"]
        since = submit[end <= until].max() - JUDGED_DAYS * DAY_S
        judges = served[(served["submit_s"] > trained_until) & (served["end_s"] > since) & (served["end_s"] <= until)]
        assert len(judges) == each.row["judged_jobs"]
        ratio = judges["champion"] / judges["runtime_s"]
        assert np.minimum(ratio, 1 / ratio).mean() == pytest.approx(each.row["champion_accuracy"], rel=1e-12)


def test_every_night_leaves_a_page_and_a_row(replayed) -> None:
    home, _, outcomes, _ = replayed
    rows = pd.read_csv(home / "reports" / "nights" / "arriving" / "nights.csv")
    assert rows["night"].tolist() == [each.label for each in outcomes]
    for each in outcomes:
        page = each.report.read_text()
        assert numbers_from_nowhere(page) == set()
        assert str(each.row["why"])[1:40] in page
        assert 'src="http' not in page
    assert not list((home / "nights" / "arriving").glob("*"))[1:]  # nothing but the lock


def test_the_change_is_reported_as_drift_of_the_champion(replayed) -> None:
    _, trace, outcomes, _ = replayed
    change = trace.midnights[CHANGE_DAY - 1]
    before, after = ([each.drifted for each in outcomes if (each.row["until_s"] > change) == late] for late in (False, True))
    assert any("accuracy" in drifted for drifted in after)
    assert len(before) == 2
    assert not any(before)


def test_a_night_without_news_is_a_night(replayed, begun: Path) -> None:
    _, trace, (first, *_), _ = replayed
    kept = trace.accounting(trace.midnights[FIRST])
    outcomes = [first, night(kept, "two", begun)]
    assert outcomes[1].row["new_jobs"] == 0
    assert outcomes[1].row["champion"] == outcomes[1].row["trained_version"] == outcomes[0].row["champion"]
    assert outcomes[1].row["challenger"] == outcomes[0].row["challenger"]
    assert "nothing was registered" in outcomes[1].report.read_text()
    registered = own_registry(begun).client.search_model_versions("name = 'runtime-arriving'")
    assert {str(each.version) for each in registered} == set(outcomes[0].registered["version"].astype(str))
    assert outcomes[1].registered.set_index("alias")["accuracy"]["champion"] > 0


@pytest.mark.thorough
def test_accounting_that_changed_is_counted_and_answered_anew(replayed, begun: Path) -> None:
    _, trace, _, _ = replayed
    before, now = (trace.accounting(trace.midnights[FIRST + number]) for number in range(2))
    jobs = now.jobs
    recent = jobs.index[-400]
    changed = jobs.assign(runtime_s=jobs["runtime_s"].where(jobs.index != recent, jobs["runtime_s"] - 1)).drop(index=recent - 100)
    second = replace(now, jobs=changed.reset_index(drop=True), jobs_read=len(changed))
    outcome = night(second, "two", begun)
    assert outcome.row["gone_jobs"] == 2
    assert "2 jobs of the earlier accounting changed or are missing now" in outcome.report.read_text()
    with pytest.raises(InputError, match="part of it is missing"):
        night(before, "three", begun)


def test_jobs_before_second_0_are_simulated_as_others_are() -> None:
    clean = arriving(jobs=300)
    earlier = clean.counted_from(clean.origin_unix_s + 10 * DAY_S)
    end_s = (earlier.jobs["submit_s"] + earlier.jobs["wait_s"] + earlier.jobs["runtime_s"]).to_numpy(np.int64)
    assert len(choose_cutoff(earlier, end_s).replayed(earlier).jobs) == 300
    assert choose_cutoff(earlier, end_s, night="2023-12-01").simulate_from_s == earlier.jobs["submit_s"].iloc[0] < 0


def test_only_jobs_without_a_wait_start_as_simulated() -> None:
    jobs = arriving(jobs=200).jobs
    missing = np.arange(200) % 50 == 7
    of_some, source = history_starts(jobs.assign(wait_s=jobs["wait_s"].mask(missing)), PROCS)
    of_all, _ = history_starts(jobs.assign(wait_s=jobs["wait_s"].mask(missing | True)), PROCS)
    assert source == "recorded, 4 without a wait simulated: EASY with requested times"
    assert (of_some == np.where(missing, of_all, jobs["submit_s"] + jobs["wait_s"])).all()
