"""``queuecast variability ingest``: what it says of what came in, its exit codes, and one line for what it cannot do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pipelines.lake.counters import CountersStore
from pipelines.lake.run_store import PROBE_RESULTS, RUNS, application_types, stored
from pipelines.lake.tables import Lake
from tests.support.command import queuecast

HEAD = "#Time,Time_usec,ProducerName,component_id,job_id"


def ingest(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return queuecast("variability", "ingest", *arguments, home=place / "home", cwd=place)


def site(place: Path) -> None:
    """A small site: two samplers' logs, control runs, probes, types and accounting."""
    (place / "logs").mkdir()
    for hour in (0, 1):
        rows = [
            f"{1_507_680_000 + 3600 * hour + when}.000000,0,n{node},1,0,{when},7" for when in range(0, 50, 10) for node in (1, 2)
        ]
        (place / "logs" / f"sysclassib.{1_507_680_000 + 3600 * hour}").write_text(
            "\n".join([f"{HEAD},port_xmit_data#hfi1_0.1,symbol_error#hfi1_0.1", *rows]) + "\n"
        )
    (place / "logs" / "opa_info").write_text(f"{HEAD},xmit_data\n1507680000.5,500000,n1,1,0,\n1507680000.5,500000,n1,1,0,\n")
    (place / "runs.csv").write_text("run_id,application,input,nodes,start_s,runtime_s\nr1,AMG,x,n1 n2,1507680300,60\n")
    (place / "probes.csv").write_text("run_id,node,send_s,recv_s,allreduce_s\nr1,n1,0.1,0.2,0.3\n")
    (place / "types.csv").write_text("application,type\nAMG,network\n")
    (place / "sacct.txt").write_text(
        "JobID|JobName|NodeList|Start|Elapsed|State\n7|ctl_LBANN|n[1-2]|2017-10-11T00:10:00|00:01:00|COMPLETED\n"
        "8|other|n[1-2]|2017-10-11T00:10:00|00:01:00|COMPLETED\n"
    )


@pytest.mark.slow
def test_everything_of_a_site_comes_in_and_a_second_time_changes_nothing(tmp_path: Path) -> None:
    site(tmp_path)
    arguments = ("--system", "quartz", "--counters", "logs", "--runs", "runs.csv", "--probes", "probes.csv", "--types", "types.csv")
    arguments += ("--accounting", "sacct.txt", "--job-name", "ctl_(?P<application>[A-Z]+)", "--time-zone", "UTC")
    done = ingest(tmp_path, *arguments)
    assert done.returncode == 0, done.stderr
    words = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line[:1].isalpha()}
    assert words["sysclassib"] == ["2", "20", "40", "0", "2", "1", "0", "0"]
    assert words["opa_info"] == ["1", "2", "0", "2", "1", "1", "1", "0"]
    assert "3 files read, 0 read on, 0 known, 0 quarantined" in done.stderr
    assert "sacct.txt: 1 control runs: 1 new, 0 known; left out: another job name 1" in done.stderr
    lake = Lake(tmp_path / "home" / "lake")
    store = CountersStore(lake.root, "quartz")
    assert store.metrics("sysclassib") == ("port_xmit_data", "symbol_error")
    assert sum(batch.num_rows for batch in store.batches("sysclassib")) == 20
    assert stored(lake, RUNS, "quartz")["run_id"].tolist() == ["7", "r1"]
    assert stored(lake, RUNS, "quartz")["nodes"].tolist() == [["n1", "n2"], ["n1", "n2"]]
    assert len(stored(lake, PROBE_RESULTS, "quartz")) == 1
    assert application_types(lake, "quartz") == {"AMG": "network"}
    files = {path: path.read_bytes() for path in lake.root.rglob("*") if path.is_file()}
    again = ingest(tmp_path, *arguments)
    assert again.returncode == 0
    assert "0 files read, 0 read on, 3 known, 0 quarantined" in again.stderr
    assert {path: path.read_bytes() for path in lake.root.rglob("*") if path.is_file()} == files


def test_a_broken_file_is_shown_with_its_reason_and_the_exit_code_is_2(tmp_path: Path) -> None:
    site(tmp_path)
    (tmp_path / "logs" / "lustre2_client").write_text(f"{HEAD},open\n1,0,n1,1,0,5\n2,0,n1,1,0,[bold]\n")
    done = ingest(tmp_path, "--system", "quartz", "--counters", "logs")
    assert done.returncode == 2
    assert "1 quarantined" in done.stderr
    assert "[bold]' is no row" in done.stderr
    assert CountersStore(tmp_path / "home" / "lake", "quartz").samplers == ("opa_info", "sysclassib")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), "nothing to read: give --counters, --runs, --accounting, --probes, --types or --topology"),
        (("--runs", "runs.csv", "--counters", "nowhere"), "nowhere: no such file"),
        (("--counters", "empty"), "empty: holds no file"),
        (("--runs", "types.csv"), "types.csv: the header line has no column run_id, only application, type"),
        (
            ("--job-name", "(?P<application>.+)"),
            "--job-name needs --accounting: it says which of its jobs are control runs",
        ),
        (
            ("--types", "types.csv", "--probes", "runs.csv"),
            "runs.csv: the header line has no column node, only run_id, application, input",
        ),
        (("--system", "My Cluster"), "--system: 'My Cluster' is not a name (such as my-cluster)"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_leaves_nothing(tmp_path: Path, arguments: tuple[str, ...], error: str) -> None:
    site(tmp_path)
    (tmp_path / "empty").mkdir()
    done = ingest(tmp_path, "--system", "quartz", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"queuecast: {error}")
    assert done.stderr.count("\n") == 1
    assert not list((tmp_path / "home").rglob("*.parquet"))
