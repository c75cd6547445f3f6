"""A night as assets: the same as in a replay, killed between its stages, beside a run of the same day, and behind what it died of."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import dagster as dg
import mlflow
import pandas as pd
import pytest

from features.jobs.schema import Trace, fingerprint
from models.registry import tracking
from models.registry.versions import aliases
from pipelines.assets.partitions import trace_on
from pipelines.dated import queue_states
from pipelines.dated.night import replay_nights
from pipelines.definitions import defs
from pipelines.ingest.canonical import write_canonical
from pipelines.sources.traces import remember
from pipelines.storage.lake import Lake
from pipelines.storage.publishing import alone
from pipelines.storage.registry import tracking as site
from tests.support.arriving import contents, source
from tests.support.process import python

pytestmark = pytest.mark.usefixtures("undrawn_pictures", "quick_methods")
SUBJECT, DAY = "runtime-arriving", 21
OF_A_NIGHT = {
    *("jobs", "rejected_jobs", "user_history", "runtime_model", "learned_policy", "schedules", "comparison", "report", "parity"),
    *("what_if", "queue_states", "start_model", "published_trace", "night"),
}
TABLES = {
    *("jobs", "rejected_jobs", "user_history", "runtime_model", "schedules", "prediction_quality", "comparison"),
    *("served", "nights", "learned_policy", "queue_states", "start_model", "starts"),  # a replay of nights leaves out the last four
}
LESS = {"schedules": {"config": {"schedulers": ["EASY"], "predictors": ["requested"]}}}


class Home:
    """A home directory with a trace that grows, and an instance of Dagster that knows it."""

    def __init__(self, place: Path, instance: dg.DagsterInstance) -> None:
        self.place, self.instance, self.trace = place, instance, source(jobs=600)
        self.lake = Lake(place / "home" / "lake")
        instance.add_dynamic_partitions("traces", ["arriving"])

    def do(self, job: str, day: int, read: int | None = None, starts: bool = False, **options: object) -> dg.ExecuteInProcessResult:
        """Do a job of a day on accounting of it, or of the day ``read``; learn when jobs start only if asked to."""
        kept = self.trace.accounting(self.trace.midnights[day if read is None else read])
        path = self.place / "arriving.parquet"
        write_canonical(Trace("arriving", kept.jobs, kept.procs, kept.origin_unix_s, kept.timezone), path)
        remember(str(path), grows=True)
        key = trace_on("arriving", self.label(day))
        settings = {"ops": LESS, "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
        given = {"partition_key": key, "instance": self.instance, "run_config": settings, "raise_on_error": False}
        with patch.object(queue_states, "FEWEST", queue_states.FEWEST if starts else len(self.trace.clean.jobs)):
            return defs.resolve_job_def(job).execute_in_process(**given, **options)

    def label(self, day: int) -> str:
        return self.trace.label(self.trace.midnights[day])

    def days(self, asset: str) -> set[str]:
        return self.instance.get_materialized_partitions(dg.AssetKey(asset))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    place, before = tmp_path_factory.mktemp("graph"), mlflow.get_tracking_uri()
    with pytest.MonkeyPatch.context() as own, dg.DagsterInstance.ephemeral() as instance:
        own.setenv("QUEUECAST_HOME", str(place / "home"))
        own.delenv("MLFLOW_TRACKING_URI", raising=False)
        own.setattr(tracking, "_SITE", None)
        own.chdir(place)
        new_home = Home(place, instance)
        assert new_home.do("full_run", DAY).success
        yield new_home
    mlflow.set_tracking_uri(before)


def test_a_run_of_a_day_is_not_its_night(home: Home) -> None:
    assert home.days("report") == {trace_on("arriving", home.label(DAY))}
    assert home.days("night") == set(), "the night of the day is still missing"
    assert not home.lake.has("nights", "arriving")
    assert home.lake.versions(SUBJECT).current().made_by.startswith("run ")


KILLED = """
import os, signal, sys
from pathlib import Path
import dagster as dg
from models.packed.methods import Quantile
from models.registry.candidates import TRAINERS
from pipelines.assets import nights
from tests.pipelines.dated.test_night_graph import Home
from tests.support.pictures import undrawn
real = nights.noted
def dies(stage, *rest):
    return os.kill(os.getpid(), signal.SIGKILL) if stage == sys.argv[3] else real(stage, *rest)
