"""Choices of nodes: on the least loaded ones."""

from __future__ import annotations

from sim.site.replay import replay
from sim.slurm.files import read_site
from tests.sim.slurm.test_replay import CONF, jobs_of


def placed(conf: str, *rows: dict[str, object]) -> list[str]:
    return [*replay(read_site({"slurm.conf": conf}, "site"), jobs_of(*rows), 1).nodes]


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
