"""Runs and nights as assets, on an ephemeral instance: what is made, checked, published and said to be made from what."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import mlflow
import pandas as pd
import pytest

from features.jobs.schema import Trace, fingerprint
from models.registry import tracking
from models.registry.tracking import aliases, all_versions, why_of
from pipelines.assets.described import described
from pipelines.assets.stages import NIGHT_TAG, applicable
from pipelines.definitions import defs
from pipelines.lake.files import schema_of
from pipelines.lake.publishing import alone
from pipelines.lake.registry import tracking as site
from pipelines.lake.tables import Lake
from pipelines.readers.canonical import write_canonical
from pipelines.readers.read import remember
from pipelines.training.night import replay_nights
from tests.support.arriving import contents, source
from tests.support.process import python

pytestmark = pytest.mark.usefixtures("undrawn_pictures", "quick_methods")
SUBJECT, DAY = "runtime-arriving", 21
OF_A_TRACE = {
    *("jobs", "rejected_jobs", "runtime_features", "runtime_model", "learned_policy", "schedules", "comparison", "report"),
    "published_trace",
}
TABLES = {
    *("jobs", "rejected_jobs", "runtime_features", "runtime_model", "schedules", "prediction_quality", "comparison"),
    *("served", "nights", "learned_policy"),
}
LESS = {"schedules": {"config": {"schedulers": ["EASY"], "predictors": ["requested"]}}}


class Home:
    """A home directory with a trace that grows, and an instance of Dagster that knows it."""

    def __init__(self, place: Path, instance: dg.DagsterInstance) -> None:
        self.place, self.instance, self.trace = place, instance, source(jobs=600)
        self.lake = Lake(place / "home" / "lake")
        instance.add_dynamic_partitions("traces", ["arriving"])

    def do(self, job: str, day: int, read: int | None = None, only: tuple[str, ...] = (), **config: object):
        """Do a job of a day on accounting of it, or of the day ``read``; ``only`` some assets of it, with their ``config``."""
        kept = self.trace.accounting(self.trace.midnights[day if read is None else read])
        path = self.place / "arriving.parquet"
        write_canonical(Trace("arriving", kept.jobs, kept.procs, kept.origin_unix_s, kept.timezone), path)
        remember(str(path), grows=True)
        ops = {name: settings for name, settings in (LESS | config).items() if not only or name in only}
        return defs.resolve_job_def(job).execute_in_process(
            partition_key="arriving",
            instance=self.instance,
            run_config={"ops": ops, "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            asset_selection=[dg.AssetKey(name) for name in only] or applicable(defs.resolve_job_def(job), "arriving"),
            tags={NIGHT_TAG: self.label(day)} if job == "nightly" else {},
            raise_on_error=False,
        )

    def label(self, day: int) -> str:
        return self.trace.label(self.trace.midnights[day])

    def nights(self) -> set[str]:
        return self.instance.get_materialized_partitions(dg.AssetKey("night"))

    def latest(self, asset: str) -> dg.AssetMaterialization:
        event = self.instance.get_latest_materialization_event(dg.AssetKey(asset))
        assert event is not None
        assert event.asset_materialization is not None
        return event.asset_materialization


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


def made_by(result: dg.ExecuteInProcessResult) -> set[str]:
    return {event.asset_key.to_user_string() for event in result.get_asset_materialization_events() if event.asset_key}


@pytest.mark.thorough
def test_a_run_of_a_day_is_not_its_night(home: Home) -> None:
    assert home.nights() == set(), "the night of the day is still missing"
    assert not home.lake.has("nights", "arriving")
    assert home.lake.versions(SUBJECT).current().made_by.startswith("run ")


def test_every_column_is_described_and_the_finding_comes_first(home: Home) -> None:
    for table in TABLES - {"served", "nights"}:
        columns = schema_of(home.lake.path(table, "arriving")).names
        assert [column for column in columns if described(column) is None] == [], table
    for asset in ("comparison", "report"):
        shown = home.latest(asset).metadata
        assert list(shown)[:3] == ["verdict", "relative_change", "changes"]
        assert "dagster/column_schema" not in shown, "Dagster shows these columns above all other metadata"
        assert len(str(shown["changes"].value)) < 1000, "Dagster hides longer Markdown behind a link"
    assert home.latest("jobs").metadata["dagster/column_schema"]
    assert home.latest("comparison").metadata["columns"]


def test_a_registered_version_says_what_it_is_and_what_it_was_judged_on(home: Home) -> None:
    versions = all_versions(site(), "runtime-arriving")
    trained = [each for each in versions if "refreshed_from" not in each.tags]
    assert trained
    for each in trained:
        decided, what = str(each.description).split("\n\n")
        assert decided.startswith(("First champion", "Challenger", "Candidate"))
        jobs, judged = int(each.tags["training_jobs"]), int(each.tags["judged_jobs"])
        assert what.startswith(f"{each.tags['method']} learned from {jobs:,} jobs of arriving up to ")
        assert f"over {judged:,} jobs: {float(each.tags['judged_accuracy']):.4f}, that of the requests 0." in what
    assert home.latest("runtime_model").metadata["why"].value in {why_of(each) for each in versions}


KILLED = """
import os, signal, sys
from pathlib import Path
import dagster as dg
from models.packed.methods import Quantile
from models.registry.candidates import TRAINERS
from pipelines.assets import traces
from tests.pipelines.training.test_night_graph import Home
from tests.support.pictures import undrawn
traces.simulate_all = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
del TRAINERS[Quantile.name]
with dg.DagsterInstance.ephemeral() as instance, undrawn():
    Home(Path(sys.argv[1]), instance).do("nightly", int(sys.argv[2]))
