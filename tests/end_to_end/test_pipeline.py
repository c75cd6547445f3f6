"""The pipeline as Dagster runs it: all definitions, one whole run on a small generated workload, what it leaves, and what a failure leaves."""

from __future__ import annotations

import gzip
import os
import subprocess
from pathlib import Path

import dagster as dg
import mlflow
import pandas as pd
import pytest
from dagster._core.storage.defs_state.base import set_defs_state_storage

from features.errors import InputError
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.schema import Trace, conform
from pipelines.definitions import defs
from pipelines.lake.tables import Lake
from tests.support import command, process
from tests.support.modes import open_to_others

CATALOGUE = """
[traces.small]
title = "a small generated workload"
format = "generated"
options = { jobs = 1000, procs = 64, users = 20, load = 0.7, seed = 3 }
"""
GRAPH: dict[str, set[str]] = {
    **{name: set() for name in ("trace_file", "ldms_directory", "control_run_files")},
    "jobs": {"trace_file"},
    "rejected_jobs": {"trace_file"},
    "runtime_features": {"jobs"},
    "runtime_model": {"jobs", "runtime_features"},
    "learned_policy": {"jobs", "runtime_features", "runtime_model"},
    "schedules": {"jobs", "runtime_features", "runtime_model", "learned_policy"},
    "comparison": {"jobs", "schedules"},
    "report": {"jobs", "rejected_jobs", "schedules", "comparison", "runtime_model"},
    "published_trace": {
        *("jobs", "rejected_jobs", "runtime_features", "runtime_model", "learned_policy", "schedules", "comparison", "report"),
    },
    "night": {"published_trace"},
    "queue_states": {"published_trace"},
    "start_model": {"queue_states"},
    "parity": {"published_trace"},
    "counters": {"ldms_directory"},
    "control_runs": {"control_run_files"},
    "variability_features": {"counters", "control_runs"},
    "variability_model": {"variability_features"},
    "published_system": {"variability_features", "variability_model"},
    "system_comparison": {"variability_model", "published_system", "runtime_model"},
    "variability_night": {"published_system"},
}
"""What each asset is made from."""
ELSEWHERE = ("DAGSTER_HOME", "MLFLOW_TRACKING_URI")
Ran = tuple[Path, subprocess.CompletedProcess[str]]
JOB = b"1 0 -1 100 2 -1 -1 2 200 -1 1 1 1 -1 -1 -1 -1 -1\n"
"""A line of the Standard Workload Format."""
SACCT = b"JobID|User|Submit|Start|End|State|Timelimit|ReqCPUS\n"


