"""Ctrl-C ends a command soon, whatever holds the signal back."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from pipelines.cli.interrupts import INTERRUPTED

HOUSE = Path(__file__).resolve().parents[3]
HELD_BACK = """
import pathlib, signal, sys, time
from pipelines.cli.interrupts import prompt_interrupt
mark = pathlib.Path(sys.argv[1])
with prompt_interrupt(lambda: mark.write_text("cleaned up"), grace_s=0.2):
    signal.signal(signal.SIGINT, lambda *_: None)  # as Dagster does while a step runs
    print("ready", flush=True)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        time.sleep(1)
"""
ENDS_BY_ITSELF = """
import pathlib, signal, sys, time
from pipelines.cli.interrupts import prompt_interrupt
mark = pathlib.Path(sys.argv[1])
try:
    with prompt_interrupt(lambda: mark.write_text("cleaned up"), grace_s=30):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("ready", flush=True)
        time.sleep(60)
except KeyboardInterrupt:
    print("its own way", flush=True)
"""

WITH_A_CHILD = """
import os, pathlib, subprocess, sys, time
from pipelines.cli import ui
ui.ENDS_S = 0.3
ends = os._exit
os._exit = lambda code: (time.sleep(0.3), ends(code))  # the body, whose child was killed, ends first
with ui.ends_with_children():
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE)
    child.stdout.readline()
    pathlib.Path(sys.argv[1]).write_text(str(child.pid))
    try:
        print("ready", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        child.wait()
"""


def interrupted(script: str, mark: Path, number: int = signal.SIGINT) -> tuple[subprocess.Popen, str, str, float]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(mark)], cwd=HOUSE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    began = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=50)
    return process, out, err, time.monotonic() - began


@pytest.fixture(autouse=True)
def _interruptible():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a child of a shell's background job would ignore it
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
def test_a_held_back_interrupt_ends_the_process_after_its_clean_up(tmp_path):
    process, _, err, took = interrupted(HELD_BACK, tmp_path / "mark")
    assert process.returncode == INTERRUPTED
    assert err.strip() == "queuecast: interrupted"
    assert (tmp_path / "mark").read_text() == "cleaned up"
    assert took < 50  # of the sixty seconds that it would have gone on


@pytest.mark.slow
def test_a_body_that_ends_by_itself_is_left_alone(tmp_path):
    process, out, _, _ = interrupted(ENDS_BY_ITSELF, tmp_path / "mark")
    assert process.returncode == 0
    assert out == "its own way\n"
    assert not (tmp_path / "mark").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_servers_end_with_children_that_do_not_listen_though_a_shell_ignores_the_interrupt(tmp_path, number):
    mark, ignoring = tmp_path / "pid", signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process, *_ = interrupted(WITH_A_CHILD, mark, number)
    finally:
        signal.signal(signal.SIGINT, ignoring)
    assert process.returncode == INTERRUPTED
    assert not psutil.pid_exists(int(mark.read_text())) or psutil.Process(int(mark.read_text())).status() == psutil.STATUS_ZOMBIE
