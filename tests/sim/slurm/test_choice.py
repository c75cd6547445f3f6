"""Choices of nodes: on the least loaded ones, and on few switches."""

from __future__ import annotations

import pytest

from features.errors import InputError
from sim.site.replay import replay
from sim.slurm.files import read_site
from tests.sim.slurm.test_replay import CONF, jobs_of

TREE = "TopologyPlugin=topology/tree\n" + CONF.partition("Node")[0] + "NodeName=n[1-12] CPUs=8\nPartitionName=low Nodes=ALL\n"
SWITCHES = """\
SwitchName=s1 Nodes=n[1-4]
SwitchName=s2 Nodes=n[5-8]
SwitchName=s3 Nodes=n[9-12]
SwitchName=a1 Switches=s[1-2]
SwitchName=a2 Switches=s3
SwitchName=top Switches=a[1-2]
"""


def placed(conf: str, *rows: dict[str, object], topology: str = SWITCHES) -> list[str]:
    return [*replay(read_site({"slurm.conf": conf, "topology.conf": topology}, "site"), jobs_of(*rows), 1).nodes]


def test_jobs_go_to_the_least_loaded_nodes_where_a_site_or_a_partition_says_so() -> None:
    small = {"cpus": 2}
    assert placed(CONF, small, small, small) == ["n1", "n1", "n1"]
    for conf in (CONF.replace("CR_CPU", "CR_CPU,CR_LLN"), CONF.replace("low Nodes=ALL", "low Nodes=ALL LLN=YES")):
        assert placed(conf, small, small, {"cpus": 12}) == ["n1", "n2", "n3,n4"]
        assert placed(conf, small, {"cpus": 6, "min_nodes": 3}) == ["n1", "n2,n3,n4"]
    high = small | {"partition": "high"}
    assert placed(CONF.replace("low Nodes=ALL", "low Nodes=ALL LLN=YES"), small, high, high) == ["n1", "n1", "n1"]
    light = CONF.replace("CR_CPU", "CR_LLN").replace("n[1-4] CPUs=8", "n[1-4] CPUs=8 Weight=2\nNodeName=n5 CPUs=8")
    assert placed(light, small, small) == ["n5", "n5"]


def names(*numbers: int) -> str:
    return ",".join(f"n{number}" for number in numbers)


@pytest.mark.parametrize(
    ("busy", "nodes", "expected", "without"),
    [
        (1, 4, names(5, 6, 7, 8), names(2, 3, 4, 5)),  # the leaf with fewest nodes that suffice
        (2, 2, names(3, 4), names(3, 4)),
        (1, 5, names(2, 5, 6, 7, 8), names(2, 3, 4, 5, 6)),  # none suffices: the larger first, and then the nearest
        (5, 5, names(6, 9, 10, 11, 12), names(6, 7, 8, 9, 10)),
    ],
)
def test_a_job_is_put_on_few_and_near_switches(busy: int, nodes: int, expected: str, without: str) -> None:
    wide = {"min_nodes": nodes, "max_nodes": nodes, "cpus": 8 * nodes}
    first = {"min_nodes": busy, "max_nodes": busy, "cpus": 8 * busy, "features": "first"}
    conf = TREE.replace("n[1-12] CPUs=8", f"n[1-{busy}] CPUs=8 Feature=first\nNodeName=n[{busy + 1}-12] CPUs=8")
    assert sorted(placed(conf, first, wide)[1].split(",")) == sorted(expected.split(","))
    assert placed(conf.replace("topology/tree", "topology/none"), first, wide)[1] == without
    assert placed("TopologyParam=TopoOptional\n" + conf, first, wide)[1] == without


def test_lighter_nodes_are_taken_first_and_then_those_of_their_switch() -> None:
    conf = TREE.replace("n[1-12] CPUs=8", "n[1-5,7-12] CPUs=8 Weight=9\nNodeName=n6 CPUs=8 Weight=1")
    assert placed(conf, {"min_nodes": 3, "max_nodes": 3, "cpus": 24})[0].split(",") == ["n6", "n5", "n7"]


def test_nodes_of_switches_that_nothing_joins_are_not_used_together() -> None:
    apart = "SwitchName=s1 Nodes=n[1-4]\nSwitchName=s2 Nodes=n[5-8]\n"
    assert placed(TREE, {"min_nodes": 6, "max_nodes": 6, "cpus": 48}, topology=apart) == [""]


@pytest.mark.parametrize(
    ("topology", "refusal"),
    [
        (SWITCHES.replace("Switches=s3", "Switches=s9"), r"topology.conf, line 5: switch a2 joins the unknown switch s9"),
        (SWITCHES.replace("Switches=s3", "Switches=s3,top"), r"the switch top joins itself|the switch a2 joins itself"),
    ],
)
def test_switches_that_join_nothing_known_are_refused(topology: str, refusal: str) -> None:
    with pytest.raises(InputError, match=refusal):
        placed(TREE, {}, topology=topology)


def test_a_topology_without_its_file_is_refused() -> None:
    with pytest.raises(InputError, match=r"lacks topology\.conf"):
        read_site({"slurm.conf": TREE}, "site")
