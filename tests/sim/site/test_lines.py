"""Lines to paste: in place of those of a slurm.conf they make the changed site; scripts and commands are whole."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from pipelines.report.what_if import pasted
from sim.site.changes import change, site_change
from sim.site.lines import node_lines
from sim.slurm.files import read_site
from sim.slurm.site import Node
from tests.sim.site.test_what_if import QOS, jobs

CONF = """\
SchedulerParameters=bf_interval=10,bf_continue
PriorityType=priority/multifactor
PriorityWeightAge=100
JobSubmitPlugins=require_timelimit
NodeName=n[1-4] CPUs=2 RealMemory=4000 Feature=cpu Gres=gpu:1
PartitionName=DEFAULT MaxTime=2-0 PriorityTier=3
PartitionName=long Nodes=n[1-2] AllowGroups=staff
partitionname=all nodes=n1,n[2-4] \\
  default=YES PriorityTier=2 MaxNodes=2 # everyone
"""


def in_place(conf: str, lines: Iterable[str]) -> str:
    """Return a slurm.conf with the lines that belong into one in place of those of the same key, of nodes and partitions by name."""
    held = {_key(line): line for line in conf.replace("\\\n", "").splitlines() if line.strip()}
    return "\n".join({**held, **{_key(line): line for line in lines if re.match(r"\w+=", line)}}.values()) + "\n"


def _key(line: str) -> str:
    first = line.lower().split()[0]
    return first if first.startswith(("nodename=", "partitionname=")) else first.split("=")[0]


@pytest.mark.parametrize(
    "given",
    [
        {"slurm": {"PriorityWeightAge": "x2", "SchedulerType": "sched/builtin"}, "scheduler": {"bf_interval": 20}},
        {"partitions": {"*": {"PriorityTier": 5}, "long": {"MaxTime": "x0.5", "MaxNodes": 1}}},
        {"nodes": "x1.5"},
        {"nodes": "x2", "partitions": {"all": {"PriorityJobFactor": 9}}},
    ],
)
def test_lines_in_place_of_those_there_make_the_changed_site(given: dict[str, object]) -> None:
    files = {"slurm.conf": CONF, "qos.txt": QOS}
    changed = change(site_change("a change", **given), read_site(files, "here"), jobs())
    assert changed is not None
    again = read_site({**files, "slurm.conf": in_place(CONF, changed.lines)}, "here")
    assert set(again.nodes) == set(changed.site.nodes)
    assert again.partitions == changed.site.partitions
    assert again.scheduler == changed.site.scheduler
    assert "..." not in "".join(changed.lines)
    if "partitions" in given:
        assert any("AllowGroups=staff" in line or "MaxNodes=2 " in line for line in changed.lines)


def test_what_is_no_line_is_a_command_a_whole_script_or_said_to_be_no_setting() -> None:
    site, table = read_site({"slurm.conf": CONF, "qos.txt": QOS}, "here"), jobs().assign(start_s=-1, end_s=-1)

    def text(**given: object) -> str:
        changed = change(site_change("a change", what="more of it", **given), site, table)
        return "" if changed is None else pasted(changed.lines)

    assert text(qos={"normal": {"MaxTRESPU": "x2"}}).startswith("Commands:\nsacctmgr modify qos normal set ")
    script = text(limits="x0.5")
    assert "then restart slurmctld:\nJobSubmitPlugins=require_timelimit,lua\nThe file job_submit.lua" in script
    for part in ("function slurm_job_submit(", "function slurm_job_modify(", "math.ceil(job.time_limit * 0.5)"):
        assert part in script
    assert script.endswith("\nreturn slurm.SUCCESS")


def test_new_nodes_have_the_type_of_the_gpus_of_nodes_alike_and_no_feature_of_the_model() -> None:
    node = Node(name="a9", cpus=8, memory=1000, gpus=4, features=frozenset({"gpu:a100", "fast"}), weight=1)
    assert node_lines([node])[1] == "NodeName=a9 CPUs=8 RealMemory=1000 Weight=1 Gres=gpu:a100:4 Feature=fast"


def test_each_kind_of_line_says_where_it_goes_and_what_reads_it() -> None:
    text = pasted(["NodeName=a9 CPUs=8", "SchedulerType=sched/builtin", "PriorityWeightAge=5", "JobSubmitPlugins=lua"])
    headings = {part.splitlines()[1]: part.splitlines()[0] for part in re.split(r"\n(?=New lines|In slurm)", text)}
    assert headings["NodeName=a9 CPUs=8"].startswith("New lines in slurm.conf")
    assert headings["SchedulerType=sched/builtin"].endswith("then restart slurmctld:")
    assert headings["PriorityWeightAge=5"].endswith("then run scontrol reconfigure:")
