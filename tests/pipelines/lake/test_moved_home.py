"""A home works where it lies: moved, renamed, copied or reached by a link, it reads and writes its own files and no others."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import mlflow
import pandas as pd
import pytest

from models.registry import tracking
from models.registry.tracking import prune
from pipelines.lake.registry import predict_registered
from pipelines.studies.doctor import examine
from pipelines.training.night import own_registry
from tests.support.arriving import arriving
from tests.support.cutoffs import registered_in

pytestmark = pytest.mark.usefixtures("quick_methods")
NAME = "runtime-arriving"
JOB = pd.DataFrame({"user": ["1"], "procs": [4], "requested_s": [3600], "submit_time": [pd.Timestamp("2024-03-01")]})


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory):
    """A home in which one run registered."""
    before = mlflow.get_tracking_uri()
    home = tmp_path_factory.mktemp("original") / "home"
    registered_in(home, arriving(jobs=700))
    yield home
    mlflow.set_tracking_uri(before)


def files(home: Path) -> dict[str, bytes]:
    return {path.relative_to(home).as_posix(): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def predicted(home: Path) -> float:
    return float(predict_registered(NAME, JOB, own_registry(home), home)["predicted_s"].iloc[0])


def moved(first: Path, second: Path) -> None:
    shutil.move(first, second)


def linked(first: Path, second: Path) -> None:
    second.symlink_to(first)


@pytest.mark.thorough
@pytest.mark.parametrize("displace", [moved, shutil.copytree, linked])
def test_a_displaced_home_predicts_runs_and_prunes_in_its_own_files(
    original: Path, tmp_path: Path, displace: Callable[[Path, Path], object], monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    first, second = tmp_path / "first", tmp_path / "in a folder é" / "second"
    second.parent.mkdir()
    shutil.copytree(original, first)
    answer = predicted(first)
    before = files(first)
    displace(first, second)
    capsys.readouterr()
    assert predicted(second) == answer
    printed = capsys.readouterr().err
    assert printed.count("was moved or copied") == (displace is not linked)
    assert [*examine(second, lambda: own_registry(second))] == []
    registered_in(second, arriving(jobs=690))
    later_s = time.time() + 100 * 86_400
    monkeypatch.setattr(tracking, "KEPT_VERSIONS", 1)
    monkeypatch.setattr(tracking.time, "time", lambda: later_s)
    assert prune(own_registry(second), NAME) > 0
    assert predicted(second) > 0
    assert [*examine(second, lambda: own_registry(second))] == []
    if displace is shutil.copytree:
        assert files(first) == before
        assert predicted(first) == answer
    elif displace is moved:
        assert not first.exists()
