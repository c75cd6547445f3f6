"""Named tuples in compiled code: taken by reference from Python, with every member as it was."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
import pytest

from features.jit import apart, config, kernel, njit

pytestmark = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")


class Inner(NamedTuple):
    """Members of an inner tuple."""

    rows: np.ndarray
    share: float
    small: np.ndarray


class Outer(NamedTuple):
    """Members of every kind, the inner tuple between them."""

    table: np.ndarray
    whether: bool
    inner: Inner
    missing: Any
    pair: tuple[int, float]
    last: int


@apart
def read(outer, out):
    inner = outer.inner
    out[0] = outer.table[1, 0] + 10 * outer.table[0, 1] + 100 * outer.table.shape[0] + 1000 * outer.table.shape[1]
    out[1] = 1.0 if outer.whether else 0.0
    out[2] = inner.share + len(inner.rows)
    out[3] = inner.rows[2] + inner.small[1]
    out[4] = outer.pair[0] + outer.pair[1]
    out[5] = outer.last if outer.missing is None else -1


@kernel
def write(outer, times):
    for _ in range(times):
        outer.inner.rows[0] += outer.last


@njit
def pass_on(outer, out):
    read(outer, out)
    return outer.table


@njit
def read_by_value(outer, out):
    read(Outer(outer.table, outer.whether, outer.inner, outer.missing, outer.pair, outer.last), out)


def outer(table: np.ndarray, whether: bool = True) -> Outer:
    return Outer(table, whether, Inner(np.arange(3, 6), 0.25, np.array([7, 8], np.int32)), None, (40, 0.5), 9)


def read_from(table: np.ndarray, whether: bool = True, how: Any = read) -> list[float]:
    out = np.zeros(6)
    how(outer(table, whether), out)
    return out.tolist()


TABLE = np.arange(6).reshape(2, 3)


@pytest.mark.parametrize("how", [read, pass_on, read_by_value])
def test_every_member_is_read_as_it_is_also_from_a_tuple_made_in_compiled_code(how) -> None:
    assert read_from(TABLE, how=how) == [3 + 10 + 200 + 3000, 1, 3.25, 13, 40.5, 9]
    assert read_from(TABLE, False, how)[1] == 0


def test_arrays_with_strides_of_their_own_are_read_as_they_are() -> None:
    assert read_from(TABLE.T)[0] == 1 + 30 + 300 + 2000
    assert read_from(np.arange(24).reshape(4, 6)[::2, ::3])[0] == 12 + 30 + 200 + 2000


def test_what_compiled_code_writes_into_an_array_of_a_tuple_is_the_callers() -> None:
    nested = outer(TABLE)
    write(nested, 3)
    assert nested.inner.rows.tolist() == [3 + 27, 4, 5]


def test_no_array_is_kept_and_one_that_is_returned_is_the_callers() -> None:
    nested, out = outer(TABLE), np.zeros(6)
    assert pass_on(nested, out) is TABLE
    before = sys.getrefcount(TABLE), sys.getrefcount(nested.inner.rows)
    for _ in range(5):
        pass_on(nested, out)
    assert (sys.getrefcount(TABLE), sys.getrefcount(nested.inner.rows)) == before


def test_a_tuple_is_passed_as_one_pointer() -> None:
    read_from(TABLE)
    assert {str(signature[0]).partition(".")[0] for signature in read.signatures} == {"Outer"}
    (compiled, *_) = read.overloads.values()
    assert len(compiled.fndesc.llvm_func_name) < 200, "names of functions do not spell out what tuples hold"
