"""Counters, features, classifiers and trials as assets: a whole run of a small simulated cluster, a site's nights, what checks catch, what failures leave."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path

import dagster as dg
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from features.errors import InputError
from models.registry.variability_registration import VARIABILITY, registered_classifier
from models.variability import learners
from pipelines.assets.checks import check_features
from pipelines.assets.stages import NIGHT_TAG, applicable
from pipelines.cli.variability import ask as ask_command
from pipelines.cli.variability import ingest as ingest_command
from pipelines.definitions import defs
from pipelines.lake.counters import CountersStore
from pipelines.lake.registry import tracking
from pipelines.lake.run_store import RUNS, stored
from pipelines.lake.tables import Lake
from pipelines.readers import SIMULATED, simulated_site
from pipelines.readers import systems as systems_file
from pipelines.readers.simulated_site import emit
from pipelines.readers.systems import System, remember_system, remembered, system, systems
from pipelines.studies.monitored import (
    FEATURES_TABLE,
    MODEL_TABLE,
    TrainingTable,
    pack_table,
    read_counters,
    read_tables,
    still_metrics,
    training_table,
    unpack_table,
)
from pipelines.training.ledger import SYSTEM_NIGHTS
from sim.cluster.presets import CONGESTED as WHOLE

pytestmark = pytest.mark.usefixtures("undrawn_pictures", "quick_methods")
SMALL = WHOLE.but(
    name="tiny",
    nodes=64,
    nodes_per_leaf=16,
    uplink=40.0,
    core=WHOLE.core / 8,
    storage=WHOLE.storage / 8,
    noise_leaves=1,
    interval_s=60,
)
NAME = "quartz"
SILENT = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
STAGES = ("counters", "control_runs", "variability_features", "variability_model", "system_comparison")


def failed(results: list[dg.AssetCheckResult]) -> set[str]:
    return {str(each.check_name) for each in results if not each.passed}


def run(instance: dg.DagsterInstance, job: str, name: str, ops: dict | None = None, day: str = "") -> dg.ExecuteInProcessResult:
    definition = defs.resolve_job_def(job)
    instance.add_dynamic_partitions("systems" if "variability" in job else "traces", [name])
    return definition.execute_in_process(
        partition_key=name,
        instance=instance,
        raise_on_error=False,
        run_config={"ops": ops or {}, **SILENT},
        asset_selection=applicable(definition, name),
        tags={NIGHT_TAG: day} if day else {},
    )


def checks_of(done: dg.ExecuteInProcessResult) -> dict[str, bool]:
    return {f"{each.asset_key.to_user_string()}:{each.check_name}": each.passed for each in done.get_asset_check_evaluations()}


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("variability")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUEUECAST_HOME", str(place))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.setattr("models.registry.tracking._SITE", None)
        patch.setattr(simulated_site, "CLUSTER", SMALL)
        patch.setattr(simulated_site, "DAYS", 0.35)
        patch.setattr(simulated_site, "MONITORED_FROM", 0.0)
        patch.setattr(systems_file, "_CLASSIFIERS", ("extra-trees",))
        patch.setitem(learners.OPTIONS["extra-trees"], "trees", 20)
        yield place


@pytest.fixture(scope="module")
def simulated(home: Path, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    assert run(
        instance, "full_run", SIMULATED, {"schedules": {"config": {"schedulers": ["EASY"], "predictors": ["requested"]}}}
    ).success
    return run(instance, "variability", SIMULATED, {"system_comparison": {"config": {"trials": 2}}})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a site would have recorded in a day, in files of two hours."""
    place = tmp_path_factory.mktemp("site") / "files"
    emit(SMALL, place, days=0.5, seed=5)
    return place


