"""The pipeline, a night and a registry's consumer, through the servers: nothing but settings differs from a laptop."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pandas as pd

from pipelines.assets.stages import NIGHT_TAG
from tests.server.conftest import LESS, SUBJECT
from tests.server.site import Site
from tests.support.patience import wait_until

NIGHT = "2023-12-08"
_LAUNCH = """mutation($p: ExecutionParams!) {launchRun(executionParams: $p) {
  __typename ... on LaunchRunSuccess {run {runId}} ... on PythonError {message}}}"""
_BACKFILL = """mutation($p: LaunchBackfillParams!) {launchPartitionBackfill(backfillParams: $p) {
  __typename ... on LaunchBackfillSuccess {backfillId} ... on PythonError {message}}}"""
_RUNS = "{runsOrError(limit: 20) {... on Runs {results {runId jobName status tags {key value}}}}}"
FEW = {"schedulers": ["EASY"], "predictors": ["requested"], "corrections": ["requested"]}
"""Policies of a run, as :data:`LESS` says for a command."""
NIGHTLY = (
    *("jobs", "rejected_jobs", "runtime_features", "runtime_model", "learned_policy", "schedules", "comparison", "report"),
    "published_trace",
)


def runs(site: Site) -> list[dict]:
    """Return Dagster's runs, the latest first."""
    return site.graphql(_RUNS)["runsOrError"]["results"]


def ended(site: Site, before: set[str]) -> dict:
    """Wait for a run that was not there ``before`` to end; return it."""

    def latest() -> dict:
        new = [each for each in runs(site) if each["runId"] not in before]
        return new[0] if new and new[0]["status"] in ("SUCCESS", "FAILURE", "CANCELED") else {}

    return wait_until(latest, lambda: f"no run ended: {runs(site)}", every_s=1)


def launch(site: Site, day: str, trace: str = "arriving") -> str:
    """Launch the night of ``day`` as a backfill, as an operator does; return its id."""
    chosen = [{"path": [name]} for name in NIGHTLY]
    given = {"assetSelection": chosen, "partitionNames": [trace], "tags": [{"key": NIGHT_TAG, "value": day}]}
    reply = site.graphql(_BACKFILL, p=given)["launchPartitionBackfill"]
    assert reply["__typename"] == "LaunchBackfillSuccess", reply
    return reply["backfillId"]


def test_a_run_on_the_servers_settings(site: Site) -> None:
    done = site.queuecast("run", "--trace", str(site.root / "arriving.parquet"), "--grows", *LESS)
    assert done.returncode == 0, done.stderr
    assert "runtime-arriving@champion is version" in done.stdout
    assert "report      s3://site/home/reports/arriving.html" in done.stdout
    local = {path.name for path in (site.root / "machines" / "desk").rglob("*") if path.is_file()}
    assert not {name for name in local if name.endswith((".parquet", ".db", ".html"))}, "all of it lies at the servers"


def test_a_run_and_a_night_through_dagsters_daemon(site: Site) -> None:
    site.start_dagster()
    before = {run["runId"] for run in runs(site)}
    assert len(before) == 1, "the web server sees the run of another machine"
    current = site.published(SUBJECT)
    job = {"repositoryLocationName": "queuecast", "repositoryName": "__repository__", "jobName": "full_run"}
    given = {
        "selector": job,
        "runConfigData": {"ops": {"schedules": {"config": FEW}}},
        "executionMetadata": {"tags": [{"key": "dagster/partition", "value": "arriving"}]},
    }
    reply = site.graphql(_LAUNCH, p=given)["launchRun"]
    assert reply["__typename"] == "LaunchRunSuccess", reply
    done = ended(site, before)
    assert done["status"] == "SUCCESS", done
    assert site.published(SUBJECT)["version"] != current["version"]

    launch(site, NIGHT)
    night = ended(site, before | {done["runId"]})
    assert night["status"] == "SUCCESS", night
    seen = site.published(SUBJECT)
    assert NIGHT in seen["made_by"]
    assert any(NIGHT in page for page in seen["pages"])


def test_consumers_of_the_registry(site: Site, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(
        "user,procs,requested_s,submit_time\nuser03,4,3600,2023-12-09 10:00\nuser77,1,600,2023-12-09 11:00\n"
    )
    asked = site.queuecast("predict", "--model", SUBJECT, "jobs.csv", env=site.machine("submit-host"), cwd=tmp_path)
    assert asked.returncode == 0, asked.stderr
    answers = pd.read_csv(io.StringIO(asked.stdout))["predicted_s"].tolist()
    plain = """
import json, mlflow, pandas as pd
model = mlflow.pyfunc.load_model("models:/runtime-arriving@champion")
jobs = pd.read_csv("jobs.csv", parse_dates=["submit_time"])
print(json.dumps(model.predict(jobs)["predicted_s"].tolist()))
"""
    env = site.machine("portal", MLFLOW_TRACKING_URI=f"http://127.0.0.1:{site.ports['mlflow']}")
    for name in (
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ENDPOINT_URL",
        "QUEUECAST_DATABASE",
    ):  # the server has the store's keys, not its consumers
        env.pop(name)
    printed = site.python(plain, env=env, cwd=tmp_path)
    assert json.loads(printed.splitlines()[-1]) == answers
    assert all(1 <= each <= 3600 for each in answers)


def test_a_campaign_on_a_dask_cluster(site: Site) -> None:
    site.start_dask()
    asked = [
        "campaign",
        str(site.root / "arriving.parquet"),
        "--windows",
        "weeks",
        "--scheduler",
        "EASY",
        "--scheduler",
        "EASY-SJBF",
    ]
    asked += ["--predictor", "requested", "--predictor", "last2", "--correction", "requested"]
    tables = []
    for name, place in (("threads", ""), ("cluster", f"tcp://127.0.0.1:{site.ports['dask']}")):
        out = site.root / "desk" / f"{name}.parquet"
        done = site.queuecast(*asked, "--out", str(out), "--on", place)
        assert done.returncode == 0, done.stderr
        tables.append(pd.read_parquet(out).drop(columns="simulate_s"))
    assert len(tables[0]) >= 8
    pd.testing.assert_frame_equal(*tables, check_exact=True)
    worked = [(site.root / name / f"{name}.log").read_text() for name in ("worker-0", "worker-1")]
    assert all("Registered to" in log for log in worked)
