"""Refusals of the command line before any work: lost files, bad numbers, corrections."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pipelines.cli.test_cli import SWF, trace
from tests.support.command import queuecast

__all__ = ["trace"]  # the fixture
GOLDEN = Path(__file__).parents[2] / "golden" / "slurm"


@pytest.mark.parametrize(
    "arguments",
    [
        ["campaign", "TRACE", "--out", "TRACE"],
        ["campaign", "TRACE", "--out", "x.parquet", "--table", "TRACE"],
        ["simulate", "TRACE", "--schedule-out", "TRACE"],
        ["parity", "TRACE", "--machine", "SITE", "--report", "TRACE"],
        ["parity", "TRACE", "--machine", "SITE", "--report", "SITE/slurm.conf"],
        ["whatif", "TRACE", "--machine", "SITE", "--report", "TRACE"],
        ["simulate", "mine", "--schedule-out", "TRACE"],
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_what_is_read_is_never_overwritten(
    trace: Path, tmp_path: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "slurm.conf").touch()
    (tmp_path / "queuecast.toml").write_text(f'[traces.mine]\nplace = "{trace}"\n')
    given = (part.replace("TRACE", str(trace)).replace("SITE", str(tmp_path / "site")) for part in arguments)
    done = queuecast(*given, home=tmp_path)
    assert done.returncode == 2
    assert "would overwrite an input" in done.stderr.splitlines()[-1]
    assert trace.read_text() == SWF


def test_two_outputs_do_not_overwrite_each_other_and_go_where_they_can(trace: Path, tmp_path: Path) -> None:
    both = str(tmp_path / "x")
    done = queuecast("campaign", str(trace), "--out", both, "--table", both, home=tmp_path)
    assert done.returncode == 2
    assert "is also the file of --out" in done.stderr
    nowhere = str(trace / "x.html")  # below a file
    done = queuecast("campaign", str(trace), "--out", both, "--table", nowhere, home=tmp_path)
    assert done.returncode == 2
    assert "is not a writable directory" in done.stderr.splitlines()[-1]
    assert not Path(both).exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("--load", "3", "--shake", "--users", "closed", "--starvation", "5"),
            "a replay of a Slurm site takes no --starvation, --shake, --users, --load",
        ),
        (("--predictor", "clairvoyant", "--correction", "nonsense"), "Slurm site takes no --predictor, --correction"),
        (("--schedule-out", "foo.txt"), "--schedule-out foo.txt: schedules are written as Parquet"),
        (("--scheduler", "EASY"), "is a Slurm site, which runs under --scheduler Slurm alone"),
    ],
)
def test_a_replay_of_a_site_refuses_what_it_does_not_use(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    site = ("simulate", f"{GOLDEN / 'tiers-A.txt'}", "--machine", f"{GOLDEN / 'tiers-A'}", "--time-zone", "UTC")
    done = queuecast(*site, "--scheduler", "Slurm", *arguments, home=tmp_path / "home", cwd=tmp_path)
    assert (done.returncode, done.stdout, [*tmp_path.iterdir()]) == (2, "", [])
    [line] = done.stderr.splitlines()
    assert words in line


@pytest.mark.parametrize("scheduler", ["Slurm", "EASY"])
def test_a_campaign_names_the_commands_that_replay_a_site(tmp_path: Path, scheduler: str) -> None:
    asked = (f"{GOLDEN / 'tiers-A.txt'}", "--machine", f"{GOLDEN / 'tiers-A'}", "--scheduler", scheduler, "--out", "c.parquet")
    done = queuecast("campaign", *asked, home=tmp_path / "home", cwd=tmp_path)
    assert (done.returncode, [*tmp_path.iterdir()]) == (2, [])
    assert re.search("site.* which only queuecast simulate.*, parity and whatif replay", done.stderr.splitlines()[-1])
