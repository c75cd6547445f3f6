"""Score waiting jobs by a learned policy's formula; the smallest score starts first.

Packed unchanged into registered models, where Queuecast is not installed: it needs only numpy and pandas. It repeats
the arithmetic of ``sim.kernel.orders`` for many jobs at a time, and a test checks that both are equal.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from .settings import read_settings

LEAST_LOG, LARGEST = 1e-9, 1e300
_ONE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "log": lambda a: np.log(np.maximum(a, LEAST_LOG)),
    "sqrt": lambda a: np.sqrt(np.maximum(a, 0.0)),
    "exp": np.exp,
    "abs": np.abs,
    "tanh": np.tanh,
}
_TWO: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mult": np.multiply,
    "Div": lambda a, b: np.where(b != 0.0, a / np.where(b != 0.0, b, 1.0), 0.0),
    "Pow": np.power,
    "min": np.minimum,
    "max": np.maximum,
    "Lt": np.less,
    "LtE": np.less_equal,
    "Gt": np.greater,
    "GtE": np.greater_equal,
}


class PolicyPredictor:
    """One policy, loaded from the directory it was written to."""

    def __init__(self, directory: Path) -> None:
        """Raises ValueError for another format, OSError for a missing file."""
        self._settings = read_settings(directory)

    def predict(self, jobs: pd.DataFrame) -> pd.DataFrame:
        """Return the column ``score``, one row per job.

        ``jobs`` has a column for each feature of the formula, in the units stated in the settings. Raises ValueError
        for a missing column or value.
        """
        names = list(self._settings["features"])
        if absent := [name for name in names if name not in jobs]:
            raise ValueError(f"column {absent[0]} is missing: the policy asks for {', '.join(names)}")
        columns = {name: jobs[name].to_numpy(np.float64, na_value=np.nan) for name in names}
        for name, values in columns.items():
            if not np.isfinite(values).all():
                row = int(np.flatnonzero(~np.isfinite(values))[0])
                raise ValueError(f"row {row} (counted from 0), column {name}: {values[row]} is not a finite number")
        inputs = {**columns, **self._settings["parameters"]}
        scores = np.broadcast_to(score(self._settings["formula"], inputs), len(jobs))
        return pd.DataFrame({"score": scores}, index=jobs.index)


def score(formula: str, inputs: Mapping[str, np.ndarray | float]) -> np.ndarray:
    """Return the value of ``formula`` for the features and parameters ``inputs``, float64.

    Raises ValueError if it is not a formula, or has an unknown name.
    """
    try:
        with np.errstate(all="ignore"):
            return np.clip(_value(ast.parse(formula, mode="eval").body, inputs), -LARGEST, LARGEST)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"{formula[:60]!r} is not a formula") from error


def _value(node: ast.expr, inputs: Mapping[str, np.ndarray | float]) -> np.ndarray:
    """Return the value of a part of a formula; NaN counts as 0."""
    evaluated: np.ndarray | float
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            evaluated = float(number)
        case ast.Name(id=name) if name in inputs:
            evaluated = inputs[name]
        case ast.UnaryOp(op=ast.USub(), operand=part):
            evaluated = -_value(part, inputs)
        case ast.UnaryOp(op=ast.UAdd(), operand=part):
            evaluated = _value(part, inputs)
        case ast.BinOp(left=left, op=operation, right=right) | ast.Compare(left=left, ops=[operation], comparators=[right]) if (
            type(operation).__name__ in _TWO
        ):
            evaluated = _TWO[type(operation).__name__](_value(left, inputs), _value(right, inputs))
        case ast.Call(func=ast.Name(id="where"), args=[condition, first, second], keywords=[]):
            evaluated = np.where(_value(condition, inputs) != 0.0, _value(first, inputs), _value(second, inputs))
        case ast.Call(func=ast.Name(id=name), args=[part], keywords=[]) if name in _ONE:
            evaluated = _ONE[name](_value(part, inputs))
        case ast.Call(func=ast.Name(id=name), args=[left, right], keywords=[]) if name in ("min", "max"):
            evaluated = _TWO[name](_value(left, inputs), _value(right, inputs))
        case _:
            raise ValueError(f"{ast.unparse(node)[:60]!r} is not allowed in a formula")
    value = np.asarray(evaluated, np.float64)
    return np.where(np.isnan(value), 0.0, value)
