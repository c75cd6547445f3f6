"""Compiled policies of :mod:`sim.own.decide`: functions that the kernel calls by address.

Compiling one does not recompile the kernel: they share an address and a table of the addresses of the simulation's arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import cfunc, njit, types
from numba.core.errors import NumbaError
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from features.errors import InputError
from sim.kernel.outside import ADDRESSES, FIRST_NEW, FIRST_WAITING, NEWS, NOW, SEEN
from sim.kernel.state import COUNTERS, FREE, NEXT, PLANS, WAITING

_PLAIN: dict[str, Any] = {"_nrt": False, "forceinline": True}
"""Options for code that allocates nothing and counts no references, like that of kernels."""


class CompiledView(NamedTuple):
    """What a compiled policy sees, int64; seconds count from the first submission.

    ``waiting`` are numbers of jobs in order of submission, the last ``new`` of them submitted since the last call. ``changed`` is
    1 if anything else has happened since, else 0. By number of a submitted job: ``submit procs requested user order fit end
    start`` (``start`` is -1 for a waiting job; ``user`` is a code, -1 if unknown). By running job, in the order of predicted
    ends: the end ``planned[i] >> bits``, and ``planned_procs[i]``. ``memory`` float64 is kept between calls, 0 at first.
    """

    now: int
    free: int
    total: int
    new: int
    changed: int
    waiting: np.ndarray
    submit: np.ndarray
    procs: np.ndarray
    requested: np.ndarray
    user: np.ndarray
    order: np.ndarray
    fit: np.ndarray
    end: np.ndarray
    start: np.ndarray
    planned: np.ndarray
    planned_procs: np.ndarray
    bits: int
    memory: np.ndarray


def _at_address(readonly: bool) -> Any:
    """Return compiled code: an address, a size and a kind of 8-byte numbers give an array."""

    def arrays(_: Any, address: Any, size: Any, kind: Any) -> Any:
        array = types.Array(kind.dtype, 1, "C", readonly=readonly)

        def generate(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
            structure = context.make_array(array)(context, builder)
            data = builder.inttoptr(arguments[0], context.get_data_type(array.dtype).as_pointer())
            words = [context.get_constant(types.intp, 8)]
            populate_array(structure, data, arguments[1:2], words, words[0], None)
            return structure._getvalue()

        return array(types.int64, types.int64, kind), generate

    return intrinsic(arrays)


_seen, _own = _at_address(readonly=True), _at_address(readonly=False)


@dataclass(frozen=True)
class CompiledPolicy:
    """A policy that the kernel calls at an ``address``, with room for ``memory`` numbers."""

    name: str
    address: int
    memory: int
    code: Any
    """Keeps the machine code alive."""


def compiled(function: Callable[[CompiledView, np.ndarray], int] | None = None, *, memory: int = 0, checked: bool = True) -> Any:
    """Compile ``function(view, chosen)``, a policy of :func:`sim.own.decide`.

    It writes the numbers of the jobs to start into ``chosen``, which has room for all waiting jobs, and returns how many.
    ``view`` is a :class:`CompiledView`. Like all kernels it allocates nothing; it keeps values in ``view.memory``, which has
    ``memory`` numbers. Global variables keep their present values. An index outside of an array ends the simulation; unless
    ``checked``, it may end Python, or show jobs of the future. Compiling takes a second. Raises InputError for what cannot be
    compiled, such as a policy that writes to what it sees.
    """
    if function is None:
        return lambda decided: compiled(decided, memory=memory, checked=checked)
    if not callable(function):
        raise InputError(
            f"a {type(function).__name__} cannot be compiled: give a function of a view and the numbers of the chosen jobs"
        )
    policy, int64 = njit(**_PLAIN, boundscheck=checked)(function), np.int64

    def entry(place: int) -> Any:
        table = _seen(place, ADDRESSES + SEEN, int64)
        at = _seen(place + 8 * ADDRESSES, SEEN, int64)
        counters = _seen(at[0], COUNTERS, int64)
        submitted, waits, runs = counters[NEXT], counters[WAITING], counters[PLANS]
        waiting = _seen(at[1] + 8 * table[FIRST_WAITING], waits, int64)
        new = 0
        while new < waits and waiting[waits - 1 - new] >= table[FIRST_NEW]:
            new += 1
        view = CompiledView(
            table[NOW],
            counters[FREE],
            at[13],
            new,
            table[NEWS],
            waiting,
            _seen(at[3], submitted, int64),
            _seen(at[4], submitted, int64),
            _seen(at[5], submitted, int64),
            _seen(at[6], submitted, int64),
            _seen(at[7], submitted, int64),
            _seen(at[8], submitted, int64),
            _seen(at[9], submitted, int64),
            _seen(at[10], submitted, int64),
            _seen(at[11], runs, int64),
            _seen(at[12], runs, int64),
            at[14],
            _own(at[15], memory, np.float64),
        )
        return policy(view, _own(at[2], waits, int64)) + 1  # 0 if it raises

    try:
        code: Any = cfunc(types.int64(types.int64), **_PLAIN)(entry)
    except NumbaError as error:
        words = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = next((line for line in words if not line.startswith(("Failed in", "During:"))), words[0])
        raise InputError(f"policy {function.__name__}: cannot be compiled: {reason[:100]}") from error
    return CompiledPolicy(function.__name__, code.address, memory, code)
