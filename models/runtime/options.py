"""Lists of options as texts, ``a=1,b=2``: parsed and checked in one place.

Predictors, schedulers and others state their options as a table of :class:`Option` by name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from features.errors import InputError, meant, unknown


def pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of each part of ``a=1,b,c=2``; without ``=`` the value is empty.

    It checks nothing: files of Slurm have such lists, whose readers say in their own words what is wrong.
    """
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        yield name.strip(), value.strip()


def parse(text: str, separator: str = ",") -> dict[str, str]:
    """Return ``a=1,b=2`` as a dictionary of texts; InputError for any other form."""
    options: dict[str, str] = {}
    for part in text.split(separator) if text else ():
        option, equals, value = (piece.strip() for piece in part.partition("="))
        if not (option and equals and value):
            raise InputError(f"{part.strip()!r} is not of the form option=value")
        if option in options:
            raise InputError(f"option {option} is given twice")
        options[option] = value
    return options


def named(text: str) -> tuple[str, dict[str, str]]:
    """Split ``NAME`` or ``NAME(a=1,b=2)`` into the name and its options, as texts.

    Raises InputError if the options cannot be read.
    """
    match = re.fullmatch(r"([^()]*)\((.+)\)", text)
    return (match[1], parse(match[2])) if match else (text, {})


def number(option: str, text: str, *, above: float = -math.inf, minimum: float = -math.inf, maximum: float = math.inf) -> float:
    """Return a finite number above ``above`` and in ``minimum..maximum``.

    Raises InputError, naming ``option``, for any other text.
    """
    try:
        value = float(text)
    except ValueError as error:
        raise InputError(f"{option}: {text!r} is not a number") from error
    if not (math.isfinite(value) and value > above and minimum <= value <= maximum):
        bounds = {"above": above, "at least": minimum, "at most": maximum}
        conditions = "".join(f", {word} {bound:g}" for word, bound in bounds.items() if math.isfinite(bound))
        raise InputError(f"{option}: must be a finite number{conditions}")
    return value


def whole(option: str, text: str, *, minimum: int, maximum: int) -> int:
    """Return a whole number in ``minimum..maximum``; InputError, naming ``option``, otherwise."""
    value = number(option, text, minimum=minimum, maximum=maximum)
    if value != int(value):
        raise InputError(f"{option}: must be a whole number")
    return int(value)


def chosen(option: str, text: str, choices: tuple[str, ...]) -> str:
    """Return ``text`` if it is in ``choices``; InputError, naming ``option``, otherwise."""
    if text not in choices:
        raise InputError(f"{option}; {meant(text, choices) or 'known: ' + ', '.join(choices)}")
    return text


def shortest(value: float) -> str:
    """Return the shortest text that :func:`number` reads as ``value``."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


@dataclass(frozen=True)
class Option:
    """An option: its usual value, and which texts are a value.

    A text is one of ``words``, else a finite number above ``above`` and in ``minimum..maximum``, and a whole one if the
    usual value is. Where the usual value is a text it is one of ``words``, or any text if there are none. ``reads``, if
    there is one, returns the value of a text of another form.
    """

    usual: Any
    minimum: float = -math.inf
    maximum: float = math.inf
    above: float = -math.inf
    words: tuple[str, ...] = ()
    reads: Callable[[str, str], Any] | None = None

    def read(self, option: str, text: str) -> Any:
        """Return the value of ``text``; InputError, naming ``option``, if it has none."""
        label = f"{option}={text}"
        if self.reads is not None:
            return self.reads(option, text)
        if text in self.words:
            return text
        if isinstance(self.usual, str):
            return chosen(label, text, self.words) if self.words else text
        if isinstance(self.usual, int):
            return whole(label, text, minimum=int(self.minimum), maximum=int(self.maximum))
        return number(label, text, above=self.above, minimum=self.minimum, maximum=self.maximum)


SEED = Option(0, minimum=0, maximum=2**31 - 1)
EVERY = Option(1, minimum=1, maximum=366)
"""Of a predictor that is retrained at night: the number of midnights of which one brings a new model."""


def read(texts: Mapping[str, str], rules: Mapping[str, Option]) -> dict[str, Any]:
    """Return the values of all options of ``rules``, the usual ones where ``texts`` have none.

    Raises InputError for an unknown option, or a text that is no value of its option.
    """
    for option in texts:
        if option not in rules:
            raise unknown("option", option, tuple(rules))
    return {option: rule.read(option, texts[option]) if option in texts else rule.usual for option, rule in rules.items()}


def spelled(name: str, values: Mapping[str, Any], rules: Mapping[str, Option]) -> str:
    """Return the name of a predictor with its options that differ from the usual ones."""
    unusual = [
        f"{option}={shortest(value) if isinstance(value, float) else value}"
        for option, value in values.items()
        if value != rules[option].usual
    ]
    return f"{name}({','.join(unusual)})" if unusual else name
