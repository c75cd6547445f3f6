"""One rule for names of traces and systems, wherever one comes in or becomes a path, a partition or a registered model."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import LONGEST, RULE, InputError, is_name
from models.registry.variability_registration import VARIABILITY
from pipelines.lake.counters import CountersStore
from pipelines.lake.tables import Lake
from pipelines.readers.catalogue import load_catalogue
from pipelines.readers.read import read_trace, remember
from pipelines.readers.systems import remember_system, remembered, systems

SWF = "; MaxProcs: 64\n1 0 5 100 4 -1 -1 4 3600 -1 1 3 2 7 1 2 -1 -1\n"
BAD = ("..", ".", "", "-a", ".a", "a/b", "../a", "A", "a b", "a_b", "ä", "a\n", "a..b", "a" * (LONGEST + 1))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty directory, without a site's settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("QUEUECAST_CATALOGUE", raising=False)
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_name_is_refused_wherever_a_name_comes_in(name: str, elsewhere: Path) -> None:
    assert not is_name(name)
    home = elsewhere / "home"
    quoted = name.replace("\n", "\\n")
    (elsewhere / "queuecast.toml").write_text(f"[traces.\"{quoted}\"]\nplace = 'x'\n")
    home.mkdir()
    remembered(home).write_text(f'[systems."{quoted}"]\nscope = "own"\n')
    for refused in (
        lambda: Lake(elsewhere / "lake").path("jobs", name),
        lambda: CountersStore(elsewhere / "lake", name),
        lambda: VARIABILITY.registered(name),
        lambda: remember_system(elsewhere / "new", name, {"scope": "own"}),
        lambda: systems(home),
        load_catalogue,
    ):
        with pytest.raises(InputError) as caught:
            refused()
        assert RULE in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("file", ["...swf", "-x.swf", ".gz", "..swf.gz", "é.swf", "a..b.swf", "a" * LONGEST + "a.swf"])
def test_a_file_that_would_have_no_name_is_refused_in_one_line(file: str, elsewhere: Path) -> None:
    path = elsewhere / file
    path.write_text(SWF)
    for refused in (read_trace, remember):
        with pytest.raises(InputError) as caught:
            refused(str(path))
        assert str(caught.value).startswith(f"{path}: rename the file: ")
        assert RULE in str(caught.value)
        assert "\n" not in str(caught.value)
    assert not (elsewhere / "home").exists()


@pytest.mark.slow
@settings(max_examples=10)
@given(st.from_regex(r"[a-z0-9][a-z0-9.-]{0,20}", fullmatch=True))
def test_a_name_is_a_file_name_and_a_partition_key(name: str) -> None:
    """Three dots are a range of partitions in Dagster, so no two may stand together."""
    assert is_name(name) == (".." not in name)
    if is_name(name):
        assert Path("x", f"{name}.parquet").parent == Path("x")
        dg.StaticPartitionsDefinition([name])
