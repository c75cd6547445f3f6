"""Tables as arrays by name, which need no pandas.

Whole numbers are NumPy arrays, masked ones where values may be missing. A dataclass holds a table as columns until its
field is read, which gives a DataFrame (:func:`tabled`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from features.deferred import pd

_T = TypeVar("_T")


@dataclass(frozen=True)
class Texts:
    """A column of texts: ``codes`` [rows] into distinct ``names``, -1 for a missing text.

    pandas has it as categories or, if ``plain``, as texts.
    """

    codes: np.ndarray
    names: Any
    plain: bool = False

    @classmethod
    def of(cls, texts: Sequence[str | None], *, plain: bool = False) -> Texts:
        """Return texts, None for a missing one, as a column with sorted names."""
        names = sorted({text for text in texts if text is not None})
        codes = {None: -1, **{name: code for code, name in enumerate(names)}}
        return cls(np.array([codes[text] for text in texts], np.int64), names, plain)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> Texts:
        return Texts(self.codes[rows], self.names, self.plain)

    def tolist(self) -> list[str | None]:
        """Return the texts, None for a missing one."""
        names = [*self.names, None]
        return [names[code] for code in self.codes.tolist()]


@dataclass(frozen=True)
class TableColumns:
    """Columns of equal length by name, and the labels of an index, None for row numbers."""

    arrays: Mapping[str, Any]
    labels: Any = None

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def __getitem__(self, name: str) -> Any:
        return self.arrays[name]

    def __contains__(self, name: str) -> bool:
        return name in self.arrays

    def rows(self, chosen: np.ndarray | slice) -> TableColumns:
        """Return the ``chosen`` rows: their places, a mask or a slice."""
        labels = None if self.labels is None else self.labels[chosen]
        return TableColumns({name: values[chosen] for name, values in self.arrays.items()}, labels)

    def frame(self) -> pd.DataFrame:
        """Return the DataFrame, which shares the arrays."""
        return pd.DataFrame({name: _as_pandas(values) for name, values in self.arrays.items()}, index=self.labels, copy=False)


Table: TypeAlias = "TableColumns | pd.DataFrame"
"""A table in one of its two forms."""


def columns(table: Table) -> TableColumns:
    """Return a table as columns, without index labels if they repeat."""
    if isinstance(table, TableColumns):
        return table
    labels = table.index
    named = labels.is_unique and not labels.equals(pd.RangeIndex(len(labels)))
    return TableColumns({str(name): _numbers(column(table, name)) for name in table.columns}, labels if named else None)


def framed(table: Table) -> pd.DataFrame:
    """Return a table as a DataFrame."""
    return table.frame() if isinstance(table, TableColumns) else table


def column(table: Table, name: str) -> Any:
    """Return a column as an array; pandas' own if it is neither of numbers nor of categories."""
    if isinstance(table, TableColumns):
        return table[name]
    values = table[name].array
    if isinstance(values, pd.Categorical):
        return Texts(values.codes, values.categories)
    if isinstance(values, pd.arrays.IntegerArray):
        return np.ma.MaskedArray(values.to_numpy(values.dtype.name.lower(), na_value=0), values.isna())
    return table[name].to_numpy() if isinstance(table[name].dtype, np.dtype) else values


def present(values: np.ndarray, where: np.ndarray) -> np.ma.MaskedArray:
    """Return whole numbers that are missing except ``where`` (bool, same length)."""
    return np.ma.MaskedArray(np.where(where, values, 0), ~where)


def filled(table: Table, name: str, missing: int = 0) -> np.ndarray:
    """Return a column of numbers [rows], with ``missing`` in place of missing ones."""
    return np.ma.filled(_numbers(column(table, name)), missing)


def _numbers(values: Any) -> Any:
    """Return numbers of other types, as in a table made by hand, masked where missing."""
    if isinstance(values, Texts) or (isinstance(values, np.ndarray) and values.dtype.kind != "f"):
        return values
    if values.dtype.kind not in "iuf":
        return values
    nullable = pd.array(values)
    return np.ma.MaskedArray(nullable.to_numpy(np.float64, na_value=0.0), nullable.isna())


def _as_pandas(values: Any) -> Any:
    if isinstance(values, Texts):
        names = pd.Index(values.names, dtype="str") if isinstance(values.names, list) else values.names
        categories = pd.Categorical.from_codes(values.codes, categories=names)
        return categories.astype("str") if values.plain else categories
    if isinstance(values, np.ma.MaskedArray):
        if values.dtype.kind == "f":
            return np.ma.filled(values, np.nan)
        return pd.arrays.IntegerArray(np.ma.getdata(values), np.ma.getmaskarray(values))
    return values


def tabled(*fields: str) -> Callable[[type[_T]], type[_T]]:
    """Return the decorator of a dataclass with ``fields`` for tables in either form."""

    def decorated(kind: type[_T]) -> type[_T]:
        for field in fields:
            setattr(kind, field, _Tabled(field))
        return kind

    return decorated


class _Tabled:
    """A field for a table in either form, made a DataFrame when it is first read."""

    def __init__(self, field: str) -> None:
        self._field = field

    def __get__(self, holder: object | None, owner: type) -> Any:
        if holder is None:
            return self
        table = vars(holder)[self._field] = framed(vars(holder)[self._field])
        return table

    def __set__(self, holder: object, table: Table) -> None:
        vars(holder)[self._field] = table


def held(holder: object, field: str = "jobs") -> Table:
    """Return the table of a field of :func:`tabled` in the form that it has."""
    return vars(holder)[field]


def changed(holder: _T, **changes: Any) -> _T:
    """Return a dataclass as ``dataclasses.replace`` does, without making DataFrames."""
    return type(holder)(**{**vars(holder), **changes})
