"""Three decisions the whole project rests on, measured: how nodes are built, how visitors find their
function, how LLVM is written.

    python -m benchmarks.decide_nodes

Self-contained but for `core.node` and `core.visit`, which are what was chosen. Every number is the best of
several runs; compare within a column.
"""

from __future__ import annotations

import functools
import gc
import platform
import sys
import time
import tracemalloc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import llvmlite.binding as llvm
import llvmlite.ir as ir

from tensorlang.core.node import Node, intern
from tensorlang.core.text import columns
from tensorlang.core.visit import TypeTable


def best(f: Callable[[], Any], repeat: int = 7) -> float:
    """Seconds of the fastest run, the collector off."""
    times = []
    for _ in range(repeat):
        gc.collect()
        gc.disable()
        t = time.perf_counter()
        kept = f()
        times.append(time.perf_counter() - t)
        gc.enable()
        del kept
    return min(times)


# --- nodes --------------------------------------------------------------------------------------------------


class Slotted:
    """A plain slotted class: equal trees are compared and hashed by walking them."""

    __slots__ = ("a", "b")

    def __init__(self, a: Any, b: Any) -> None:
        self.a = a
        self.b = b

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is type(self) and self.a == other.a and self.b == other.b)

    def __hash__(self) -> int:
        return hash((Slotted, self.a, self.b))


class Hashed:
    """Slotted, with the structural hash computed at birth."""

    __slots__ = ("_hash", "a", "b")

    def __init__(self, a: Any, b: Any) -> None:
        self.a = a
        self.b = b
        self._hash = hash((Hashed, a, b))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(other) is type(self)
            and self._hash == other._hash
            and self.a == other.a
            and self.b == other.b
        )

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True)
class Frozen:
    a: Any
    b: Any


@dataclass(frozen=True, slots=True)
class FrozenSlots:
    a: Any
    b: Any


class Interned(Node):
    """The project's: one object for each structure, so equality is identity and hashing an address."""

    __slots__ = ("a", "b")
    _fields = ("a", "b")

    def __init__(self, a: Any, b: Any) -> None:
        self.a = a
        self.b = b


class _Ref(weakref.ref):  # type: ignore[type-arg]
    __slots__ = ("fields", "table")


def _forget(ref: _Ref) -> None:
    if ref.table.get(ref.fields) is ref:
        del ref.table[ref.fields]


class PerClass:
    """Interned in a table of the class's own: one tuple less to build and to hash on each look-up."""

    __slots__ = ("__weakref__", "a", "b")
    table: ClassVar[dict[tuple[Any, ...], _Ref]] = {}

    def __init__(self, a: Any, b: Any) -> None:
        self.a = a
        self.b = b


def intern_per_class(cls: type[Any], *fields: Any) -> Any:
    ref = cls.table.get(fields)
    if ref is not None:
        node = ref()
        if node is not None:
            return node
    node = cls(*fields)
    while True:
        new = _Ref(node, _forget)
        new.fields = fields
        new.table = cls.table
        found = cls.table.setdefault(fields, new)
        if found is new:
            return node
        other = found()
        if other is not None:
            return other
        _forget(found)


_WEAK: weakref.WeakValueDictionary[tuple[Any, ...], Any] = weakref.WeakValueDictionary()


class InWeakDict(PerClass):
    """Interned through the standard library's WeakValueDictionary."""

    __slots__ = ()


def intern_weak(cls: type[Any], *fields: Any) -> Any:
    key = (cls, fields)
    node = _WEAK.get(key)
    return _WEAK.setdefault(key, cls(*fields)) if node is None else node


MAKERS: dict[str, Callable[[Any, Any], Any]] = {
    "slotted": Slotted,
    "slotted, cached hash": Hashed,
    "dataclass frozen": Frozen,
    "dataclass frozen, slots": FrozenSlots,
    "interned (core.node)": lambda a, b: intern(Interned, a, b),
    "interned, table per class": lambda a, b: intern_per_class(PerClass, a, b),
    "interned, WeakValueDictionary": lambda a, b: intern_weak(InWeakDict, a, b),
}


def tree(make: Callable[[Any, Any], Any], depth: int, leaf: int = 0) -> Any:
    return make(tree(make, depth - 1, 2 * leaf), tree(make, depth - 1, 2 * leaf + 1)) if depth else leaf


def nodes() -> str:
    depth = 13
    count = 2**depth - 1

    def equality(make: Callable[[Any, Any], Any], interned: bool) -> float:
        one, other = tree(make, depth), tree(make, depth)
        same = (lambda: one is other) if interned else (lambda: one == other)
        assert same()
        loops = 200000 if interned else 3
        return best(lambda: [same() for _ in range(loops)]) / loops

    def lookup(make: Callable[[Any, Any], Any], loops: int) -> float:
        one = tree(make, depth)
        known = {one: 1}
        return best(lambda: [known[one] for _ in range(loops)]) / loops

    rows = []
    for name, make in MAKERS.items():
        fresh = best(lambda: tree(make, depth))
        one = tree(make, depth)
        again = best(lambda: tree(make, depth))
        del one
        equal = equality(make, "interned" in name)
        key = lookup(make, 20000 if "interned" in name or "cached" in name else 3)
        gc.collect()
        tracemalloc.start()
        one = tree(make, depth)
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        del one
        rows.append(
            [
                name,
                f"{fresh / count * 1e6:.2f}",
                f"{again / count * 1e6:.2f}",
                f"{equal * 1e6:.2f}",
                f"{key * 1e6:.2f}",
                f"{size / count:.0f}",
            ]
        )
    header = [
        f"a tree of {count} nodes",
        "new µs/node",
        "again µs/node",
        "equal µs/tree",
        "as key µs/tree",
        "bytes/node",
    ]
    return columns(rows, header=header, right=(1, 2, 3, 4, 5))


