"""Files of machines: what they say, and one clear line for every way in which they can be bad."""

from __future__ import annotations

from pathlib import Path

import pytest

from features.jobs.schema import ASKED
from pipelines.readers.machine_file import read_machine
from sim.machine.description import Cluster, Limit, Machine, NodeGroup
from tests.support.refusals import refusal

TOML = """
name = "ours"
asked = ["nodes", "memory_kib"]

[[cluster]]
name = "thin"
nodes = 48
procs = 12
memory = "94035968 KiB"
properties = ["x86_64"]

[[cluster]]  # of two kinds of nodes
name = "fat"
properties = ["big"]
[[cluster.nodes]]
nodes = 20
procs = 80
memory = "1.5 TiB"
[[cluster.nodes]]
nodes = 2
procs = 64
gpus = 4
properties = ["gpu"]

[[limit]]
of = "user"
what = "processors"
value = 500

[[limit]]
of = "class"
longer_than = "7 d"
what = "share"
value = 0.7
cluster = "fat"
"""


def read(tmp_path: Path, text: str, name: str = "site.toml") -> Machine:
    path = tmp_path / name
    path.write_text(text)
    return read_machine(path)


def test_toml_says_clusters_nodes_and_limits(tmp_path: Path) -> None:
    thin = Cluster("thin", (NodeGroup(48, 12, 94035968, 0, ("x86_64",)),))
    fat = Cluster("fat", (NodeGroup(20, 80, 3 * 2**29, 0, ("big",)), NodeGroup(2, 64, None, 4, ("big", "gpu"))))
    limits = (Limit("user", "processors", 500), Limit("class", "share", 0.7, longer_than_s=7 * 86400, cluster="fat"))
    assert read(tmp_path, TOML) == read(tmp_path, "\ufeff" + TOML) == Machine("ours", (thin, fat), limits, ("nodes", "memory_kib"))
    assert read(tmp_path, '[[cluster]]\nname = "a"\nnodes = 1\nprocs = 2', "A site.toml") == Machine(
        "a-site", (Cluster("a", (NodeGroup(1, 2),)),), (), ASKED
    )


def test_the_example_of_the_documentation_is_one() -> None:
    machine = read_machine(Path(__file__).parents[3] / "docs" / "examples" / "machine.toml")
    assert [(cluster.count, cluster.procs) for cluster in machine.clusters] == [(20, 1600), (48, 576)]
    assert [limit.of for limit in machine.limits] == ["user", "class", "class"]
    assert machine.asked == ASKED


def test_a_machines_file_has_a_line_a_cluster(tmp_path: Path) -> None:
    machine = read(tmp_path, "\ufeff# number name nodes procs speed KiB\n\n0\ta\t2\t8\t1\t100\n1 b 3 4 1 50\n", "Log.machines")
    assert machine == Machine("log", (Cluster("a", (NodeGroup(2, 8, 100),)), Cluster("b", (NodeGroup(3, 4, 50),))))


LINE = "0 a 2 8 1 100\n"
CLUSTER = '[[cluster]]\nname = "a"\nnodes = 2\nprocs = 8\n'
TWO = CLUSTER + '[[cluster]]\nname = "b"\n'
LIMIT = CLUSTER + '[[limit]]\nof = "user"\nwhat = "jobs"\nvalue = 1\n'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("# nothing\n", ": describes no cluster: it is empty"),
        ("0 a 2 8 1\n", ":1: 5 columns instead of 6: number, name, nodes, processors of a node, speed, memory of a node in KiB"),
        (LINE + "1 b x 8 1 100\n", ":2: 'x' is not a whole number"),
        (LINE + "1 b 2 0 1 100\n", ":2: procs is 0, not a whole number of 1 to 100,000,000"),
        (LINE + "1 b 2 8 2 100\n", ":2: its speed, '2', is another: all nodes must have one speed here"),
        ("name = \n", ":1: is not TOML: invalid value"),
        (CLUSTER + "speed = 3\n", ": cluster 1: speed is unknown; known: name, nodes, procs, memory, gpus, properties"),
        ("asked = ['disk']\n" + CLUSTER, ": asked.0 must be one of nodes, procs_per_node"),
        ("name = 'x'\n", ": a machine without clusters cannot run anything"),
        (TWO + "nodes = 2\nprocs = 1\nmemory = 'nan GiB'\n", ": cluster 2: memory must be a size such as '504 GiB'"),
        (
            TWO + "procs = 4\n[[cluster.nodes]]\nnodes = 1\nprocs = 1\n",
            ": cluster 2: procs must stand either in each [[cluster.nodes]] or here",
        ),
        (TWO + "[[cluster.nodes]]\nnodes = 1\n", ": cluster 2: nodes 1: procs is missing"),
        (CLUSTER.replace('"a"', '"a b"'), ": cluster 1: name must be a text without blanks, colons and ^"),
        (CLUSTER + '[[limit]]\nof = "user"\nvalue = 1\n', ": limit 1: what is missing"),
        (LIMIT.replace('"jobs"', '"nodes"'), ": limit 1: what is 'nodes'; known: processors, jobs, share"),
        (LIMIT + "longer_than = 'a week'\n", ": limit 1: longer_than must be a time such as '90 min', '12 h', '7 d' or '1 w'"),
        (LIMIT + "cluster = 'z'\n", ": unknown cluster 'z' in a limit; known: a"),
    ],
)
def test_a_bad_file_is_named_with_the_place(tmp_path: Path, text: str, complaint: str) -> None:
    assert refusal(read, tmp_path, text).startswith(f"{tmp_path / 'site.toml'}{complaint}")
