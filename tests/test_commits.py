"""Commands of studies: each names a program that is in the repository at the commit that the card names, or here."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[1]
PAGES = [*sorted((HOUSE / "docs").rglob("*.md")), HOUSE / "README.md", HOUSE / "CONTRIBUTING.md"]
COMMAND = re.compile(r"python -m ((?:benchmarks|tests)[\w.]*)[^`]*`(?:,? at commits? ([0-9a-f, ]+))?")
COMMIT = re.compile(r"\bcommits? ([0-9a-f]{7,40}(?:, [0-9a-f]{7,40})*)")


def git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(HOUSE), *words], capture_output=True, text=True, check=False)


def in_history(commit: str) -> bool:
    return git("merge-base", "--is-ancestor", commit, "HEAD").returncode == 0


def holds(commit: str, module: str) -> bool:
    path = module.replace(".", "/")
    return any(git("cat-file", "-e", f"{commit}:{file}").returncode == 0 for file in (f"{path}.py", f"{path}/__main__.py"))


def test_each_command_of_a_page_is_at_its_commit_or_here() -> None:
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("no full history here: not a git checkout, or a shallow one")
    missing, named = [], 0
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        commits = [commit for listed in COMMIT.findall(text) for commit in listed.split(", ")]
        missing += [f"{page.name}: {commit} is not in the history" for commit in commits if not in_history(commit)]
        for module, listed in COMMAND.findall(text):
            named += 1
            commits = [commit.strip() for commit in listed.split(",") if commit.strip()]
            missing += [f"{page.name}: {module} is not at {commit}" for commit in commits if not holds(commit, module)]
            path = HOUSE / module.replace(".", "/")
            if not commits and not (path.with_suffix(".py").exists() or (path / "__main__.py").exists()):
                missing.append(f"{page.name}: {module} is not here, and no commit is named")
    assert missing == []
    assert named > 30
