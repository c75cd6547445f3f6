"""What publishing does with what single assets, runs that failed and runs that succeeded have made."""

from pathlib import Path

import dagster as dg
import pandas as pd
import pytest

from pipelines.assets.publishing import published_trace
from pipelines.assets.stages import LakeResource, RegistryResource, trace_stage
from pipelines.lake.tables import Lake
from tests.support.arriving import arriving


@trace_stage(group_name="a", description="a", kinds=set())
def single(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Stands for an asset that was materialised by itself."""
    tables = lake.lake()
    tables.write_clean(arriving(jobs=50))
    tables.write("schedules", "arriving", pd.DataFrame({"a": [1]}))
    return dg.MaterializeResult()


@trace_stage(group_name="a", description="a", kinds=set())
def after(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Stands for one that reads what another run made last."""
    tables = lake.lake()
    read = tables.read("schedules", "arriving")[0]["a"].tolist()
    tables.write("comparison", "arriving", pd.DataFrame({"a": read}))
    return dg.MaterializeResult()


@trace_stage(group_name="a", description="a", kinds=set())
def failing(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Stands for one that wrote and failed its check."""
    lake.lake().write("schedules", "arriving", pd.DataFrame({"a": [2]}))
    raise dg.Failure("a blocking check", allow_retries=False)


@pytest.mark.slow
def test_an_asset_reads_what_was_materialised_last_and_what_is_not_published_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    lake = Lake(tmp_path / "lake")
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("traces", ["arriving"])
        given = {
            "instance": instance,
            "resources": {"lake": LakeResource(), "registry": RegistryResource()},
            "partition_key": "arriving",
            "raise_on_error": False,
        }

        def not_published() -> dict[str, object]:
            done = dg.materialize([published_trace], **given)
            assert all(check.passed for check in done.get_asset_check_evaluations())
            metadata = done.asset_materializations_for_node("published_trace")[0].metadata
            return {key: value.value for key, value in metadata.items() if key.startswith("not published")}

        assert dg.materialize([single], **given).success
        assert dg.materialize([after], **given).success
        assert not lake.has("jobs", "arriving"), "an asset by itself is seen by no reader"
        assert not_published() == {}
        assert len(lake.read_clean("arriving").jobs) == 50
        failed = dg.materialize([failing], **given)
        assert not failed.success
        assert dg.materialize([after], **given).success
        assert not_published() == {
            "not published: schedules": f"made by {failed.run_id}, which did not succeed or is not done",
            "not published: comparison": "made from schedules of another run",
        }
        assert lake.read("comparison", "arriving")[0]["a"].tolist() == [1]
        assert dg.materialize([single], **given).success
        assert not_published() == {"not published: comparison": "made from schedules of another run"}
