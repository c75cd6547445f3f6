"""The files of a Slurm site: what they say, and how wrong ones are refused."""

from __future__ import annotations

import pytest

from features.errors import InputError
from sim.slurm.files import read_site
from sim.slurm.lines import seconds
from sim.slurm.site import UNLIMITED, Site
from sim.slurm.unbuilt import not_modelled

CONF = """\
# a comment
ClusterName=here
AccountingStorageEnforce=limits
SchedulerParameters=bf_interval=10,bf_resolution=60,bf_continue,defer
PriorityType=priority/multifactor
prioritymaxage=1-0      # keys in any case
NodeName=DEFAULT CPUs=12 RealMemory=48000 \\
    Weight=5
NodeName=n[2-3,10] Feature=cpu
NodeName=g1 Gres=gpu:a100:4,gpu:2 Sockets=2 CoresPerSocket=8 ThreadsPerCore=2 CPUs=32
include parts.conf
"""
PARTS = """\
PartitionName=DEFAULT MaxTime=12:00:00
PartitionName=all Nodes=ALL Default=YES
PartitionName=fast Nodes=n[2-3] MaxTime=30 PriorityTier=3 PriorityJobFactor=100 QOS=fast OverSubscribe=EXCLUSIVE
"""
QOS = "Name|Priority|UsageFactor|Flags|MaxTRESPU|MaxJobsPU|GrpTRES\nnormal|0|1.000000||||\nfast|100|2.000000|OverPartQOS|cpu=24,mem=2G|3|gres/gpu=4\n"
DUMP = """\
Cluster - 'here':Fairshare=1:QOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'physics':Description='physics':Fairshare=60:GrpTRES=cpu=100
Parent - 'physics'
User - 'u1':DefaultAccount='physics':Fairshare=2:MaxJobs=7
"""
SHARE = "Account|User|RawShares|RawUsage\nroot|||7\n physics||60|7\n  physics|u1|2|7\n"


def site(**texts: str) -> Site:
    names = {"conf": "slurm.conf", "dump": "accounts.dump"}
    given = {names.get(name, f"{name}.txt"): text for name, text in texts.items()}
    return read_site({"slurm.conf": CONF, "parts.conf": PARTS, **given}, "site")


def test_nodes_are_read_as_slurm_reads_them_and_stand_in_natural_order() -> None:
    nodes = {node.name: node for node in site(qos=QOS).nodes}
    assert list(nodes) == ["g1", "n2", "n3", "n10"]
    assert (nodes["n10"].cpus, nodes["n10"].memory, nodes["n10"].weight, nodes["n10"].features) == (12, 48000, 5, {"cpu"})
    assert (nodes["g1"].cpus, nodes["g1"].gpus) == (32, 6)


def test_partitions_have_defaults_tiers_and_limits() -> None:
    parts = site(qos=QOS).partitions
    assert (parts["all"].nodes, parts["all"].max_s, parts["all"].tier) == ({"g1", "n2", "n3", "n10"}, 12 * 3600, 1)
    fast = parts["fast"]
    assert (fast.nodes, fast.max_s, fast.tier, fast.factor, fast.qos, fast.exclusive) == ({"n2", "n3"}, 1800, 3, 100, "fast", True)


def test_limits_shares_and_usage_are_read() -> None:
    described = site(qos=QOS, dump=DUMP, sshare=SHARE)
    fast = described.qos["fast"]
    assert (fast.priority, fast.usage_factor, fast.over_partition) == (100, 2.0, True)
    assert (fast.limits.user, fast.limits.group) == ({"cpu": 24, "mem": 2048, "jobs": 3}, {"gres/gpu": 4})
    typed = site(qos=QOS.replace("gres/gpu=4", "gres/gpu:a100=2,gres/gpu:v100=1")).qos["fast"].limits.group
    assert typed == {"gres/gpu": 3}
    both = site(qos=QOS.replace("gres/gpu=4", "gres/gpu=8,gres/gpu:a100=2,gres/gpu:v100=-1")).qos["fast"].limits.group
    assert both == {"gres/gpu": 8}
    tree = {(each.account, each.user): each for each in described.associations}
    assert tree["physics", "u1"].parent == "physics"
    assert (tree["physics", "u1"].shares, tree["physics", "u1"].usage, tree["physics", "u1"].limits.user) == (2.0, 7.0, {"jobs": 7})
    assert (tree["physics", ""].parent, tree["physics", ""].limits.group) == ("root", {"cpu": 100})


