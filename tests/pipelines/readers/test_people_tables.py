"""``--predictor table:FILE`` and ``--dependencies``: what people bring to the command line, and what it says to what it cannot use."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from pipelines.readers.people_tables import table_predictor
from tests.pipelines.cli.test_cli import SWF, trace
from tests.support.command import queuecast
from tests.support.refusals import refusal

__all__ = ["trace"]  # the fixture

GOOD = "job_id,predicted_s\n1,100\n2,100\n3,50\n"


def test_a_table_of_the_runtimes_is_clairvoyant_in_csv_and_in_parquet(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(GOOD)
    pd.DataFrame({"predicted_s": [50.0, 100.0, 100.0, 7.0], "job_id": [3, 1, 2, 99]}).to_parquet(tmp_path / "p.parquet")
    names = [f"table:{tmp_path / 'p.csv'}", f"table:{tmp_path / 'p.parquet'}", "clairvoyant"]
    done = queuecast("simulate", str(trace), *(part for name in names for part in ("--predictor", name)), "--json", home=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["predictor"] for row in rows] == names
    for row in rows:
        assert row["mean_wait_s"] == rows[2]["mean_wait_s"]
        assert (row["underpredicted_jobs"], row["clamped_predictions"]) == (0, 0)


def test_predictions_outside_one_and_the_request_are_clamped_and_counted(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("job_id,predicted_s\n1,0\n2,-7\n3,100000\n")
    out = tmp_path / "out.parquet"
    arguments = ("--predictor", f"table:{tmp_path / 'p.csv'}", "--json", "--schedule-out", str(out))
    done = queuecast("simulate", str(trace), *arguments, home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["clamped_predictions"] == 3
    assert pd.read_parquet(out)["predicted_s"].tolist() == [1, 1, 60]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("job_id,predicted_s\n1,100\n2,nan\n3,50\n", "p.csv:3: predicted_s 'nan' is not a number of seconds"),
        ("job_id,predicted_s\n1,100\n2,1h\n3,50\n", "p.csv:3: predicted_s '1h' is not a number of seconds"),
        ("job_id,predicted_s\n1,100\nx,3\n3,50\n", "p.csv:3: job_id 'x' is not a job's number"),
        (f"job_id,predicted_s\n1,1\n{'9' * 20},5\n", f"p.csv:3: job_id '{'9' * 20}' is not a job's number"),
        ("job_id,predicted_s\n1,100\n2,3\n3,50\n2,4\n", "p.csv:5: job_id '2' is given before"),
        ("job_id,predicted_s\n1,100\n3,50\n", "p.csv:1: predicts nothing for 1 of 3 jobs, the first is job 2"),
        ("job,predicted_s\n1,100\n", "p.csv:1: lacks the column job_id"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_by_file_and_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "p.csv").write_text(text)
    message = refusal(table_predictor, f"table:{tmp_path / 'p.csv'}", pd.DataFrame({"job_id": [1, 2, 3]}))
    assert message.startswith(f"{tmp_path}/{words}")


def test_a_command_refuses_a_table_and_says_nothing_else(trace: Path, tmp_path: Path) -> None:
    done = queuecast("simulate", str(trace), "--predictor", f"table:{tmp_path / 'p.csv'}", home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "p.csv: no such file" in done.stderr.splitlines()[-1]


def test_conditional_correction_is_refused_where_there_is_nobody_to_ask(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("job_id,predicted_s\n1,10\n2,100\n3,50\n")
    arguments = ("--predictor", f"table:{tmp_path / 'p.csv'}", "--correction", "conditional")
    done = queuecast("simulate", str(trace), *arguments, home=tmp_path)
    assert done.returncode == 2
    assert "is a table of one answer a job" in done.stderr.splitlines()[-1]


def test_followers_are_submitted_after_their_think_time_and_what_was_made_of_the_columns_is_said(tmp_path: Path) -> None:
    followed = SWF.replace("3 20 -1 50 2 -1 -1 2 60 -1 1 1 1 -1 -1 -1 -1 -1", "3 20 -1 50 2 -1 -1 2 60 -1 1 1 1 -1 -1 -1 1 30")
    path = tmp_path / "follow.swf"
    path.write_text(followed + "4 25 -1 5 1 -1 -1 1 9 -1 1 1 1 -1 -1 -1 77 -1\n")
    out = tmp_path / "out.parquet"
    done = queuecast("simulate", str(path), "--dependencies", "--json", "--schedule-out", str(out), home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["dependencies"] is True
    assert "1 jobs are submitted when the job they name has ended" in done.stderr
    assert "1 jobs name a preceding job that the trace lacks" in done.stderr
    assert pd.read_parquet(out)["submit_s"].tolist() == [0, 10, 130, 25]  # job 1 ends at 100
