"""MetaCentrum's extra columns of SWF: what its jobs ask for, and files that only look alike."""

from __future__ import annotations

import pandas as pd
import pytest

from features.jobs.schema import Trace
from pipelines.readers.swf import parse_swf
from pipelines.readers.swf_lines import UNREADABLE, NodeSpec, node_spec
from pipelines.readers.text import Source

JOB = "1 10 5 100 4 -1 -1 16 3600 3000 1 3 2 7 -1 2 -1 -1"


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("8:ppn=8:x86_64:cl_zegox", NodeSpec(8, 8, "x86_64:cl_zegox", 0)),
        ("1:ppn=64:x86_64:cl_zewura#excl", NodeSpec(1, 64, "x86_64:cl_zewura", 1)),
        ("3", NodeSpec(3, 1, "", 0)),
        ("1:ppn=1.5:brno", NodeSpec(1, 1, "brno", 0)),
        ("1:ppn=2:mem=4gb", NodeSpec(1, 2, "", 0)),
        ("zewura19.cerit-sc.cz:ppn=12:brno", NodeSpec(1, 12, "zewura19.cerit-sc.cz:brno", 0)),
        ("1:^zewura1:^zewura1:ppn=5", NodeSpec(1, 5, "^zewura1", 0)),
        ("1:ppn=1:brno+2:ppn=2:brno", NodeSpec(-1, -1, "brno", 0)),
        ("1:ppn=4::x", UNREADABLE),
        ("", UNREADABLE),
    ],
)
def test_a_node_specification_says_nodes_processors_properties_and_exclusiveness(text: str, spec: NodeSpec) -> None:
    assert node_spec(text) == spec


def parse(*extra: str) -> Trace:
    return parse_swf(Source("a.swf", "".join(f"{JOB} {columns}\n" for columns in extra).encode(), ""))


def test_three_columns_that_begin_with_nodes_in_braces_are_read_and_counted() -> None:
    trace = parse("{7,7} q_2h 2:ppn=8:cl_a#excl", "{7} q_1d 1:ppn=1:mem=3gb+1:ppn=2 ; a comment", "{7} q_2h ::")
    jobs = trace.jobs
    assert jobs["queue"].tolist() == ["q_2h", "q_1d", "q_2h"]
    assert jobs["memory_kib"].tolist() == [3, 3, 3]  # of 3,000 bytes, not of as many KiB for each of 16 processors
    assert jobs["nodes"].tolist() == [2, pd.NA, pd.NA]
    assert jobs["procs_per_node"].tolist() == [8, pd.NA, pd.NA]
    assert jobs["properties"].astype("str").fillna("").tolist() == ["cl_a", "", ""]
    assert jobs["exclusive"].tolist() == [1, 0, pd.NA]
    assert trace.notes[:3] == (
        "Columns 20 and 21 are read as queue and requested nodes, and the requested memory as bytes a job (as MetaCentrum writes).",
        "Requests of different kinds of nodes are read as processors of any nodes: 1.",
        "Requests of nodes that cannot be read are taken as missing: 1.",
    )


@pytest.mark.parametrize("extra", [("a b c",), ("{7} b c", "a b c"), ("{7} q_2h 1:ppn=1", "{7} q_2h")])
def test_other_extra_columns_are_not_read(extra: tuple[str, ...]) -> None:
    trace = parse(*extra)
    assert trace.jobs["nodes"].isna().all()
    assert (trace.jobs["memory_kib"] == 3000 * 16).all()
    assert trace.notes[0].startswith("Job lines of which columns after the 18th are not read: ")