nights.noted = dies
del TRAINERS[Quantile.name]
with dg.DagsterInstance.ephemeral() as instance, undrawn():
    Home(Path(sys.argv[1]), instance).do("nightly", int(sys.argv[2]))
"""


def made_by(result: dg.ExecuteInProcessResult) -> set[str]:
    return {event.asset_key.to_user_string() for event in result.get_asset_materialization_events() if event.asset_key}


def all_of_a_night(home: Home, done: dg.ExecuteInProcessResult, day: int) -> None:
    """Check that a night made and checked everything, all of it of the same jobs, and published it."""
    assert done.success
    assert made_by(done) == OF_A_NIGHT
    graph = defs.resolve_job_def("nightly").asset_layer.asset_graph
    of_the_job = {(check.asset_key, check.name) for check in graph.asset_check_keys}
    assert {(check.asset_key, check.check_name) for check in done.get_asset_check_evaluations()} == of_the_job
    seen = home.lake.versions(SUBJECT).current()
    assert seen.made_by == f"the night {home.label(day)}"
    assert {name for name in seen.files if not name.startswith("reports/")} == TABLES
    jobs = {home.lake.read(name, "arriving")[1]["jobs"] for name in TABLES - {"served", "nights"}}
    assert jobs == {fingerprint(home.trace.accounting(home.trace.midnights[day]).jobs)}, "nothing is left behind"
    order, model = (home.lake.read(name, "arriving")[1] for name in ("learned_policy", "runtime_model"))
    assert order["until_s"] == model["dated"]["until_s"], "an order is learned up to the night, too"
    assert "reports/arriving.html" in seen.files


def log_answer(home: Home) -> None:
    """Log an answer of a service: what a job will have run."""
    clean = home.trace.accounting(home.trace.midnights[DAY])
    job, place = clean.jobs.iloc[50], home.place / "home" / "asked"
    asked = {
        "user": job["user"],
        "procs": int(job["procs"]),
        "requested_s": int(job["requested_s"]),
        "elapsed_s": 0,
        "job_id": None,
    }
    asked |= {
        "submit_unix_s": int(job["submit_s"]) + (clean.origin_unix_s or 0),
        "user_known": True,
        "model": SUBJECT,
        "version": "1",
    }
    place.mkdir()
    (place / "asked-2023-11-20.jsonl").write_text(
        json.dumps({**asked, "predicted_s": int(job["runtime_s"])}) + "\n", encoding="utf-8"
    )


def kill(home: Home, day: int, stage: str) -> None:
    """Kill the night of a day before a stage, and check that nothing has changed."""
    place = home.place / "home"
    before, named = contents(place), aliases(site(), SUBJECT)
    done = python(["-c", KILLED, str(home.place), str(day), stage])
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert contents(place) == before
    assert aliases(site(), SUBJECT) == named


@pytest.mark.thorough
def test_a_night_killed_before_it_is_published_changes_nothing(home: Home) -> None:
    for stage in ("simulating", "publishing"):
        kill(home, DAY + 1, stage)


def test_a_night_killed_between_its_stages_changes_nothing_and_the_next_one_works(home: Home) -> None:
    log_answer(home)
    kill(home, DAY + 1, "simulating")
    done = home.do("nightly", DAY + 1)
    all_of_a_night(home, done, DAY + 1)
    answers = done.asset_materializations_for_node("night")[0].metadata["answers over HTTP"].value
    assert (answers["answers"], answers["judged"], answers["accuracy"]) == (1, 1, 1.0)
    assert home.days("night") == {trace_on("arriving", home.label(DAY + 1))}
    shutil.copytree(home.place / "home", home.place / "replayed")


def night_page(home: Home, day: int) -> str:
    return (home.place / "home" / "reports" / "nights" / "arriving" / f"{home.label(day)}.html").read_text()


def test_a_night_beside_a_run_of_the_same_day_does_not_mix(home: Home) -> None:
    versions, day = home.lake.versions(SUBJECT), DAY + 2
    draft = home.do("full_run", day, asset_selection=[dg.AssetKey("jobs"), dg.AssetKey("rejected_jobs")])
    assert draft.success
    assert versions.draft().made_by["jobs"] == draft.run_id
    all_of_a_night(home, home.do("nightly", day, starts=True), day)
    assert home.lake.read("start_model", "arriving")[1]["serves"]["champion"]
    page = (home.place / "home" / "reports" / "arriving.html").read_text()
    assert 'href="nights/arriving/index.html"' in page
    assert page == night_page(home, day).replace('href="index.html"', 'href="nights/arriving/index.html"')
    assert set(home.lake.read("comparison", "arriving")[0]["predictor"]) == {"requested", "prior", "champion"}


def test_the_scheduled_job_leaves_the_same_as_a_replay(home: Home) -> None:
    """The second night by way of Dagster, the accounting a file that grows, against the same in a copy of the home after the first."""
    lake, trace = home.lake, home.trace
    [outcome] = replay_nights(trace, [trace.midnights[DAY + 2]], home.place / "replayed")
    ours, theirs = lake.read("nights", "arriving")[0], outcome.nights
    pd.testing.assert_frame_equal(ours[theirs.columns], theirs, check_dtype=False)
    pd.testing.assert_frame_equal(lake.read("comparison", "arriving")[0], outcome.comparison)
    pages = sorted(each.name for each in (home.place / "home" / "reports" / "nights" / "arriving").iterdir())
    assert pages == [*(f"{home.label(day)}.html" for day in (DAY + 1, DAY + 2)), "index.html", "nights.csv"]


def test_a_night_of_a_day_before_the_last_one_publishes_nothing(home: Home) -> None:
    """On accounting of today: what had ended by then is another night's, and the champion stays."""
    seen, trace = home.lake.versions(SUBJECT).current(), home.trace
    done = home.do("nightly", DAY + 1, read=DAY + 2)
    assert done.success
    assert made_by(done) == OF_A_NIGHT
    metadata = {name: done.asset_materializations_for_node(name)[-1].metadata for name in ("ingest", "night", "published_trace")}
    ended = trace.start_s + trace.clean.jobs["runtime_s"].to_numpy() <= trace.midnights[DAY + 1] + 2 * 3600
    assert (metadata["night"]["published"].value, metadata["ingest"]["jobs"].value) == (False, ended.sum())
    assert all(home.label(DAY + 2) in str(each["why"].value) for each in metadata.values())
    assert home.lake.versions(SUBJECT).current() == seen
    assert home.days("night") == {trace_on("arriving", home.label(day)) for day in (DAY + 1, DAY + 2)}