@pytest.fixture
def half(home: Path, site: Path, tmp_path: Path) -> Path:
    """The site's monitoring in the middle of the day, remembered under a name of its own."""
    place = tmp_path / "half"
    (place / "counters").mkdir(parents=True)
    for path in sorted((site / "counters").iterdir()):
        if int(path.name.split(".")[1]) < 1_596_240_000 + 6 * 3600:
            (place / "counters" / path.name).symlink_to(path)
    runs = pd.read_csv(site / "runs.csv")
    runs[runs["start_s"] + runs["runtime_s"] < 1_596_240_000 + 6 * 3600].to_csv(place / "runs.csv", index=False)
    remember_system(
        home,
        f"{NAME}-{tmp_path.name}".replace("_", "-")[:40].rstrip("-"),
        {
            "counters": (str(place / "counters"),),
            "runs": str(place / "runs.csv"),
            "probes": str(site / "probes.csv"),
            "types": str(site / "types.csv"),
            "lag_s": 30.0,
            "classifiers": ("extra-trees",),
        },
    )
    return place


def test_the_whole_of_the_simulated_cluster_comes_out_with_every_check_evaluated(
    simulated: dg.ExecuteInProcessResult, home: Path, instance: dg.DagsterInstance
) -> None:
    assert simulated.success
    checks = checks_of(simulated)
    graph = defs.resolve_asset_graph()
    assets = {*STAGES, "published_system"}
    assert set(checks) == {
        f"{key.asset_key.to_user_string()}:{key.name}" for key in graph.asset_check_keys if key.asset_key.to_user_string() in assets
    } - {"published_system:a_champion_serves"}, "a run is not a night"
    warnings = {"system_comparison:fewer_runs_vary"}  # of a tiny cluster nothing is claimed
    assert {name for name, passed in checks.items() if not passed} <= warnings
    assert all(said_of(asset, "simulated", instance) is True for asset in STAGES)
    assert "runtimes alone" in str(said_of("system_comparison", "answer", instance))
    features, metadata = Lake(home / "lake").read(FEATURES_TABLE, SIMULATED)
    assert metadata["generated"] is True
    runs = len(stored(Lake(home / "lake"), RUNS, SIMULATED))
    assert features[features["control"]].groupby("scope").size().to_dict() == {"own": runs, "all": runs}
    jobs = features[~features["control"]]
    assert jobs.groupby("scope")["job_id"].nunique().min() > 50
    assert jobs["user"].nunique() > 3


def test_one_comparison_holds_traces_and_systems(simulated: dg.ExecuteInProcessResult, home: Path) -> None:
    statements = (home / "lake" / "current" / "views.sql").read_text().split(";\n")
    names = []
    for kind in ("trace", "system"):
        path = Lake(home / "lake", system=kind == "system").path("comparison", SIMULATED)
        frame = pd.read_parquet(path)
        assert set(zip(frame["kind"], frame["subject"], strict=True)) == {(kind, SIMULATED)}
        assert any('VIEW "comparison"' in text and str(path) in text for text in statements)
        names.append(set(frame))
    assert names[0] - names[1] == {"origin_unix_s"}
    assert names[1] < names[0]


