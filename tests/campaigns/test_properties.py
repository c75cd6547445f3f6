"""Fresh examples: others under another seed, the same under the same, and what fails named with the seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns.apart import apart

DRAWING = """
from pathlib import Path
from hypothesis import given, settings, strategies as st
from tests.support.fresh import seeds

NOTES = Path(__file__).parent / "notes"

@settings(max_examples=5)
@given(st.integers(0, 2**40))
def test_hypothesis_draws(number):
    with NOTES.open("a") as file:
        file.write(f"{number}\\n")

def test_seeds_fail():
    assert max(seeds(2)) < 1_000_000

def test_nothing_is_drawn():
    raise AssertionError
"""


@pytest.mark.slow
def test_each_seed_has_examples_of_its_own_which_it_repeats(tmp_path: Path) -> None:
    notes = []
    for number, seed in enumerate((7, 7, 8)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "test_drawing.py").write_text(DRAWING)
        counts = apart("properties", 6, seed, folder, str(folder / "test_drawing.py"))
        assert counts.outcomes == {"passed": 1, "failed": 1}
        assert counts.findings[0].startswith(f"6 {seed} ")
        assert "test_seeds_fail: " in counts.findings[0]
        notes.append((folder / "notes").read_text().split())
    assert notes[0] == notes[1] != notes[2]
    assert len(notes[0]) >= 30
