"""Lists of options as texts, ``a=1,b=2``: parsed and checked in one place."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

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


def check_known(option: str, choices: tuple[str, ...]) -> None:
    """Raise InputError for an option that is not in ``choices``."""
    if option not in choices:
        raise unknown("option", option, choices)


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


def nights(every: str) -> int:
    """Return the option ``every`` of a predictor that is retrained at night.

    It is the number of midnights of which one brings a new model, 1 to 366; InputError otherwise.
    """
    return whole(f"every={every}", every, minimum=1, maximum=366)


def chosen(option: str, text: str, choices: tuple[str, ...]) -> str:
    """Return ``text`` if it is in ``choices``; InputError, naming ``option``, otherwise."""
    if text not in choices:
        raise InputError(f"{option}; {meant(text, choices) or 'known: ' + ', '.join(choices)}")
    return text


def shortest(value: float) -> str:
    """Return the shortest text that :func:`number` reads as ``value``."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def spelled(name: str, options: dict[str, str], usual: dict[str, str]) -> str:
    """Return the name of a predictor with its options that differ from ``usual``."""
    unusual = [f"{option}={text}" for option, text in options.items() if text != usual[option]]
    return f"{name}({','.join(unusual)})" if unusual else name
