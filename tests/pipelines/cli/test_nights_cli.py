"""``queuecast nights``: which nights, where they go on, and what it says to what it cannot do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import mlflow
import pytest

from features.jobs.schema import Trace
from pipelines.lake.tables import Lake
from pipelines.readers.canonical import write_canonical
from tests.support.arriving import arriving
from tests.support.command import queuecast
from tests.support.modes import open_to_others

pytestmark = pytest.mark.usefixtures("undrawn_pictures", "quick_methods")


def nights(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command at a site whose registry does not answer: a replay must not touch it, not even ask for it."""
    nowhere, before = "http://127.0.0.1:9/", mlflow.get_tracking_uri()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", nowhere)
        patch.setattr("models.registry.tracking._SITE", nowhere)
        try:
            return queuecast("nights", str(path), *arguments, home=path.parent / "home", cwd=path.parent)
        finally:
            mlflow.set_tracking_uri(before)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("nights") / "arriving.parquet"
    workload = arriving(jobs=1500)
    write_canonical(Trace("arriving", workload.jobs, workload.procs, workload.origin_unix_s, workload.timezone), path)
    return path


@pytest.mark.thorough
def test_nights_are_chosen_by_number_or_date_and_the_command_goes_on_where_it_ended(trace: Path) -> None:
    done = nights(trace, "--until", "2023-11-23", "--nights", "1")
    assert done.returncode == 0, done.stderr
    assert "1/1 2023-11-23: " in done.stderr
    assert done.stdout.rstrip().endswith("home/replays/arriving/reports/arriving.html")
    again = nights(trace, "--nights", "2", "--until", "2023-11-24")
    assert again.returncode == 0, again.stderr
    assert "the night 2023-11-23 is done, 1 left" in again.stderr
    assert "\nnights done: 1, in " in again.stderr
    ledger, _ = Lake(trace.parent / "home" / "replays" / "arriving" / "lake").read("nights", "arriving")
    assert ledger["night"].tolist() == ["2023-11-23", "2023-11-24"]
    assert {path.name for path in (trace.parent / "home").iterdir()} == {"replays"}
    assert open_to_others(trace.parent / "home") == []


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--until", "1999-01-01"), "the nights of arriving are 2023-11-16 to 2023-12-13"),
        (("--nights", "0"), "0 is not in the range"),
    ],
)
def test_nights_that_do_not_exist_are_one_line(trace: Path, arguments: tuple[str, ...], error: str) -> None:
    done = nights(trace, *arguments)
    assert done.returncode == 2
    assert error in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
