"""Compile array indices as unsigned, so that no index counts from the end.

For every access by a signed index numba checks whether the index is negative, to count from the end. The check takes a sixth of a
simulation's time. As unsigned, a negative index is out of bounds; `NUMBA_BOUNDSCHECK=1` and the tests with uncompiled kernels
detect it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from numba.core import compiler, ir, types
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.typed_passes import NopythonTypeInference

_PLAIN = types.Number, types.Boolean, types.Array
"""Types for which an operator's signature depends on the argument types alone."""


@register_pass(mutates_CFG=False, analysis_only=False)
class UnsignedIndices(FunctionPass):
    """Compile array accesses by signed integers as accesses by unsigned integers.

    Lowering casts the index to the type in the signature.
    """

    _name = "unsigned_indices"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        for block in state.func_ir.blocks.values():
            for statement in block.body:
                access = statement.value if isinstance(statement, ir.Assign) else statement
                if isinstance(access, ir.SetItem) or (isinstance(access, ir.Expr) and access.op == "getitem"):
                    signature = state.calltypes[access]
                    array, index, *value = signature.args
                    if isinstance(array, types.Array) and index in types.signed_domain:
                        del state.calltypes[access]  # calltypes refuses to overwrite a key
                        state.calltypes[access] = signature.replace(args=(array, types.uintp, *value))
        return True


def remember_signatures(context: Any) -> None:
    """Make each operator remember its signature for numbers and arrays.

    To type ``a + b`` numba tries dozens of signatures, even those for dates and lists, and does so for each expression.
    """
    for name in operator.__all__:
        function = context._lookup_global(getattr(operator, name))
        if isinstance(function, types.Function) and "get_call_type" not in vars(function):
            vars(function)["get_call_type"] = _remembering(function.get_call_type)


def _remembering(resolve: Callable[..., Any]) -> Callable[..., Any]:
    resolved: dict[Any, Any] = {}

    def get_call_type(context: Any, args: Any, keywords: Any) -> Any:
        if keywords or not all(isinstance(each, _PLAIN) for each in args):
            return resolve(context, args, keywords)
        key = context, tuple(args)
        if key not in resolved:
            resolved[key] = resolve(context, args, keywords)
        return resolved[key]

    return get_call_type


class Compiler(compiler.CompilerBase):
    """Numba's compiler with the pass :class:`UnsignedIndices`."""

    def define_pipelines(self) -> list[Any]:
        remember_signatures(self.state.typingctx)
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(UnsignedIndices, NopythonTypeInference)
        passes.finalize()
        return [passes]
