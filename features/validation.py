"""Validate tables of settings files by pydantic against dataclass types."""

from collections.abc import Sequence
from dataclasses import MISSING, fields
from functools import cache
from numbers import Integral
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from features.errors import InputError, meant, one_line, shown

_EXPECTED = {
    "string_type": "a string",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "mapping_type": "a table",
    "dict_type": "a table",
}
"""The expected value in words, by pydantic's type of error."""
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "above"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "below"),
}
"""The key of a bound in pydantic's error context, and its words, by type of error."""


def validated(shape: type, table: Any, where: str, left_out: Sequence[str] = ("name",)) -> dict[str, Any]:
    """Return ``table`` with values of the types of the dataclass ``shape``.

    Keys are all its fields except ``left_out``. The only conversion is from list to tuple. Raises InputError of one
    line: ``where``, the key, and what it must be.
    """
    if not isinstance(table, dict):
        raise InputError(f"{where}: must be a table, not {shown(table)}")
    model = _model(shape, tuple(left_out))
    try:
        return model.model_validate(table).model_dump(exclude_unset=True)
    except ValidationError as error:
        raise InputError(f"{where}: {refusal(error, model)}") from error


def whole(name: str, value: object, most: int | None = None) -> int:
    """Return a whole number of 0 or more as an int; InputError for any other value."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputError(f"{name} must be a whole number, not {shown(value)}")
    number = int(value)
    if number < 0 or (most is not None and number > most):
        raise InputError(f"{name} must be at least 0{'' if most is None else f' and at most {most:,}'}, not {shown(value)}")
    return number


def flag(name: str, value: object) -> bool:
    """Return true or false; InputError for any other value, such as a text."""
    if type(value).__name__ not in ("bool", "bool_"):
        raise InputError(f"{name} must be true or false, not {shown(value)}")
    return bool(value)


def text(name: str, value: object) -> str:
    """Return a text; InputError for any other value."""
    if not isinstance(value, str):
        raise InputError(f"{name} must be a string, not {shown(value)}")
    return value


def refusal(error: ValidationError, model: type[BaseModel]) -> str:
    """Return one line about the first wrong key: what is wrong, and what would be right."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "value_error":  # from a check of the whole table, whose message names its subject
        return str(first["ctx"]["error"])
    return f"{one_line('.'.join(str(part) for part in first['loc']), 60)} {_complaint(first, model)}"


def _complaint(error: Any, model: type[BaseModel]) -> str:
    """Return what is wrong with a key, and what would be right."""
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return f"is unknown; {meant(error['loc'][-1], model.model_fields) or 'known: ' + ', '.join(model.model_fields)}"
    if kind == "literal_error":
        return f"must be one of {context['expected'].replace(' or ', ', ').replace(chr(39), '')}, not {shown(value)}"
    for bound, (key, words) in _BOUNDS.items():
        if kind == bound:
            return f"must be {words} {context[key]:g}, not {shown(value)}"
    if kind == "too_short":
        return "must name at least one"
    return f"must be {_EXPECTED.get(kind, error['msg'])}, not {shown(value)}"


@cache
def _model(shape: type, left_out: tuple[str, ...]) -> type[BaseModel]:
    hints = get_type_hints(shape, include_extras=True)
    keys: dict[str, Any] = {}
    for field in fields(shape):
        if field.name not in left_out:
            default = ... if field.default is MISSING else field.default
            default = Field(default_factory=field.default_factory) if field.default_factory is not MISSING else default
            keys[field.name] = (hints[field.name], default)
    model: type[BaseModel] = create_model(shape.__name__, __config__=ConfigDict(extra="forbid", strict=True), **keys)
    return model
