"""What Dagster shows of a table: versions of its data, links; owners and versions of every asset."""

import dagster as dg

from pipelines.definitions import defs


def test_every_asset_has_owner_and_version_and_nights_are_due() -> None:
    graph = defs.resolve_asset_graph()
    for key in graph.materializable_asset_keys:
        node = graph.get(key)
        assert node.owners == ["team:operations"]
        assert node.code_version
        assert isinstance(node.partitions_def, dg.DynamicPartitionsDefinition)
    for name in ("night", "variability_night"):
        assert graph.get(dg.AssetKey(name)).freshness_policy_or_from_metadata is not None


def test_checks_are_partitioned_as_their_assets_are() -> None:
    """One trace does not hide another's failure."""
    graph = defs.resolve_asset_graph()
    for key in graph.asset_check_keys:
        assert graph.get(key).partitions_def == graph.get(key.asset_key).partitions_def


def test_groups_follow_the_sentence_and_have_no_circles() -> None:
    graph = defs.resolve_asset_graph()
    arrows = {
        (graph.get(parent).group_name, graph.get(key).group_name)
        for key in graph.get_all_asset_keys()
        for parent in graph.get(key).parent_keys
    }
    order = [
        "ingest",
        "features",
        "predictors",
        "simulation",
        "comparison",
        "publishing",
        "starts",
        "site",
        "trials",
        "nights",
    ]
    assert {group for arrow in arrows for group in arrow} == {*order}
    assert [arrow for arrow in arrows if order.index(arrow[0]) > order.index(arrow[1])] == []
