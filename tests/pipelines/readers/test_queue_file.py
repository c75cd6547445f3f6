"""Snapshots of queues: squeue's text, a site's own table, and what is wrong in them."""

import json
from pathlib import Path

import pandas as pd
import pytest

from features.errors import InputError
from pipelines.readers.queue_file import asked_of, is_held, limited, queue_at, read_queue
from pipelines.studies.parity import read_site_jobs
from sim.slurm.files import read_site
from sim.slurm.requests import COLUMNS, OPTIONAL
from tests.conftest import SHARED, needs
from tests.sim.site.test_ahead import NOW_S, SITE, asked

SQUEUE = """JOBID|STATE|USER|PARTITION|CPUS|TIME_LIMIT|SUBMIT_TIME|START_TIME
12|PENDING|ann|batch|16|1-02:00:00|2026-03-29T01:30:00|2026-03-29T09:00:00
11_3|RUNNING|bob|batch|4|30:00|2026-03-29T00:10:00|2026-03-29T00:20:00
13|COMPLETING|bob|batch|4|30:00|2026-03-29T00:10:00|2026-03-29T00:20:00
14|PENDING|bob|debug|1|2:00:00|2026-03-29T03:30:00|N/A
"""


def test_squeue_is_read_with_the_sites_clock(tmp_path: Path) -> None:
    path = tmp_path / "squeue.txt"
    path.write_text(SQUEUE)
    queue = read_queue(path, "Europe/Stockholm")
    assert (queue.left_out, queue.jobs["job_id"].tolist()) == (1, ["11_3", "12", "14"])
    assert queue.jobs["runs"].tolist() == [True, False, False]
    assert queue.jobs["requested_s"].tolist() == [1800, 93_600, 7200]
    midnight = 1_774_738_800  # 2026-03-29 00:00 in Stockholm, where the clock skips from 2:00 to 3:00
    assert queue.jobs["submit_unix_s"].tolist() == [midnight + 600, midnight + 5400, midnight + 2 * 3600 + 1800]
    assert queue.jobs["start_unix_s"].iloc[0] == midnight + 1200
    assert queue.jobs["start_unix_s"].isna().tolist() == [False, True, True]


def test_what_a_slurm_site_needs_is_read_too_or_missed(tmp_path: Path) -> None:
    path = tmp_path / "squeue.txt"
    path.write_text(SQUEUE)
    assert read_queue(path, None).absent[:2] == ("account", "qos")
    head = "|".join(
        (*SQUEUE.splitlines()[0].split("|"), "ACCOUNT", "QOS", "TRES_ALLOC", "NODELIST", "REASON", "DEPENDENCY", "FEATURES")
    )
    line = "|{}|u|low|8|10:00|2026-03-29T00:10:00|{}|a|normal|cpu=8,mem=24000M,node=2,gres/gpu=4|{}|{}|{}|(null)\n"
    path.write_text(
        f"{head}\n"
        + "7_1" + line.format("RUNNING", "2026-03-29T00:20:00", "n[1-2]", "None", "(null)")
        + "7_2" + line.format("PENDING", "N/A", "", "JobArrayTaskLimit", "(null)")
        + "8" + line.format("PENDING", "2026-03-29T09:00:00", "", "BeginTime", "afterok:7_*(unfulfilled)")
    )  # fmt: skip
    queue = read_queue(path, "UTC")
    assert queue.absent == ()
    jobs = asked_of(queue.jobs, read_site({"slurm.conf": SITE}, "site")).set_index("job_id")
    assert {*COLUMNS, *OPTIONAL} <= {*jobs, "job_id"}, "beside a record that has them, a job without them would have holes"
    assert jobs["nodes"].tolist() == ["n[1-2]", "", ""]
    assert jobs[["min_nodes", "memory_node", "gpus"]].drop_duplicates().to_numpy().tolist() == [[2, 12_000, 2]]
    assert (jobs["group"].tolist(), jobs["task"].tolist(), jobs["throttle"].tolist()) == ([7, 7, 8], [1, 2, -1], [0, 1, 0])
    assert jobs.loc["8", ["after", "eligible_s"]].tolist() == ["7", 1_774_774_800]
    path.write_text(path.read_text().replace("(unfulfilled)|(null)", "(unfulfilled)|intel|amd"))
    queue = read_queue(path, "UTC")
    assert queue.jobs[["features", "after"]].iloc[-1].tolist() == ["intel|amd", "afterok:7_*(unfulfilled)"]
    with pytest.raises(InputError, match="job 7_1 is in the partition batch, which site does not name; known: low, high, other"):
        asked_of(queue.jobs.assign(queue="batch"), read_site({"slurm.conf": SITE}, "site"))


