"""What publishing does with drafts: a run's own, one of a single asset that succeeded, and none."""

from pathlib import Path

import dagster as dg
import pandas as pd
import pytest

from pipelines.assets.partitions import trace_on
from pipelines.assets.published import OF_SYSTEMS, OF_TRACES, published_trace
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.definitions import defs
from pipelines.storage.lake import Lake
from tests.support.arriving import arriving


@dg.asset(name="single")
def single(lake: LakeResource) -> None:
    """Stands for an asset that was materialised by itself."""
    lake.lake().write_clean(arriving(jobs=50))
    lake.lake().write("schedules", "arriving", pd.DataFrame({"a": [1]}))


@dg.asset(name="failing")
def failing(lake: LakeResource) -> None:
    """Stands for one that wrote and failed its check."""
    lake.lake().write_clean(arriving(jobs=60))
    raise dg.Failure("a blocking check", allow_retries=False)


@pytest.mark.slow
def test_a_draft_is_published_once_its_run_succeeded_and_no_other_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    lake = Lake(tmp_path / "lake")
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("traces", ["arriving"])
        given = {"instance": instance, "resources": {"lake": LakeResource(), "registry": RegistryResource()}}

        def published() -> dict[str, object]:
            done = dg.materialize([published_trace], partition_key=trace_on("arriving"), **given)
            assert all(check.passed for check in done.get_asset_check_evaluations())
            metadata = done.asset_materializations_for_node("published_trace")[0].metadata
            return {key: value.value for key, value in metadata.items()}

        assert dg.materialize([single], **given).success
        assert not dg.materialize([failing], raise_on_error=False, **given).success
        assert not lake.has("jobs", "arriving"), "an asset by itself is a draft"
        assert published()["published now"] is True
        assert len(lake.read_clean("arriving").jobs) == 50
        again = published()
        assert (again["published now"], again["version"]) == (False, lake.versions("runtime-arriving").current().version)


def test_publishing_comes_after_every_asset_and_a_night_makes_those_of_a_run() -> None:
    graph = defs.resolve_asset_graph()
    for last, tables, mark, run, night in (
        ("published_trace", OF_TRACES, "night", "full_run", "nightly"),
        ("published_system", OF_SYSTEMS, "variability_night", "variability", "nightly_variability"),
    ):
        above = {key.to_user_string() for key in graph.get(dg.AssetKey(last)).parent_keys}
        assert above == {*tables, mark}
        stages = [
            {key.to_user_string() for key in defs.resolve_job_def(job).asset_layer.executable_asset_keys} for job in (run, night)
        ]
        assert stages == [{*tables, last}, {*tables, last, mark}], "a night makes what a run makes, and its mark"