def test_keys_that_are_not_modelled_are_named_and_those_that_decide_are_warnings() -> None:
    described = site(qos=QOS)
    assert "SchedulerParameters defer" in described.not_modelled
    assert described.warnings == ("SchedulerParameters defer",)
    changed = read_site({"slurm.conf": CONF.replace("include parts.conf", "PriorityWeightAssoc=32\n") + PARTS, "qos.txt": QOS}, "s")
    assert "priorityweightassoc=32" in changed.warnings


def test_nodes_that_slurm_conf_does_not_describe_are_dropped_with_a_note() -> None:
    times = "StartTime=2026-03-01T10:00:00 EndTime=2026-03-01T12:00:00"
    texts = {
        **{"slurm.conf": CONF, "parts.conf": PARTS, "qos.txt": QOS},
        "reservations.txt": f"ReservationName=r {times} Nodes=n[3,77]\n",
        "events.txt": "NodeName|TimeStart|TimeEnd|State\nn77|2026-03-01T10:00:00|Unknown|DRAIN\n|2026-03-01T10:00:00|Unknown|UP\n",
    }
    described = read_site(texts, "s")
    assert (described.reservations[0].nodes, described.outages) == ({"n3"}, ())
    assert [note.partition(" ")[0] for note in described.notes] == ["reservations.txt", "events.txt"]
    assert described.notes[0] == "reservations.txt names 1 nodes that slurm.conf does not describe, such as n77: they are left out"


def test_keys_that_change_who_may_run_stand_first_and_say_what_replays_do() -> None:
    conf = CONF.replace("include parts.conf", "MailProg=/bin/mail\nPartitionName=all Nodes=ALL AllowAccounts=a,b\n")
    notes = not_modelled(read_site({"slurm.conf": conf}, "s"))
    assert notes[0] == "Not modelled: allowaccounts: jobs that it keeps out may run there in replays."
    assert notes[1].endswith("mailprog.")


def test_default_lines_count_like_others_and_procs_is_an_older_name_of_cpus() -> None:
    conf = (
        "NodeName=DEFAULT Procs=2 TRESWeights=cpu=1\nNodeName=n[1-3]\nPartitionName=DEFAULT MinNodes=4\nPartitionName=p Nodes=ALL\n"
    )
    described = read_site({"slurm.conf": conf}, "s")
    assert [node.cpus for node in described.nodes] == [2, 2, 2]
    assert described.not_modelled == ("minnodes", "tresweights")


