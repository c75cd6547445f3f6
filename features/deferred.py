"""Modules that are imported when a name of theirs is first used.

pandas takes a quarter of a second to import, and a command that makes no table does without: write
``from features.deferred import pd`` where such a command passes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any


class _Deferred:
    """Stands for a module that may not be imported yet."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._module), name)
        setattr(self, name, value)  # found here the next time
        return value


if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
else:
    pa, pd = _Deferred("pyarrow"), _Deferred("pandas")

__all__ = ["pa", "pd"]
