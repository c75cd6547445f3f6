"""What a site sets: the environment first, then [site] of its settings file."""

import os
from pathlib import Path

import pytest

from features.errors import InputError
from pipelines.lake.places import home
from pipelines.readers import site_file

FILE = """\
[site]
lake = "s3://bucket/prefix"
database = "postgresql://queuecast@db.example.org/queuecast"
registry = "http://mlflow.example.org:5000"
on = "slurm"
"""


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in (*site_file.VARIABLES.values(), "QUEUECAST_CATALOGUE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "queuecast.toml"


def test_the_environment_comes_before_the_file(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere.write_text(FILE)
    monkeypatch.setenv("QUEUECAST_LAKE", "/of/the/environment")
    site_file.apply()
    assert {key: os.environ[variable] for key, variable in site_file.VARIABLES.items()} == {
        "lake": "/of/the/environment",
        "database": "postgresql://queuecast@db.example.org/queuecast",
        "registry": "http://mlflow.example.org:5000",
        "on": "slurm",
    }


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[site]\nlakes = 'x'\n", "unknown key 'lakes' in [site]; known: database, lake, on, registry"),
        ("site = 3\n", "site is not a table; known: database, lake, on, registry"),
        ("[site]\ndatabase = ['secret']\n", "database of [site] must be text"),
        ("[site]\nlake = ''\n", "lake of [site] must be text"),
        ("[site]\nlake = 'a\\u0000b'\n".replace("'", '"'), "lake of [site] must be text"),
    ],
)
def test_a_bad_table_is_refused_with_file_and_key_and_without_its_value(text: str, error: str, elsewhere: Path) -> None:
    elsewhere.write_text(text)
    with pytest.raises(InputError) as refused:
        site_file.apply()
    assert str(refused.value) == f"{elsewhere}: {error}"


def test_credentials_in_a_registrys_address_become_mlflows_own(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://reader:a%40b@mlflow.example.org/x")
    site_file.apply()
    assert os.environ["MLFLOW_TRACKING_URI"] == "https://mlflow.example.org/x"
    assert (os.environ["MLFLOW_TRACKING_USERNAME"], os.environ["MLFLOW_TRACKING_PASSWORD"]) == ("reader", "a@b")


def test_a_lake_named_in_place_of_the_directory_around_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lake" / "current").mkdir(parents=True)
    monkeypatch.setenv("QUEUECAST_LAKE", str(tmp_path / "lake"))
    with pytest.raises(InputError, match=rf"is a lake itself: name the directory around it, {tmp_path}$"):
        home()
