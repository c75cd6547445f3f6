"""The registered model that a run simulates: loaded from the registry, served night by night, and chosen without sight of what it is judged on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest

from features.clock import DAY_S
from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from models.registry.candidates import refresh
from models.registry.runtime_registration import trained_method
from pipelines.lake.registry import registered_predictor
from pipelines.lake.tables import features_of
from pipelines.training.compare import judged, prediction_quality
from pipelines.training.night import own_registry
from pipelines.training.run_settings import RunSettings
from pipelines.training.simulate import ServedModel, simulated_model
from pipelines.training.simulate import simulate as simulate_run
from pipelines.training.work import as_of, choose_cutoff, midnights
from sim import simulate
from sim.metrics.verdict import predictions
from tests.support.arriving import arriving
from tests.support.cutoffs import registered_in, work_in

pytestmark = pytest.mark.usefixtures("undrawn_pictures", "quick_methods")
NAME = "runtime-arriving"


@pytest.fixture(scope="module")
def clean() -> CleanTrace:
    return arriving(jobs=1200)


@pytest.fixture(scope="module")
def record(clean: CleanTrace):
    return features_of(clean)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, clean: CleanTrace):
    """A home in which one run registered."""
    before = mlflow.get_tracking_uri()
    home = tmp_path_factory.mktemp("simulated")
    yield home, registered_in(home, clean)
    mlflow.set_tracking_uri(before)


def simulated(ran, clean: CleanTrace, record, **options) -> ServedModel:
    home, run = ran
    return simulated_model(NAME, run.simulated, clean, record, run.date, own_registry(home), **options)


def test_the_champion_learned_up_to_the_date_and_serves_the_present(ran, clean: CleanTrace, record) -> None:
    home, run = ran
    store = own_registry(home)
    served = store.client.get_model_version_by_alias(NAME, "champion")
    assert served.tags["refreshed_from"] == run.simulated
    assert (
        int(served.tags["training_window_s"].split("..")[1]) <= run.date.until_s < int(served.tags["snapshot_s"]) == record.until_s
    )
    left = clean.jobs["submit_s"].iloc[-1] - run.date.until_s
    assert left >= (clean.jobs["submit_s"].iloc[-1] - clean.jobs["submit_s"].iloc[0]) / 3


def test_what_happens_after_the_date_changes_neither_the_model_nor_the_choice(
    ran, clean: CleanTrace, record, tmp_path: Path
) -> None:
    home, run = ran
    after = np.isin(np.arange(len(clean.jobs)), record.ended(run.date.until_s), invert=True)
    random = np.random.default_rng(1)
    request = clean.jobs["requested_s"].where(~after, 999_999)
    late = np.maximum(run.date.until_s + 1 - record.start_s, 1) + random.integers(0, 9_999, len(after))
    runtime = clean.jobs["runtime_s"].where(~after, np.minimum(late, request))
    jobs = clean.jobs.assign(runtime_s=runtime, requested_s=request, procs=clean.jobs["procs"].where(~after, 1))
    other = replace(clean, jobs=jobs)
    again = registered_in(tmp_path, other, until=str(run.date.until_s))
    assert again.simulated == run.simulated
    first, second = (trained_method(own_registry(place), "arriving", run.simulated) for place in (home, tmp_path))
    rows = np.arange(20)
    asked = record.served(rows, run.date.until_s)
    pd.testing.assert_frame_equal(pd.DataFrame(first.predict(asked)), pd.DataFrame(second.predict(asked)))
    kept = ["version", "method", "accuracy", "judged_jobs"]
    chosen = [each.versions[each.versions["version"].astype(str) != each.models["champion"]][kept] for each in (run, again)]
    pd.testing.assert_frame_equal(*chosen)
    own_registry(home)


def test_each_job_is_answered_by_the_night_before_its_submission_and_by_its_request_before_the_date(ran, clean, record) -> None:
    home, run = ran
    model = simulated(ran, clean, record)
    assert model.predictor is not None
    method = trained_method(own_registry(home), "arriving", run.simulated)
    predicted = model.predictor.estimate(clean.jobs)
    rows = run.date.judged(clean.jobs["submit_s"].to_numpy())
    for night in midnights(clean, run.date.until_s)[::4]:
        mine = rows[(clean.jobs["submit_s"].iloc[rows] >= night) & (clean.jobs["submit_s"].iloc[rows] < night + DAY_S)]
        then = refresh(method, record, night)
        expected = then.predict(record.served(mine, night))["predicted_s"]
        np.testing.assert_array_equal(predicted[mine], expected)
    earlier = np.setdiff1d(np.arange(len(clean.jobs)), rows)
    np.testing.assert_array_equal(predicted[earlier], clean.jobs["requested_s"].iloc[earlier])
    assert (predicted[rows] != clean.jobs["requested_s"].iloc[rows]).mean() > 0.5


def test_all_policies_replay_the_whole_trace_and_are_judged_on_the_same_jobs(ran, clean: CleanTrace, record) -> None:
    home, run = ran
    named = ("requested", "last2", "clairvoyant")
    plan = RunSettings(schedulers=("EASY",), predictors=named, corrections=("conditional(when=pass)",))
    outcome = simulate_run(work_in(home, "arriving"), clean, plan)
    assert [each.predictor for each in outcome.schedules] == ["requested", "last2", f"registry:{NAME}", "clairvoyant"]
    assert {len(each.jobs) for each in outcome.schedules} == {len(clean.jobs)}
    parts = [judged(each, run.date.judged(clean.jobs["submit_s"].to_numpy())).jobs for each in outcome.schedules]
    assert all((part["submit_s"] >= run.date.until_s).all() for part in parts)
    assert len({tuple(part["job_id"]) for part in parts}) == 1
    requested, last2, registered, _ = outcome.schedules
    before = clean.jobs["submit_s"] < run.date.until_s - 2 * DAY_S
    # the registered model begins where the baseline is
    pd.testing.assert_frame_equal(requested.jobs[before].iloc[:, :4], registered.jobs[before].iloc[:, :4])
    warm = simulate(clean.jobs, procs=clean.procs, predictor="last2", correction="conditional(when=pass)")
    pd.testing.assert_frame_equal(warm.jobs, last2.jobs)
    quality = prediction_quality(clean, outcome.schedules, run.date)
    rows = quality[(quality["by"] == "all") & (quality["measure"] == "accuracy")].set_index("predictor")
    of_registered = rows.loc[f"registry:{NAME}"]
    assert of_registered["jobs"] == len(parts[0])
    shares = parts[2]["runtime_s"] / parts[2]["predicted_s"]
    assert of_registered["value"] == pytest.approx(np.minimum(shares, 1 / shares).mean())
    assert predictions(f"registry:{NAME}") == "as served"


def test_a_model_that_has_learned_from_what_is_replayed_is_refused(ran, clean: CleanTrace, record) -> None:
    home, run = ran
    at_s = run.date.until_s - 5 * DAY_S
    early = replace(run.date, until_s=at_s, simulate_from_s=at_s)
    with pytest.raises(InputError, match=r"has learned from jobs up to .* it was trained on"):
        simulated_model(NAME, run.simulated, clean, record, early, own_registry(home), shown="registry:x")
    one_snapshot = "pipelines.lake.registry.tracking"
    with pytest.MonkeyPatch.context() as own:
        own.setattr(one_snapshot, lambda: own_registry(home))
        with pytest.raises(InputError, match="registry:runtime-arriving: has learned from the replayed jobs"):
            registered_predictor(f"registry:{NAME}", clean)
        later = replace(clean, jobs=clean.jobs.assign(submit_s=clean.jobs["submit_s"] + 60 * DAY_S))
        fresh = registered_predictor(f"registry:{NAME}@champion", later)
    assert (fresh.estimate(later.jobs) >= 1).all()


def test_nothing_of_a_job_that_had_not_ended_is_in_the_accounting_of_the_date(clean: CleanTrace, record) -> None:
    date = choose_cutoff(clean, record.end_s)
    then_clean, then = as_of(clean, record, date.until_s)
    assert then.until_s <= date.until_s
    assert len(then_clean.jobs) == (record.end_s <= date.until_s).sum()
    assert set(then_clean.jobs["user"].cat.categories) == set(then_clean.jobs["user"])


def test_a_trace_of_a_day_leaves_its_last_third_although_no_job_had_ended_by_a_midnight(clean: CleanTrace) -> None:
    submit_s = 3_600 + 120 * np.arange(600)  # twenty hours from one o'clock on
    jobs = clean.jobs.iloc[:600].reset_index(drop=True).assign(submit_s=submit_s, runtime_s=60)
    date = choose_cutoff(replace(clean, jobs=jobs, origin_unix_s=1_700_006_400, timezone=None), submit_s + 60)
    assert date.until_s == pytest.approx(submit_s[-1] - np.ptp(submit_s) / 3, abs=1)
    assert "its last third is left" in date.note
