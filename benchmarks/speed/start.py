"""Measure the processor time of what a person waits for: short commands, and the first call from a notebook.

Each is a process of its own, run in turns; kernels are compiled before. The median and the fastest are reported, and a row for
Python alone: processor time on a busy machine is up to twice that on a quiet one, so compare two commits in turns. Run with
``python -m benchmarks.speed.start [--repeat N] [--against CHECKOUT]``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

from pipelines.report.table import Table

_OF_PIPELINES = ("-m", "pipelines")
COMMANDS = {
    "python -c pass": ("-c", "pass"),
    "queuecast --help": (*_OF_PIPELINES, "--help"),
    "queuecast --version": (*_OF_PIPELINES, "--version"),
    "queuecast --wrong": (*_OF_PIPELINES, "--wrong"),
    "queuecast simulate kth-sp2 --wrong": (*_OF_PIPELINES, "simulate", "kth-sp2", "--wrong"),
    "queuecast campaign kth-sp2 --wrong": (*_OF_PIPELINES, "campaign", "kth-sp2", "--wrong"),
    "queuecast run --wrong": (*_OF_PIPELINES, "run", "--wrong"),
    "queuecast simulate kth-sp2 --scheduler EASY": (*_OF_PIPELINES, "simulate", "kth-sp2", "--scheduler", "EASY"),
    "qc.read": ("-c", "import queuecast as qc; qc.read('kth-sp2')"),
    "qc.simulate": ("-c", "import queuecast as qc; qc.simulate('kth-sp2', 'EASY')"),
}
_REFUSED = 2


def cpu_s(command: tuple[str, ...], checkout: Path) -> float:
    """Return the seconds of processor time that a command takes in a checkout; raise RuntimeError if it fails."""
    before = os.times()
    ended = subprocess.run([sys.executable, *command], cwd=checkout, env=_environment(checkout), capture_output=True, text=True)
    after = os.times()
    if ended.returncode != (_REFUSED if "--wrong" in command else 0):
        raise RuntimeError(f"{command}: {ended.stderr}")
    return after.children_user + after.children_system - before.children_user - before.children_system


def _environment(checkout: Path) -> dict[str, str]:
    """Return an environment in which the first call writes bytecode, as an installation has it."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPATH": str(checkout)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--against", type=Path, help="another checkout, measured in turns with this one")
    options = parser.parse_args()
    checkouts = [Path.cwd(), *([options.against.resolve()] if options.against else [])]
    rows = []
    for name, command in COMMANDS.items():
        for checkout in checkouts:
            cpu_s(command, checkout)  # compiles kernels and bytecode
        seconds = [[cpu_s(command, checkout) for checkout in checkouts] for _ in range(options.repeat)]
        for checkout, taken in zip(checkouts, zip(*seconds, strict=True), strict=True):
            rows.append([name, checkout.name, f"{statistics.median(taken):.3f}", f"{min(taken):.3f}"])
    Table("Processor seconds", ["command", "checkout", "median", "fastest"], rows, keys=2).show()


if __name__ == "__main__":
    main()
