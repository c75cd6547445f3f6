"""``--dependencies``: jobs that follow others are submitted when these have ended."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from tests.pipelines.cli.test_cli import SWF
from tests.support.command import queuecast


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
