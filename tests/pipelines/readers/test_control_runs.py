"""Control runs, probes, types and leaf switches: what becomes the canonical tables, the rest is counted or named by line."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.node_list import expand_nodes
from pipelines.lake.run_store import RUNS, TOPOLOGY, keep, stored
from pipelines.lake.tables import Lake
from pipelines.readers.control_runs import ControlRuns, read_accounting_runs, read_probes, read_runs, read_topology, read_types
from tests.conftest import SHARED, needs_shared
from tests.support.refusals import refusal

ZONE = "America/Los_Angeles"
SACCT = "JobID|JobIDRaw|JobName|NodeList|Start|End|Elapsed|State"
PATTERN = r"ctl-(?P<application>\w+)-(?P<input>\w+)"


def written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "file.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def refused(read, path: Path, *rest: object) -> str:
    return refusal(read, path, *rest).removeprefix(f"{path}:")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("quartz[1-2],login1;rz[3] a b", "quartz1 quartz2 login1 rz3 a b"),
        ("rack[0-1]node[1-2]-ib", "rack0node1-ib rack0node2-ib rack1node1-ib rack1node2-ib"),
        ("n[009-010,7]", "n009 n010 n7"),
        ("", ""),
    ],
)
def test_a_slurm_node_list_names_its_nodes(text: str, names: str) -> None:
    assert expand_nodes(text) == tuple(names.split())


@given(st.lists(st.integers(0, 300), unique=True, min_size=1, max_size=20), st.integers(1, 4))
def test_a_list_of_ranges_and_numbers_expands_to_what_is_in_them(numbers: list[int], width: int) -> None:
    bounds = sorted(numbers)
    ranges = [range(first, last + 1) for first, last in zip(bounds[::2], bounds[1::2], strict=False)]
    pieces = [f"{each[0]:0{width}d}-{each[-1]:0{width}d}" for each in ranges] + [f"{bounds[-1]:0{width}d}"] * (len(bounds) % 2)
    named = [number for each in (*ranges, bounds[-1:] * (len(bounds) % 2)) for number in each]
    assert expand_nodes(f"n[{','.join(pieces)}]") == tuple(f"n{number:0{width}d}" for number in named)


def test_a_csv_of_control_runs_becomes_the_canonical_table(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "run_id,application,input,nodes,start_s,runtime_s",
        "r1,AMG,weak 16,n1 n2;n3,1500000000.75,61.5",
        'r2,Kripke,,"quartz[1-2,7]",1500000100,62',
    )
    control = read_runs(path)
    assert control.runs.to_dict("records") == [
        {"run_id": "r1", "application": "AMG", "input": "weak 16", "nodes": ["n1", "n2", "n3"], "start_s": 1500000000, "runtime_s": 61.5},
        {"run_id": "r2", "application": "Kripke", "input": "", "nodes": ["quartz1", "quartz2", "quartz7"], "start_s": 1500000100, "runtime_s": 62},
    ]  # fmt: skip
    assert control.notes == ("Starts are rounded down to the second: 1.",)
    assert control.runs.dtypes.map(str).to_dict()["start_s"] == "int64"


@needs_shared
def test_real_runs_that_only_count_their_nodes_are_read_and_said_to_lack_them() -> None:
    path = SHARED / "clusters" / "volta-proxy-runs.csv"
    control, plain = read_runs(path), pd.read_csv(path)
    assert len(control.runs) == 462
    assert control.runs["runtime_s"].tolist() == plain["duration_s"].tolist()
    assert control.runs["start_s"].tolist() == plain["start_unix"].tolist()
    assert control.runs["nodes"].isna().all()
    assert "not which" in control.notes[-1]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("r1,AMG,x,n1,1,2", "3: run_id 'r1' is on an earlier line too"),
        ("r2,AMG,x,n[1-,1,2", "3: nodes 'n[1-' is not a list of nodes: its brackets do not match"),
        ("r2,AMG,x,n1,noon,2", "3: start_s 'noon' is not a number"),
        ("r2,AMG,x,n1,1,0", "3: runtime_s '0' is not above 0"),
        ("r2,AMG,x,n1,1", "3: 5 fields between ',', where the header has 6; is there one in a job's name?"),
    ],
)
def test_a_broken_line_of_runs_is_named(tmp_path: Path, row: str, message: str) -> None:
    path = written(tmp_path, "run_id,application,input,nodes,start_s,runtime_s", "r1,AMG,x,n1,1,2", row)
    assert refused(read_runs, path) == message.replace("; is there one in a job's name?", "")


def sacct(tmp_path: Path, *rows: str) -> Path:
    return written(tmp_path, SACCT, *rows)


def job(number: int, name: str = "ctl-AMG-weak", nodes: str = "quartz[1-2]", state: str = "COMPLETED", **fields: str) -> str:
    start, end, elapsed = (
        fields.get(key, default)
        for key, default in (("start", "2017-10-11T01:43:39"), ("end", "2017-10-11T01:45:00"), ("elapsed", "00:01:21"))
    )
    return f"{number}|{number}|{name}|{nodes}|{start}|{end}|{elapsed}|{state}"


def test_completed_jobs_whose_name_matches_are_control_runs_and_others_are_counted(tmp_path: Path) -> None:
    path = sacct(
        tmp_path,
        job(1),
        "1.batch|1.0|batch|quartz1|2017-10-11T01:43:39|2017-10-11T01:45:00|00:01:21|COMPLETED",
        job(2, "ctl-Kripke-strong", "quartz7"),
        job(3, "simulation"),
        job(4, state="FAILED"),
        job(5, state="CANCELLED by 1234"),
        job(6, state="RUNNING", end="Unknown"),
        job(7, state="TIMEOUT"),
        job(8, nodes="None assigned"),
        job(9, start="Unknown"),
        job(10, elapsed="00:00:00"),
        job(11, "my-ctl-AMG-weak"),
    )
    control = read_accounting_runs(path, PATTERN, ZONE)
    start = int(datetime(2017, 10, 11, 1, 43, 39, tzinfo=ZoneInfo(ZONE)).timestamp())
    assert control.runs.to_dict("records") == [
        {
            "run_id": "1",
            "application": "AMG",
            "input": "weak",
            "nodes": ["quartz1", "quartz2"],
            "start_s": start,
            "runtime_s": 81.0,
        },
        {"run_id": "2", "application": "Kripke", "input": "strong", "nodes": ["quartz7"], "start_s": start, "runtime_s": 81.0},
    ]
    assert control.left_out == {
        "another job name": 2,
        "job step": 1,
        "state FAILED": 1,
        "state CANCELLED": 1,
        "state RUNNING": 1,
        "state TIMEOUT": 1,
        "no nodes": 1,
        "no start": 1,
        "no runtime": 1,
    }


def test_errors_in_accounting_are_one_line(tmp_path: Path) -> None:
    path = sacct(tmp_path, job(1), job(2, state="WHAT"))
    assert refused(read_accounting_runs, path, PATTERN, ZONE).startswith(
        "3: State 'WHAT' is not a state of Slurm's, such as COMPLETED, "
    )
    assert (
        refused(read_accounting_runs, sacct(tmp_path, job(1), job(1)), PATTERN, ZONE)
        == "3: JobIDRaw '1' completed on an earlier line too"
    )
    assert refused(read_accounting_runs, sacct(tmp_path, job(1, nodes="q[1")), PATTERN, ZONE).startswith(
        "2: NodeList 'q[1' is not a list"
    )
    assert "--time-zone" in refused(read_accounting_runs, path, PATTERN, None)
    assert refused(read_accounting_runs, path, "ctl", ZONE) == "--job-name 'ctl': has no group (?P<application>...)"
    assert refused(read_accounting_runs, path, "(", ZONE).startswith("--job-name '(': is not a regular expression: ")
    path = written(tmp_path, f"{SACCT}|Cluster", f"{job(1)}|A", f"{job(2)}|B", f"{job(3, 'other')}|C")
    assert refused(read_accounting_runs, path, PATTERN, ZONE).startswith(" holds jobs of several clusters, A, B: export")
    path = written(tmp_path, f"{SACCT}|Cluster", f"{job(1)}|A", f"{job(3, 'other')}|C")
    assert len(read_accounting_runs(path, PATTERN, ZONE).runs) == 1
    path = written(tmp_path, "JobID,JobName,Start,End,State", "1,a,Unknown,Unknown,FAILED")
    assert refused(read_accounting_runs, path, PATTERN, ZONE).startswith(" the header line has no column nodelist")


def test_probes_and_types_are_read_and_broken_ones_named(tmp_path: Path) -> None:
    header = "run_id,node,send_s,recv_s,allreduce_s"
    frame = read_probes(written(tmp_path, header, "r,n1,0.5,1,2.25", "r,n2,0,0,0"))
    assert frame.to_dict("list") == {
        "run_id": ["r", "r"],
        "node": ["n1", "n2"],
        "send_s": [0.5, 0],
        "recv_s": [1, 0],
        "allreduce_s": [2.25, 0],
    }
    for row, message in {
        "r,n1,1,1,1": "3: node 'n1' has a result of run r on an earlier line too",
        "r,n2,,1,1": "3: send_s '' says nothing",
        "r,n2,-1,1,1": "3: send_s '-1' is not a number",
        "r,,1,1,1": "3: node '' says nothing",
    }.items():
        assert refused(read_probes, written(tmp_path, header, "r,n1,1,1,1", row)) == message
    assert refused(read_probes, written(tmp_path, "run_id,node", "r,n")).startswith(" the header line has no column send_s")
    assert read_types(written(tmp_path, "application,type", "AMG,network")).to_dict("list") == {
        "application": ["AMG"],
        "type": ["network"],
    }
    for row, message in {
        "AMG,io": "3: application 'AMG' is on an earlier line too",
        "X,cpu": "3: type 'cpu' is not one of compute, network, io",
    }.items():
        assert refused(read_types, written(tmp_path, "application,type", "AMG,network", row)) == message


def test_rows_are_kept_once_and_what_was_first_stays(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    path = sacct(tmp_path, job(1), job(2, "ctl-Kripke-strong", "quartz7"))
    runs = read_accounting_runs(path, PATTERN, ZONE).runs
    assert keep(lake, RUNS, "q", runs).added == 2
    before = lake.path(RUNS, "q").read_bytes()
    assert keep(lake, RUNS, "q", runs).same == 2
    changed = runs.assign(runtime_s=[81.0, 99.0])
    assert keep(lake, RUNS, "q", changed).contradicting == ("2",)
    assert lake.path(RUNS, "q").read_bytes() == before
    kept = stored(lake, RUNS, "q")
    pd.testing.assert_frame_equal(kept, runs)
    assert isinstance(kept["nodes"][0], list)
    counted = ControlRuns(runs.assign(run_id=["8", "9"], nodes=None)).runs
    assert keep(lake, RUNS, "q", counted).added == 2
    assert stored(lake, RUNS, "q")["nodes"].tolist() == [["quartz1", "quartz2"], ["quartz7"], None, None]


def refused_topology(path: Path, text: str) -> str:
    path.write_text(text)
    return refusal(read_topology, path).removeprefix(str(path))


def test_a_topology_names_the_leaf_of_each_node(tmp_path: Path) -> None:
    conf = tmp_path / "topology.conf"
    conf.write_text(
        "# leaves\nswitchname=s1 Nodes=n[1-2],login LinkSpeed=9 # x\nSwitchName=s2 \\\n  Nodes=n3\nSwitchName=top Switches=s[1-2]\n"
    )
    leaves = read_topology(conf)
    assert leaves.to_dict("list") == {"node": ["login", "n1", "n2", "n3"], "leaf": ["s1", "s1", "s1", "s2"]}


def test_what_is_wrong_is_said_with_file_and_line(tmp_path: Path) -> None:
    conf = tmp_path / "topology.conf"
    first = "SwitchName=s1 Nodes=n[1-2]\n"
    assert refused_topology(conf, first + "SwitchName=s2 Nodes=n[2-3]") == ", line 2: node 'n2' is under s1 on an earlier line"
    assert refused_topology(conf, first + "Nodes=n3") == ", line 2: 'Nodes=n3' names no switch: SwitchName=s1 Nodes=n[1-16]"
    assert (
        refused_topology(conf, first + "SwitchName=s2 Nodes=n[3-")
        == ", line 2: n[3- is not a list of nodes: its brackets do not match"
    )
    assert refused_topology(conf, "SwitchName=s1 Switches=s2") == ": no line names nodes of a switch: SwitchName=s1 Nodes=n[1-16]"


def test_of_a_topology_only_the_latest_word_stays(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    old = pd.DataFrame({"node": ["n1", "n2"], "leaf": ["a", "a"]})
    assert keep(lake, TOPOLOGY, "q", old).added == 2
    assert keep(lake, TOPOLOGY, "q", pd.DataFrame({"node": ["n2", "n3"], "leaf": ["b", "b"]})).contradicting == ("n2",)
    assert stored(lake, TOPOLOGY, "q").to_dict("list") == {"node": ["n2", "n3"], "leaf": ["b", "b"]}
    assert keep(lake, TOPOLOGY, "q", old.assign(node=["n2", "n3"], leaf="b")).same == 2
