"""Leaf switches by node, from Slurm's file or CSV, and the jobs that run: what is read, and one line for what is wrong."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from pipelines.lake.run_store import TOPOLOGY, keep, stored
from pipelines.lake.tables import Lake
from pipelines.readers.control_runs import read_topology
from tests.support.refusals import refusal

HEAD = "job_id,application,nodes,start_s"


def refused(path: Path, text: str, read=read_topology) -> str:
    path.write_text(text)
    return refusal(read, path).removeprefix(str(path))


def test_slurms_file_and_csv_say_the_same(tmp_path: Path) -> None:
    conf, csv = tmp_path / "topology.conf", tmp_path / "leaves.csv"
    conf.write_text(
        "# leaves\nswitchname=s1 Nodes=n[1-2],login LinkSpeed=9 # x\nSwitchName=s2 \\\n  Nodes=n3\nSwitchName=top Switches=s[1-2]\n"
    )
    csv.write_text("leaf,node\ns1,n2\ns2,n3\ns1,login\ns1,n1\n")
    leaves = read_topology(conf)
    assert leaves.to_dict("list") == {"node": ["login", "n1", "n2", "n3"], "leaf": ["s1", "s1", "s1", "s2"]}
    pd.testing.assert_frame_equal(read_topology(csv), leaves)


def test_what_is_wrong_is_said_with_file_and_line(tmp_path: Path) -> None:
    conf, csv = tmp_path / "topology.conf", tmp_path / "t.csv"
    first = "SwitchName=s1 Nodes=n[1-2]\n"
    assert refused(conf, first + "SwitchName=s2 Nodes=n[2-3]") == ", line 2: node 'n2' is under s1 on an earlier line"
    assert refused(conf, first + "Nodes=n3") == ", line 2: 'Nodes=n3' names no switch: SwitchName=s1 Nodes=n[1-16]"
    assert refused(conf, first + "SwitchName=s2 Nodes=n[3-") == ", line 2: n[3- is not a list of nodes: its brackets do not match"
    assert refused(conf, "SwitchName=s1 Switches=s2") == ": no line names nodes of a switch: SwitchName=s1 Nodes=n[1-16]"
    assert refused(csv, "node,leaf\nn1,a\nn1,b\n") == ":3: node 'n1' is on an earlier line too"


def test_of_a_topology_only_the_latest_word_stays(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    old = pd.DataFrame({"node": ["n1", "n2"], "leaf": ["a", "a"]})
    assert keep(lake, TOPOLOGY, "q", old).added == 2
    assert keep(lake, TOPOLOGY, "q", pd.DataFrame({"node": ["n2", "n3"], "leaf": ["b", "b"]})).contradicting == ("n2",)
    assert stored(lake, TOPOLOGY, "q").to_dict("list") == {"node": ["n2", "n3"], "leaf": ["b", "b"]}
    assert keep(lake, TOPOLOGY, "q", old.assign(node=["n2", "n3"], leaf="b")).same == 2