def test_outages_and_reservations_are_in_local_time() -> None:
    reservations = "ReservationName=weekly StartTime=2026-03-01T10:00:00 EndTime=2026-03-01T12:00:00 Nodes=n[2-3] Flags=MAINT\n"
    events = (
        "NodeName|TimeStart|TimeEnd|State\nn10|2026-03-01T10:00:00|Unknown|DRAIN\nn2|2026-03-01T00:00:00|2026-03-01T00:00:01|UNK\n"
    )
    texts = {"slurm.conf": CONF, "parts.conf": PARTS, "qos.txt": QOS, "reservations.txt": reservations, "events.txt": events}
    described = read_site(texts, "site", "Europe/Berlin")
    assert (described.reservations[0].start_s, described.reservations[0].nodes) == (1772355600, {"n2", "n3"})
    assert [(each.node, each.start_s, each.end_s) for each in described.outages] == [("n10", 1772355600, UNLIMITED)]


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (("Nodes=n[2-3] MaxTime=30", "Nodes=n[2-4] MaxTime=30"), r"parts.conf, line 3: partition fast has the unknown node n4"),
        (("MaxTime=30", "MaxTime=soon"), r"parts.conf, line 3: MaxTime=soon is not a time"),
        (("PriorityTier=3", "PriorityTier=high"), r"parts.conf, line 3: prioritytier=high is not a whole number"),
        (("RealMemory=48000", "RealMemory=48G"), r"slurm.conf, line 9: realmemory=48G is not a whole number"),
        (("bf_interval=10", "bf_interval=often"), r"SchedulerParameters bf_interval=often is not a whole number"),
        (("include parts.conf", "include other.conf"), r"slurm.conf, line 11: includes other.conf, which does not exist"),
        (
            ("MaxTime=30", "TRESBillingWeights=CPU=1,Disk=2"),
            r"parts.conf, line 3: TRESBillingWeights=CPU=1,Disk=2: Disk=2 is not one of",
        ),
        (("ClusterName=here", "KillWait=long"), r"killwait=long is not a whole number"),
        (("QOS=fast", "QOS=slow"), r"partition slow has|partition fast has QOS=slow, which qos.txt does not name"),
        (("n[2-3,10]", "n[3-2]"), r"slurm.conf, line 9: n\[3-2\] is not a list of nodes"),
        (("ClusterName=here", "some words"), r"slurm.conf, line 2: 'some words' is not of the form KEY=VALUE"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(change: tuple[str, str], refusal: str) -> None:
    texts = {"slurm.conf": CONF.replace(*change), "parts.conf": PARTS.replace(*change), "qos.txt": QOS}
    with pytest.raises(InputError, match=refusal):
        read_site(texts, "site")


@pytest.mark.parametrize(
    ("conf", "refusal"),
    [
        ("KillWait=soon", r"killwait=soon is not a whole number"),
        ("SchedulerParameters=bf_interval=99999999999999999999", r"bf_interval=9+ is not a whole number"),
        ("PriorityWeightAge=99999999999999999999", r"priorityweightage=9+ is not a whole number"),
        ("PriorityWeightTRES=CPU=nan", r"CPU=nan has no number"),
        ("NodeName=z CPUs=99999999999999999999", r"line 3: cpus=9+ is not a whole number"),
        ("NodeName=z Weight=-1", r"line 3: weight=-1 is not a whole number"),
        ("NodeName=n CPUs=2", r"line 3: describes the node n a second time"),
        ("PartitionName=p Nodes=n", r"line 3: describes the partition p a second time"),
    ],
)
def test_numbers_that_slurm_has_no_room_for_and_second_lines_are_refused(conf: str, refusal: str) -> None:
    with pytest.raises(InputError, match=refusal):
        read_site({"slurm.conf": f"NodeName=n CPUs=1\nPartitionName=p Nodes=n\n{conf}\n"}, "site")


_DUMP, _EVENT = "Cluster - 'c'\nParent - 'root'\n", "NodeName|TimeStart|TimeEnd|State\n"
_HELD = "ReservationName=m StartTime=2026-01-02T00:00:00 "


@pytest.mark.parametrize(
    ("file", "text", "refusal"),
    [
        ("accounts.dump", _DUMP + "Parent - 'gone'\n", "line 3: no line above it describes the account gone"),
        ("accounts.dump", _DUMP + "Parent - 'a'\nAccount - 'b'\nParent - 'b'\nAccount - 'a'\n", "line 3: no line above it"),
        ("accounts.dump", _DUMP + "Account - 'root'\n", "line 3: describes the account root a second time"),
        ("accounts.dump", _DUMP + "Account - 'a':Fairshare=nan\n", "line 3: fairshare=nan is not a number"),
        ("qos.txt", "Name|Priority\n", "line 1: no line after it names a QOS"),
        ("qos.txt", "Name|Priority\nnormal\n", "line 2: has 1 fields, and the header 2"),
        ("qos.txt", "Name|Priority\nnormal|high\n", "line 2: priority=high is not a whole number"),
        ("qos.txt", "Name|Priority|MaxWall\nnormal|0|soon\n", "line 2: soon is not a time"),
        ("qos.txt", "Name|Priority|UsageFactor\nnormal|1|nan\n", "line 2: usagefactor=nan is not a number"),
        ("qos.txt", "Name|Priority|GrpTRES\nnormal|1|cpu=99999999999999999999\n", "line 2: cpu=9+ is not a limit"),
        ("sshare.txt", "Account|User|RawUsage\nroot\n", "line 2: has 1 fields, and the header 3"),
        ("events.txt", _EVENT + "n|2026-01-02T00:00:00\n", "line 2: has 2 fields, and the header 4"),
        ("events.txt", _EVENT + "n|2026-01-02T00:00:00|2026-01-01T00:00:00|DOWN\n", "line 2: the event of n ends before it starts"),
        ("events.txt", _EVENT + "n|2026-01-02T00:00:00+05:00|Unknown|DOWN\n", "line 2: '2026-01-02T00:00:00.05:00' is not a time"),
        ("reservations.txt", _HELD + "EndTime=2026-01-01T00:00:00 Nodes=n\n", "line 1: reservation m ends before it starts"),
        ("reservations.txt", _HELD + "EndTime=9999-01-01T00:00:00 Nodes=n\n", "line 1: '9999-01-01T00:00:00' is not a time"),
        ("reservations.txt", _HELD + "\n   Nodes=n\n", "line 1: is not a whole reservation; make it with scontrol -o"),
        ("epilog.txt", "9999999\n", "line 1: is not a number of seconds"),
    ],
)
def test_files_that_are_cut_or_make_no_sense_are_refused_with_their_line(file: str, text: str, refusal: str) -> None:
    with pytest.raises(InputError, match=f"site/{file}, {refusal}"):
        read_site({"slurm.conf": "NodeName=n CPUs=1\nPartitionName=p Nodes=n\n", file: text}, "site")


def test_what_decides_and_is_not_modelled_is_warned_of_where_it_is_set() -> None:
    idle = "PreemptExemptTime=-1\nCompleteWait=0\nNodeName=n\nPartitionName=p Nodes=n LLN=NO\n"
    conf = "SelectType=select/serial\nSelectTypeParameters=CR_CPU,CR_LLN\nPreemptExemptTime=10\nCompleteWait=32\n"
    conf += "PriorityFlags=NO_FAIR_TREE\nSchedulerParameters=partition_job_depth=5,bf_max_job_part=9\n"
    limits = {
        "qos.txt": "Name|Priority|GrpTRESMins|GrpTRES|PreemptExemptTime\nnormal|0|cpu=60|node=2|00:00:00\n",
        "accounts.dump": "# Account - 'cs':GrpWall=9\nParent - 'root'\nAccount - 'a':GrpTRESRunMins=cpu=9\n",
    }
    nodes = "NodeName=n\nPartitionName=p Nodes=n LLN=YES\n"
    site = read_site({"slurm.conf": conf + nodes, **limits}, "site")
    assert sorted(site.warnings) == [
        *("GrpTRESMins in qos.txt", "GrpTRESRunMins in accounts.dump", "LLN=YES of p", "PriorityFlags=NO_FAIR_TREE"),
        *("SchedulerParameters bf_max_job_part", "SchedulerParameters partition_job_depth"),
        *("a limit of nodes, as a node counts for each of its jobs,", "completewait=32", "preemptexempttime=10"),
        *("selecttype=select/serial", "selecttypeparameters=CR_CPU,CR_LLN"),
    ]
    assert read_site({"slurm.conf": idle}, "site").warnings == ()


def test_a_folder_without_slurm_conf_is_refused() -> None:
    with pytest.raises(InputError, match=r"holds no slurm\.conf"):
        read_site({"gres.conf": ""}, "site")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("30", 1800), ("1:30:00", 5400), ("2-0", 172_800), ("1-12:30", 131_400), ("10:30", 630), ("INFINITE", UNLIMITED)],
)
def test_times_have_all_of_slurms_forms(text: str, expected: int) -> None:
    assert seconds(text) == expected


def test_files_of_newer_releases_are_read() -> None:
    conf = "TopologyPlugin=topology/block\nPreemptParameters=youngest_first,reorder_count=3,strict_order\nNodeName=n1\nPartitionName=p Nodes=n1\n"
    dump = "Cluster - 'here':Fairshare=1\nQOS - 'high':Priority=10\nParent - 'root'\nAccount - 'phys'\n"
    site = read_site({"slurm.conf": conf, "accounts.dump": dump}, "site")
    assert [each.account for each in site.associations] == ["root", "phys"]
    assert (site.parameter("preempt_youngest_first"), site.parameter("preempt_reorder_count")) == (1, 3)
    assert site.warnings == (
        "topologyplugin=topology/block",
        "SchedulerParameters preempt_strict_order",
    )
