"""Versions of code and data: what is stale in the UI, and what is not; owners, columns, links."""

from pathlib import Path

import dagster as dg
import pandas as pd
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from pipelines.assets import described, jobs
from pipelines.assets.described import HOUSE, MADE_BY, code_version, registry_link, written_table
from pipelines.assets.history import user_history_of_trace
from pipelines.assets.partitions import trace_on
from pipelines.assets.resources import LakeResource
from pipelines.definitions import defs
from pipelines.storage.lake import Lake
from tests.support.arriving import arriving

DAY = trace_on("arriving", "2023-12-01")
STAGES = [jobs.ingest, user_history_of_trace]


def stale(instance: dg.DagsterInstance, changed: str = "") -> dict[str, list[str]]:
    """Return why each asset is stale, by name; with another version of ``changed``'s code."""

    def version(spec: dg.AssetSpec) -> dg.AssetSpec:
        other = spec.key.to_user_string() == changed
        return described.described(spec).replace_attributes(code_version="other") if other else described.described(spec)

    graph = dg.Definitions(assets=dg.map_asset_specs(version, STAGES), resources={"lake": LakeResource()}).resolve_asset_graph()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    names = {key.to_user_string(): resolver.get_stale_causes(key, DAY) for key in graph.get_all_asset_keys()}
    return {name: [cause.reason for cause in causes] for name, causes in names.items() if causes}


@pytest.mark.slow
def test_an_unchanged_trace_is_not_stale_and_a_changed_feature_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = [60]
    monkeypatch.setattr(jobs, "read_known", lambda _: arriving(jobs=size[0]))
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("traces", ["arriving"])

        def run(*stages: dg.AssetsDefinition) -> None:
            assets = dg.map_asset_specs(described.described, stages)
            resources = {"lake": LakeResource(home=str(tmp_path))}
            done = dg.materialize(
                [*assets, *(each for each in STAGES if each not in stages)],
                selection=dg.AssetSelection.assets(*stages),
                partition_key=DAY,
                instance=instance,
                resources=resources,
            )
            assert done.success

        run(*STAGES)
        assert stale(instance) == {}
        run(jobs.ingest)
        assert stale(instance) == {}, "the same jobs once more leave nothing stale"
        assert stale(instance, "user_history") == {"user_history": ["has a new code version"]}
        size[0] = 61
        run(jobs.ingest)
        assert stale(instance) == {"user_history": ["has a new dependency data version"]}
        event = instance.get_latest_materialization_event(dg.AssetKey("jobs"))
        columns = event.asset_materialization.metadata["dagster/column_schema"].schema.columns
        assert {"submit_s": "in s", "user": None}.items() <= {each.name: each.description for each in columns}.items()
        assert event.asset_materialization.metadata["dagster/row_count"].value == 61


def test_lists_have_a_version_too(tmp_path: Path) -> None:
    lake, nodes = Lake(tmp_path), [["a", "b"], None, ["c"]]
    lake.write("variability_features", "x", pd.DataFrame({"nodes": nodes}))
    before = written_table(lake, "variability_features", "x")
    lake.write("variability_features", "x", pd.DataFrame({"nodes": [*nodes[:2], ["d"]]}))
    assert before.version != written_table(lake, "variability_features", "x").version


def test_another_feature_is_another_version_of_what_it_makes_alone(tmp_path: Path) -> None:
    files = {"features/jobs/history.py": "a = 1", "pipelines/assets/schedules.py": "", "pipelines/ingest/ldms.py": ""}

    def versions(place: Path, **changed: str) -> dict[str, str]:
        for name, text in files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(changed.get(Path(name).stem, text))
        return {asset: code_version(asset, place) for asset in MADE_BY}

    before, after = versions(tmp_path / "a"), versions(tmp_path / "b", history="a = 2")
    assert {"user_history", "schedules", "runtime_model"} <= {name for name in before if before[name] != after[name]}
    assert {"counters", "comparison", "report"} <= {name for name in before if before[name] == after[name]}


def test_every_asset_has_owner_and_version_and_nights_are_due() -> None:
    graph = defs.resolve_asset_graph()
    assert {key.to_user_string() for key in graph.materializable_asset_keys} | {"counters_by_day"} == {*MADE_BY}
    for key in map(dg.AssetKey, MADE_BY):
        node = graph.get(key)
        assert node.owners == ["team:operations"]
        assert node.code_version == code_version(key.to_user_string())
        assert (node.freshness_policy_or_from_metadata is not None) == (key.to_user_string() in ("night", "variability_night"))


def test_every_file_that_makes_an_asset_is_there() -> None:
    assert not [pattern for patterns in MADE_BY.values() for pattern in patterns if not list(HOUSE.glob(pattern))]
    missing = [asset for asset in MADE_BY if not (HOUSE / f"pipelines/assets/{described._FILE.get(asset, asset)}.py").exists()]
    assert not missing


def test_links_open_in_a_browser() -> None:
    assert registry_link("http://mlflow.example", "a") == dg.MetadataValue.url(
        "http://mlflow.example/#/models/a?workflowType=machine_learning"
    )
    assert registry_link("sqlite:////b/mlflow.db", "a").value == "mlflow ui --backend-store-uri sqlite:////b/mlflow.db"
    shown = [file for file in (HOUSE / "pipelines" / "assets").glob("*.py") if "as_uri" in file.read_text()]
    assert shown == []
