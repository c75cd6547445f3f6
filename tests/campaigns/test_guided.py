"""The guided search says where it cannot run; what it checks one input by sees a wrong value."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from tests.campaigns import guided
from tests.campaigns.readings import READINGS


def test_without_atheris_nothing_is_tried_and_the_counts_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = guided.campaign(100, 0, tmp_path)
    assert (found.attempts, found.findings) == (0, [])
    assert list(found.outcomes) == ["skipped: Atheris (the extra fuzz) is not installed"]


def test_a_short_search_finds_nothing(tmp_path: Path) -> None:
    found = guided.campaign(400, 0, tmp_path)
    assert found.findings == []
    assert found.attempts >= 390 or importlib.util.find_spec("atheris") is None


def test_an_input_that_is_read_wrongly_ends_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = READINGS["swf"]
    sound = guided._seeds()[0]
    guided._checked(tmp_path)(sound)
    guided._checked(tmp_path)(b"no such file")

    def wrong(path: Path):
        trace = kept.read(path)
        return replace(trace, jobs=trace.jobs.assign(submit_s=trace.jobs["submit_s"] + 1))

    monkeypatch.setitem(READINGS, "swf", replace(kept, read=wrong))
    with pytest.raises(AssertionError, match="a second reader has"):
        guided._checked(tmp_path)(sound)
