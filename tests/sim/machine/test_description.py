"""What a description and a table of jobs come to: chunks, properties, limits, and the clusters that could hold a job."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from features.errors import InputError
from features.jobs.cleaning import NO_CLUSTER, clean
from features.jobs.schema import Trace, jobs_from
from sim.machine.description import UNLIMITED, Cluster, Limit, Machine, NodeGroup
from sim.machine.nodes import NO_LIMIT

BIG, SMALL = Cluster("big", (NodeGroup(2, 80, 1000), NodeGroup(1, 40, 500, 4, ("gpu",)))), Cluster("small", (NodeGroup(3, 12, 90),))
SITE = Machine("site", (BIG, SMALL))


def jobs(*rows: dict[str, Any]) -> pd.DataFrame:
    table = pd.DataFrame([{"submit_s": 0, "runtime_s": 5, "procs": 1, "requested_s": 60, **row} for row in rows])
    for name in table.columns.difference(["user", "group", "queue", "properties"]):
        table[name] = table[name].astype("Int64")
    return jobs_from(table)


def held(machine: Machine, *rows: dict[str, Any]) -> list[str]:
    """The clusters that could hold each job, by their first letters."""
    names = [cluster.name[0] for cluster in machine.clusters]
    return ["".join(name for place, name in enumerate(names) if bits >> place & 1) for bits in machine.could_hold(jobs(*rows))]


def test_a_machine_is_its_nodes_in_order() -> None:
    layout, _ = SITE.arrays_for(jobs({"gpus": 1}))
    assert SITE.procs == 2 * 80 + 40 + 3 * 12
    assert layout.first.tolist() == [0, 3, 6]
    assert layout.capacity.tolist() == [[80, 1000, 0], [80, 1000, 0], [40, 500, 4], *[[12, 90, 0]] * 3]


def test_chunks_are_nodes_or_processors_and_share_memory_and_gpus() -> None:
    table = jobs(
        {"procs": 16, "nodes": 2, "procs_per_node": 8, "memory_kib": 31},
        {"procs": 15, "nodes": 2},
        {"procs": 6, "memory_kib": 31},
        {"procs": 6, "gpus": 4, "memory_kib": 31},
        {"procs": 1, "exclusive": 1},
    )
    asked = SITE.arrays_for(table)[1]
    assert asked.chunks.tolist() == [2, 2, 6, 2, 1]
    assert asked.per_chunk.tolist() == [[8, 16, 0], [8, 0, 0], [1, 6, 0], [3, 16, 2], [1, 0, 0]]
    assert asked.apart.tolist() == [1, 1, 0, 0, 1]
    assert asked.whole.tolist() == [0, 0, 0, 0, 1]
    pooled = Machine("pooled", (BIG, SMALL), asked=("memory_kib",)).arrays_for(table)[1]
    assert pooled.chunks.tolist() == [16, 15, 6, 6, 1]
    assert pooled.per_chunk.tolist() == [[1, 2], [1, 0], [1, 6], [1, 6], [1, 0]]
    assert not pooled.whole.any()


@pytest.mark.parametrize(
    ("row", "clusters"),
    [
        ({"procs": 36}, "bs"),
        ({"procs": 37}, "b"),
        ({"procs": 36, "nodes": 3}, "bs"),
        ({"procs": 39, "nodes": 3}, "b"),
        ({"procs": 4, "nodes": 4}, ""),
        ({"procs": 160, "nodes": 2}, "b"),
        ({"procs": 161, "nodes": 2}, ""),
        ({"memory_kib": 91}, "b"),
        ({"memory_kib": 1001}, ""),
        ({"procs": 2, "memory_kib": 180}, "bs"),
        ({"gpus": 4}, "b"),
        ({"gpus": 5}, ""),
        ({"procs": 41, "gpus": 1}, ""),
        ({"procs": 50, "properties": "cl_small"}, ""),
        ({"properties": "cl_small"}, "s"),
        ({"properties": "small"}, "s"),
        ({"properties": "^cl_small:x86_64"}, "b"),
        ({"properties": "cl_other"}, ""),
        ({"properties": "^cl_other"}, "bs"),
        ({"properties": "big3.site.org", "procs": 40}, "b"),
        ({"properties": "big3.site.org", "procs": 41}, ""),
        ({"properties": "big4"}, ""),
        ({"properties": "^small1:^small2:^small3", "procs": 41}, "b"),
        ({"properties": "^small1:cl_small", "nodes": 3, "procs": 3}, ""),
        ({"properties": "nodecpus40", "procs": 41}, ""),
        ({"properties": "gpu", "procs": 40}, "b"),
        ({"properties": "gpu:big", "procs": 41}, ""),
    ],
)
def test_a_job_is_eligible_where_it_fits_when_nothing_runs(row: dict[str, Any], clusters: str) -> None:
    assert held(SITE, row) == [clusters]


def test_properties_that_no_node_is_said_to_have_are_counted_and_not_asked_for() -> None:
    table = jobs(*[{"properties": text} for text in ("x86_64:cl_big", "x86_64", "brno:^zone", None)])
    assert SITE.unknown_properties(table) == {"x86_64": 2, "^zone": 1, "brno": 1}
    assert Machine("site", SITE.clusters, asked=("nodes",)).unknown_properties(table) == {}
    many = jobs(*[{"properties": f"^big{number}"} for number in range(1, 64)])
    with pytest.raises(InputError, match=r"^jobs ask for 63 different properties of nodes; at most 62 are possible$"):
        SITE.arrays_for(many)


def test_limits_are_slots_in_each_cluster() -> None:
    table = jobs(
        {"procs": 3, "user": "ann", "queue": "long", "requested_s": 90},
        {"procs": 5, "user": "bob", "queue": "short"},
        {"procs": 7, "user": None, "queue": None, "requested_s": 100},
    )
    limits = (
        Limit("user", "processors", 20),
        Limit("class", "jobs", 2, name="long"),
        Limit("class", "share", 0.5, longer_than_s=60),
        Limit("group", "jobs", 1, cluster="small"),
    )
    layout, asked = Machine("site", SITE.clusters, limits).arrays_for(table)
    assert layout.left.tolist() == [[20, 20, 2, 100], [20, 20, 2, 18]]
    none = NO_LIMIT
    assert asked.limit.tolist() == [[0, 2, 3, none], [1, none, none, none], [none, none, 3, none]]
    assert asked.weight.tolist() == [[3, 1, 3, 1], [5, 1, 5, 1], [7, 1, 7, 1]]
    grouped = jobs({"group": "a"})
    assert Machine("site", SITE.clusters, limits[3:]).arrays_for(grouped)[0].left.tolist() == [[UNLIMITED], [1]]
    assert held(Machine("site", SITE.clusters, limits[:1]), {"procs": 20, "user": "u"}, {"procs": 21, "user": "u"}) == ["bs", ""]


def test_jobs_that_no_cluster_can_hold_are_dropped_and_counted() -> None:
    table = jobs({"procs": 80}, {"procs": 5, "nodes": 4}, {"memory_kib": 2000}, {"procs": 900})
    cleaned = clean(Trace("t", table.reset_index(drop=True)), SITE.procs, holds=lambda kept: SITE.could_hold(kept) != 0)
    assert cleaned.jobs["job_id"].tolist() == [1]
    assert cleaned.touched() == {"wider-than-machine dropped": 1, f"{NO_CLUSTER} dropped": 2}
    with pytest.raises(InputError, match=r"no job of 1 is left after cleaning \(fits-no-cluster: 1\)$"):
        clean(Trace("t", jobs({"gpus": 9})), SITE.procs, holds=lambda kept: SITE.could_hold(kept) != 0)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Machine("m", ()), "a machine without clusters cannot run anything"),
        (lambda: Machine("m", (BIG, BIG)), "cluster big appears twice"),
        (lambda: Machine("m", (BIG,), (Limit("user", "jobs", 1, cluster="x"),)), "unknown cluster 'x' in a limit; known: big"),
        (lambda: Machine("m", (BIG,), asked=("disk",)), "unknown column 'disk' in asked; known: nodes"),
        (
            lambda: Machine("m", tuple(Cluster(f"c{n}", (NodeGroup(1, 1),)) for n in range(63))),
            "a machine of 63 clusters; at most 62",
        ),
        (lambda: Machine("m", (Cluster("c", (NodeGroup(10**7, 11),)),)), "a machine has at most 100,000,000 processors"),
        (lambda: NodeGroup(0, 1), "nodes is 0, not a whole number of 1 to 10,000,000"),
        (lambda: NodeGroup(1, 1, 10**13), "memory_kib is 10000000000000, not a whole number of 1 to 1,000,000,000,000"),
        (lambda: NodeGroup(1, 1, gpus=-1), "gpus is -1, not a whole number of 0 to 100,000,000"),
        (lambda: Limit("team", "jobs", 1), "of is 'team'; known: user, group, class"),  # type: ignore[arg-type]
        (lambda: Limit("user", "share", 1.5), "value is 1.5, not a share above 0 and up to 1"),
        (lambda: Limit("user", "jobs", 1.5), "value is 1.5, not a whole number of jobs"),
        (lambda: Limit("user", "jobs", 1, longer_than_s=5), "longer_than makes a class of its own"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value).startswith(complaint)
