"""The file of systems: what is wrong with it is said with file, system and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.readers.systems import System, remembered, systems
from tests.support.refusals import refusal


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[systems]\na = 3\n", "system a: must be a table, not 3"),
        ("[systems.a]\nlags = 3\n", "system a: lags is unknown; did you mean lag_s?"),
        ("[systems.a]\ncounters = '/x'\n", "system a: counters must be a list, not '/x'"),
        ("[systems.a]\nlag_s = -1\n", "system a: lag_s must be at least 0, not -1"),
        ("[systems.a]\nscope = 'half'\n", "system a: scope must be one of own, all, not 'half'"),
        (
            "[systems.a]\nclassifiers = ['adaboost', 'tree']\n",
            "system a: classifiers.1 must be one of extra-trees, decision-forest, adaboost, ",
        ),
    ],
)
def test_a_bad_file_of_systems_is_refused_with_file_system_and_key(text: str, error: str, tmp_path: Path) -> None:
    remembered(tmp_path).write_text(text)
    assert refusal(systems, tmp_path).startswith(f"{remembered(tmp_path)}: {error}")


def test_a_good_file_of_systems_is_taken_as_it_stands(tmp_path: Path) -> None:
    remembered(tmp_path).write_text("[systems.a]\ncounters = ['/x', '/y']\nlag_s = 20\nclassifiers = ['adaboost']\n")
    assert systems(tmp_path) == {"a": System(name="a", counters=("/x", "/y"), lag_s=20, classifiers=("adaboost",))}
