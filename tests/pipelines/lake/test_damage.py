"""Damage of the lake and the registry is told with how to mend it, and a registry that is locked is waited for."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest

from features.errors import InputError
from models.registry.tracking import Tracking
from pipelines.lake.files import read_parquet
from pipelines.lake.publishing import check_registry, publish
from pipelines.lake.registry import tracking
from pipelines.lake.tables import Lake

MODEL = "runtime-t"


def opened(home: Path) -> Tracking:
    return tracking(f"sqlite:///{home / 'mlflow.db'}")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one version, whose champion is registered."""
    store = opened(tmp_path)
    store.client.create_registered_model(MODEL)
    store.client.create_model_version(MODEL, tmp_path.as_uri())
    lake = Lake(tmp_path / "lake", "first")
    lake.write("jobs", "t", pd.DataFrame({"number": [1]}))
    lake.name_models(MODEL, {"champion": "1"})
    publish(lake, MODEL, "the first run", store)
    return tmp_path


def test_a_pointer_that_is_damaged_or_a_table_that_is_gone_says_how_to_mend_it(home: Path) -> None:
    lake = Lake(home / "lake")
    lake.path("jobs", "t").unlink()
    with pytest.raises(InputError, match=r"is missing, although the version of t names it; queuecast doctor"):
        lake.read("jobs", "t")
    (home / "lake" / "current" / f"{MODEL}.json").write_text('{"current": ')
    with pytest.raises(InputError, match=r"runtime-t\.json: is damaged.*queuecast doctor --repair"):
        lake.read("jobs", "t")


@pytest.mark.slow
def test_no_damaged_table_is_read_as_other_content(tmp_path: Path) -> None:
    frame = pd.DataFrame({"number": range(40), "user": [f"u{number % 7}" for number in range(40)], "wait_s": [0.1] * 40})
    lake, r, others = Lake(tmp_path), random.Random(28), 0
    table, other = lake.write("jobs", "t", frame), lake.write("runtime_features", "t", frame[:20])
    whole = table.read_bytes()
    flipped = [(whole[:at] + bytes([whole[at] ^ 1 << r.randrange(8)]) + whole[at + 1 :]) for at in range(0, len(whole), 15)]
    for content in (*flipped, whole[:-1], whole + b" ", b"", other.read_bytes()):
        table.write_bytes(content)
        with pytest.raises(
            InputError, match=r"is damaged: its content does not match the hash in its name; .*queuecast doctor --repair"
        ):
            lake.read("jobs", "t")
        with suppress(InputError):
            others += not read_parquet(table, kind="jobs")[0].equals(frame)
    assert others, "without its name, some of what is damaged reads as a table"
    table.write_bytes(whole)
    pd.testing.assert_frame_equal(lake.read("jobs", "t")[0], frame)


@pytest.mark.slow
def test_a_registry_that_lost_the_published_champion_is_not_taken_for_new(home: Path) -> None:
    (home / "mlflow.db").write_bytes(b"")
    with pytest.raises(InputError, match=r"mlflow\.db is empty: it was cut; restore it from a backup"):
        opened(home)
    other = opened(home / "other")  # one that begins anew
    with pytest.raises(InputError, match=r"has no version of runtime-t, although version 1 was published.*restore it"):
        check_registry(Lake(home / "lake"), other, MODEL)
    draft = Lake(home / "lake", "second")
    draft.write("jobs", "t", pd.DataFrame({"number": [2]}))
    with pytest.raises(InputError, match="has no version of runtime-t"):
        publish(draft, MODEL, "a second run", other)
    assert Lake(home / "lake").read("jobs", "t")[0]["number"].tolist() == [1]
