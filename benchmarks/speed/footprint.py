"""Count the files and functions of the four rooms that one command passes through.

Run with ``python -m benchmarks.speed.footprint run --trace kth-sp2``: what follows the module's name is a command of Queuecast.
A function counts if Python calls it, in this process or its threads, a file if one of its functions counts: importing it is not
enough. The body of a class runs as its file is imported: there is one count with such bodies and one without. Compiled functions
do not count. Run a command once before, so that nothing is compiled while it is counted.
"""

from __future__ import annotations

import sys
import threading
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType

ROOMS = tuple(f"{Path(__file__).resolve().parents[2] / room}/" for room in ("features", "models", "sim", "pipelines"))


def main(arguments: list[str]) -> None:
    """Do a command, and print how many files and functions it passed through."""
    passed: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            passed.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        from pipelines.cli import cli

        cli(arguments, standalone_mode=False)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        ours = [code for code in passed if code.co_filename.startswith(ROOMS)]
        # Comprehensions and lambdas have names in angle brackets: they are parts of functions.
        named = {code for code in ours if not code.co_name.startswith("<")}
        _print_count("bodies of classes included", named)
        _print_count("functions alone", {code for code in named if code.co_flags & CO_OPTIMIZED})


def _print_count(what: str, passed: set[CodeType]) -> None:
    functions = {(code.co_filename, code.co_qualname) for code in passed}
    files = {file for file, _ in functions}
    print(f"{what}: {len(files)} files and {len(functions)} functions", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
