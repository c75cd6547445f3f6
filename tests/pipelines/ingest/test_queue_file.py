"""Snapshots of queues: squeue's text, a site's own table, and what is wrong in them."""

from pathlib import Path

import pytest

from features.errors import InputError
from pipelines.ingest.queue_file import asked_of, read_queue
from sim.slurm.files import read_site
from tests.sim.test_site_ahead import SITE

SQUEUE = """JOBID|STATE|USER|PARTITION|CPUS|TIME_LIMIT|SUBMIT_TIME|START_TIME
12|PENDING|ann|batch|16|1-02:00:00|2026-03-29T01:30:00|2026-03-29T09:00:00
11_3|RUNNING|bob|batch|4|30:00|2026-03-29T00:10:00|2026-03-29T00:20:00
13|COMPLETING|bob|batch|4|30:00|2026-03-29T00:10:00|2026-03-29T00:20:00
14|PENDING|bob|debug|1|2:00:00|2026-03-29T03:30:00|N/A
"""


def test_squeue_is_read_with_the_sites_clock(tmp_path: Path) -> None:
    path = tmp_path / "squeue.txt"
    path.write_text(SQUEUE)
    found = read_queue(path, "Europe/Stockholm")
    assert (found.left_out, found.jobs["job_id"].tolist()) == (1, ["11_3", "12", "14"])
    assert found.jobs["runs"].tolist() == [True, False, False]
    assert found.jobs["requested_s"].tolist() == [1800, 93_600, 7200]
    midnight = 1_774_738_800  # 2026-03-29 00:00 in Stockholm, where the clock skips from 2:00 to 3:00
    assert found.jobs["submit_unix_s"].tolist() == [midnight + 600, midnight + 5400, midnight + 2 * 3600 + 1800]
    assert found.jobs["start_unix_s"].iloc[0] == midnight + 1200
    assert found.jobs["start_unix_s"].isna().tolist() == [False, True, True]


def test_what_a_slurm_site_needs_is_read_too_or_missed(tmp_path: Path) -> None:
    path = tmp_path / "squeue.txt"
    path.write_text(SQUEUE)
    assert read_queue(path, None).absent[:2] == ("account", "qos")
    head = "|".join(
        (*SQUEUE.splitlines()[0].split("|"), "ACCOUNT", "QOS", "TRES_ALLOC", "NODELIST", "REASON", "FEATURES", "DEPENDENCY")
    )
    line = "|{}|u|low|8|10:00|2026-03-29T00:10:00|{}|a|normal|cpu=8,mem=24000M,node=2,gres/gpu=4|{}|{}|(null)|{}\n"
    path.write_text(
        f"{head}\n"
        + "7_1" + line.format("RUNNING", "2026-03-29T00:20:00", "n[1-2]", "None", "(null)")
        + "7_2" + line.format("PENDING", "N/A", "", "JobArrayTaskLimit", "(null)")
        + "8" + line.format("PENDING", "2026-03-29T09:00:00", "", "BeginTime", "afterok:7_*(unfulfilled)")
    )  # fmt: skip
    queue = read_queue(path, "UTC")
    assert queue.absent == ()
    found = asked_of(queue.jobs, read_site({"slurm.conf": SITE}, "site")).set_index("job_id")
    assert found["nodes"].tolist() == ["n[1-2]", "", ""]
    assert found[["min_nodes", "memory_node", "gpus"]].drop_duplicates().to_numpy().tolist() == [[2, 12_000, 2]]
    assert (found["group"].tolist(), found["task"].tolist(), found["throttle"].tolist()) == ([7, 7, 8], [1, 2, -1], [0, 1, 0])
    assert found.loc["8", ["after", "eligible_s"]].tolist() == ["7", 1_774_774_800]
    with pytest.raises(InputError, match="job 7_1 is of the partition batch, which site does not name; known: low, high, other"):
        asked_of(queue.jobs.assign(queue="batch"), read_site({"slurm.conf": SITE}, "site"))


def test_a_table_with_commas_and_seconds_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "queue.csv"
    path.write_text("job_id,state,procs,requested_s,submit,start\n7,R,2,3600,2026-01-01T00:00:00,2026-01-01T00:00:05\n")
    found = read_queue(path, None).jobs.iloc[0]
    assert (found["requested_s"], found["procs"], found["user"], found["start_unix_s"]) == (3600, 2, None, 1_767_225_605)


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("15|RUNNING|a|b|4|30:00|2026-03-29T00:10:00|N/A", "line 6: job '15' runs and has no start"),
        ("15|PENDING|a|b|0|30:00|2026-03-29T00:10:00|N/A", "line 6: '0' is no number of processors"),
        ("15|PENDING|a|b|4|soon|2026-03-29T00:10:00|N/A", "line 6: limit 'soon' is no time such as 2:00:00"),
        ("15|PENDING|a|b|4|30:00|yesterday|N/A", "line 6: submit 'yesterday' is no local time"),
        ("15|PENDING|a|b|4|30:00|2026-03-29T00:10:00", "line 6: 7 columns under a header of 8"),
        ("12|PENDING|a|b|4|30:00|2026-03-29T00:10:00|N/A", "job 12 is there twice"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(tmp_path: Path, row: str, what: str) -> None:
    path = tmp_path / "squeue.txt"
    path.write_text(SQUEUE + row + "\n")
    with pytest.raises(InputError, match=what):
        read_queue(path, None)


def test_a_table_without_limits_is_refused_with_the_command_that_makes_one(tmp_path: Path) -> None:
    path = tmp_path / "squeue.txt"
    path.write_text("JOBID|STATE\n")
    with pytest.raises(InputError, match=r"line 1: no column cpus or procs: squeue --all --array"):
        read_queue(path, None)
