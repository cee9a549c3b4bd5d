"""Runs kernels in tests: emit, compile, link, call with numpy arrays. A serial loop stands in for the thread
pool."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from tensorlang.codegen import CompiledCode, compile_ll, emit, emit_nest
from tensorlang.core.dtype import dtype
from tensorlang.expr import make
from tensorlang.expr.nodes import Expr, Var
from tensorlang.loopir.stmt import PARALLEL, SERIAL, Alloc, Buffer, For, Func, If, Let, Stmt, Store, load, seq
from tensorlang.runtime.elf_join import joined
from tensorlang.runtime.loader import Code, load_object
from tensorlang.target import Target

__all__ = [
    "PARALLEL",
    "SERIAL",
    "Alloc",
    "Buffer",
    "For",
    "Func",
    "If",
    "Kernel",
    "Let",
    "Stmt",
    "Store",
    "buffer",
    "compiled",
    "i32",
    "load",
    "loop",
    "make",
    "ramp",
    "run",
    "seq",
    "var",
]

_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_FN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_POOL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
regions: list[tuple[int, int]] = []
short_regions: list[tuple[int, int]] = []
only_half = [False]  # whether nobody runs the second half of the pieces
live_blocks: dict[int, Any] = {}
fail_after: list[int | None] = [None]


def _parallel(fn: int, ctx: int, begin: int, end: int) -> None:
    regions.append((begin, end))
    if begin >= end:
        return
    middle = (begin + end) // 2
    call = _FN(fn)
    call(ctx, begin, middle)
    if not only_half[0]:
        call(ctx, middle, end)


def _parallel_awake(fn: int, ctx: int, begin: int, end: int) -> None:
    short_regions.append((begin, end))
    _parallel(fn, ctx, begin, end)


def _alloc(size: int) -> int:
    if fail_after[0] is not None:
        if fail_after[0] == 0:
            return 0
        fail_after[0] -= 1
    raw = ctypes.create_string_buffer(size + 64)
    address = (ctypes.addressof(raw) + 63) & ~63
    live_blocks[address] = raw
    return address


def _free(address: int | None) -> None:
    if address is not None:  # null is nothing to free
        del live_blocks[address]


_STUBS: dict[str, Any] = {
    "tensorlang_parallel": _POOL(_parallel),
    "tensorlang_parallel_awake": _POOL(_parallel_awake),
    "tensorlang_alloc": ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(_alloc),
    "tensorlang_free": ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_free),
}


def linked(objects: Sequence[bytes], name: str) -> Code:
    """Objects joined into one, with its own memory and pool. MCJIT takes constants of equal names for one."""
    stubs = {symbol: ctypes.cast(stub, ctypes.c_void_p).value or 0 for symbol, stub in _STUBS.items()}
    return load_object(joined(objects, [name]), [name], stubs)


class Kernel:
    """A linked kernel; call it with arrays, and ``dims=`` and ``scalars=`` as they stand in the function."""

    def __init__(
        self,
        func: Func,
        target: Target | None = None,
        opt_level: int = 2,
        math: str = "default",
        nests: Sequence[Func] = (),
    ) -> None:
        self.func = func
        self.target = target or Target.host()
        self.ll = emit(func, self.target, math)
        self.code: CompiledCode = compile_ll(self.ll, self.target, opt_level)
        if nests:
            parts = [compile_ll(emit_nest(n, self.target, math), self.target, opt_level) for n in nests]
            self._engine: Any = linked([c.object for c in (self.code, *parts)], func.name)
            self._call = _ENTRY(self._engine.address[func.name])
            return
        for name, stub in _STUBS.items():
            llvm.add_symbol(name, ctypes.cast(stub, ctypes.c_void_p).value)
        host = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine()
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), host)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(self.code.object))
        self._engine.finalize_object()
        self._call = _ENTRY(self._engine.get_function_address(func.name))

    def __call__(self, *arrays: np.ndarray, dims: Sequence[int] = (), scalars: Sequence[Any] = ()) -> int:
        pointers = (ctypes.c_void_p * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))
        slots = np.zeros(max(1, len(dims) + len(scalars)), np.int64)
        slots[: len(dims)] = dims
        wanted = [p for p in self.func.params if isinstance(p, Var)]
        for i, (p, x) in enumerate(zip(wanted, scalars, strict=True), len(dims)):
            slots[i] = np.float64(x).view(np.int64) if p.dtype.is_float else np.int64(x)
        return self._call(ctypes.addressof(pointers), slots.ctypes.data)


def compiled(func: Func, target: str | None = None, **options: Any) -> CompiledCode:
    """The code for a target that need not be this machine."""
    t = Target.parse(target) if target else Target.host()
    return compile_ll(emit(func, t), t, **options)


def run(func: Func, *arrays: np.ndarray, **rest: Any) -> None:
    """Compile and call; the code must be 0."""
    assert Kernel(func)(*arrays, **rest) == 0


def i32(value: int) -> Expr:
    return make.const(value, "int32")


def var(name: str, t: str = "int32", kind: str = "loop") -> Var:
    return Var(name, dtype(t), kind)


def buffer(
    name: str, t: str, *shape: int | Expr, scope: str = "arg", strides: tuple[int, ...] | None = None
) -> Buffer:
    return Buffer(
        name,
        dtype(t),
        tuple(make.as_expr(s) for s in shape),
        scope,
        None if strides is None else tuple(make.as_expr(s) for s in strides),
    )


def ramp(base: Expr | int, lanes: int, stride: int = 1) -> Expr:
    return make.ramp(make.as_expr(base), stride, lanes)


def loop(
    extent: int | Expr,
    body: Callable[[Var], Stmt],
    kind: str = SERIAL,
    name: str = "i",
    begin: int | Expr = 0,
    t: str = "int32",
) -> For:
    v = var(name, t)
    return For(v, make.as_expr(begin, v.dtype), make.as_expr(extent, v.dtype), kind, body(v))
