"""What hangs is told from what is slow, whatever else the machine does."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.support import patience
from tests.support.patience import FOREVER_S, Patience
from tests.support.system_calls import available, together, watched

LINUX = pytest.mark.skipif(not available(), reason="system calls can be watched on Linux for x86-64 only")
SECOND = 1_000_000_000


def _loops() -> int:
    while True:
        pass


def _waits() -> int:
    signal.pause()
    return 0


@LINUX
@pytest.mark.parametrize("body", [_loops, _waits])
@pytest.mark.parametrize("answer", [None, lambda call: 0])
def test_what_runs_or_waits_for_ever_hangs(body, answer, tmp_path: Path) -> None:
    ended = watched(body, tmp_path, answer, seconds=0.6)
    assert (ended.code, ended.hung) == (-signal.SIGKILL, True)
    assert ended.how.startswith("hangs")


@LINUX
def test_of_commands_at_once_those_that_wait_for_ever_hang() -> None:
    first, second, third = together([_waits, lambda: 0, lambda: 3], seconds=0.6)
    assert (first.code, first.hung) == (-signal.SIGKILL, True)
    assert [(each.code, each.hung) for each in (second, third)] == [(0, False), (3, False)]


@LINUX
def test_time_that_a_call_is_looked_at_is_not_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    excused = []
    monkeypatch.setattr(Patience, "excuse", lambda self, seconds: excused.append(seconds))
    ended = watched(lambda: (tmp_path / "made").write_text("a") * 0, tmp_path, lambda call: time.sleep(0.05) or 0)
    assert (ended.code, ended.calls) == (0, 2)
    assert min(excused) >= 0.05


def test_excused_time_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(patience.time, "monotonic", lambda: now[0])
    given = Patience([], 1.0)
    for _ in range(100):
        now[0] += 10.0
        given.excuse(10.0)
        assert not given.over()
    now[0] += 10.0
    assert given.over()


@pytest.mark.parametrize(
    ("ran_s", "ready_s", "active", "looks"),
    [
        (0.01, 0.9, False, 1000),  # others run
        (0.01, 0.0, True, 1000),  # it is ready, or the disk is slow
        (1.0, 0.0, False, 10),  # it runs
        (0.0, 0.0, False, 10),  # it waits
        (0.01, 0.02, False, 10),  # it looks now and then at what never comes
    ],
)
def test_only_time_that_the_machine_gave_counts(ran_s, ready_s, active, looks, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0

    def used(_):
        return {Path("thread"): (int(looked * ran_s * SECOND), int(looked * ready_s * SECOND))}, active

    monkeypatch.setattr(patience, "used", used)
    monkeypatch.setattr(patience.time, "monotonic", lambda: float(looked))
    given = Patience([os.getpid()], 9.5)
    while not given.over():
        looked += 1
    assert looked == pytest.approx(looks, rel=0.06)


def test_a_watcher_that_did_not_run_counts_little(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(patience.time, "monotonic", lambda: now[0])
    given = Patience([], 120.0)
    now[0] = 10_000.0
    assert not given.over()


def test_a_limit_is_of_time_that_this_process_ran() -> None:
    def stop(*_: object) -> None:
        raise TimeoutError

    patience.limit(0.05, stop)
    left = signal.getitimer(signal.ITIMER_REAL)[0]
    with pytest.raises(TimeoutError):
        _loops()
    patience.unlimited()
    assert left > FOREVER_S / 2
    assert signal.getitimer(signal.ITIMER_PROF)[0] == signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
