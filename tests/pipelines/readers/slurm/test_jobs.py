"""Jobs of a Slurm site from its accounting: what became of them, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from features.errors import InputError
from pipelines.readers.slurm.jobs import SlurmJobs, read_slurm_jobs
from pipelines.readers.slurm.site import load_site
from sim.site.replay import replay
from sim.slurm.files import read_site
from tests.conftest import SHARED, needs_shared
from tests.support.refusals import refusal

BEGIN = 1_772_359_200  # 2026-03-01T10:00:00 UTC
CONF = "NodeName=n[1-4] CPUs=8\nPartitionName=main Nodes=ALL DefMemPerCPU=1000 MaxTime=2:00:00\nPartitionName=fast Nodes=n1\n"
SITE = read_site({"slurm.conf": CONF}, "site")
COLUMNS = [
    *("JobID", "JobIDRaw", "User", "Account", "Partition", "QOS", "State", "Submit", "Eligible", "Start", "End", "ElapsedRaw"),
    *("TimelimitRaw", "ReqCPUS", "AllocCPUS", "ReqMem", "ReqTRES", "NodeList", "Priority", "Flags", "Reservation", "Reason"),
    *("Constraints", "JobName", "SubmitLine"),
]
"""As docs/how-to/slurm.md asks for them."""


def at(second: int) -> str:
    return datetime.fromtimestamp(BEGIN + second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


LINE = (
    f"7|7|ann|phys|main|normal|COMPLETED|{at(0)}|{at(0)}|{at(30)}|{at(90)}|60"
    "|2|8|8|8G|billing=8,cpu=8,mem=8G,node=1|n1|101|SchedBackfill||None||run.sh|sbatch run.sh"
)
USUAL = dict(zip(COLUMNS, LINE.split("|"), strict=True))
PENDING = {"State": "PENDING", "Start": "Unknown", "End": "Unknown", "ElapsedRaw": "0", "NodeList": "None assigned"}
GONE = PENDING | {"State": "CANCELLED by 7", "Start": "None", "End": at(50)}


def read(place: Path, *rows: dict[str, str], without: tuple[str, ...] = (), zone: str = "UTC") -> SlurmJobs:
    names = [name for name in rows[0] | USUAL if name not in without]
    lines = ["|".join((USUAL | row)[name] for name in names) for row in rows]
    (place / "sacct.txt").write_text("\n".join(["|".join(names), *lines]) + "\n")
    return read_slurm_jobs(place / "sacct.txt", SITE, zone)


def test_what_accounting_says_goes_where_a_replay_reads_it(tmp_path: Path) -> None:
    row = read(tmp_path, {"Constraints": "[gpu&big]", "Reservation": "maint"}).table.iloc[0].to_dict()
    assert row == {
        **{"number": 7, "job_id": "7", "group": 7, "user": "ann", "account": "phys", "partition": "main", "qos": "normal"},
        **{
            "submit_s": BEGIN,
            "runtime_s": 60,
            "limit_s": 120,
            "least_limit_s": 120,
            "cpus": 8,
            "min_nodes": 1,
            "memory_node": 8192,
        },
        **{"features": "[gpu&big]", "reservation": "maint"},
        **{"start_s": BEGIN + 30, "end_s": BEGIN + 90, "started_by": "backfill", "nodes": "n1", "priority": 101},
        **dict.fromkeys(("requeues", "killed", "exclusive"), False),
        **dict.fromkeys(("max_nodes", "memory_cpu", "gpus", "node_cpus", "throttle", "nice"), 0),
        **dict.fromkeys(("licenses", "nodelist", "exclude", "after", "other_qos"), ""),
        **dict.fromkeys(("task", "eligible_s", "held_s", "cancel_s", "het", "withdrawn_s"), -1),
    }


@pytest.mark.parametrize(
    ("line", "cpus"),
    [
        ("sbatch -n 8 --gres=gpu:1 run.sh", 0),
        ("sbatch -n 1 -c 8 --gres=gpu:1 run.sh", 8),
        ("sbatch -n 8 -N 1 --gres=gpu:1 run.sh", 8),
        ("sbatch --ntasks=2 -N 2 --cpus-per-task=4 --gres=gpu:1 run.sh", 4),
        ("sbatch --ntasks-per-node=2 -c 2 --gres=gpu:1 run.sh", 4),
        ("sbatch -n 1 --cpus-per-gpu=8 --gres=gpu:1 run.sh", 0),
        ("sbatch -n 1 -c 8 run.sh", 0),
    ],
)
def test_a_job_with_gpus_can_use_the_processors_of_its_tasks_on_a_node(line: str, cpus: int, tmp_path: Path) -> None:
    assert read(tmp_path, {"SubmitLine": line}).table["node_cpus"].tolist() == [cpus]


def test_jobs_wait_until_they_are_eligible_unless_a_dependency_tells_why(tmp_path: Path) -> None:
    lines = ("sbatch run.sh", "sbatch -d afterok:3 run.sh", "sbatch -a 1-9%2 run.sh", "sbatch -d after:3 run.sh")
    late = [{"JobID": str(number), "Eligible": at(20), "SubmitLine": line} for number, line in enumerate(lines, start=1)]
    jobs = read(tmp_path, *late, {"JobID": "5", "Eligible": at(1)}, {"JobID": "6", "Eligible": "Unknown"}).table
    assert jobs["eligible_s"].tolist() == [BEGIN + 20, -1, BEGIN + 20, BEGIN + 20, -1, -1]
    assert read(tmp_path, late[0], zone="Europe/Berlin").table["eligible_s"].tolist() == [BEGIN + 20 - 3600]


def test_a_preempted_and_requeued_job_is_one_row_with_its_first_start_and_its_last_runtime(tmp_path: Path) -> None:
    first = {"State": "PREEMPTED", "End": at(50), "ElapsedRaw": "20", "Flags": "SchedMain"}
    last = {"Submit": at(51), "Eligible": at(51), "Start": at(100), "End": at(170), "ElapsedRaw": "70", "NodeList": "n2"}
    for rows in ((first, last, {"JobID": "8"}), (last, {"JobID": "8"}, first)):
        jobs = read(tmp_path, *rows).table
        columns = jobs[["job_id", "requeues", "submit_s", "start_s", "end_s", "runtime_s", "started_by", "nodes", "killed"]]
        assert columns.to_numpy().tolist() == [
            ["7", True, BEGIN, BEGIN + 30, BEGIN + 50, 70, "main", "n1", False],
            ["8", False, BEGIN, BEGIN + 30, BEGIN + 90, 60, "backfill", "n1", False],
        ]


@pytest.mark.parametrize(
    ("later", "ids", "requeues"),
    [
        ({}, ["7"], [False]),  # the same row in two exports
        ({"Submit": at(200), "Start": at(230), "End": at(290)}, ["7", "7#2"], [False, False]),
        ({"User": "bob", "Submit": at(51), "Start": at(100), "End": at(160), "State": "PREEMPTED"}, ["7", "7#2"], [False, False]),
        ({"State": "RUNNING", "End": "Unknown", "ElapsedRaw": "9"}, ["7"], [False]),  # an export of before its end
    ],
)
def test_a_job_is_its_number_submission_and_user(tmp_path: Path, later: dict, ids: list[str], requeues: list[bool]) -> None:
    log = read(tmp_path, {}, later)
    assert log.table[["job_id", "requeues"]].to_numpy().tolist() == [list(row) for row in zip(ids, requeues, strict=True)]
    assert (log.table["group"].nunique(), log.table["runtime_s"].iloc[0]) == (len(ids), 60)


@pytest.mark.parametrize("count", [19, 60])
def test_a_row_that_still_runs_since_years_before_all_others_is_left_out(count: int, tmp_path: Path) -> None:
    old = {"State": "RUNNING", "Submit": "2019-03-01T10:00:00", "Start": "2019-03-01T10:00:00", "End": "Unknown"}
    usual = [{"JobID": str(number), "Submit": at(number)} for number in range(10, 10 + count)]
    log = read(tmp_path, {**old, "ElapsedRaw": "220000000"}, *usual)
    assert len(log.table) == count
    assert log.notes[0] == "Jobs submitted long before all others are left out (behind-file-clock): 1."


def test_a_job_cancelled_while_it_waited_is_kept_with_its_end(tmp_path: Path) -> None:
    log = read(tmp_path, {}, GONE | {"JobID": "8"}, GONE | {"JobID": "9", "Start": at(50)}, PENDING | {"JobID": "10"})
    waited = log.table.set_index("job_id").loc[["8", "9", "10"]]
    assert waited[["start_s", "end_s", "cancel_s", "runtime_s"]].to_numpy().tolist() == [
        *[[-1, -1, BEGIN + 50, 60]] * 2,
        [-1, -1, -1, 60],
    ]
    assert log.notes == (
        "Jobs that never started, and wait until they were cancelled: 3. If a replay runs or starts them, they run for 50% of "
        "their limits.",
    )


def test_jobs_cancelled_together_are_so_with_all_of_their_kind_that_wait_then(tmp_path: Path) -> None:
    def row(number: int, qos: str, **columns: str) -> dict[str, str]:
        return {"JobID": str(number), "QOS": qos, "SubmitLine": "", **columns}

    late = {"Eligible": at(60), "Start": at(70), "End": at(130)}
    early, low = row(6, "low"), [GONE | row(7, "low"), GONE | row(8, "low", End=at(51))]
    later, waits = row(9, "low", Submit=at(60), **late), row(10, "normal", Submit=at(10), **late)
    withdrawn = read(tmp_path, early, *low, waits, later).table.set_index("job_id")["withdrawn_s"]
    assert withdrawn.to_dict() == {"6": BEGIN + 50, "7": BEGIN + 50, "8": BEGIN + 50, "9": -1, "10": -1}
    other = read(tmp_path, early, *low, row(10, "low", Submit=at(10), **late)).table
    assert (other["withdrawn_s"] == -1).all(), "one of them went on waiting"
    assert (read(tmp_path, early, low[0], waits).table["withdrawn_s"] == -1).all(), "one job alone"


def test_a_waiting_job_that_never_became_eligible_is_left_out(tmp_path: Path) -> None:
    log = read(tmp_path, {}, GONE | {"JobID": "8", "Eligible": "Unknown"})
    assert (log.table["job_id"].tolist(), log.notes) == (["7"], ("Jobs that never became eligible are left out: 1.",))


def test_a_running_job_runs_for_the_usual_share_of_its_limit_and_at_least_on(tmp_path: Path) -> None:
    running = {"State": "RUNNING", "End": "Unknown"}
    rows = ({}, running | {"JobID": "8", "ElapsedRaw": "20", "TimelimitRaw": "10"}, running | {"JobID": "9", "ElapsedRaw": "100"})
    log = read(tmp_path, *rows)
    assert log.table[["runtime_s", "end_s", "cancel_s"]].to_numpy().tolist() == [
        [60, BEGIN + 90, -1],
        [300, BEGIN + 50, -1],
        [101, BEGIN + 130, -1],
    ]
    assert "were stopped, or still ran: 2" in log.notes[0]
    open_ended = read(tmp_path, *({**row, "TimelimitRaw": "UNLIMITED"} for row in rows)).table  # the partition's limit
    assert open_ended[["limit_s", "runtime_s"]].to_numpy().tolist() == [[7200, 60], [7200, 60], [7200, 101]]


def test_steps_are_ignored_and_tasks_are_jobs_of_one_group_also_while_they_wait_together(tmp_path: Path) -> None:
    tasks = [{"JobID": "12_3"}, {"JobID": "12_10"}, GONE | {"JobID": "12_[4-8:2%2]"}, PENDING | {"JobID": "13_[1,3,...]"}]
    log = read(tmp_path, *tasks, {"JobID": "12_3.batch", "ReqCPUS": "", "Eligible": ""}, {"JobID": "14+1"})
    assert log.table[["job_id", "group", "task"]].to_numpy().tolist() == [
        *(["12_3", 12, 3], ["12_4", 12, 4], ["12_6", 12, 6], ["12_8", 12, 8], ["12_10", 12, 10], ["14+1", 14, -1]),
    ]
    assert (log.table["cancel_s"] >= 0).tolist() == [False, True, True, True, False, False]
    assert log.notes[0] == "Array tasks that had not started, and are over 10,000 or not all named, are left out: 2 in 1 lines."


def test_a_requeued_job_is_one_job_and_its_later_runs_are_kept(tmp_path: Path) -> None:
    again = {"Submit": at(100), "Eligible": at(101), "Start": at(170), "End": at(190), "ElapsedRaw": "20", "NodeList": "n2"}
    log = read(tmp_path, {"State": "PREEMPTED"}, again, {"JobID": "8", "Submit": at(110), "Start": at(150), "End": at(210)})
    assert log.table["job_id"].tolist() == ["7", "8"]
    assert log.runs["job_id"].tolist() == ["7", "7", "8"]
    assert log.runs["start_s"].tolist()[1] == BEGIN + 170
    assert log.runs["nodes"].tolist()[1] == "n2"
    assert log.runs["limit_s"].nunique() == 1
    assert log._replace(table=log.table.tail(1)).runs["job_id"].tolist() == ["8"]


def test_jobs_of_several_clusters_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"sacct\.txt: holds jobs of several clusters, a, b: export one of them"):
        read(tmp_path, {"Cluster": "a"}, {"Cluster": "b", "JobID": "8"})


def test_a_bar_in_the_line_of_submission_is_part_of_it_and_elsewhere_sets_the_line_aside(tmp_path: Path) -> None:
    rows = ({}, {"SubmitLine": "sbatch --wrap='a | b'"}, {"Constraints": "a|b"}, {"User": "a|b"})
    jobs = read(tmp_path, *({"JobID": str(number)} | row for number, row in enumerate(rows)))
    assert jobs.table[["job_id", "started_by"]].to_numpy().tolist() == [["0", "backfill"], ["1", "backfill"]]
    assert jobs.notes == ("Lines that cannot be split into the header's columns are left out: 2 (4, 5).",)


def test_a_replay_leaves_out_lines_that_contradict_themselves_and_finds_processors_among_resources(tmp_path: Path) -> None:
    jobs = read(tmp_path, {"ReqCPUS": "0"}, {"JobID": "8", "Start": at(90), "End": at(30)}, {"JobID": "9", "ElapsedRaw": "60000"})
    assert jobs.table[["job_id", "cpus"]].to_numpy().tolist() == [["7", 8]]
    assert jobs.notes == (
        "Lines that contradict themselves are left out, as end-before-start: 1.",
        "Lines that contradict themselves are left out, as elapsed-beyond-end: 1.",
    )


def test_array_tasks_of_one_line_are_left_out_if_they_had_started_or_are_too_many(tmp_path: Path) -> None:
    log = read(tmp_path, {}, PENDING | {"JobID": "8_[1-3000000]"}, {"JobID": "9_[1-2]"})
    assert log.table["job_id"].tolist() == ["7"]
    assert log.notes == (
        "Array tasks that had not started, and are over 10,000 or not all named, are left out: 3,000,000 in 1 lines.",
        "Array tasks that share a line are left out: 2 in 1 lines.",
    )


@needs_shared
def test_real_accounting_is_read() -> None:
    site = load_site(SHARED / "slurm" / "sites" / "micro")
    jobs = read_slurm_jobs(SHARED / "slurm" / "micro-1.sacct.txt", site).table
    assert (len(jobs), (jobs["gpus"] > 0).sum(), (jobs["task"] >= 0).sum(), jobs["group"].nunique()) == (244, 27, 30, 220)
    eagle = read_slurm_jobs(SHARED / "traces" / "NREL-Eagle-sample-sacct.csv", site, "America/Denver")
    first = eagle.table.set_index("job_id").loc["532209"]
    assert (len(eagle.table), eagle.table["group"].nunique()) == (1000, 549)  # tasks have the number of their array
    assert first[["user", "cpus", "min_nodes", "limit_s", "runtime_s"]].tolist() == ["user0014", 10, 10, 172_800, 99_825]
    assert first["start_s"] - first["submit_s"] == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"JobID": "seven"}, "sacct.txt:3: JobID 'seven' is not a number of a job or a task"),
        ({"JobID": "9" * 20}, f"sacct.txt:3: JobID '{'9' * 20}' is not a number of a job or a task"),
        ({"JobID": "8", "ElapsedRaw": "9" * 13}, f"sacct.txt:3: ElapsedRaw '{'9' * 13}' is a runtime of more than a hundred years"),
        ({"ReqCPUS": "", "ReqTRES": ""}, "sacct.txt:3: ReqCPUS '' states no number of processors"),
        ({"ReqTRES": "eight"}, "sacct.txt:3: ReqTRES 'eight' is not a list of resources such as cpu=4,mem=16G,node=1"),
        ({"ReqTRES": "mem=lots"}, "sacct.txt:3: ReqTRES 'mem=lots' is not a size of memory such as 16G, 4000Mc or 4Gn"),
        ({"ReqMem": "lots"}, "sacct.txt:3: ReqMem 'lots' is not a size of memory such as 16G, 4000Mc or 4Gn"),
        ({"TimelimitRaw": "soon"}, "sacct.txt:3: TimelimitRaw 'soon' is not a whole number"),
        ({"Eligible": "soon"}, "sacct.txt:3: Eligible 'soon' is not a time YYYY-MM-DDTHH:MM:SS: run sacct with SLURM_TIME_FORMAT"),
        ({"Submit": "Unknown"}, "sacct.txt:3: Submit 'Unknown' states no time of submission"),
    ],
)
def test_a_bad_line_is_refused_with_its_number(row: dict[str, str], message: str, tmp_path: Path) -> None:
    assert refusal(read, tmp_path, {}, row).startswith(f"{tmp_path}/{message}")


@pytest.mark.parametrize(
    ("rows", "without", "message"),
    [
        ([{}], ("TimelimitRaw",), "sacct.txt: the header line has no column TimelimitRaw, only JobID, "),
        ([PENDING, GONE | {"JobID": "8"}], (), "sacct.txt: holds no job that has run"),
        ([{"JobID": "7.batch"}], (), "sacct.txt: holds no job that has run"),
        ([PENDING | {"JobID": "7_[1-2]"}], (), "sacct.txt: holds no job that has run"),
    ],
)
def test_a_file_of_nothing_to_replay_is_refused(
    rows: list[dict[str, str]], without: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    assert refusal(read, tmp_path, *rows, without=without).startswith(f"{tmp_path}/{message}")


def test_jobs_released_in_one_second_were_held_once_the_last_of_them_was_submitted(tmp_path: Path) -> None:
    held = {"Eligible": at(90), "Reason": "JobHeldAdmin"}
    lines = ("sbatch run.sh", "sbatch run.sh", "sbatch --hold run.sh", "sbatch -H run.sh", "sbatch --begin=now+60 run.sh")
    jobs = [{"JobID": str(number), "Submit": at(number), "SubmitLine": line, **held} for number, line in enumerate(lines, start=1)]
    alone = {"JobID": "8", "Eligible": at(95), "Reason": "JobHeldUser"}
    table = read(tmp_path, *jobs, alone).table.set_index("job_id")
    assert table["held_s"].to_dict() == {"1": BEGIN + 2, "2": BEGIN + 2, "3": 0, "4": 0, "5": 0, "8": 0}
    assert set(table["eligible_s"]) == {BEGIN + 90, BEGIN + 95}


def test_a_hold_beyond_a_dependency_counts_and_the_dependency_alone_does_not(tmp_path: Path) -> None:
    first = {"JobID": "1", "Start": at(10), "End": at(70), "ElapsedRaw": "60"}
    jobs = [{"JobID": str(n), "Eligible": at(late), "SubmitLine": "sbatch -d afterok:1 run.sh"} for n, late in ((2, 71), (3, 400))]
    assert read(tmp_path, first, *jobs).table["eligible_s"].tolist() == [-1, -1, BEGIN + 400]


def test_a_job_without_stated_memory_gets_that_of_its_partition_or_is_counted(tmp_path: Path) -> None:
    site = read_site({"slurm.conf": CONF + "SelectTypeParameters=CR_CPU_Memory\n"}, "site")
    place = tmp_path / "sacct.txt"
    rows = [USUAL | {"ReqMem": "", "ReqTRES": ""}, USUAL | {"JobID": "8", "ReqMem": "", "ReqTRES": "", "Partition": "fast"}]
    place.write_text("\n".join("|".join(row) for row in (list(USUAL), *(row.values() for row in rows))) + "\n")
    jobs = read_slurm_jobs(place, site)
    assert jobs.table["memory_cpu"].tolist() == [1000, 0]
    assert "Jobs that state no memory, which the site counts: 1. They take none in replays." in jobs.notes


@pytest.mark.parametrize("option", ["-N 9{20}", "-a 1%9{20}", "--gres=gpu:9{20}", "-L x:9{20}", "-L x:many"])
def test_options_that_slurm_would_have_refused_break_no_replay(option: str, tmp_path: Path) -> None:
    jobs = read(tmp_path, {"SubmitLine": f"sbatch {option.replace('9{20}', '9' * 20)} run.sh"}).table
    assert len(replay(SITE, jobs, 1).start_s) == 1


def test_components_of_a_heterogeneous_job_have_their_own_options_and_start_together(tmp_path: Path) -> None:
    line = "sbatch -p main -n 8 : --partition=fast --exclusive run.sh"
    first, second = ({"JobID": f"7+{offset}", "JobIDRaw": f"{7 + offset}", "SubmitLine": line} for offset in (0, 1))
    waiting = [
        GONE | {"JobID": str(number), "JobIDRaw": str(number), "SubmitLine": line, "User": "bob"} for number in (20, 21, 30, 31)
    ]
    jobs = read(tmp_path, second | {"Partition": "fast"}, first, *waiting)
    table = jobs.table.set_index("job_id")
    assert table["het"].to_dict() == {"7+0": 7, "7+1": 7, "20": 20, "21": 20, "30": 30, "31": 30}
    assert table.loc[["7+0", "7+1"], ["partition", "exclusive", "group"]].to_numpy().tolist() == [
        ["main", False, 7],
        ["fast", True, 7],
    ]
    assert "Components of heterogeneous jobs, which start together: 6 of 3 jobs." in jobs.notes


def test_several_qos_are_read_where_the_release_lets_a_job_ask_for_them(tmp_path: Path) -> None:
    read(tmp_path, {"QOS": "high", "SubmitLine": "sbatch --qos=high,normal,gone run.sh"})
    texts = {"slurm.conf": CONF, "qos.txt": "Name|Priority\nnormal|0\nhigh|9\n"}
    sites = [read_site({**texts, "config.txt": f"slurm {release}"}, "site") for release in ("24.05.8", "24.11.0")]
    assert [read_slurm_jobs(tmp_path / "sacct.txt", site).table["other_qos"].tolist() for site in sites] == [[""], ["normal"]]
