"""What is written is the user's alone, and what another user could have written is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from features.errors import InputError
from pipelines.cli.options import check_outputs
from pipelines.sources.catalogue import load_catalogue
from pipelines.storage import permissions
from pipelines.storage.alerts import alert
from pipelines.storage.home import home
from pipelines.storage.instance import dagster_home
from pipelines.storage.places import made_folder, write
from pipelines.storage.registry import tracking
from tests.support.command import queuecast
from tests.support.modes import open_to_others
from tests.support.refusals import refusal

OTHER = 54321
"""A user that is unknown here."""


@pytest.fixture(autouse=True)
def umask(monkeypatch):
    """Run a test as a user with the umask 022, who named no file before."""
    before = os.umask(0o022)
    monkeypatch.setattr(permissions, "_users", [])
    monkeypatch.setattr(permissions, "_named", set())
    monkeypatch.delenv(permissions.SHARED, raising=False)
    monkeypatch.delenv(permissions.TRUSTED, raising=False)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_what_is_written_is_the_users_alone_but_for_what_they_name(tmp_path):
    permissions.keep_private()
    named = tmp_path / "out" / "of" / "schedule.parquet"
    check_outputs({"--out": named}, [])
    write(named, b"x")
    assert (mode(named), mode(named.parent), mode(named.parent.parent)) == (0o644, 0o755, 0o755)
    write(tmp_path / "home" / "page.html", "x")
    alert(tmp_path / "home", "drift", "t", "2026-01-01", "a")
    write(named.with_name("other"), b"x")
    assert open_to_others(tmp_path / "home") == []
    assert mode(named.with_name("other")) == 0o600


def test_a_site_that_shares_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("QUEUECAST_UMASK", "027")
    permissions.keep_private()
    permissions.keep_private()
    write(tmp_path / "home" / "page.html", "x")
    assert (mode(tmp_path / "home"), mode(tmp_path / "home" / "page.html")) == (0o750, 0o640)
    permissions.name_outputs([tmp_path / "named"])
    write(made_folder(tmp_path / "named") / "file", "x")
    assert (mode(tmp_path / "named"), mode(tmp_path / "named" / "file")) == (0o755, 0o644)


@pytest.mark.parametrize("mask", ["0999", "abc", "700", "-1", "1777"])
def test_a_umask_that_is_none_is_one_line(monkeypatch, mask, tmp_path):
    monkeypatch.setenv("QUEUECAST_UMASK", mask)
    done = queuecast("traces", home=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"$QUEUECAST_UMASK: {mask} is no umask such as 027" in done.stderr


def given_away(path: Path, monkeypatch) -> Path:
    """Return ``path``, of another user."""
    if os.getuid() == 0:
        os.chown(path, OTHER, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: OTHER)
    return path


def refused(*arguments: str, **places: Path) -> str:
    """Return the one line with which a command refuses."""
    done = queuecast(*arguments, **places)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    return done.stderr


@pytest.mark.parametrize(
    "name", ["", "traces.toml", "systems.toml", "mlflow.db", "mlartifacts", "lake", "dagster", "dagster/dagster.yaml"]
)
def test_a_home_of_another_user_is_refused_unless_told(tmp_path, monkeypatch, name):
    place = tmp_path / ".queuecast"
    made_folder(place / "dagster")
    path = place / name
    path.mkdir(exist_ok=True) if name in ("", "mlartifacts", "lake", "dagster") else path.write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("QUEUECAST_HOME", raising=False)
    assert home() == place
    given_away(path, monkeypatch)
    with pytest.raises(InputError, match=r"belongs to .*, not to you.*QUEUECAST_TRUST_HOME=1"):
        home()
    monkeypatch.setenv("QUEUECAST_TRUST_HOME", "1")
    assert home() == place


def test_a_home_that_others_can_change_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path / "h"))
    (tmp_path / "h" / "lake").mkdir(parents=True)
    for path, its in ((tmp_path / "h", 0o757), (tmp_path / "h" / "lake", 0o1777)):
        path.chmod(its)
        with pytest.raises(InputError, match=f"{path}: can be changed by other users, .*: chmod go-w it"):
            home()
        path.chmod(0o755)
    assert home() == tmp_path / "h"
    (tmp_path / "h").chmod(0o775)
    monkeypatch.setattr(permissions, "_own_group", lambda path: False)
    with pytest.raises(InputError, match="can be changed by other users"):
        home()
    monkeypatch.setenv("QUEUECAST_UMASK", "007")  # a group that works together
    assert home() == tmp_path / "h"
    monkeypatch.delenv("QUEUECAST_UMASK")
    monkeypatch.setattr(permissions, "_own_group", lambda path: True)  # of the user alone
    assert home() == tmp_path / "h"


def test_settings_of_another_user_are_refused(tmp_path, monkeypatch):
    (tmp_path / "queuecast.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path / "own"))
    load_catalogue()
    (tmp_path / "queuecast.toml").chmod(0o666)
    assert "queuecast.toml: can be changed by other users" in refused("traces", home=tmp_path / "own", cwd=tmp_path)
    (tmp_path / "queuecast.toml").chmod(0o644)
    given_away(tmp_path / "queuecast.toml", monkeypatch)
    with pytest.raises(InputError, match=r"queuecast.toml: belongs to "):
        load_catalogue()


@pytest.mark.parametrize(
    ("name", "folder", "variable", "value", "ask"),
    [
        ("theirs.db", False, "MLFLOW_TRACKING_URI", "sqlite:///{}/theirs.db", tracking),
        ("dagster.yaml", False, "DAGSTER_HOME", "{}", dagster_home),
        ("kernels", True, "NUMBA_CACHE_DIR", "{}/kernels", None),
        ("queuecast", True, "XDG_CACHE_HOME", "{}", None),
    ],
)
def test_registries_instances_and_compiled_kernels_of_others_are_refused(tmp_path, monkeypatch, name, folder, variable, value, ask):
    path = made_folder(tmp_path / name) if folder else tmp_path / name
    path.touch()
    path.chmod(0o777)
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path / "own"))
    monkeypatch.setenv(variable, value.format(tmp_path))
    line = refusal(ask) if ask else refused("traces", home=tmp_path / "own")
    assert f"{name}: can be changed by other users" in line


def test_a_home_that_is_looked_at_is_believed_no_more_than_others(tmp_path):
    (tmp_path / "theirs" / "dagster").mkdir(parents=True)
    (tmp_path / "theirs" / "dagster").chmod(0o777)
    line = refused("doctor", "--home", str(tmp_path / "theirs"), home=tmp_path / "own")
    assert f"{tmp_path / 'theirs' / 'dagster'}: can be changed by other users" in line


def test_a_home_of_a_user_that_is_unknown_is_one_line(monkeypatch):
    monkeypatch.setenv("QUEUECAST_HOME", "~no-such-user/x")
    with pytest.raises(InputError, match="QUEUECAST_HOME=~no-such-user/x: there is no such user"):
        home()