def of_site(path: Path, *jobs: str) -> Path:
    """A snapshot with a Slurm site's columns; ``jobs`` have id, state, tres, nodes, reason and dependency."""
    lines = [f"{SQUEUE.splitlines()[0]}|ACCOUNT|QOS|TRES_ALLOC|NODELIST|REASON|DEPENDENCY|FEATURES"]
    for job in jobs:
        name, state, tres, nodes, reason, after = job.split()
        start = "2026-03-29T00:20:00" if state == "RUNNING" else "N/A"
        lines.append(f"{name}|{state}|u|low|8|10:00|2026-03-29T00:10:00|{start}|a|normal|{tres}|{nodes}|{reason}|{after}|(null)")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    "job",
    [
        "7 PENDING billing=2,cpu=2,gres (null) Priority (null)",
        "7 PENDING billing=12,cpu=2,mem= (null) Priority (null)",
        "7 PENDING cpu=12,mem=300000000 (null) Priority (null)",
        "7 RUNNING cpu=8,mem=8G,node=2 n[1-2,14-1 None (null)",
        "7 PENDING cpu=8,mem=8G,node=2 (null) Dependency afterok:6(unfulfi",
    ],
)
def test_a_column_that_squeue_cut_is_refused_with_how_to_ask(tmp_path: Path, job: str) -> None:
    with pytest.raises(InputError, match=r"line 2: .* is cut: ask squeue for its whole width, --Format '.*:|"):
        read_queue(of_site(tmp_path / "squeue.txt", job), "UTC")


def test_tasks_that_share_a_line_are_jobs_with_their_arrays_limit(tmp_path: Path) -> None:
    rest = "cpu=8,mem=8G,node=1 (null) Priority (null)"
    path = of_site(tmp_path / "squeue.txt", f"500_[5-40%2] PENDING {rest}", f"600_[1-5:2,9] PENDING {rest}", f"7 PENDING {rest}")
    queue = read_queue(path, "UTC")
    assert queue.notes == ("Array tasks that share a line are read as jobs of their own: 40.",)
    jobs = asked_of(queue.jobs, read_site({"slurm.conf": SITE}, "site"))
    assert jobs.groupby("group")["task"].agg(list).to_dict() == {7: [-1], 500: [*range(5, 41)], 600: [1, 3, 5, 9]}
    assert jobs.groupby("group")["throttle"].agg(set).to_dict() == {7: {0}, 500: {2}, 600: {0}}


def test_components_of_a_heterogeneous_job_are_counted(tmp_path: Path) -> None:
    rest = "cpu=8,mem=8G,node=1 (null) Priority (null)"
    queue = read_queue(of_site(tmp_path / "squeue.txt", f"600+0 PENDING {rest}", f"600+1 PENDING {rest}"), "UTC")
    assert queue.notes == ("Components of heterogeneous jobs are predicted apart, and start together with the last of them: 2.",)


