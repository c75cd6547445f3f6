"""Compiled functions that are linked into others and have no machine code of their own.

Numba makes machine code for every function it compiles, and for two wrappers that hold a copy of its code: one for
calls from Python and one for calls from C. If two hundred functions end up in one, the machine code of the parts never
runs, but takes longer to make than that of the whole. Here a function gets machine code, and a wrapper for Python, only
if Python calls it. Compiled code that calls it links its :attr:`Kernel.part`, which LLVM optimises only there, together
with the caller.

Indices of arrays are compiled as unsigned, so that no index counts from the end. For every access by a signed index
numba checks whether the index is negative, to count from the end. The check takes a sixth of a simulation's time. As
unsigned, a negative index is out of bounds; `NUMBA_BOUNDSCHECK=1` and the tests with uncompiled kernels detect it.

Named tuples are taken by reference: one pointer instead of all members. Numba passes a named tuple as all the numbers
in it, including those of its arrays and inner tuples. Slurm's state has nine hundred. LLVM takes them apart and
reassembles them in every function, which took two thirds of the compile time. Here the call from Python writes them to
memory once, each as a word of eight bytes, and compiled code reads only those that it uses. Nothing writes to that
memory during the call. LLVM is told so, and reads each value once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache, cached_property, update_wrapper
from threading import Lock
from typing import Any
from uuid import uuid4

from llvmlite import ir
from llvmlite.binding import Linkage, create_new_module_pass_manager, parse_assembly
from numba.core import cgutils, compiler, types
from numba.core import ir as numba_ir
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.datamodel import PrimitiveModel, register_default
from numba.core.imputils import impl_ret_borrowed, lower_getattr_generic
from numba.core.pythonapi import NativeValue, unbox
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NopythonTypeInference
from numba.core.typing.templates import AttributeTemplate, infer_getattr


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
                access = statement.value if isinstance(statement, numba_ir.Assign) else statement
                if isinstance(access, numba_ir.SetItem) or (isinstance(access, numba_ir.Expr) and access.op == "getitem"):
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


class _Linked(JITCodeLibrary):
    """Code that is only linked into other code, and never optimised or loaded by itself."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


class _Whole(JITCodeLibrary):
    """Code with machine code, whose parts no other code calls.

    So LLVM passes the parts only the arguments that they use. Numba's first passes, which merge reference counts and
    inline everything, are left out: there are no such counts, and compiling is faster if parts are optimised before
    they are inlined.
    """

    def _optimize_final_module(self) -> None:
        mark = uuid4().hex
        for function in self._final_module.functions:
            if function.linkage == Linkage.linkonce_odr:
                function.linkage = Linkage.internal
                function.name = f"{function.name}.{mark}"  # numba's loader distinguishes functions of one process by name alone
        passes, builder = self._codegen._module_pass_manager()
        unused = create_new_module_pass_manager()
        unused.add_dead_arg_elimination_pass()
        for manager in (unused, passes):
            manager.run(self._final_module, builder)

    def _get_module_for_linking(self) -> Any:
        """Return a module that only names the functions.

        The cache keeps it beside the machine code. Nothing links a whole, and loading its bitcode took as long as
        loading that.
        """
        named = [
            function
            for function in self._final_module.functions
            if not function.is_declaration and function.linkage != Linkage.internal
        ]
        return parse_assembly("\n".join(f'define void @"{function.name}"() {{ unreachable }}' for function in named))


class _WholeCompiler(Compiler):
    """The compiler of functions that Python calls."""

    def define_pipelines(self) -> list[Any]:
        state = self.state
        state.library = _Whole(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().define_pipelines()


class _PartCompiler(Compiler):
    """The compiler of parts; ``no_compile`` is numba's name for code that is only linked."""

    def define_pipelines(self) -> list[Any]:
        state = self.state
        state.flags.no_compile = True
        state.library = _Linked(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().define_pipelines()


class _Part(CPUDispatcher):
    """A function as compiled code calls it: by its library, without an address."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile one form for all numbers: LLVM sees constant arguments when it links."""
        return super().get_call_template(tuple(map(types.unliteral, args)), kws)

    def add_overload(self, cres: Any) -> None:
        self.targetctx.insert_user_function(cres.library, cres.fndesc, [cres.library])
        self.overloads[tuple(cres.signature.args)] = cres

    def get_overload(self, sig: Any) -> Any:
        compiled: Any = self.overloads[tuple(sig)]
        return compiled.library


class Function(CPUDispatcher):
    """A function that Python calls, which takes named tuples by reference.

    All such functions do: numba then looks up the type of a tuple by its members once for all of them.
    """

    def typeof_pyval(self, val: Any) -> Any:
        """Return the type of an argument."""
        return by_reference(super().typeof_pyval(val))

    def enable_caching(self, cache: type[FunctionCache] = FunctionCache) -> None:
        """Keep compiled forms on disk, in a cache of this class."""
        self._cache = cache(self.py_func)
        self._cache.allocates = self.targetoptions.get("_nrt", True)  # type: ignore[missing-attribute]

    def _compilation_chain_init_hook(self) -> None:
        """Look for no extensions of numba, for which it would read the metadata of all packages."""


_MAKING = Lock()
"""Held while a kernel is made: threads that call it first at the same time share its compiled forms."""


class Kernel:
    """A function that allocates nothing, compiled in two ways.

    Python calls the ``whole``, compiled code the ``part``. Each is made when it is first needed: of the hundreds of
    kernels that a command imports, Python calls a few. Other attributes are those of the whole.
    """

    def __init__(self, function: Callable[..., Any], *, inline: bool, cached: Callable[[Function], Function]) -> None:
        update_wrapper(self, function)
        self._inline, self._cached = inline, cached
        self._whole: Function | None = None
        self._options = {"nopython": True, "boundscheck": None, "nogil": True, "_nrt": False, "no_cfunc_wrapper": True}

    @property
    def whole(self) -> Function:
        """The function as Python calls it, kept on disk."""
        with _MAKING:
            if self._whole is None:
                self._whole = self._cached(Function(self.__wrapped__, targetoptions=self._options, pipeline_class=_WholeCompiler))
        return self._whole

    @cached_property
    def part(self) -> _Part:
        """The function as compiled code calls it, inlined by force or as LLVM sees fit."""
        options = {**self._options, "no_cpython_wrapper": True, "forceinline": self._inline}
        return _Part(self.__wrapped__, targetoptions=options, pipeline_class=_PartCompiler)

    @property
    def _numba_type_(self) -> Any:
        return types.Dispatcher(self.part)

    def __call__(self, *arguments: Any) -> Any:
        return self.whole(*arguments)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # such as what pickle looks for
            raise AttributeError(name)
        return getattr(self.whole, name)
