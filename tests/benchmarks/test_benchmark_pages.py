"""Pages of figures: how they were made is said, and a kept table is used again only by the same code with the same settings."""

from __future__ import annotations

import re
import subprocess

import pandas as pd

from benchmarks.common import pages
from benchmarks.common.pages import commit, kept, made_by


def test_a_page_says_its_command_and_its_commit():
    line = made_by("studies.picture", ["--write", "--shared", "/somewhere", "--keep=/elsewhere", "--trials", "5"])
    assert re.fullmatch(
        r"Made by `python -m benchmarks.studies.picture --write --trials 5` at (commit [0-9a-f]{10}|an unknown).*\.", line
    )


def test_code_that_was_not_committed_is_said(tmp_path):
    def git(*asked: str) -> None:
        subprocess.run(
            ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b.c", *asked], check=True, capture_output=True
        )

    assert "unknown commit" in commit(tmp_path / "no-such-folder")
    (tmp_path / "sim").mkdir()
    (tmp_path / "sim" / "loop.py").write_text("1")
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    assert re.fullmatch(r"commit [0-9a-f]{10}", commit(tmp_path))
    (tmp_path / "page.md").write_text("figures")
    assert "not committed" not in commit(tmp_path)
    (tmp_path / "sim" / "loop.py").write_text("2")
    assert commit(tmp_path).endswith("with changes that were not committed")


def test_a_kept_table_is_made_anew_for_other_settings_and_other_code(tmp_path, monkeypatch):
    calls: list[int] = []

    def make() -> pd.DataFrame:
        calls.append(1)
        return pd.DataFrame({"value": [len(calls)]})

    assert kept(tmp_path, "studies.picture", [1, "a"], make)["value"].item() == 1
    assert kept(tmp_path, "studies.picture", [1, "a"], make)["value"].item() == 1
    assert kept(tmp_path, "studies.picture", [2, "a"], make)["value"].item() == 2
    assert kept(tmp_path, "studies.harm_nodes", [1, "a"], make)["value"].item() == 3
    monkeypatch.setattr(pages, "code", lambda: "another version")
    assert kept(tmp_path, "studies.picture", [1, "a"], make)["value"].item() == 4