# --- dispatch -----------------------------------------------------------------------------------------------


class Base:
    __slots__ = ("kids",)

    def __init__(self, *kids: Base) -> None:
        self.kids = kids

    def count(self) -> int:
        return 1 + sum([k.count() for k in self.kids])


KINDS: list[type[Base]] = [type(f"Kind{i}", (Base,), {"__slots__": ()}) for i in range(16)]
K0, K1, K2, K3, K4, K5, K6, K7, K8, K9, K10, K11, K12, K13, K14, K15 = KINDS

table = TypeTable("count")
single = functools.singledispatch(lambda node: 0)


@table.on(*KINDS)
def _table_rule(node: Base) -> int:
    return 1 + sum([table(k)(k) for k in node.kids])


def _single_rule(node: Base) -> int:
    return 1 + sum([single(k) for k in node.kids])


for _kind in KINDS:
    single.register(_kind, _single_rule)


def by_dict(node: Base) -> int:
    return _functions[type(node)](node)


def _dict_rule(node: Base) -> int:
    return 1 + sum([_functions[type(k)](k) for k in node.kids])


_functions: dict[type, Callable[[Base], int]] = dict.fromkeys(KINDS, _dict_rule)


def by_match(node: Base) -> int:
    match node:
        case K0() | K1() | K2() | K3():
            return 1 + sum([by_match(k) for k in node.kids])
        case K4() | K5() | K6() | K7():
            return 1 + sum([by_match(k) for k in node.kids])
        case K8() | K9() | K10() | K11():
            return 1 + sum([by_match(k) for k in node.kids])
        case _:
            return 1 + sum([by_match(k) for k in node.kids])


def forest(depth: int, n: int = 0) -> Base:
    kind = KINDS[n % 16]
    return kind(*[forest(depth - 1, n * 3 + i) for i in range(3)]) if depth else kind()


def dispatch() -> str:
    root = forest(9)
    count = root.count()
    ways: dict[str, Callable[[], int]] = {
        "method of the node": root.count,
        "dict[type(node)]": lambda: by_dict(root),
        "TypeTable (core.visit)": lambda: table(root)(root),
        "functools.singledispatch": lambda: single(root),
        "match over 16 classes": lambda: by_match(root),
    }
    rows = []
    for name, f in ways.items():
        assert f() == count
        rows.append([name, f"{best(f) / count * 1e6:.3f}"])
    return columns(rows, header=[f"one visit of {count} nodes of 16 kinds", "µs/node"], right=(1,))


# --- writing LLVM -------------------------------------------------------------------------------------------

ROWS, VECTORS, LANES, UNROLL = 14, 2, 16, 4  # 28 accumulators of 16 lanes


def as_text() -> str:
    """The inner kernel of a matmul, as lines."""
    v, out = f"<{LANES} x float>", []
    emit = out.append
    accumulators = [f"c{r}_{c}" for r in range(ROWS) for c in range(VECTORS)]
    emit(
        "define void @kernel(ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %n) {\nentry:\n  br label "
        "%loop\nloop:"
    )
    emit("  %k = phi i64 [ 0, %entry ], [ %k.next, %loop ]")
    for name in accumulators:
        emit(f"  %{name} = phi {v} [ zeroinitializer, %entry ], [ %{name}.{UNROLL - 1}, %loop ]")
    for u in range(UNROLL):
        emit(
            f"  %k.{u} = add nsw i64 %k, {u}\n  %bo.{u} = mul nsw i64 %k.{u}, {VECTORS * LANES}\n"
            f"  %ao.{u} = mul nsw i64 %k.{u}, {ROWS}"
        )
        for c in range(VECTORS):
            emit(
                f"  %bi.{u}.{c} = add nsw i64 %bo.{u}, {c * LANES}\n"
                f"  %bp.{u}.{c} = getelementptr inbounds float, ptr %b, i64 %bi.{u}.{c}\n"
                f"  %bv.{u}.{c} = load {v}, ptr %bp.{u}.{c}, align 4"
            )
        for r in range(ROWS):
            emit(
                f"  %ai.{u}.{r} = add nsw i64 %ao.{u}, {r}\n"
                f"  %ap.{u}.{r} = getelementptr inbounds float, ptr %a, i64 %ai.{u}.{r}\n"
                f"  %as.{u}.{r} = load float, ptr %ap.{u}.{r}, align 4\n"
                f"  %at.{u}.{r} = insertelement {v} poison, float %as.{u}.{r}, i64 0\n"
                f"  %av.{u}.{r} = shufflevector {v} %at.{u}.{r}, {v} poison, <{LANES} x i32> zeroinitializer"
            )
            for c in range(VECTORS):
                name = f"c{r}_{c}"
                before = f"{name}.{u - 1}" if u else name
                emit(
                    f"  %{name}.{u} = call {v} @llvm.fma.v{LANES}f32({v} %av.{u}.{r}, {v} %bv.{u}.{c}, {v} "
                    f"%{before})"
                )
    emit(
        f"  %k.next = add nsw i64 %k, {UNROLL}\n  %more = icmp slt i64 %k.next, %n\n"
        f"  br i1 %more, label %loop, label %done\ndone:"
    )
    for x, name in enumerate(accumulators):
        emit(
            f"  %p{x} = getelementptr inbounds float, ptr %c, i64 {x * LANES}\n"
            f"  store {v} %{name}.{UNROLL - 1}, ptr %p{x}, align 4"
        )
    emit(f"  ret void\n}}\ndeclare {v} @llvm.fma.v{LANES}f32({v}, {v}, {v})")
    return "\n".join(out)