@pytest.mark.parametrize("parted", ["|", ","])
def test_a_name_that_begins_with_a_quote_swallows_no_line(tmp_path: Path, parted: str) -> None:
    path = tmp_path / "squeue.txt"
    path.write_text(SQUEUE.replace("|ann|", '|"ann|').replace("|debug|", '|debug"|').replace("|", parted))
    jobs = read_queue(path, None).jobs
    assert (len(jobs), set(jobs["user"])) == (3, {'"ann', "bob"})


def test_a_start_in_the_hour_that_autumn_repeats_is_after_its_submission(tmp_path: Path) -> None:
    path = tmp_path / "squeue.txt"
    path.write_text(SQUEUE + "15|RUNNING|ann|batch|4|30:00|2025-10-26T02:40:00|2025-10-26T02:10:00\n")
    job = read_queue(path, "Europe/Stockholm").jobs.iloc[0]
    assert job["start_unix_s"] - job["submit_unix_s"] == 1800


def test_jobs_without_a_limit_have_the_longest_of_their_partition_and_at_most_a_year(tmp_path: Path) -> None:
    path = tmp_path / "squeue.txt"
    path.write_text(SQUEUE.replace("1-02:00:00", "UNLIMITED").replace("2:00:00", "NOT_SET"))
    queue = read_queue(path, None)
    assert queue.notes == ("Jobs without a time limit are taken to have their partition's longest, at most a year: 2.",)
    site = read_site(
        {"slurm.conf": "NodeName=n1\nPartitionName=batch Nodes=n1 MaxTime=3:00:00\nPartitionName=debug Nodes=n1\n"}, "site"
    )
    year = 365 * 86_400
    assert limited(queue.jobs, site)["requested_s"].tolist() == [1800, 3 * 3600, year]
    assert limited(queue.jobs, None)["requested_s"].tolist() == [1800, year, year]


def test_a_table_with_commas_and_seconds_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "queue.csv"
    path.write_text("job_id,state,procs,requested_s,submit,start\n7,R,2,3600,2026-01-01T00:00:00,2026-01-01T00:00:05\n")
    job = read_queue(path, None).jobs.iloc[0]
    assert (job["requested_s"], job["procs"], job["user"], job["start_unix_s"]) == (3600, 2, None, 1_767_225_605)


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("15|RUNNING|a|b|4|30:00|2026-03-29T00:10:00|N/A", "line 6: job '15' runs and has no start"),
        ("15|PENDING|a|b|0|30:00|2026-03-29T00:10:00|N/A", "line 6: '0' is not a number of processors"),
        ("15|PENDING|a|b|4|soon|2026-03-29T00:10:00|N/A", "line 6: limit 'soon' is not a time such as 2:00:00"),
        ("15|PENDING|a|b|4|30:00|yesterday|N/A", "line 6: submit 'yesterday' is not a local time"),
        ("15|PENDING|a|b|4|30:00|2026-03-29T00:10:00", "line 6: 7 columns under a header of 8"),
        ("12|PENDING|a|b|4|30:00|2026-03-29T00:10:00|N/A", "job 12 appears twice"),
        (f"15|PENDING|a|b|{'9' * 5000}|30:00|2026-03-29T00:10:00|N/A", "line 6: '99.*' is not a number of processors"),
        (f"15|PENDING|a|b|{'x' * 140_000}|30:00|2026-03-29T00:10:00|N/A", "line 6: 'xx.*' is not a number of processors"),
        (
            "15_[1,7,...]|PENDING|a|b|4|30:00|2026-03-29T00:10:00|N/A",
            r"line 6: .*does not name all its tasks; run squeue with --array",
        ),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(tmp_path: Path, row: str, what: str) -> None:
    path = tmp_path / "squeue.txt"
    path.write_text(SQUEUE + row + "\n")
    with pytest.raises(InputError, match=what):
        read_queue(path, None)


