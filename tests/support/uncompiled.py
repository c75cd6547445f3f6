"""Tests repeated with the kernels as plain Python, in a process of its own."""

from __future__ import annotations

from tests.support.process import python


def agree_uncompiled(*tests: str) -> None:
    """Run ``tests``, each ``MODULE.FUNCTION`` under ``tests``, with kernels that are not compiled.

    Compiled code does not check bounds, NumPy does: so kernels are shown to stay within their arrays, too.
    """
    lines = ["import features.jit", "features.jit.njit = features.jit.kernel = features.jit.apart = lambda function: function"]
    for test in tests:
        module, _, function = test.rpartition(".")
        lines += [f"import tests.{module}", f"tests.{module}.{function}()"]
    run = python(["-c", "\n".join(lines)], timeout=3600)
    assert run.returncode == 0, run.stderr