def as_objects() -> ir.Module:
    """The same through llvmlite's object builder."""
    module = ir.Module(name="kernel")
    f32, i32, i64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
    v = ir.VectorType(f32, LANES)
    fma = ir.Function(module, ir.FunctionType(v, [v, v, v]), f"llvm.fma.v{LANES}f32")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [f32.as_pointer()] * 3 + [i64]), "kernel")
    a, b, c, n = function.args
    entry, loop, done = (function.append_basic_block(name) for name in ("entry", "loop", "done"))
    ir.IRBuilder(entry).branch(loop)
    build = ir.IRBuilder(loop)
    k = build.phi(i64)
    k.add_incoming(ir.Constant(i64, 0), entry)
    start = [[build.phi(v) for _ in range(VECTORS)] for _ in range(ROWS)]
    now: list[list[Any]] = [list(row) for row in start]
    zeros, lane = ir.Constant(ir.VectorType(i32, LANES), None), ir.Constant(i32, 0)
    poison = ir.Constant(v, ir.Undefined)
    for u in range(UNROLL):
        ku = build.add(k, ir.Constant(i64, u), flags=["nsw"])
        bo = build.mul(ku, ir.Constant(i64, VECTORS * LANES), flags=["nsw"])
        ao = build.mul(ku, ir.Constant(i64, ROWS), flags=["nsw"])
        bs = []
        for x in range(VECTORS):
            p = build.gep(b, [build.add(bo, ir.Constant(i64, x * LANES), flags=["nsw"])], inbounds=True)
            bs.append(build.load(build.bitcast(p, v.as_pointer()), align=4))
        for r in range(ROWS):
            p = build.gep(a, [build.add(ao, ir.Constant(i64, r), flags=["nsw"])], inbounds=True)
            wide = build.shuffle_vector(
                build.insert_element(poison, build.load(p, align=4), lane), poison, zeros
            )
            now[r] = [build.call(fma, [wide, bv, acc]) for bv, acc in zip(bs, now[r], strict=True)]
    following = build.add(k, ir.Constant(i64, UNROLL), flags=["nsw"])
    k.add_incoming(following, loop)
    for row, last in zip(start, now, strict=True):
        for phi, value in zip(row, last, strict=True):
            phi.add_incoming(ir.Constant(v, None), entry)
            phi.add_incoming(value, loop)
    build.cbranch(build.icmp_signed("<", following, n), loop, done)
    build = ir.IRBuilder(done)
    for x, value in enumerate(acc for row in now for acc in row):
        p = build.gep(c, [ir.Constant(i64, x * LANES)], inbounds=True)
        build.store(value, build.bitcast(p, v.as_pointer()), align=4)
    build.ret_void()
    return module


def writing() -> str:
    text, objects = as_text(), str(as_objects())
    for source in (text, objects):
        llvm.parse_assembly(source).verify()
    rows = []
    for name, build, source in (
        ("text", as_text, text),
        ("llvmlite.ir objects", lambda: str(as_objects()), objects),
    ):
        make, parse = best(build), best(lambda: llvm.parse_assembly(source))
        rows.append(
            [
                name,
                f"{make * 1e3:.2f}",
                f"{parse * 1e3:.2f}",
                f"{(make + parse) * 1e3:.2f}",
                str(source.count("\n")),
            ]
        )
    return columns(
        rows,
        header=[
            "a matmul kernel of 28 accumulators, k unrolled by 4",
            "write ms",
            "parse ms",
            "both ms",
            "lines",
        ],
        right=(1, 2, 3, 4),
    )


def main() -> None:
    version = ".".join(map(str, llvm.llvm_version_info))
    print(f"Python {sys.version.split()[0]}, llvmlite for LLVM {version}, {platform.machine()}\n")
    for part in (nodes, dispatch, writing):
        print(part(), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
