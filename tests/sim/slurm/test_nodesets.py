"""Nodes that suit a job: constraints, --nodelist, --exclude and memory."""

from __future__ import annotations

import pytest

from features.errors import InputError
from sim.slurm.files import read_site
from sim.slurm.nodesets import Suits, suitable, with_features

CONF = """\
SelectTypeParameters=CR_CPU_Memory
NodeName=n1 CPUs=4 RealMemory=1000 Features=a,x
NodeName=n2 CPUs=4 RealMemory=2000 Features=b,x
NodeName=n3 CPUs=4 RealMemory=3000 Features=c
PartitionName=main Nodes=ALL
"""
SITE = read_site({"slurm.conf": CONF}, "three nodes")


@pytest.mark.parametrize(
    ("constraint", "nodes"),
    [
        ("", "n1 n2 n3"),
        ("a", "n1"),
        ("x", "n1 n2"),
        ("a|c", "n1 n3"),
        ("x&a", "n1"),
        ("a&b", ""),
        ("[a|b]", "n1 n2"),
        ("(a|b)&x", "n1 n2"),
        ("c|a&x", "n1"),  # from left to right
        ("c|(a&x)", "n1 n3"),
        ("a*2", "n1"),
        ("[a*1&b*1]", "n1 n2"),
        ("gone", ""),
        ("gone|c", "n3"),
    ],
)
def test_constraints_are_read_as_slurmctld_does(constraint: str, nodes: str) -> None:
    assert with_features(SITE, constraint) == set(nodes.split())


@pytest.mark.parametrize("constraint", ["a&", "|a", "(a", "a)", "[a|b", "a b", "(a]"])
def test_a_wrong_constraint_is_refused(constraint: str) -> None:
    with pytest.raises(InputError, match="constraint"):
        with_features(SITE, constraint)


def test_lists_of_nodes_and_memory_narrow_it() -> None:
    assert suitable(SITE, Suits("x", "n[2-3]", "", 0)) == {"n2"}
    assert suitable(SITE, Suits("", "", "n1,n3", 0)) == {"n2"}
    assert suitable(SITE, Suits("", "", "", 1500)) == {"n2", "n3"}
    with pytest.raises(InputError, match="list of nodes"):
        suitable(SITE, Suits("", "n[1-", "", 0))
