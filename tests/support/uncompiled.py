"""Tests repeated with the kernels as plain Python, in a process of its own."""

from __future__ import annotations

from tests.support.process import python


def agree_uncompiled(*tests: str) -> None:
    """Run ``tests``, each ``MODULE.FUNCTION`` or ``MODULE.FUNCTION:PARAMETER`` under ``tests``, with kernels that are not compiled.

    Compiled code does not check bounds, NumPy does: so kernels are shown to stay within their arrays, too. A sixth of the
    examples does; all of them are tried on the compiled kernels.
    """
    lines = ["import features.jit", "features.jit.njit = features.jit.kernel = features.jit.apart = lambda function: function"]
    lines += ["from hypothesis import settings", "kept = '_hypothesis_internal_use_settings'"]
    for test in tests:
        named, _, parameter = test.partition(":")
        module, _, function = named.rpartition(".")
        lines += [f"from tests.{module} import {function} as test", "given = getattr(test, kept)"]
        lines += ["setattr(test, kept, settings(given, max_examples=max(given.max_examples // 6, 1)))"]
        lines.append(f"test({parameter!r})" if parameter else "test()")
    run = python(["-c", "\n".join(lines)], timeout=3600)
    assert run.returncode == 0, run.stderr