@needs(SHARED / "slurm")
def test_accounting_tells_the_queue_that_squeue_showed() -> None:
    run = SHARED / "slurm/micro-1.sacct.txt"
    jobs = read_site_jobs(run, SHARED / "slurm/sites/micro", "UTC")[1].table
    seen = pd.read_csv(f"{run}.queue.gz", sep="|", header=None, usecols=[0, 1, 2], names=["s", "job_id", "state"])
    started = seen[seen["state"] == "RUNNING"].merge(jobs, on="job_id")
    began = int((started["start_s"] - started["s"]).max())
    counted = shown = wrong = 0
    for second in sorted(set(seen["s"]))[5::20]:
        there = seen[seen["s"] == second]
        queue = queue_at(jobs, began + second)
        for runs, state in ((True, "RUNNING"), (False, "PENDING")):
            theirs, ours = set(there["job_id"][there["state"] == state]), set(queue["job_id"][queue["runs"] == runs])
            shown, counted, wrong = shown + len(theirs), counted + len(ours), wrong + len(theirs ^ ours)
    assert min(shown, counted) > 200
    assert wrong < 0.02 * shown, "but what changed in the seconds that the sample took"


def test_a_queue_made_of_accounting_knows_nothing_of_later() -> None:
    jobs = asked(1, *[{"submit_s": NOW_S - 100, "start_s": NOW_S - 50, "end_s": NOW_S + 900, "nodes": "n1"}] * 6)
    jobs.loc[[1, 2, 3, 4], ["start_s", "nodes"]] = [[NOW_S + 60, "n2"], [-1, ""], [NOW_S + 60, "n2"], [-1, ""]]
    for row, column, late_s in ((2, "cancel_s", -1), (3, "eligible_s", 30), (4, "cancel_s", 5), (5, "end_s", 0)):
        jobs.loc[row, column] = NOW_S + late_s
    queue = queue_at(jobs, NOW_S)
    assert queue["job_id"].tolist() == jobs["job_id"].iloc[[0, 1, 3, 4]].tolist()
    assert queue["runs"].tolist() == [True, False, False, False]
    assert is_held(queue).tolist() == [False, False, True, False]
    assert queue["nodes"].tolist() == ["n1", "", "", ""]
    later = jobs.assign(
        **{name: jobs[name].where(jobs[name] <= NOW_S, jobs[name] + 7) for name in ("start_s", "end_s", "eligible_s", "cancel_s")}
    )
    pd.testing.assert_frame_equal(queue_at(later, NOW_S), queue)
    asked_of(queue, read_site({"slurm.conf": SITE}, "site"))


def test_a_task_that_becomes_eligible_while_others_of_its_array_run_is_not_held() -> None:
    runs, waits = {"start_s": NOW_S - 50, "end_s": NOW_S + 900, "nodes": "n1"}, {"eligible_s": NOW_S + 30}
    array, other = {"group": 7, "throttle": 0}, {"group": 9, "throttle": 0}
    jobs = asked(
        1, {**array, **runs, "task": 0}, {**array, **waits, "task": 1}, {**other, **waits, "task": 0}, {**waits, "task": -1}
    )
    queue = queue_at(jobs, NOW_S)
    assert queue["reason"].tolist() == ["", "JobArrayTaskLimit", "JobHeld", "JobHeld"], "a limit of the array lets one task run"


def test_a_job_that_becomes_eligible_with_its_reservation_is_not_held() -> None:
    jobs = asked(1, {"eligible_s": NOW_S + 30, "reservation": "course"}, {"eligible_s": NOW_S + 30})
    queue = queue_at(jobs.assign(end_s=-1), NOW_S)
    assert queue["reason"].tolist() == ["Reservation", "JobHeld"]
    assert is_held(queue).tolist() == [False, True]
    assert asked_of(queue, read_site({"slurm.conf": SITE}, "site"))["reservation"].tolist() == ["course", ""]