"""


def test_a_night_killed_between_its_stages_changes_nothing(home: Home) -> None:
    place = home.place / "home"
    before, named = contents(place), aliases(site(), SUBJECT)
    done = python(["-c", KILLED, str(home.place), str(DAY + 1)])
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert contents(place) == before
    assert aliases(site(), SUBJECT) == named


def test_a_night_makes_and_publishes_what_a_run_makes_of_the_jobs_of_its_day(home: Home) -> None:
    log_answer(home)
    done = home.do("nightly", DAY + 1)
    assert done.success
    assert made_by(done) == {*OF_A_TRACE, "night"}
    seen = home.lake.versions(SUBJECT).current()
    assert seen.made_by == f"the night {home.label(DAY + 1)}"
    assert {name for name in seen.files if not name.startswith("reports/")} == TABLES
    jobs = {home.lake.read(name, "arriving")[1]["jobs"] for name in TABLES - {"served", "nights"}}
    assert jobs == {fingerprint(home.trace.accounting(home.trace.midnights[DAY + 1]).jobs)}, "nothing is left behind"
    assert home.nights() == {dg.MultiPartitionKey({"day": home.label(DAY + 1), "trace": "arriving"})}
    answers = home.latest("night").metadata["http_answers"].value
    assert (answers["answers"], answers["judged"], answers["accuracy"]) == (1, 1, 1.0)
    checked = {check.check_name for check in done.get_asset_check_evaluations()}
    assert {"inputs_as_before", "champion_as_good_as_when_promoted"} <= checked
    shutil.copytree(home.place / "home", home.place / "replayed")


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
        "submit_unix_s": int(job["submit_s"]) + (clean.origin_unix_s or 0),
        "user_known": True,
        "model": SUBJECT,
        "version": "1",
        "predicted_s": int(job["runtime_s"]),
    }
    place.mkdir(exist_ok=True)
    (place / "asked-2023-11-20.jsonl").write_text(json.dumps(asked) + "\n", encoding="utf-8")


def test_the_scheduled_job_leaves_the_same_as_a_replay(home: Home) -> None:
    """The second night by way of Dagster, the accounting a file that grows, against the same in a copy of the home after the first."""
    lake, trace = home.lake, home.trace
    assert home.do("nightly", DAY + 2).success
    [outcome] = replay_nights(trace, [trace.midnights[DAY + 2]], home.place / "replayed")
    ours, theirs = lake.read("nights", "arriving")[0], outcome.nights
    pd.testing.assert_frame_equal(ours[theirs.columns], theirs, check_dtype=False)
    pd.testing.assert_frame_equal(lake.read("comparison", "arriving")[0], outcome.comparison)
    replayed = Lake(home.place / "replayed" / "lake").versions(SUBJECT).current()
    assert set(replayed.files) == set(lake.versions(SUBJECT).current().files), "a replay makes every table and page of the job"


def test_a_night_of_a_day_before_the_last_one_makes_and_checks_nothing(home: Home) -> None:
    """On accounting of today: what had ended by then is another night's, and the champion stays."""
    seen, nights = home.lake.versions(SUBJECT).current(), home.nights()
    done = home.do("nightly", DAY + 1, read=DAY + 2)
    assert done.success
    assert made_by(done) == set()
    assert list(done.get_asset_check_evaluations()) == []
    assert home.lake.versions(SUBJECT).current() == seen
    assert home.nights() == nights


def test_what_does_not_apply_to_a_trace_is_not_materialised(home: Home) -> None:
    done = home.do("full_run", DAY + 2, only=("parity",))
    assert done.success
    assert made_by(done) == set()
    assert list(done.get_asset_check_evaluations()) == []


def test_an_asset_materialised_alone_reads_the_latest_materialisation_of_its_input(home: Home) -> None:
    published = home.lake.versions(SUBJECT).current()
    other = {"config": {"schedulers": ["EASY", "EASY-SJBF"], "predictors": ["requested"]}}
    assert home.do("full_run", DAY + 2, only=("schedules",), schedules=other).success
    assert home.do("full_run", DAY + 2, only=("comparison",)).success
    assert home.lake.versions(SUBJECT).current() == published, "no reader sees what was not published"
    shown = set(str(home.latest("comparison").metadata["changes"].value).split())
    assert "EASY-SJBF" in shown
    draft = home.lake.versions(SUBJECT).draft()
    assert all((home.lake.root / file).exists() for file in draft.files.values()), "what Dagster shows last is there"
    done = home.do("full_run", DAY + 2, only=("published_trace",))
    facts = done.asset_materializations_for_node("published_trace")[0].metadata
    assert any(name.startswith("not published: report") for name in facts) or "report" not in draft.files
    assert "EASY-SJBF" in set(home.lake.read("comparison", "arriving")[0]["scheduler"])


def test_a_night_beside_another_is_refused_and_changes_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.assets.stages.RUN_WAITS_S", 0.1)
    seen = contents(home.place / "home")
    with alone(home.place / "home", "arriving"):
        run = home.do("nightly", DAY + 4)
    assert not run.success
    assert contents(home.place / "home") == seen
