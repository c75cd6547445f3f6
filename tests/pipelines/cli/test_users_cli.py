"""``--users``, ``--load`` and ``--squeeze`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.support.command import queuecast

LINE = "{} {} {} 50 4 -1 -1 4 60 -1 1 {} 1 -1 -1 -1 -1 -1\n"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """One user, three jobs one after the other by their recorded waits of 0 s, another user's in between."""
    path = tmp_path / "users.swf"
    rows = [(1, 0, 0, 1), (2, 10, 45, 2), (3, 60, 50, 1), (4, 5000, 0, 1)]
    path.write_text("; MaxProcs: 4\n" + "".join(LINE.format(*row) for row in rows))
    return path


def test_users_who_react_submit_after_ends_and_the_trace_is_called_so(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    done = queuecast(
        "simulate", str(trace), "--users", "closed", "--load", "2", "--json", "--schedule-out", str(out), home=tmp_path
    )
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert (row["trace"], row["users"], row["load"], row["squeeze"]) == ("users (users closed, load 2)", "closed", 2.0, 1.0)
    assert "2 reacting users, in 4 batches: 2 of 4 jobs are submitted when batches have ended" in done.stderr
    # job 1 runs 0-50, job 2 (at 5) 50-100; job 3 is submitted 10/2 s after 50 and runs 100-150; job 4 (5000 - 160)/2 s after that
    assert pd.read_parquet(out)["submit_s"].tolist() == [0, 5, 55, 2570]
