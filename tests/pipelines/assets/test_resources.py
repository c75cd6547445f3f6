"""Assets write where their resources say."""

from pathlib import Path

import dagster as dg
import pytest

from pipelines.assets.predictors import runtime_model
from pipelines.assets.publishing import published_trace
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.assets.traces import runtime_features
from pipelines.lake.tables import Lake
from tests.support.arriving import arriving


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.usefixtures("quick_methods")
def test_swapped_resources_keep_everything_in_their_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere, place = tmp_path / "home", tmp_path / "place"
    monkeypatch.setenv("QUEUECAST_HOME", str(elsewhere))
    monkeypatch.setattr("models.registry.tracking._SITE", f"sqlite:///{elsewhere}/site.db")
    Lake(place / "lake").write_clean(arriving(jobs=300))
    registry = RegistryResource(uri=f"sqlite:///{place}/own.db")
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("traces", ["arriving"])
        resources = {"lake": LakeResource(home=str(place)), "registry": registry}
        stages = [runtime_features, runtime_model, published_trace]
        dg.materialize(stages, partition_key="arriving", instance=instance, resources=resources)
    assert Lake(place / "lake").has("runtime_model", "arriving")
    assert registry.tracking().client.get_model_version_by_alias("runtime-arriving", "champion").version
    assert list((place / "mlartifacts").rglob("MLmodel"))
    assert not elsewhere.exists()
