"""Compiled functions that are linked into others and have no machine code of their own.

Numba makes machine code for every function it compiles, and for two wrappers that hold a copy of its code: one for calls from
Python and one for calls from C. If two hundred functions end up in one, the machine code of the parts never runs, but takes
longer to make than that of the whole. Here a function gets machine code, and a wrapper for Python, only if Python calls it.
Compiled code that calls it links its :attr:`Kernel.part`, which LLVM optimises only there, together with the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, update_wrapper
from threading import Lock
from typing import Any
from uuid import uuid4

from llvmlite.binding import Linkage, create_new_module_pass_manager, parse_assembly
from numba.core import types
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.registry import CPUDispatcher

from features.indexing import Compiler
from features.references import by_reference


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

    So LLVM passes the parts only the arguments that they use. Numba's first passes, which merge reference counts and inline
    everything, are left out: there are no such counts, and compiling is faster if parts are optimised before they are inlined.
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

        The cache keeps it beside the machine code. Nothing links a whole, and loading its bitcode took as long as loading that.
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

    Python calls the ``whole``, compiled code the ``part``. Each is made when it is first needed: of the hundreds of kernels that
    a command imports, Python calls a few. Other attributes are those of the whole.
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
