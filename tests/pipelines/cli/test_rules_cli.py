"""``queuecast parity TRACE`` and ``queuecast whatif TRACE``, on a log that a known rule decided."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import queuecast
from features.clock import DAY_S
from features.jobs.schema import conform
from pipelines.cli import cli
from sim.rules import infer
from sim.rules.infer import replayed
from sim.rules.rule import MONDAY_S, Rule

HOUR_S = 3600
PLANTED = Rule(8, closings=tuple(day * DAY_S + 8 * HOUR_S for day in range(7)), origin_s=MONDAY_S)
TWO = ["--only", "no closings", "--only", "a tenth more nodes"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    count, rng = 900, np.random.default_rng(5)
    requested = rng.choice([HOUR_S, 3 * HOUR_S, 10 * HOUR_S], count)
    columns = {
        "job_id": np.arange(1, count + 1),
        "submit_s": np.sort(rng.integers(0, 100 * DAY_S, count)),
        "runtime_s": np.maximum((requested * rng.random(count)).astype(np.int64), 1),
        "procs": rng.integers(1, 6, count),
        "requested_s": requested,
        "user": rng.integers(1, 8, count).astype(str),
    }
    jobs = conform(columns, count).astype(dict.fromkeys(list(columns)[:5], "int64"))
    rows = jobs.assign(wait_s=replayed(PLANTED, jobs).astype(int))
    lines = [
        f"{job.job_id} {job.submit_s} {job.wait_s} {job.runtime_s} {job.procs} -1 -1 {job.procs} {job.requested_s} -1 1 {job.user} 1 -1 1 1 -1 -1"
        for job in rows.itertuples()
    ]
    path = tmp_path_factory.mktemp("log") / "planted.swf"
    path.write_text("\n".join([f"; UnixStartTime: {MONDAY_S}", "; MaxProcs: 8", *lines, ""]))
    return path


@pytest.fixture(autouse=True)
def few_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read hours from few jobs, and try few of the many changes of a rule."""
    monkeypatch.setattr(infer, "_LEAST", 5)
    monkeypatch.setattr(infer, "_COLUMNS", (("user",),))
    monkeypatch.setattr(infer, "_MOST", {"jobs": (2,)})
    monkeypatch.setattr(infer, "_PER_REQUESTED", (0,))


def ran(*arguments: str) -> str:
    result = CliRunner().invoke(cli, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.slow
def test_parity_finds_the_rule_that_decided_the_log(log: Path) -> None:
    parity = json.loads(ran("parity", str(log), "--json"))
    assert [parity["rule"][name] for name in ("procs", "algorithm", "limits")] == [8, "EASY", []]
    assert set(PLANTED.closings) <= set(parity["rule"]["closings"])
    inferred, others = parity["rules"][-1], parity["rules"][:-1]
    assert inferred["correlation"] > 0.95 > 0.8 > max(each["correlation"] for each in others)
    assert inferred["decisions"] > 0.95


@pytest.mark.slow
def test_whatif_changes_the_rule_and_says_what_it_leaves_unexplained(log: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    printed = ran("whatif", str(log), *TWO, "--replicates", "3", "--report", str(page), "--json")
    *effects, summary = [json.loads(line) for line in printed.splitlines()]
    wait = {each["candidate"]: each for each in effects if each["metric"] == "mean_wait_s"}
    assert wait["no closings"]["verdict"] == "better"
    assert wait["no closings"]["change"] < -0.4
    assert wait["no closings"]["low"] < wait["no closings"]["replays_low"] < wait["no closings"]["replays_high"]
    assert wait["no closings"]["lines"] == ["# closings: none"]
    assert 0 <= summary["unexplained"] < 0.2
    assert summary["replayed_mean_wait_s"] == pytest.approx(summary["recorded_mean_wait_s"], rel=0.1)
    assert "of the recorded waiting unexplained" in summary["answer"][1]
    assert "a rule inferred from the earlier part" in page.read_text()
    assert "A job starts only if it is planned to end by the next of" in page.read_text()
    table = queuecast.whatif(log, only=TWO[1::2], replicates=3)
    assert table.attrs["answer"].splitlines() == summary["answer"]
    pd.testing.assert_frame_equal(table, pd.DataFrame(effects))
    panels = queuecast.plot(table).axes
    assert [panel.lines[1].get_xdata()[0] for panel in panels] == [100 * each["change"] for each in effects[:4]]


def test_a_rule_takes_no_machine_and_processors(log: Path) -> None:
    result = CliRunner().invoke(cli, ["whatif", str(log), "--machine", str(log.parent), "--procs", "8"])
    assert result.exit_code == 1
    assert str(result.exception).endswith("give no --procs")
