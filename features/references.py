"""Named tuples that compiled code takes by reference: one pointer instead of all members.

Numba passes a named tuple as all the numbers in it, including those of its arrays and inner tuples. Slurm's state has nine
hundred. LLVM takes them apart and reassembles them in every function, which took two thirds of the compile time. Here the call
from Python writes them to memory once, each as a word of eight bytes, and compiled code reads only those that it uses. Nothing
writes to that memory during the call. LLVM is told so, and reads each value once.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import PrimitiveModel, register_default
from numba.core.imputils import impl_ret_borrowed, lower_getattr_generic
from numba.core.pythonapi import NativeValue, unbox
from numba.core.typing.templates import AttributeTemplate, infer_getattr

_WORD = ir.IntType(64)


class Reference(types.Type):
    """The type of a pointer to a named tuple of type ``of``, with the same attributes."""

    def __init__(self, tuple_type: Any) -> None:
        self.tuple_type = tuple_type
        # type names become part of function names, and the full name of a tuple lists all its members
        super().__init__(f"{tuple_type.instance_class.__name__}.{hashlib.sha256(tuple_type.name.encode()).hexdigest()[:16]}")

    @property
    def key(self) -> Any:
        """Return the value by which numba compares references."""
        return self.tuple_type


def by_reference(kind: types.Type) -> types.Type:
    """Return the reference to a named tuple type; return any other type unchanged."""
    return Reference(kind) if isinstance(kind, types.BaseNamedTuple) else kind


@register_default(Reference)
class _Pointer(PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Reference) -> None:
        super().__init__(dmm, fe_type, _WORD.as_pointer())


@infer_getattr
class _Members(AttributeTemplate):
    key = Reference

    def generic_resolve(self, reference: Reference, name: str) -> Any:  # type: ignore[override]
        fields = reference.tuple_type.fields
        return by_reference(reference.tuple_type[fields.index(name)]) if name in fields else None


@lower_getattr_generic(Reference)
def _member(context: Any, builder: Any, reference: Reference, pointer: Any, name: str) -> Any:
    index = reference.tuple_type.fields.index(name)
    pointer = _moved(builder, pointer, _first_word(context, reference.tuple_type, index))
    if isinstance(reference.tuple_type[index], types.BaseNamedTuple):
        return pointer
    member = _read(builder, pointer, context.get_value_type(reference.tuple_type[index]))
    return impl_ret_borrowed(context, builder, reference.tuple_type[index], member)


@cache
def _first_word(context: Any, tuple_type: Any, index: int) -> int:
    return sum(_words(context.get_value_type(member)) for member in tuple_type.types[:index])


@unbox(Reference)
def _from_python(reference: Reference, value: Any, c: Any) -> NativeValue:
    native = c.unbox(reference.tuple_type, value)
    memory = cgutils.alloca_once(c.builder, _WORD, _words(native.value.type))
    _write(c.builder, memory, native.value)

    def release() -> None:
        if native.cleanup is not None:
            native.cleanup()
        if c.context.enable_nrt:
            c.context.nrt.decref(c.builder, reference.tuple_type, native.value)

    return NativeValue(memory, is_error=native.is_error, cleanup=release)


def _words(kind: Any) -> int:
    """Return the number of words of a value: one for each number or pointer in it."""
    return sum(map(_words, kind.elements)) if isinstance(kind, ir.Aggregate) else 1


def _moved(builder: Any, pointer: Any, words: int) -> Any:
    return builder.gep(pointer, [ir.Constant(_WORD, words)], inbounds=True)


def _read(builder: Any, pointer: Any, kind: Any) -> Any:
    if not isinstance(kind, ir.Aggregate):
        value = builder.load(builder.bitcast(pointer, kind.as_pointer()))
        value.set_metadata("invariant.load", builder.module.add_metadata([]))
        return value
    value, words = ir.Constant(kind, ir.Undefined), 0
    for index, element in enumerate(kind.elements):
        value = builder.insert_value(value, _read(builder, _moved(builder, pointer, words), element), index)
        words += _words(element)
    return value


def _write(builder: Any, pointer: Any, value: Any) -> None:
    """Write a value in the layout that :func:`_read` expects."""
    if not isinstance(value.type, ir.Aggregate):
        builder.store(value, builder.bitcast(pointer, value.type.as_pointer()))
        return
    words = 0
    for index, element in enumerate(value.type.elements):
        _write(builder, _moved(builder, pointer, words), builder.extract_value(value, index))
        words += _words(element)