def test_a_run_after_the_night_of_its_day_keeps_what_is_the_nights(home: Home) -> None:
    day, versions = DAY + 2, home.lake.versions(SUBJECT)
    night = versions.current()
    assert home.do("full_run", day).success
    run = versions.current()
    assert run.made_by.startswith("run ")
    assert {name for name in run.files if night.files.get(name) == run.files[name]} >= {"nights", "served"}
    assert "champion" not in set(home.lake.read("comparison", "arriving")[0]["predictor"])
    assert not any(name.startswith("reports/nights/") for name in run.files)
    assert home.lake.read("nights", "arriving")[0]["night"].tolist() == [home.label(DAY + 1), home.label(day)]


def test_a_night_without_its_stages_and_one_beside_another_are_refused_and_a_run_waits(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.assets.resources.RUN_WAITS_S", 0.1)
    named = aliases(site(), SUBJECT)
    seen, day = contents(home.place / "home"), DAY + 4
    alone_made = home.do("nightly", day, asset_selection=[dg.AssetKey("night")])
    assert not alone_made.success
    failed = home.place / "home" / "reports" / "nights" / "arriving" / f"{home.label(day)}.failed.txt"
    assert failed.exists()
    with alone(home.place / "home", "arriving"):
        assert not home.do("nightly", day).success
        run = home.do("full_run", day)
    errors = [str(event.event_specific_data.error) for event in run.all_events if event.is_failure]
    assert "another night or run of arriving is running, and still is after 0.1 s" in errors[0]
    assert aliases(site(), SUBJECT) == named
    assert "another night or run of arriving is running" in failed.read_text()
    assert contents(home.place / "home") == seen
