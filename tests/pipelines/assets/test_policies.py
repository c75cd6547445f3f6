"""The asset group ``policies``: what it keeps, shows and publishes with the jobs it was made from."""

from pathlib import Path

import dagster as dg
import pandas as pd
import pytest

import pipelines.assets.policies as assets
from pipelines.assets.partitions import trace_on
from pipelines.assets.resources import LakeResource
from pipelines.storage.lake import Lake
from pipelines.workflows import policy_study as policies
from sim.search.claims import recorded
from tests.support.arriving import arriving

NAME = "arriving"


@pytest.mark.slow
def test_the_group_keeps_tables_and_page_in_its_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    monkeypatch.setattr(assets, "render_policies", lambda study, *_: f"about {study.facts['trace']}")  # seconds of figures
    monkeypatch.setattr(assets, "pictures", lambda study, transfer: {"drawn": len(study.tables.landscapes)})
    clean, lake = arriving(jobs=300), Lake(tmp_path / "lake")
    lake.write_clean(clean)
    config = {"points": 4, "budget": 0, "replicates": 2, "landscapes": [2]}
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("traces", [NAME])
        done = dg.materialize(
            [assets.mixed_policies, assets.policies_report],
            instance=instance,
            resources={"lake": LakeResource()},
            partition_key=trace_on(NAME),
            run_config={"ops": {"mixed_policies": {"config": config}}},
        )
    assert done.success
    assert [check.passed for check in done.get_asset_check_evaluations()] == [True] * 3
    metadata = done.asset_materializations_for_node("mixed_policies")[0].metadata
    assert metadata["drawn"].value == 40_000
    assert "w_train" in metadata["transfer"].value
    table = policies.IN_LAKE.format("replays")
    assert not lake.has(table, NAME), "nothing is seen before it is published"
    versions = lake.versions(f"runtime-{NAME}")
    versions.publish(done.run_id)
    windows, settings = policies.asked(clean, "weeks", points=4, budget=0, replicates=2, landscapes=(2,))
    assert settings.split.training == (1,)
    kept, made = policies.kept_study(lake, clean), policies.study_of(clean, settings, windows)
    pd.testing.assert_frame_equal(recorded(kept.tables.replays, 60.0), recorded(made.tables.replays, 60.0))
    assert kept.settings == settings
    page = lake.root / versions.current().files[f"reports/policies/{NAME}.html"]
    assert page.read_text() == "about arriving"
    lake.write_clean(arriving(jobs=301))
    assert not lake.has(table, NAME), "a study of other jobs is not read any more"
    assert f"reports/policies/{NAME}.html" not in versions.current().files


def test_the_group_draws_what_the_user_interface_shows() -> None:
    clean = arriving(jobs=300)
    windows, settings = policies.asked(clean, "weeks", points=4, budget=0, replicates=2)
    assert settings.landscapes == settings.split.testing, "of as many as there are"
    study = policies.study_of(clean, settings, windows)
    shown = assets.pictures(study, assets.sums(study.tables.replays, settings.split))
    assert list(shown) == ["what is learned, against SAF", "by window", "best pure policy", "landscapes"]
    assert all(each.value.startswith("![plot](data:image/") for each in shown.values())