def queuecast(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, as one of a site without a server, and leave MLflow and Dagster pointing to where they did."""
    before = mlflow.get_tracking_uri()
    with pytest.MonkeyPatch.context() as patch, set_defs_state_storage(None):
        patch.setattr("models.registry.tracking._SITE", None)
        for name in ELSEWHERE:
            patch.delenv(name, raising=False)
        try:
            return command.queuecast(*arguments, home=cwd / "home", cwd=cwd)
        finally:
            mlflow.set_tracking_uri(before)


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    directory = tmp_path_factory.mktemp("run")
    (directory / "queuecast.toml").write_text(CATALOGUE)
    place = {name: value for name, value in os.environ.items() if name not in ELSEWHERE} | {
        "QUEUECAST_HOME": str(directory / "home")
    }
    return directory, process.python(["-m", "pipelines", "run", "--trace", "small"], cwd=directory, env=place)


def test_what_a_run_leaves_is_the_users_alone(ran: Ran) -> None:
    assert ran[1].returncode == 0, ran[1].stderr
    assert open_to_others(ran[0] / "home") == []


def test_all_definitions_load_and_every_stage_has_checks() -> None:
    dg.Definitions.validate_loadable(defs)
    graph = defs.resolve_asset_graph()
    assert {key.to_user_string() for key in graph.get_all_asset_keys()} == set(GRAPH)
    scheduled = [*defs.jobs, *defs.schedules, *defs.sensors]
    assert [each.name for each in scheduled if not each.description] == []
    assert [key.to_user_string() for key in graph.get_all_asset_keys() if not graph.get(key).kinds] == []
    assert [key.to_user_string() for key in graph.get_all_asset_keys() if not graph.get(key).description] == []
    checked = {key.asset_key.to_user_string() for key in graph.asset_check_keys}
    # rejected_jobs are checked with jobs, what is computed from checked tables by tests
    unchecked = {
        "rejected_jobs",
        "runtime_features",
        "learned_policy",
        "comparison",
        "queue_states",
        "start_model",
        "variability_model",
    }
    assert checked == {key.to_user_string() for key in graph.materializable_asset_keys} - unchecked


def test_registered_models_feed_the_simulations_as_the_graph_says() -> None:
    graph = defs.resolve_asset_graph()
    for name, above in GRAPH.items():
        assert {key.to_user_string() for key in graph.get(dg.AssetKey(name)).parent_keys} == above, name


def test_what_a_table_was_made_from_is_what_the_graph_says(ran: Ran) -> None:
    """The lake notes which tables an asset reads; Dagster shows what it is declared to read."""
    versions, graph = Lake(ran[0] / "home" / "lake").versions("runtime-small"), defs.resolve_asset_graph()
    writers = {"prediction_quality": "schedules", "starts": "start_model", "models": "runtime_model"}
    for table, inputs in versions.current().made_from.items():
        if table.startswith("reports/"):
            continue
        asset = writers.get(table, table)
        above = {key.to_user_string() for key in graph.get_ancestor_asset_keys(dg.AssetKey(asset))} | {asset}
        read = {writers.get(name, name) for name in inputs} - {"rejected_jobs"}
        assert read <= above, table
        declared = {key.to_user_string() for key in graph.get(dg.AssetKey(asset)).parent_keys} & {*versions.current().files}
        assert declared <= read | {asset}, table


def test_a_whole_run_leaves_comparison_report_and_champion(ran: Ran) -> None:
    directory, done = ran
    assert done.returncode == 0, done.stderr
    assert "9 of 9 checks passed" in done.stderr
    assert "generated" in done.stdout
    report = (directory / "home" / "reports" / "small.html").read_text()
    assert "generated workload" in report
    table, metadata = Lake(directory / "home" / "lake").read("comparison", "small")
    assert metadata["generated"] is True
    combinations = set(zip(table["scheduler"], table["predictor"], strict=True))
    both = {"quantile", "registry:runtime-small", "clairvoyant"}
    assert combinations == {
        *((s, p) for s in ("EASY", "EASY-SJBF") for p in (*both, "requested")),
        *(("Harm", p) for p in (*both, "prior")),
    }
    learned = table[~table["predictor"].isin(["requested", "clairvoyant"]) & (table["scheduler"] != "Harm")]
    assert set(learned["correction"]) == {"conditional(when=pass)"}  # predictors are compared, not corrections
    models, _ = Lake(directory / "home" / "lake").read("runtime_model", "small")
    assert set(models["method"]) == {"last2", "lightgbm", "quantile(order=accuracy)"}
    assert sorted(models["alias"]) == ["", "", "challenger", "champion"]
    champion = models.set_index("alias").loc["champion"]
    assert (
        f"registry    runtime-small@champion is version {champion['version']}, {champion['method']}: accuracy {champion['accuracy']:.1%}"
        in done.stdout
    )
    assert not list(directory.glob("ml*"))  # nothing of MLflow's in the working directory


def test_the_champion_predicts_submissions_from_a_file(ran: Ran) -> None:
    directory, _ = ran
    jobs = directory / "jobs.csv"
    jobs.write_text("user,procs,requested_s,submit_time\nuser-1,4,3600,2024-03-01 09:00:00\nnobody,1,60,2024-03-02 10:00:00\n")
    done = queuecast("predict", "--model", "runtime-small", str(jobs), cwd=directory)
    assert done.returncode == 0, done.stderr
    answers = pd.read_csv(pd.io.common.StringIO(done.stdout))
    assert list(answers["user"]) == ["user-1", "nobody"]
    assert (answers["predicted_s"] >= 1).all()
    assert (answers["predicted_s"] <= answers["requested_s"]).all()


def test_a_failed_run_leaves_the_previous_result_in_place(ran: Ran) -> None:
    directory, _ = ran
    lake = Lake(directory / "home" / "lake")
    seen = lake.versions("runtime-small").current()
    tables = {name: (lake.root / file).read_bytes() for name, file in seen.files.items()}
    report = (directory / "home" / "reports" / "small.html").read_bytes()
    broken = CATALOGUE.replace("jobs = 1000", "jobs = -1")
    (directory / "queuecast.toml").write_text(broken)
    try:
        done = queuecast("run", "--trace", "small", cwd=directory)
    finally:
        (directory / "queuecast.toml").write_text(CATALOGUE)
    assert done.returncode == 2
    assert "-1" in done.stderr.splitlines()[-1]
    assert lake.versions("runtime-small").current() == seen
    assert {name: (lake.root / file).read_bytes() for name, file in seen.files.items()} == tables
    assert (directory / "home" / "reports" / "small.html").read_bytes() == report


def test_tables_of_other_jobs_are_refused(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    old, new = cleaned(runtime_s=[100, 50]), cleaned(runtime_s=[100, 51])
    lake.write_clean(old)
    lake.write_for(old, "comparison", pd.DataFrame({"requested": [200.0, 60.0]}))
    lake.read_for(lake.read_clean("two"), "comparison")
    lake.write_clean(new)
    with pytest.raises(InputError, match="was made from other jobs than two has now: materialise comparison first"):
        lake.read_for(lake.read_clean("two"), "comparison")


def cleaned(runtime_s: list[int]) -> CleanTrace:
    columns = {
        "job_id": [1, 2],
        "submit_s": [0, 10],
        "runtime_s": runtime_s,
        "procs": [1, 2],
        "requested_s": [200, 60],
        "user": ["a", None],
    }
    return clean(Trace("two", conform(columns, 2), procs=4))


@pytest.mark.parametrize(
    ("name", "content", "options", "words"),
    [
        ("cut.swf.gz", gzip.compress(JOB * 500)[:-20], ["--procs", "8"], ["cut.swf.gz", "truncated"]),
        ("wide.swf", JOB, [], ["wide.swf", "--procs"]),
        ("generated.swf", JOB, ["--procs", "8"], ["generated.swf", "rename the file"]),
        ("fine.txt", SACCT, ["--procs", "8", "--time-zone", "Mars/Phobos"], ["Mars/Phobos"]),
    ],
    ids=["truncated", "no-machine", "name-taken", "no-such-zone"],
)
def test_what_cannot_be_run_is_one_line_and_is_not_remembered(
    tmp_path: Path, name: str, content: bytes, options: list[str], words: list[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    done = queuecast("run", "--trace", str(tmp_path / name), *options, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr.splitlines()[-1]
    assert not (tmp_path / "home" / "traces.toml").exists()


def test_a_trace_is_remembered_with_its_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.readers.read import read_known, remember

    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "Mine.swf"
    path.write_text("1 0 -1 100 2 -1 -1 2 -1 -1 1 1 1 -1 -1 -1 -1 -1\n")
    name = remember(str(path), procs=8, missing_request="runtime")
    assert name == "mine"
    trace = read_known(name)
    assert (trace.procs, trace.missing_request, len(trace.jobs)) == (8, "runtime", 1)
    for spec in ("mine", str(path)):  # by name or by path: what is not said anew stays
        remember(spec, procs=16)
        trace = read_known(name)
        assert (trace.procs, trace.missing_request) == (16, "runtime")
    remember(str(path))
    assert read_known(name).procs == 16
    other = tmp_path / "elsewhere" / "mine.swf"
    other.parent.mkdir()
    other.write_text(path.read_text())
    with pytest.raises(InputError, match="run before: rename one of the files"):
        remember(str(other), procs=8, missing_request="runtime")
    with pytest.raises(InputError, match="its machine is generated with it"):
        remember("generated", procs=8)
