"""Scores: queue orders that are formulas of a job and of the machine.

Examples are ``r*n`` (SAF) and ``r**a*n; a=2``. The job with the smallest score comes first; ties go by submission. A
formula has numbers, features, parameters, ``+ - * / **``, brackets, comparisons (1 or 0),
``log sqrt exp abs tanh min max`` and ``where(condition, a, b)``. Logarithms are natural and of at least 1e-9, roots of
at least 0; x / 0 and non-numbers are 0.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from features.errors import InputError, meant
from models.runtime.options import parse
from sim.kernel import orders as kernel
from sim.kernel.orders import DEEPEST, Scoring

FEATURES: dict[str, tuple[int, str]] = {
    "n": (kernel.N, "processors of the job"),
    "r": (kernel.R, "estimated runtime, s: what the predictor says at submission, the requested time where none is used"),
    "requested": (kernel.REQUESTED, "requested time, s"),
    "submit": (kernel.SUBMIT, "submission, s since the first one simulated"),
    "wait": (kernel.WAIT, "time since submission, s"),
    "free": (kernel.FREE_NOW, "free processors as the pass begins"),
    "queue": (kernel.QUEUE, "waiting jobs as the pass begins"),
    "demand": (kernel.DEMAND, "sum of r n over the waiting jobs, s"),
    "hour": (kernel.HOUR, "time of day by the trace's wall clock, 0 to 24"),
    "procs": (kernel.PROCS, "processors of the machine"),
}
"""Code and meaning of each feature."""
LONGEST = 20_000
"""Max characters of a formula with its parameters."""
MOST_STEPS = 2_000
"""Max steps of a program."""

_OF_ONE = {"log": kernel.LOG, "sqrt": kernel.SQRT, "exp": kernel.EXP, "abs": kernel.ABS, "tanh": kernel.TANH}
_OF_TWO = {"min": kernel.MIN, "max": kernel.MAX}
_OPERATORS: dict[type, int] = {
    **{ast.Add: kernel.ADD, ast.Sub: kernel.SUBTRACT, ast.Mult: kernel.MULTIPLY, ast.Div: kernel.DIVIDE, ast.Pow: kernel.POWER},
    **{ast.Lt: kernel.BELOW, ast.LtE: kernel.UP_TO, ast.Gt: kernel.BELOW, ast.GtE: kernel.UP_TO},
}
FUNCTIONS = (*_OF_ONE, *_OF_TWO, "where")

_SAME, _FIXED, _SHIFTS, _CHANGES = range(4)
"""How the value of a part varies: not at all; by job only; with the wait, alike for all jobs; in another way."""


@dataclass(frozen=True)
class Score:
    """A formula with the values of its parameters, and its program.

    ``code`` holds (operation, argument) of each step of :mod:`sim.kernel.orders`. The program's values are those of the
    parameters, then ``numbers``. ``changes`` tells whether the order of two waiting jobs can change.
    """

    formula: str
    parameters: tuple[str, ...]
    values: tuple[float, ...]
    numbers: tuple[float, ...]
    code: tuple[tuple[int, int], ...]
    changes: bool

    def __str__(self) -> str:
        return ";".join((self.formula, *(f"{name}={value!r}" for name, value in zip(self.parameters, self.values, strict=True))))

    @property
    def weights(self) -> tuple[float, ...]:
        """Return the values that the program takes."""
        return self.values + self.numbers

    @property
    def program(self) -> np.ndarray:
        """Return the program, int64 [steps, 2]."""
        return np.array(self.code, np.int64).reshape(-1, 2)

    def with_values(self, values: Sequence[float]) -> Score:
        """Return the same formula with other values of its parameters, in order."""
        if len(values) != len(self.parameters) or not all(map(math.isfinite, values)):
            raise InputError(f"the score {self.formula} takes {len(self.parameters)} finite values, not {list(values)}")
        return replace(self, values=tuple(float(value) for value in values))

    def features(self) -> list[str]:
        """Return the names of the features that it uses, in the order of :data:`FEATURES`."""
        used = {argument for operation, argument in self.code if operation == kernel.FEATURE}
        if kernel.SINCE in used:
            used.add(kernel.WAIT)
        return [name for name, (code, _) in FEATURES.items() if code in used]


def score(text: str) -> Score:
    """Return the score of ``FORMULA`` or ``FORMULA; a=1.5; b=-2``, in upper or lower case.

    Each name that is no feature is a parameter and needs its value. Comments, continued lines and letters that Python's
    parser would change are refused: a formula is shown as it was written. Raises InputError with the reason.
    """
    if len(text) > LONGEST:
        raise InputError(f"a score has at most {LONGEST:,} letters, not {len(text):,}")
    if odd := re.search(r"[^ -~]|[#\\]", text):
        raise InputError(f"score {_short(text)}: a formula cannot contain {odd[0]!r}")
    formula, _, parameters = (part.strip() for part in text.lower().partition(";"))
    values: dict[str, float] = {}
    try:
        texts = parse(parameters, ";")
    except InputError as error:
        raise InputError(f"score {_short(formula)}: {error}") from error
    for name, value in texts.items():
        if not re.fullmatch(r"[a-z_][a-z_0-9]*", name) or name in (*FEATURES, *FUNCTIONS):
            raise InputError(f"score {_short(formula)}: '{name}={value}' is not of the form NAME=VALUE with a new name")
        values[name] = _number(value, f"score {_short(formula)}: parameter {name}")
    try:
        tree = ast.parse(formula, mode="eval").body
        writer = _Writer(formula, tuple(values))
        kind = writer.write(tree)
        text = ast.unparse(tree).replace(" ", "")
    except InputError:
        raise
    except RecursionError as error:
        raise InputError(f"score {_short(formula)}: is nested too deep") from error
    except SyntaxError as error:
        at = f"{_at(formula, (error.offset or len(formula) + 1) - 1)} is not expected"
        raise InputError(f"score {_short(formula)}: {'is nested too deep' if 'nested' in error.msg else at}") from error
    except (ValueError, MemoryError) as error:
        raise InputError(f"score {_short(formula)}: is not a formula such as r*n or log(r)+a*log(n); a=0.5") from error
    if unused := set(values) - writer.used:
        raise InputError(f"score {_short(formula)}: parameter {sorted(unused)[0]} is not in the formula")
    if len(writer.code) > MOST_STEPS or writer.deepest > DEEPEST:
        raise InputError(f"score {_short(formula)}: is longer than {MOST_STEPS:,} steps or deeper than {DEEPEST}")
    code = writer.code
    if kind == _SHIFTS:  # time moves all scores alike: without it the order never changes
        since = {(kernel.FEATURE, kernel.WAIT): (kernel.FEATURE, kernel.SINCE)}
        code = [since.get(step, step) for step in code]
    numbers = tuple(writer.numbers)
    return Score(text, tuple(values), tuple(values.values()), numbers, tuple(code), kind == _CHANGES)


def _short(formula: str) -> str:
    return repr(formula if len(formula) <= 60 else f"{formula[:57]}...")


def _at(formula: str, column: int) -> str:
    """Return the token at ``column``, counted from 0, with its place in words."""
    token = re.match(r"\w+|\*\*|[<>]=|.", formula[column:])
    return f"{token[0]!r} at letter {column + 1}" if token else "the end"


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise InputError(f"{where} is {text!r}, not a number") from error
    if not math.isfinite(value) or "_" in text:
        raise InputError(f"{where} is {text!r}, not a finite number")
    return value


class _Writer:
    """Translates the tree of ``formula`` to a program whose first values are ``parameters``."""

    def __init__(self, formula: str, parameters: tuple[str, ...]) -> None:
        self.formula, self.parameters = formula, parameters
        self.numbers: list[float] = []
        self.code: list[tuple[int, int]] = []
        self.used: set[str] = set()
        self.depth = self.deepest = 0

    def write(self, node: ast.expr) -> int:
        """Append the steps of ``node``; return how its value changes."""
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Constant):
            if isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
                raise self._wrong(node, "is not a number")
            number = _number(str(node.value), "a number of a score")
            if number not in self.numbers:
                self.numbers.append(number)
            self._push(kernel.VALUE, len(self.parameters) + self.numbers.index(number))
            return _SAME
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            kind = self.write(node.operand)
            if isinstance(node.op, ast.USub):
                self.code.append((kernel.NEGATIVE, 0))
            return kind
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return self._two(_OPERATORS[type(node.op)], node.left, node.right)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPERATORS:
            sides = (node.left, node.comparators[0])
            return self._two(_OPERATORS[type(node.ops[0])], *(sides if isinstance(node.ops[0], (ast.Lt, ast.LtE)) else sides[::-1]))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self._call(node, node.func.id)
        raise self._wrong(node, f"begins {_short(ast.unparse(node))}, which a score cannot have: {grammar()}")

    def _wrong(self, node: ast.expr, what: str) -> InputError:
        return InputError(f"score {_short(self.formula)}: {_at(self.formula, node.col_offset)} {what}")

    def _name(self, node: ast.Name) -> int:
        name = node.id
        if name in FEATURES:
            code = FEATURES[name][0]
            self._push(kernel.FEATURE, code)
            if code == kernel.WAIT:
                return _SHIFTS
            if code == kernel.PROCS:
                return _SAME
            return _FIXED if code <= kernel.SUBMIT else _CHANGES
        if name not in self.parameters:
            hint = meant(name, (*FEATURES, *self.parameters)) or f"features {' '.join(FEATURES)}"
            raise self._wrong(node, f"is not a feature, nor a parameter with a value: {hint}")
        self.used.add(name)
        self._push(kernel.VALUE, self.parameters.index(name))
        return _SAME

    def _push(self, operation: int, argument: int) -> None:
        self.code.append((operation, argument))
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)

    def _two(self, operation: int, left: ast.expr, right: ast.expr) -> int:
        a, b = self.write(left), self.write(right)
        self._replace(operation, 2)
        linear = operation in (kernel.ADD, kernel.SUBTRACT)
        linear |= operation == kernel.MULTIPLY and _SAME in (a, b)
        linear |= operation == kernel.DIVIDE and b == _SAME
        return _together((a, b), linear)

    def _call(self, node: ast.Call, name: str) -> int:
        takes = {**dict.fromkeys(_OF_ONE, 1), **dict.fromkeys(_OF_TWO, 2), "where": 3}
        if name not in takes:
            raise self._wrong(node, f"is not a function: {meant(name, takes) or ' '.join(takes)}")
        if len(node.args) != takes[name]:
            raise self._wrong(node, f"has {len(node.args)} values, and takes {takes[name]}")
        kinds = [self.write(argument) for argument in node.args]
        self._replace({**_OF_ONE, **_OF_TWO, "where": kernel.WHERE}[name], len(kinds))
        return _together(kinds, False)

    def _replace(self, operation: int, values: int) -> None:
        self.code.append((operation, 0))
        self.depth -= values - 1


def _together(kinds: Iterable[int], linear: bool) -> int:
    """Return how a combined value varies; a ``linear`` one shifts as its parts do."""
    kind = max(kinds)
    return _CHANGES if kind == _SHIFTS and not linear else kind


def grammar() -> str:
    """Return one line with the features and functions."""
    return f"features {' '.join(FEATURES)}; + - * / ** < <= > >= and {' '.join(FUNCTIONS)}; parameters as in r**a*n; a=2"


NO_PROGRAM = np.zeros((0, 2), np.int64)
_NO_CLOCK = np.zeros((1, 2), np.int64)


def as_scoring(primary: Score | None, backfill: Score | None, procs: int, clock: Callable[[], np.ndarray] | None = None) -> Scoring:
    """Return the kernel's arrays of both scores; None is an order that is no score.

    ``clock`` gives the steps of the wall clock; it is called only if a score has the time of day.
    """
    first, behind = (NO_PROGRAM if score is None else score.program for score in (primary, backfill))
    tells = any((program == (kernel.FEATURE, kernel.HOUR)).all(axis=1).any() for program in (first, behind))
    steps = clock() if tells and clock is not None else _NO_CLOCK
    return Scoring(first, behind, np.zeros(3), np.zeros(DEEPEST), steps, procs)
