"""Without a terminal, long commands say once a minute where they are."""

from __future__ import annotations

import threading
import time

import pytest

from pipelines.cli import progress


class Minutes:
    """In place of an event that waits a minute: minutes pass when ``passed`` is set, and end with the work."""

    def __init__(self) -> None:
        self.passed, self.ended, self.heard = threading.Event(), threading.Event(), threading.Event()

    def wait(self, seconds: float) -> bool:
        assert seconds == progress.EVERY_S
        if not self.passed.is_set():
            self.passed.wait()
            return False
        self.heard.set()
        self.ended.wait()
        return True

    def set(self) -> None:
        self.ended.set()


def test_a_minute_without_a_terminal_prints_the_stage_reported_last(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    minutes = Minutes()
    monkeypatch.setattr(progress, "Event", lambda: minutes)
    with progress.stage_bars() as listener:
        listener("simulate", 3, 1200)
        minutes.passed.set()
        minutes.heard.wait()
    assert capsys.readouterr().err == "after 0 min: simulate, 3 of 1,200\n"


def test_before_the_first_report_a_line_says_what_may_take_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.01)
    with progress.stage_bars():
        time.sleep(0.1)
    assert "reading the input, or compiling the simulator for its first use" in capsys.readouterr().err