def test_a_waiting_job_of_several_qos_may_run_with_each_that_the_site_has(tmp_path: Path) -> None:
    path = of_site(tmp_path / "squeue.txt", "7+0 PENDING cpu=8,mem=8G,node=2 (null) Priority (null)")
    path.write_text(path.read_text().replace("|normal|", "|normal,high,gone|"))
    site = read_site({"slurm.conf": SITE, "qos.txt": "Name|Priority\nnormal|0\nhigh|9\n"}, "site")
    job = asked_of(read_queue(path, "UTC").jobs, site).iloc[0]
    assert (job["qos"], job["other_qos"], job["het"]) == ("high", "normal", 7)


def test_squeues_json_is_read_as_its_text(tmp_path: Path) -> None:
    path = of_site(
        tmp_path / "squeue.txt",
        "11_3 RUNNING cpu=8,mem=8G,node=2 n[1-2] None (null)",
        "500_[5-7%2] PENDING cpu=8,mem=8G,node=2 (null) Priority (null)",
        "37+1 PENDING cpu=8,mem=8G,node=2 (null) Dependency afterok:6",
    )
    usual = {
        "user_name": "u",
        "partition": "low",
        "account": "a",
        "qos": "normal",
        "cpus": {"set": True, "infinite": False, "number": 8},
    }
    usual |= {"time_limit": {"set": True, "infinite": False, "number": 10}, "submit_time": {"set": True, "number": 1_774_743_000}}
    usual |= {"tres_req_str": "cpu=8,mem=8G,node=2", "state_reason": "Priority", "dependency": "", "features": "", "nodes": ""}
    unset = {"set": False, "infinite": False, "number": 0}
    runs = {
        "job_id": 12,
        "job_state": ["RUNNING"],
        "array_job_id": 11,
        "array_task_id": {"set": True, "number": 3},
        "nodes": "n[1-2]",
    }
    waits = {
        "job_id": 500,
        "job_state": "PENDING",
        "array_job_id": 500,
        "array_task_id": unset,
        "array_task_string": "5-7",
        "array_max_tasks": 2,
    }
    part = {
        "job_id": 38,
        "job_state": ["PENDING"],
        "array_job_id": 0,
        "het_job_id": 37,
        "het_job_offset": {"set": True, "number": 1},
    }
    rows = [usual | runs | {"start_time": 1_774_743_600, "state_reason": "None"}, usual | waits, usual | part]
    rows[2] |= {"state_reason": "Dependency", "dependency": "afterok:6"}
    (tmp_path / "squeue.json").write_text(json.dumps({"jobs": rows, "meta": {}}))
    pd.testing.assert_frame_equal(read_queue(tmp_path / "squeue.json", "UTC").jobs, read_queue(path, "UTC").jobs)
    (tmp_path / "squeue.json").write_text(json.dumps({"nodes": []}))
    with pytest.raises(InputError, match=r"squeue\.json: is JSON, but not that of squeue --json: KeyError\('jobs'\)"):
        read_queue(tmp_path / "squeue.json", "UTC")
    (tmp_path / "squeue.json").write_text(json.dumps({"jobs": [rows[1] | {"submit_time": 10**17}]}))
    with pytest.raises(InputError, match=r"squeue\.json: is JSON, but not that of squeue --json"):
        read_queue(tmp_path / "squeue.json", "UTC")


def test_priorities_are_numbers_where_they_are_told(tmp_path: Path) -> None:
    path, lines = tmp_path / "squeue.txt", SQUEUE.splitlines()
    with_priority = [f"{line}|{value}" for line, value in zip(lines, ["PRIORITY", "40000", "N/A", "7", "0.25"], strict=True)]
    path.write_text("\n".join(with_priority))
    assert sorted(read_queue(path, None).jobs["priority"].dropna()) == [0.25, 40_000.0]
    path.write_text(SQUEUE)
    assert read_queue(path, None).jobs["priority"].isna().all()
    path.write_text("\n".join(with_priority).replace("40000", "high"))
    with pytest.raises(InputError, match="line 2: 'high' is not a priority"):
        read_queue(path, None)
