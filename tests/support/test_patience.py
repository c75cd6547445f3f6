"""What hangs is told from what is slow, whatever else the machine does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import patience
from tests.support.patience import FOREVER_S, At, Patience, run, wait_until
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


@LINUX
def test_the_processes_at_a_place_work_there_or_are_told_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where this process does not count
    ways = [{"cwd": tmp_path}, {"cwd": "/", "env": {"HOME": str(tmp_path / "home")}}, {"cwd": "/", "env": {}}]
    started = [subprocess.Popen(["/bin/sleep", "60"], **each) for each in ways]  # type: ignore[call-overload]
    try:
        found = {*At(tmp_path)}
    finally:
        for each in started:
            each.kill()
            each.wait()
    assert found == {started[0].pid, started[1].pid}
    assert not {*At(tmp_path)}


def test_what_hangs_is_waited_for_no_longer_and_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    monkeypatch.setattr(patience, "used", lambda _: ({}, False))
    with pytest.raises(AssertionError, match="hangs: the end of it"):
        wait_until(lambda: looked.append(1), tmp_path, lambda: "the end of it", seconds=0.6)  # type: ignore[func-returns-value]
    assert len(looked) > 1
    monkeypatch.setattr(patience.Patience, "over", lambda _: True)
    with pytest.raises(AssertionError, match="/bin/sleep"):
        run(["/bin/sleep", "60"], tmp_path)
    assert not {*At(tmp_path)}


def test_a_program_is_run_to_its_end_with_what_it_is_given_and_said(tmp_path: Path) -> None:
    code = "import sys; print(input()); print('wrong', file=sys.stderr); sys.exit(3)"
    done = run([sys.executable, "-c", code], tmp_path, given="a line\n")
    assert (done.returncode, done.stdout, done.stderr) == (3, "a line\n", "wrong\n")
