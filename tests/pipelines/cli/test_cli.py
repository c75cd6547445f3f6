"""The command line as a user meets it: output, exit codes, one line for bad input; as whole processes, and in this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import SHARED, needs_shared
from tests.support.command import queuecast

SWF = """; UnixStartTime: 843480031
; TimeZoneString: Europe/Stockholm
; MaxProcs: 4
1 0 -1 100 2 -1 -1 2 200 -1 1 1 1 -1 -1 -1 -1 -1
2 10 -1 100 4 -1 -1 4 100 -1 1 2 1 -1 -1 -1 -1 -1
3 20 -1 50 2 -1 -1 2 60 -1 1 1 1 -1 -1 -1 -1 -1
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "small.swf"
    path.write_text(SWF)
    return path


HEAVY = ("dagster", "fastapi", "starlette", "mlflow", "lightgbm", "matplotlib", "scipy.linalg", "scipy.special", "sklearn")
"""What ``simulate`` does without once its kernel is compiled: it would take longer to import than to simulate."""


@pytest.mark.slow
def test_json_is_one_object_a_line_and_nothing_else_and_nothing_heavy_is_imported_for_it(trace: Path, tmp_path: Path) -> None:
    asked = ["--scheduler", "EASY", "--scheduler", "EASY-SJBF", "--predictor", "requested", "--predictor", "clairvoyant"]
    code = f"""
import runpy, sys
sys.argv = ["queuecast", "simulate", {str(trace)!r}, *{asked!r}, "--json"]
runpy.run_module("pipelines", run_name="__main__")
print(set({HEAVY!r}) & {{*sys.modules}} or "nothing heavy", file=sys.stderr)
"""
    environment = {**os.environ, "QUEUECAST_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "nothing heavy"
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["scheduler"], row["predictor"]) for row in rows] == [
        ("EASY", "requested"),
        ("EASY", "clairvoyant"),
        ("EASY-SJBF", "requested"),
        ("EASY-SJBF", "clairvoyant"),
    ]
    identity = {"trace", "scheduler", "predictor", "correction", "semantics", "starvation_s", "seed", "procs", "tau_s"}
    metrics = {"jobs", "mean_wait_s", "mean_response_s", "mean_slowdown", "mean_bounded_slowdown", "max_bounded_slowdown", "awf_s"}
    metrics |= {"p2sf_s", "utilization", "makespan_s", "underpredicted_jobs", "corrections", "clamped_predictions", "simulate_s"}
    assert identity | metrics <= rows[0].keys()
    # by hand: job 1 runs 0-100; job 2 needs the whole machine and is promised 200; job 3 fits beside job 1 and ends by 200
    assert rows[0]["mean_wait_s"] == pytest.approx((0 + 90 + 0) / 3)
    assert rows[0]["trace"] == "small"
    assert rows[0]["procs"] == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "import runpy; sys.argv = ['queuecast', 'simulate', 'kth-sp2', '--scheduler', 'EASY']; runpy.run_module('pipelines', run_name='__main__')",
        "import queuecast; print(queuecast.read('kth-sp2'))",
    ],
    ids=["simulate", "read"],
)
def test_what_makes_no_table_of_jobs_imports_no_pandas(code: str, tmp_path: Path) -> None:
    code = f"import sys; {code}; print({{'pandas', 'pyarrow', 'scipy.linalg'}} & {{*sys.modules}})"
    environment = {**os.environ, "QUEUECAST_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "28,467 jobs on 100 processors" in done.stdout
    assert done.stdout.splitlines()[-1] == "set()"


def test_schedule_out_has_every_job_of_every_combination(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    done = queuecast(
        "simulate", str(trace), "--scheduler", "EASY", "--scheduler", "Strict", "--schedule-out", str(out), home=tmp_path
    )
    assert done.returncode == 0, done.stderr
    table = pd.read_parquet(out)
    expected = ["scheduler", "predictor", "job_id", "submit_s", "start_s", "end_s", "procs", "predicted_s", "corrections"]
    assert list(table.columns) == expected
    assert table.groupby("scheduler").size().to_dict() == {"EASY": 3, "Strict": 3}
    easy = table[table["scheduler"] == "EASY"].set_index("job_id")["start_s"]
    assert easy.to_dict() == {1: 0, 2: 100, 3: 20}
    strict = table[table["scheduler"] == "Strict"].set_index("job_id")["start_s"]
    assert strict.to_dict() == {1: 0, 2: 100, 3: 200}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--correction", "requested", "--correction", "tsafrir"), "takes one --correction, not requested, tsafrir"),
        (
            ("--scheduler", "EASY", "--scheduler", "List", "--scheduler", "EASY"),
            "takes each --scheduler once; EASY is given twice",
        ),
        (("--predictor", "last2", "--predictor", "last2"), "takes each --predictor once; last2 is given twice"),
    ],
)
def test_schedules_that_rows_would_not_tell_apart_are_refused_before_anything_runs(
    trace: Path, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    out = tmp_path / "out.parquet"
    done = queuecast("simulate", str(trace), *arguments, "--schedule-out", str(out), home=tmp_path)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith(f"queuecast: --schedule-out {words}")
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--scheduler", "ESAY"], ["unknown scheduler 'ESAY'", "did you mean EASY?"]),
        (["--scheduler", "Conservative", "--starvation", "5"], ["so a starvation threshold changes nothing"]),
        (["--predictor", "oracle"], ["unknown predictor 'oracle'", "clairvoyant", "last2"]),
        (["--correction", "later"], ["unknown correction 'later'", "requested", "tsafrir"]),
        (["--procs", "1"], ["no job of 3 is left", "wider-than-machine"]),
        (["--frobnicate"], ["--frobnicate"]),
    ],
)
def test_bad_arguments_get_one_line_and_exit_code_two(trace: Path, tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    done = queuecast("simulate", str(trace), *arguments, home=tmp_path)
    assert done.returncode == 2
    complaint = done.stderr.splitlines()[-1]
    assert complaint.startswith("queuecast: ")
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in complaint
    assert done.stdout == ""


@needs_shared
def test_the_published_slowdowns_come_out_of_the_command_line(tmp_path: Path) -> None:
    path = SHARED / "traces" / "KTH-SP2-filtered.swf.gz"
    done = queuecast("simulate", str(path), "--scheduler", "EASY", "--scheduler", "EASY-SJBF", "--json", home=tmp_path)
    assert done.returncode == 0, done.stderr
    slowdowns = [round(json.loads(line)["mean_bounded_slowdown"], 4) for line in done.stdout.splitlines()]
    assert slowdowns == [92.6877, 69.3936]