@pytest.mark.thorough
def test_nights_take_in_what_is_new_and_a_failed_one_changes_nothing(
    half: Path, site: Path, home: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = next(each for each in systems(home) if each.startswith(NAME))
    first = run(instance, "nightly_variability", name, day="2026-08-01")
    assert first.success
    assert checks_of(first)["variability_features:counters_move"]
    lake, client = Lake(home / "lake"), tracking().client

    def kept() -> tuple[list[bytes], dict[str, str]]:
        tables = [FEATURES_TABLE, MODEL_TABLE, SYSTEM_NIGHTS]
        return [lake.path(table, name).read_bytes() for table in tables], client.get_registered_model(
            VARIABILITY.registered(name)
        ).aliases

    before, runs = kept(), len(stored(lake, RUNS, name))
    for path in (site / "counters").iterdir():
        if not (half / "counters" / path.name).exists():
            (half / "counters" / path.name).symlink_to(path)
    (half / "counters" / "sysclassib.broken").write_text("#Time,Time_usec,ProducerName\nyesterday,0,node0001\n")
    (half / "runs.csv").write_bytes((site / "runs.csv").read_bytes())

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("the disk is on fire")

    with monkeypatch.context() as patch:
        patch.setattr("pipelines.assets.publishing._row", fails)
        assert not run(instance, "nightly_variability", name, day="2026-08-02").success
    assert kept() == before
    second = run(instance, "nightly_variability", name, day="2026-08-03")
    assert second.success
    assert not checks_of(second)["counters:nothing_in_quarantine"]
    nights, _ = lake.read(SYSTEM_NIGHTS, name)
    assert nights["night"].tolist() == ["2026-08-01", "2026-08-03"]
    assert nights["runs"].iloc[1] > nights["runs"].iloc[0]
    assert len(stored(lake, RUNS, name)) == len(pd.read_csv(site / "runs.csv")) > runs
    versions = client.search_model_versions(f"name='{VARIABILITY.registered(name)}'")
    assert {str(version.version) for version in versions} == {"1", "2", "3"}  # the failed night's has no alias, and is pruned later
    assert {str(version) for version in kept()[1].values()} <= {"1", "3"}


@pytest.fixture(scope="module")
def ingested(site: Path, home: Path, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    """The night of a system whose files were ingested by command."""
    places = {"--counters": "counters", "--accounting": "jobs.csv", "--probes": "probes.csv", "--types": "types.csv"}
    given = [part for option, place in {**places, "--topology": "topology.conf"}.items() for part in (option, str(site / place))]
    given += ["--job-name", "(?P<application>.+)", "--time-zone", "UTC", "--scope", "all"]
    CliRunner().invoke(ingest_command, ["--system", "opal", *given], catch_exceptions=False)
    with remembered(home).open("a") as file:
        file.write("classifiers = ['extra-trees']\n")
    return run(instance, "nightly_variability", "opal", day="2026-08-02")


@pytest.mark.thorough
def test_the_night_of_an_ingested_system_succeeds_and_a_champion_answers(
    ingested: dg.ExecuteInProcessResult, site: Path, home: Path, instance: dg.DagsterInstance
) -> None:
    """From the files of a site to a decision: ingested by command, trained by night, asked by command, as the model itself says."""
    assert ingested.success
    stages = {key.to_user_string() for key in map(attrgetter("asset_key"), ingested.get_asset_materialization_events()) if key}
    assert stages == {*STAGES, "published_system", "variability_night"} - {"system_comparison"}
    assert not Lake(home / "lake", system=True).has("comparison", "opal")
    assert not any(name.startswith("system_comparison") for name in checks_of(ingested))

    name = VARIABILITY.registered("opal")
    with pytest.raises(InputError, match=rf"^{name}: No champion: F1 0"):
        registered_classifier(tracking(), name)
    tracking().client.set_registered_model_alias(name, "champion", "1")  # chosen by hand
    champion = registered_classifier(tracking(), name)
    assert (champion.model.classifier, champion.scope) == ("extra-trees", "all")
    table = training_table(home, "opal", ("all",))
    probes = pd.read_csv(site / "probes.csv", dtype={"run_id": str})
    row = int(np.flatnonzero(table.runs["run_id"].isin(probes["run_id"]))[-1])
    last = table.runs.iloc[row]
    asked = ["--system", "opal", "--nodes", ",".join(last["nodes"]), "--application", last["application"], "--json"]
    when = ["--at", str(last["start_s"])]
    answer = json.loads(CliRunner().invoke(ask_command, [*asked, *when], catch_exceptions=False).stdout)
    assert answer["version"] == champion.version
    seen = table.features["all"].iloc[[row]]
    seen = seen.assign(**{name: np.nan for name in seen if name.startswith("probe.")})  # those of a job are not asked
    assert answer["probabilities"] == pytest.approx(champion.model.predict_proba(seen)[0], abs=1e-12)


def said_of(asset: str, name: str, instance: dg.DagsterInstance) -> object:
    """Return what an asset's latest materialisation says."""
    event = instance.get_latest_materialization_event(dg.AssetKey(asset))
    assert event is not None
    assert event.asset_materialization is not None
    return event.asset_materialization.metadata[name].value


def test_an_unknown_system_is_refused(home: Path) -> None:
    with pytest.raises(InputError, match=r"unknown system 'nowhere'; known: simulated"):
        system(home, "nowhere")
    with pytest.raises(InputError, match="is the name of the simulated cluster"):
        remember_system(home, SIMULATED, {})


def test_every_remembered_system_has_its_night(home: Path, tmp_path: Path) -> None:
    remember_system(home, "pearl", {"counters": (str(tmp_path),), "runs": str(tmp_path / "runs.csv")})
    schedule = defs.resolve_schedule_def("nightly_variability_retraining")
    with dg.instance_for_test() as fresh:
        context = dg.build_schedule_context(
            fresh, datetime(2026, 3, 1, 2, 30, tzinfo=UTC), repository_def=defs.get_repository_def()
        )
        fresh.add_dynamic_partitions("systems", [SIMULATED])
        requests = schedule.evaluate_tick(context).run_requests
        assert requests is not None
        assert {request.partition_key for request in requests} == {SIMULATED, *systems(home)}
        assert {request.tags[NIGHT_TAG] for request in requests} == {"2026-03-01"}


def test_a_system_is_remembered_with_what_was_said_and_further_places_are_added(tmp_path: Path) -> None:
    remember_system(tmp_path, "a", {"counters": ("/x",), "runs": "/r.csv", "job_name": ""})
    remember_system(tmp_path, "a", {"counters": ("/y", "/x"), "probes": "/p.csv", "lag_s": 20.0})
    kept_system = system(tmp_path, "a")
    assert kept_system == System(name="a", counters=("/x", "/y"), runs="/r.csv", probes="/p.csv", lag_s=20.0)


@pytest.fixture(scope="module")
def table(simulated: dg.ExecuteInProcessResult, home: Path) -> TrainingTable:
    return training_table(home, SIMULATED)


def changed(table: TrainingTable, **what: object) -> TrainingTable:
    return TrainingTable(**{**{name: getattr(table, name) for name in table.__dataclass_fields__}, **what})


def test_features_packed_and_unpacked_are_the_same(table: TrainingTable) -> None:
    back = unpack_table(SIMULATED, *pack_table(table))
    for scope in ("own", "all"):
        pd.testing.assert_frame_equal(back.features[scope], table.features[scope])
    pd.testing.assert_frame_equal(back.runs, table.runs[back.runs.columns])
    assert back.generated


def test_the_check_of_counters_sees_dead_sensors(table: TrainingTable) -> None:
    assert "counters_move" not in failed(check_features(table))
    some, most = ({scope: frame.copy() for scope, frame in table.features.items()} for _ in range(2))
    metrics = [name.rsplit(".", 1)[0] for name in table.features["own"].columns if name.endswith(".max")]
    for frames, dead in ((some, metrics[:3]), (most, metrics[: len(metrics) * 2 // 3])):
        for frame in frames.values():
            frame.loc[:, [name for name in frame.columns if name.rsplit(".", 1)[0] in dead]] = 7.0
    assert still_metrics(changed(table, features=some)) == [*metrics[:3], *still_metrics(table)]
    assert "counters_move" not in failed(check_features(changed(table, features=some)))
    assert "counters_move" in failed(check_features(changed(table, features=most)))


def test_other_settings_simulate_anew_and_forget_what_was_read(
    simulated: dg.ExecuteInProcessResult, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulated_site, "DAYS", 0.02)
    assert simulated_site.simulate_site(tmp_path)
    assert not simulated_site.simulate_site(tmp_path)
    read_counters(tmp_path, system(tmp_path, SIMULATED))
    read_tables(Lake(tmp_path / "lake"), system(tmp_path, SIMULATED))
    assert CountersStore(tmp_path / "lake", SIMULATED).samplers
    monkeypatch.setattr(simulated_site, "CLUSTER", SMALL.but(sensor_noise=0.2))
    assert simulated_site.simulate_site(tmp_path)
    assert CountersStore(tmp_path / "lake", SIMULATED).samplers == ()
    assert len(stored(Lake(tmp_path / "lake"), RUNS, SIMULATED)) == 0
