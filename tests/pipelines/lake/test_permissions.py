"""What is written is the user's alone, and the home directory is that of a user."""

from __future__ import annotations

import os

import pytest

from features.errors import InputError
from pipelines.assets.sensors import alert
from pipelines.lake.places import home, write
from tests.support.command import queuecast
from tests.support.modes import open_to_others


def test_what_a_command_writes_is_the_users_alone_whatever_the_umask_before(tmp_path):
    before = os.umask(0o022)
    try:
        queuecast("traces", home=tmp_path)
        write(tmp_path / "home" / "page.html", "x")
        alert(tmp_path / "home", "drift", "t", "2026-01-01", "a")
    finally:
        os.umask(before)
    assert open_to_others(tmp_path / "home") == []


@pytest.mark.parametrize("name", ["what?", "per%41cent"])
def test_a_home_where_databases_would_lie_elsewhere_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path / name))
    with pytest.raises(InputError, match="cannot be a home directory"):
        home()
