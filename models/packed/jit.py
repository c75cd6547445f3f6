"""Stands for ``features.jit`` in registered models, which run kernels as plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

COMPILED = False


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` as it is."""
    return function


njit = apart = kernel
