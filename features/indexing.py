"""Compile array indices as unsigned, so that no index counts from the end.

For every access by a signed index numba checks whether the index is negative, to count from the end. The check takes a sixth of a
simulation's time. As unsigned, a negative index is out of bounds; `NUMBA_BOUNDSCHECK=1` and the tests with uncompiled kernels
detect it.
"""

from __future__ import annotations

from typing import Any

from numba.core import compiler, ir, types
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.typed_passes import NopythonTypeInference


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


class _Flags(compiler.Flags):
    """Flags that compare what is set alone.

    Numba compares all forty, each by a property, whenever it looks up an overload: a tenth of the time of compiling.
    """

    def __hash__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Flags) and self._values == other._values


class Compiler(compiler.CompilerBase):
    """Numba's compiler with the pass :class:`UnsignedIndices`."""

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, args: Any, return_type: Any, flags: Any, locals: Any) -> None:
        super().__init__(typingctx, targetctx, library, args, return_type, _Flags(flags), locals)

    def define_pipelines(self) -> list[Any]:
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(UnsignedIndices, NopythonTypeInference)
        passes.finalize()
        return [passes]
