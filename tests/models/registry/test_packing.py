"""What a version brings is read as data: no code of a registry runs here but Queuecast's own."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import mlflow
import pandas as pd
import pytest
from mlflow.artifacts import download_artifacts

from features.errors import InputError
from models.packed.methods import Last2
from models.registry.packing import content_hash, modules_in
from models.registry.registration import Training, log_and_register
from models.registry.runtime_registration import RUNTIME, Snapshot, load_version, runtime_content, trained_method

HOUSE = Path(__file__).parents[3]

ASKED = pd.DataFrame(
    {
        "user": ["ann", "bob"],
        "procs": [4, 1],
        "requested_s": [3600, 600],
        "submit_time": pd.to_datetime(["2024-01-02", "2024-01-03"]).astype("datetime64[s]"),
    }
)


@pytest.fixture(scope="module")
def sound(opened, learned):
    """Return the files of a sound version, and a user that it knows."""
    content = runtime_content(Last2(), Snapshot(learned.states, learned.at, 0, "UTC"))
    log_and_register(opened, RUNTIME, content, Training("t", "abc", 300, (0, learned.at), generated=True), (0.5, 9), {})
    home = Path(download_artifacts(opened.client.get_model_version("runtime-t", "1").source))
    return home, learned.states.users["user"].iloc[0]


@pytest.fixture
def files(sound, tmp_path):
    """Yield the files of the version, put back afterwards."""
    home, _ = sound
    shutil.copytree(home, tmp_path / "sound")
    yield home
    shutil.rmtree(home)
    shutil.copytree(tmp_path / "sound", home)


def test_its_data_answer_as_its_code_does(opened, sound):
    asked = ASKED.assign(user=[sound[1], "a stranger"])
    here, there = load_version("runtime-t", "1").predict(asked), mlflow.pyfunc.load_model("models:/runtime-t/1").predict(asked)
    pd.testing.assert_frame_equal(here, there, check_dtype=False)
    assert here["user_known"].tolist() == [True, False]
    assert trained_method(opened, "t", "1").name == "last2"
    with pytest.raises(InputError, match="models:/runtime-t/99: cannot be read by this Queuecast"):
        trained_method(opened, "t", "99")


def test_no_code_of_a_version_runs(files, tmp_path):
    marker, script = tmp_path / "ran", files / "registered_model.py"
    evil = f"open({str(marker)!r}, 'a').write('ran')\n"
    script.write_text(evil + script.read_text())
    package = next((files / "code").iterdir())
    (package / "methods.py").write_text(evil + (package / "methods.py").read_text())
    package.rename(package.with_name(f"{package.name.rpartition('_')[0]}_{content_hash(modules_in(package))}"))
    assert len(load_version("runtime-t", "1").predict(ASKED)) == 2  # its data are sound
    assert not marker.exists()


def test_code_that_is_not_what_was_packed_is_told(files):
    module = next(files.glob("code/*/methods.py"))
    module.write_text(module.read_text() + "\n")
    for read in (lambda: load_version("runtime-t", "1"), lambda: trained_method(None, "t", "1")):
        with pytest.raises(InputError, match=r"models:/runtime-t/1: .*its code is not what was packed .*tampered with"):
            read()


@pytest.mark.parametrize("name", ["history.parquet", "model.json"])
def test_data_that_are_not_what_was_packed_are_told(files, name):
    file = files / "artifacts" / "runtime_model" / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"models:/runtime-t/1: .*its data are not what was packed: .*damaged"):
        load_version("runtime-t", "1")


@pytest.mark.parametrize("name", ["MLmodel", "artifacts", "code"])
def test_a_version_without_a_part_is_told_in_a_line(files, name):
    part = files / name
    shutil.rmtree(part) if part.is_dir() else part.unlink()
    with pytest.raises(InputError, match=r"^models:/runtime-t/1: does not load: [^\n]+$"):
        load_version("runtime-t", "1")


@pytest.mark.parametrize("package", ["features", "models", "sim", "pipelines", "benchmarks"])
def test_nothing_here_reads_pickles(package):
    unsafe = re.compile(
        r"^\s*(?:import|from) (?:pickle|joblib|cloudpickle|dill|shelve|marshal)\b|allow_pickle=True|read_pickle|yaml\.load\(",
        re.MULTILINE,
    )
    files = sorted((HOUSE / package).rglob("*.py"))
    assert files
    # Dask's workers and the command that they work for run each other's code anyway
    among_workers = {HOUSE / name for name in ("pipelines/workers.py", "benchmarks/speed/workers.py")}
    assert {file for file in files if unsafe.search(file.read_text(encoding="utf-8"))} - among_workers == set()
