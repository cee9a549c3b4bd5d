"""Kernels: the packed entry that the runtime calls, and the body with typed arguments. Also the signature as
plain data.

Knows the calling convention of ``interface.signature`` and nothing of what the body does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...core.dtype import FLOAT64, INT64
from ...core.names import NameSupply, identifier
from ...errors import LowerError
from ...expr.nodes import Add, Cast, Const, Expr, FloorDiv, FloorMod, Max, Min, Mul, Sub, Var
from ...expr.walk import variables
from ...interface.signature import REFUSED, Constant, Dim, Param, Signature, Size
from ...loopir.stmt import Buffer, Extern, Func, preorder
from ...target import Target
from . import apart, bounds_report, convert, expression, index, memory, parallel, statement, types
from .emitter import Emitter, Storage
from .extern import layout
from .mathlib import MODES
from .promote import promote
from .text import Function, Module
from .wide_registers import widened
from .work_estimate import work

_ = (expression, index, memory)  # importing them fills the rule tables


def emit(funcs: Func | Sequence[Func], target: Target, math: str = "default", fuses: bool = True) -> str:
    """The LLVM text of one module with these kernels. ``math``: ``default`` (own vector code, 2 ulp) or
    ``precise`` (libm). ``fuses``: a product and the sum it feeds may be rounded once."""
    if math not in MODES:
        raise LowerError(
            f"math={math!r}",
            because=f"the modes are {', '.join(MODES)}",
            try_='math="precise" for the C library\'s functions',
        )
    module = Module(target, fuses=fuses)
    for func in [funcs] if isinstance(funcs, Func) else funcs:
        kernel(module, as_translated(func, target), math, entry_of)
    return module.text()


def emit_nest(func: Func, target: Target, math: str = "default") -> str:
    """The LLVM text of a module with a kernel that another one calls as a part of itself (see ``nests``)."""
    module = Module(target)
    kernel(module, as_translated(func, target), math, None)
    return module.text()


def as_translated(func: Func, target: Target) -> Func:
    """The kernel with its accumulators as they are held in registers."""
    return widened(promote(func), target)


def kernel(
    module: Module, func: Func, math: str, entry: Callable[[Module, Func, str], Function] | None
) -> None:
    """Add a kernel: its body, and the function ``entry`` makes for whoever calls it, which passes arguments
    on to ``@name.body``. Without one the body is what is called."""
    name = module.unique(identifier(func.name))
    writes = statement.written(func.body)
    arguments = []
    for i, p in enumerate(func.params):
        if isinstance(p, Buffer):
            arguments.append(parallel.pointer_argument(p, f"%p{i}", p not in writes))
        else:
            arguments.append(f"{scalar_type(module, p)} %p{i}")
    arguments += [f"i64 %d{i}" for i in range(len(func.dims))]
    # arguments one by one: what is said of a pointer (aliasing, alignment) can only be said of a parameter
    head = f"i32 @{name}" if entry is None else f"internal i32 @{name}.body"
    body = Function(f"define {head}({', '.join(arguments)}) #0")
    em = Emitter(module, body, math)
    bounds_report.prepare(module, func, name)
    for i, p in enumerate(func.params):
        if isinstance(p, Buffer):
            em.storage[p] = Storage(f"%p{i}", 0)
        elif not any(
            p is d for d in func.dims
        ):  # a size that is also passed: the call has seen to it that both agree
            em.bind(p, f"%p{i}", 0, p.lo, p.hi)
    for i, d in enumerate(func.dims):
        # a stride may be negative, a size not
        em.bind(d, f"%d{i}", 0, d.lo if d.kind == "stride" else max(0, d.lo or 0), d.hi)
    # before anything is written
    for cond, _ in func.needs:
        _require(em, cond)
    statement.emit(em, apart.apart(func.body))
    em.block.end = "  ret i32 0"
    if entry is not None:
        module.add(entry(module, func, name))
    module.add(body)
    if module.declares(name):
        raise LowerError(
            f"the kernel is called {name!r}, and calls a function of that name",
            because="in machine code the two would be one",
            try_=f"name='{name}_kernel'",
        )


def _require(em: Emitter, cond: Expr) -> None:
    """Leave the function unless the sizes are such."""
    holds = em.value(cond)
    refused, go_on = em.function.block("refused"), em.function.block("accepted")
    em.block.end = f"  br i1 {holds}, label %{go_on.label}, label %{refused.label}"
    refused.end = f"  ret i32 {REFUSED}"
    em.scopes[-1].block = go_on


def scalar_type(module: Module, v: Var) -> str:
    """The LLVM type in which the body takes a scalar parameter."""
    return "i64" if v.dtype.is_index else types.register_type(v.dtype, module.target)


def entry_of(module: Module, func: Func, name: str) -> Function:
    """The function that the runtime calls: it takes arguments apart and passes them to the body."""
    entry = Function(
        f"define i32 @{name}(ptr readonly captures(none) %buffers, ptr readonly captures(none) %scalars) #0"
    )
    em = Emitter(module, entry, "default")
    passed, dims, scalars = [], [], "%scalars"
    buffers, slot = 0, len(func.dims)
    for i in range(len(func.dims)):
        dims.append(f"i64 {em.ins(f'load i64, ptr {_slot(em, scalars, i)}, align 8')}")
    for p in func.params:
        if isinstance(p, Buffer) and any(p is c for c in func.constants):
            passed.append(f"ptr {module.data(constant_symbol(func, p))}")
        elif isinstance(p, Buffer):
            address = _slot(em, "%buffers", buffers, "ptr")
            passed.append(f"ptr {em.ins(f'load ptr, ptr {address}, align 8')}")
            buffers += 1
        else:
            passed.append(f"{scalar_type(module, p)} {_scalar(em, p, _slot(em, scalars, slot))}")
            slot += 1
    operands = ", ".join(passed + dims)
    entry.entry.end = f"  ret i32 {em.ins(f'call i32 @{name}.body({operands})')}"
    return entry


def constant_symbol(func: Func, constant: Buffer) -> str:
    """Where the code looks for a constant."""
    return f"{identifier(func.name)}.constant{next(i for i, c in enumerate(func.constants) if c is constant)}"


def _slot(em: Emitter, base: str, i: int, element: str = "i64") -> str:
    return base if i == 0 else em.ins(f"getelementptr {element}, ptr {base}, i64 {i}")


def _scalar(em: Emitter, v: Var, address: str) -> str:
    """A scalar parameter from its 8-byte slot, in the form variables are held in."""
    if v.dtype.is_float:
        return convert.cast(em, em.ins(f"load double, ptr {address}, align 8"), FLOAT64, v.dtype)
    raw = em.ins(f"load i64, ptr {address}, align 8")
    return raw if v.dtype.is_index else convert.cast(em, raw, INT64, v.dtype)


def _bounds(d: Var, lying: bool) -> tuple[int | None, int | None]:
    """What a call must see to: a size that strides tell could be negative, one of an array could be beyond
    the type it is counted in."""
    lo = 0 if d.lo is None and lying and d.kind != "stride" else d.lo
    return lo, d.dtype.limits()[1] if d.hi is None and d.dtype.bits < 64 else d.hi


_SIZE_OPS: dict[type, str] = {
    Add: "+",
    Sub: "-",
    Mul: "*",
    FloorDiv: "//",
    FloorMod: "%",
    Min: "min",
    Max: "max",
}


def _size(e: Expr, names: Mapping[Var, str], func: str) -> Size:
    """A size of dims as plain data."""
    if type(e) is Const:
        return int(e.value)
    if type(e) is Var:
        if e not in names:
            raise AssertionError(f"{e.name} is in a shape of {func} but not among its dims")
        return names[e]
    # widths do not matter to Python, which computes sizes of arguments
    if type(e) is Cast:
        return _size(e.a, names, func)
    op = _SIZE_OPS.get(type(e))
    if op is None:
        raise AssertionError(f"a size that cannot be passed to the runtime: {e}")
    return op, _size(e.a, names, func), _size(e.b, names, func)  # type: ignore[attr-defined]


def _params(func: Func, size: Callable[[Expr], Size]) -> list[Param]:
    """What a caller passes: all parameters but the constants."""
    taken = NameSupply()
    params = []
    for p in func.params:
        if isinstance(p, Buffer):
            if any(p is c for c in func.constants):
                continue
            shape = tuple(size(e) for e in p.shape)
            strides = None if p.strides is None else tuple(size(e) for e in p.strides)
            params.append(
                Param(
                    taken.fresh(p.name),
                    "buffer",
                    p.dtype.name,
                    shape,
                    any(p is o for o in func.outputs),
                    strides,
                    any(p is u for u in func.updates),
                )
            )
        else:
            params.append(Param(taken.fresh(p.name), "scalar", p.dtype.name))
    return params


def kernel_signature(func: Func) -> Signature:
    """What the kernel takes, as plain data for the runtime and for saved files."""
    supply = NameSupply()
    names = {d: supply.of(d, d.name) for d in func.dims}

    def size(e: Expr) -> Size:
        return _size(e, names, func.name)

    params = _params(func, size)
    lying = {v for p in func.params if isinstance(p, Buffer) for e in p.strides or () for v in variables(e)}
    dims = tuple(Dim(names[d], *_bounds(d, d in lying), d.multiple_of) for d in func.dims)
    externs = dict.fromkeys(
        layout(s) for s in preorder(func.body) if isinstance(s, Extern) and s.kind == "packed"
    )
    constants = tuple(
        Constant(constant_symbol(func, c), c.dtype.name, tuple(size(e) for e in c.shape))
        for c in func.constants
    )
    slots = {
        v: i
        # the first slot of a size that is passed twice wins
        for i, v in reversed(list(enumerate([*func.dims, *[p for p in func.params if isinstance(p, Var)]])))
        if v.dtype.is_index
    }
    return Signature(
        identifier(func.name),
        tuple(params),
        dims,
        tuple(externs),
        bounds_report.sites(func),
        constants,
        work(func, slots),
        tuple(why for _, why in func.needs),
    )
