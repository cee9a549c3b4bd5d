"""Chains of ``ops`` over two open sizes in any of their dimensions, called with sizes from 0 on, beside numpy:
``python -m tests.fuzz.programs --open`` runs many.

A step is a line of ours and a line of numpy's, drawn together; a chain that is wrong is shown as both
functions. Where numpy refuses, ours may refuse or say anything, and where numpy does not, ours may not."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import ml_dtypes
import numpy as np

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.te import Tensor

from ..guard.arena import Arena

SIZES = (0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 129)
FIXED = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 33, 64, 100)
DTYPES = (
    *["float32"] * 6,
    *["float64", "int32", "int64", "int8", "uint8", "int16", "float16", "bfloat16", "bool"],
)
WIDE = ("float32", "float64", "int32", "int64")  # sums of which are exact enough, or wrap
LARGEST = 300_000  # elements of an array that is worth computing here
Step = tuple[str, str, int]  # what a step makes in our words and in numpy's, and how many tensors that is


class Skip(Exception):
    """A step that does not fit what it would be applied to."""


def need(fits: bool) -> None:
    if not fits:
        raise Skip


# --- numpy's words for what numpy has not --------------------------------------------------------------------


def exactly(a: Any) -> Any:
    """In a dtype that sums and negatives do not leave."""
    return a.astype("f8" if a.dtype.kind in "fV" else "i8")


def totals(a: Any, d: int, exclusive: bool, reverse: bool) -> Any:
    b = np.flip(a, d) if reverse else a
    c = np.cumsum(
        exactly(b) if a.dtype.kind == "f" else b, axis=d, dtype=None if a.dtype.kind == "f" else a.dtype
    )
    c = c - b if exclusive else c
    return (np.flip(c, d) if reverse else c).astype(a.dtype)


def order(a: Any, d: int, descending: bool) -> Any:
    return np.argsort(-exactly(a) if descending else exactly(a), axis=d, kind="stable")


def first(a: Any, k: int, d: int, largest: bool) -> tuple[Any, Any]:
    if a.shape[d] < k:
        raise ValueError
    o = np.take(order(a, d, largest), range(k), axis=d)
    return np.take_along_axis(a, o, d), o


def taken(a: Any, at: Any, d: int, mode: str) -> Any:
    if not a.shape[d] and at.size:
        raise ValueError
    return (
        np.take(a, at, axis=d, mode=mode)
        if a.shape[d]
        else np.zeros((*a.shape[:d], 0, *a.shape[d + 1 :]), a.dtype)
    )


def padded(a: Any, widths: Any, mode: str) -> Any:
    least = {"edge": 1, "reflect": max(map(max, widths)) + 1, "wrap": max(map(max, widths))}.get(mode, 0)
    if any(sum(w) and n < least for w, n in zip(widths, a.shape, strict=True)):
        raise ValueError
    return np.pad(a, widths, mode=mode)  # type: ignore[call-overload]


def windows(a: Any, k: int, stride: int) -> Any:
    if a.shape[-1] < k:
        raise ValueError
    return np.lib.stride_tricks.sliding_window_view(a, k, axis=-1)[..., ::stride, :]


def product(a: Any, b: Any) -> Any:
    return np.clip((exactly(a) @ exactly(b)).astype(a.dtype), -9, 9)


_WORDS = {f.__name__: f for f in (exactly, totals, order, first, taken, padded, windows, product)}


# --- steps ---------------------------------------------------------------------------------------------------


class Chain:
    """The lines of one chain, and what they declare. Tensors have the names of both functions' variables."""

    def __init__(self, seed: int) -> None:
        self.random = r = random.Random(seed)
        self.refused: tl.TensorLangError | None = None
        kind = r.choice(("te.var({})", "te.size_var({})", "te.dim({}, 0, 300)", "te.dim({}, 1, 300)"))
        self.least = 1 if ", 1," in kind else 0
        self.ours = [f"{v} = {kind.format(repr(v))}" for v in "mn"]
        self.numpys: list[str] = []
        self.scope: dict[str, Any] = {"te": te, "ops": ops}
        exec("\n".join(self.ours), self.scope)
        self.inputs: dict[str, Tensor] = {}
        self.made: list[list[str]] = []  # the outputs of each step
        self.pool: list[str] = []
        fixed = [r.choice(FIXED) for _ in range(2)]
        for k in range(r.choice((1, 1, 2, 2, 3))):
            if k == 1 and r.random() < 0.5:
                a = self.inputs["A0"]
                self.pool.append(self.input("A1", [str(n) for n in a.shape], str(a.dtype)))
                continue
            shape = [
                r.choice(("m", "n", "m", "n", *map(str, fixed)))
                for _ in range(r.choice((1, 2, 2, 2, 3, 3, 4)))
            ]
            self.pool.append(self.input(f"A{k}", shape, r.choice(DTYPES)))
        for _ in range(r.randint(1, 6)):
            try:
                self.step()
            except Skip:
                pass
            except tl.TensorLangError as error:
                self.refused = error
        some = r.sample(self.made, min(len(self.made), r.choice((0, 0, 1, 2)))) if self.made else []
        self.outputs = list(dict.fromkeys(n for names in [*self.made[-1:], *some] for n in names))

    def text(self) -> str:
        ours, numpys = ("\n".join(f"    {line}" for line in lines) for lines in (self.ours, self.numpys))
        given, wanted = ", ".join(self.inputs), ", ".join(self.outputs)
        return (
            f"def program():\n{ours}\n    return [{given}], [{wanted}]\n\n\n"
            f"def oracle(m, n, {given}):\n{numpys or '    pass'}\n    return [{wanted}]\n"
        )

    def input(self, name: str, shape: list[str], dtype: str) -> str:
        line = f"{name} = te.placeholder(({', '.join(shape)},), {dtype!r}, name={name!r})"
        exec(line, self.scope)
        self.ours.append(line)
        self.inputs[name] = self.scope[name]
        return name

    def tensor(self, name: str) -> Tensor:
        t: Tensor = self.scope[name]
        return t

    def pick(self, fits: Callable[[Tensor], bool] = lambda t: True) -> str:
        names = [n for n in self.pool if fits(self.tensor(n))]
        need(bool(names))
        return names[-1] if self.random.random() < 0.6 else self.random.choice(names)

    def step(self) -> None:
        r, x = self.random, self.pick()
        t = self.tensor(x)
        need(0 < t.ndim < 5)
        inputs, lines = dict(self.inputs), len(self.ours)
        try:
            ours, numpys, count = r.choice(KINDS)(self, x, t, r.randrange(t.ndim), str(t.dtype))
            names = [f"t{len(self.made)}{c}" for c in "ab"[:count]]
            left = ", ".join(names)
            exec(f"{left} = {ours}", self.scope)
        except (Skip, tl.TensorLangError):
            self.inputs = inputs
            del self.ours[lines:]
            raise
        self.ours.append(f"{left} = {ours}")
        self.numpys.append(f"{left} = {numpys}")
        self.made.append(names)
        self.pool += names

    def like(self, t: Tensor, beside: int | None = None) -> Callable[[Tensor], bool]:
        """Whether a tensor has that dtype and shape, but for one dimension."""

        def key(o: Tensor) -> list[str]:
            return [str(o.dtype), *("" if k == beside else str(n) for k, n in enumerate(o.shape))]

        return lambda o: key(o) == key(t)

    def size(self, *numbers: int) -> str:
        """One of the open sizes, or one of these."""
        return self.random.choice(("m", "n", *map(str, numbers)))


def unary(c: Chain, x: str, t: Tensor, d: int, dtype: str) -> Step:
    need(dtype != "bool")
    number = f"{x}.dtype.type"
    steps = [
        (f"ops.relu({x})", f"np.maximum({x}, {number}(0))", 1),
        (f"ops.clip({x}, 0, 3)", f"np.clip({x}, {number}(0), {number}(3))", 1),
        (f"ops.maximum({x}, 1)", f"np.maximum({x}, {number}(1))", 1),
        (f"ops.minimum(ops.add({x}, 1), 5)", f"np.minimum({x} + {number}(1), {number}(5))", 1),
    ]
    return c.random.choice(steps if dtype[0] == "u" else [*steps, (f"ops.negative({x})", f"-{x}", 1)])


def binary(c: Chain, x: str, t: Tensor, d: int, dtype: str) -> Step:
    y = c.pick(c.like(t))
    f = c.random.choice(("maximum", "minimum", "less") if dtype != "bool" else ("logical_xor", "logical_and"))
    return f"ops.{f}({x}, {y})", f"np.{f}({x}, {y})", 1


def chosen(c: Chain, x: str, t: Tensor, d: int, dtype: str) -> Step:
    need(dtype != "bool")
    y = c.pick(c.like(t))
    return f"ops.where(ops.less({x}, {y}), {y}, {x})", f"np.where({x} < {y}, {y}, {x})", 1


def against_extreme(c: Chain, x: str, t: Tensor, d: int, dtype: str) -> Step:
    need(dtype != "bool" and t.ndim > 1)
    f, how = c.random.choice(("max", "min")), f"axis={d}, keepdims=True"
    return f"ops.less({x}, ops.{f}({x}, {how}))", f"{x} < np.{f}({x}, {how})", 1


def reduction(c: Chain, x: str, t: Tensor, d: int, dtype: str) -> Step:
    r = c.random
    axes = sorted(r.sample(range(t.ndim), r.choice((1, 1, min(2, t.ndim), t.ndim))))
    how = f"axis={tuple(axes)}, keepdims={r.random() < 0.3}"
    if dtype == "bool":
        f = r.choice(("any", "all"))
        return f"ops.{f}({x}, {how})", f"np.{f}({x}, {how})", 1
    f = r.choice(("sum", "max", "min", "prod", "mean", "var"))
    if f == "prod":
        need(dtype in WIDE)
        near = f"{x}, -1, 1"
        return (
            f"ops.prod(ops.clip({near}), {how}, dtype={dtype!r})",
            f"np.prod(np.clip({near}), {how}, dtype={dtype!r})",
            1,
        )
    if f in ("mean", "var"):
        need(dtype in ("float32", "float64"))
    if f == "sum":
        need(dtype in WIDE)
        how += f", dtype={dtype!r}"
    wide = f"exactly({x})" if f in ("sum", "mean", "var") and dtype[0] == "f" else x
    theirs = how.replace("float32", "float64")
    return f"ops.{f}({x}, {how})", f"np.asarray(np.{f}({wide}, {theirs})).astype({dtype!r})", 1


def place_of_extreme(c: Chain, x: str, t: Tensor, d: int, dtype: str) -> Step:
    need(dtype not in ("bool", "bfloat16"))
    f, how = c.random.choice(("argmax", "argmin")), f"axis={d}, keepdims={c.random.random() < 0.3}"
    return f"ops.cast(ops.{f}({x}, {how}), 'int64')", f"np.{f}({x}, {how})", 1


def running(c: Chain, x: str, t: Tensor, d: int, dtype: str) -> Step:
    need(dtype in WIDE)
    if c.random.random() < 0.4:
        f = c.random.choice(("max", "min"))
        return f"ops.cum{f}({x}, {d})[0]", f"np.{f}imum.accumulate({x}, axis={d})", 1
    exclusive, reverse = c.random.random() < 0.3, c.random.random() < 0.3
    return (
        f"ops.cumsum({x}, {d}, dtype={dtype!r}, exclusive={exclusive}, reverse={reverse})",
        f"totals({x}, {d}, {exclusive}, {reverse})",
        1,
    )


def sorting(c: Chain, x: str, t: Tensor, d: int, dtype: str) -> Step:
    need(dtype not in ("bool", "bfloat16"))
    down, k = c.random.random() < 0.4, c.random.choice((1, 2, 3, 5))
    how, places = f"axis={d}, descending={down}", f"order({x}, {d}, {down})"
    return c.random.choice(
        (
            (f"ops.sort({x}, {how})", f"np.take_along_axis({x}, {places}, {d})", 1),
            (f"ops.cast(ops.argsort({x}, {how}), 'int64')", places, 1),
            (f"ops.top_k({x}, {k}, {d}, {down})", f"first({x}, {k}, {d}, {down})", 2),
        )
    )


def moving(c: Chain, x: str, t: Tensor, d: int, dtype: str) -> Step:
    r = c.random
    axes, k, at = list(range(t.ndim)), r.choice((2, 3, 4, 7)), r.randint(0, t.ndim)
    r.shuffle(axes)
    reps = tuple(k if a == d else r.choice((1, 1, 2)) for a in range(t.ndim))
    copies = f"({', '.join(c.size(2) if a == d else '1' for a in range(t.ndim))},)"
    lead = f"({c.size(3)}, *{x}.shape)"
    pair = f"{x}.shape[:{d}] + ({x}.shape[{d}] * {x}.shape[{d} + 1],) + {x}.shape[{d} + 2:]"
    steps = [
        (f"ops.flip({x}, {d})", f"np.flip({x}, {d})"),
        (f"ops.transpose({x}, {axes})", f"np.transpose({x}, {axes})"),
        (f"ops.tile({x}, {reps})", f"np.tile({x}, {reps})"),
        (f"ops.tile({x}, {copies})", f"np.tile({x}, {copies})"),
        (f"ops.repeat({x}, {k}, {d})", f"np.repeat({x}, {k}, {d})"),
        (f"ops.stack([{x}, {x}], {at})", f"np.stack([{x}, {x}], {at})"),
        (f"ops.expand_dims({x}, {at})", f"np.expand_dims({x}, {at})"),
        (f"ops.broadcast_to({x}, {lead})", f"np.broadcast_to({x}, {lead})"),
        (f"ops.flatten({x})", f"{x}.reshape(-1)"),
    ]
    if d + 1 < t.ndim:
        steps.append((f"ops.flatten({x}, {d}, {d + 1})", f"{x}.reshape({pair})"))
    if t.ndim == 2:
        q, f = r.randint(-2, 2), r.choice(("triu", "tril"))
        steps.append((f"ops.{f}({x}, {q})", f"np.{f}({x}, {q})"))
        steps.append((f"ops.reshape({x}, {x}.shape[::-1])", f"{x}.reshape({x}.shape[::-1])"))
    return *r.choice(steps), 1


def joining(c: Chain, x: str, t: Tensor, d: int, dtype: str) -> Step:
    parts = [x, c.pick(c.like(t, d)), *[x] * (c.random.random() < 0.4)]
    c.random.shuffle(parts)
    return (f"ops.concat([{', '.join(parts)}], {d})", f"np.concatenate([{', '.join(parts)}], {d})", 1)


def cutting(c: Chain, x: str, t: Tensor, d: int, dtype: str) -> Step:
    r = c.random
    if r.random() < 0.25:
        return f"ops.split({x}, [2], {d})", f"np.split({x}, [2], {d})", 2
    b, e, s = (
        r.choice((None, 0, 1, 2, -3, -1)),
        r.choice((None, None, 5, -1, -2, 100)),
        r.choice((1, 1, 2, 3, -1, -2)),
    )
    cut = f"slice({b}, {e}, {s})"
    return (
        f"ops.strided_slice({x}, [{b}], [{e}], [{s}], axes=[{d}])",
        f"{x}[(slice(None),) * {d} + ({cut},)]",
        1,
    )


def margins(c: Chain, x: str, t: Tensor, d: int, dtype: str) -> Step:
    r = c.random
    mode = r.choice(("constant", "constant", "edge", "reflect", "wrap"))
    widths = tuple(
        (r.randint(0, 3), r.randint(0, 3)) if a == d else r.choice(((0, 0), (0, 0), (1, 2)))
        for a in range(t.ndim)
    )
    return f"ops.pad({x}, {widths}, {mode!r})", f"padded({x}, {widths}, {mode!r})", 1


def taking(c: Chain, x: str, t: Tensor, d: int, dtype: str) -> Step:
    at = c.input(f"I{len(c.inputs)}", [c.size(3, 17)], c.random.choice(("int32", "int64")))
    mode = c.random.choice(("clip", "wrap"))
    return f"ops.take({x}, {at}, {d}, {mode!r})", f"taken({x}, {at}, {d}, {mode!r})", 1


def multiplying(c: Chain, x: str, t: Tensor, d: int, dtype: str) -> Step:
    need(t.ndim in (2, 3) and dtype in WIDE)
    inner = str(t.shape[-1])
    if c.random.random() < 0.5 or not (inner.isdigit() or inner in "mn"):
        y, axes = x, [*range(t.ndim - 2), t.ndim - 1, t.ndim - 2]
        return (
            f"ops.clip(ops.matmul({x}, ops.transpose({y}, {axes})), -9, 9)",
            f"product({x}, np.swapaxes({y}, -1, -2))",
            1,
        )
    y = c.input(f"W{len(c.inputs)}", [inner, c.size(8, 5)], dtype)
    return f"ops.clip(ops.matmul({x}, {y}), -9, 9)", f"product({x}, {y})", 1


def sliding(c: Chain, x: str, t: Tensor, d: int, dtype: str) -> Step:
    need(t.ndim == 3 and dtype == "float32")
    k, stride, channels = c.random.randint(1, 3), c.random.randint(1, 2), str(t.shape[1])
    if c.random.random() < 0.5 or not channels.isdigit():
        return f"ops.max_pool1d({x}, {k}, {stride})", f"windows({x}, {k}, {stride}).max(-1)", 1
    w = c.input(f"W{len(c.inputs)}", [str(c.random.choice((1, 2, 4, 9))), channels, str(k)], dtype)
    return (
        f"ops.clip(ops.conv1d({x}, {w}, stride={stride}), -9, 9)",
        f"np.clip(np.einsum('bctk,ock->bot', windows({x}, {k}, {stride}), {w}), -9, 9)",
        1,
    )


def casting(c: Chain, x: str, t: Tensor, d: int, dtype: str) -> Step:
    if dtype in ("int8", "int32", "int64") and t.ndim < 3 and c.random.random() < 0.4:
        k = c.size(5)
        return f"ops.one_hot({x}, {k}, axis=-1)", f"({x}[..., None] == np.arange({k})).astype('float32')", 1
    to = c.random.choice(("float32", "int32", "int8", "float64", "int64", "float16", "bool"))
    return f"ops.cast({x}, {to!r})", f"{x}.astype({to!r})", 1


def counting(c: Chain, x: str, t: Tensor, d: int, dtype: str) -> Step:
    need(t.ndim == 1 and dtype in ("int32", "int64"))
    return (
        f"te.scatter(0, {x}.shape, lambda q: te.max(te.min({x}[q], 6), 0), lambda q: 1, 'add', shape=(7,), dtype='int32')",
        f"np.bincount(np.clip({x}, 0, 6), minlength=7).astype('int32')",
        1,
    )


KINDS: tuple[Callable[[Chain, str, Tensor, int, str], Step], ...] = (
    *[moving] * 7,
    *[reduction, joining, cutting, sorting, running, margins] * 3,
    *[unary, binary, taking, multiplying, casting, sliding] * 2,
    *[chosen, against_extreme, place_of_extreme, counting],
)


# --- runs ----------------------------------------------------------------------------------------------------


def values(rng: np.random.Generator, t: Tensor, sizes: dict[str, int]) -> Any:
    """Small whole numbers, and places that lie beside the tensor too."""
    shape = tuple(sizes[str(n)] if str(n) in sizes else int(str(n)) for n in t.shape)
    dtype = str(t.dtype)
    least, most = (
        (-9, 140) if t.name[0] == "I" else (0 if dtype[0] in "ub" else -4, 2 if dtype == "bool" else 6)
    )
    return rng.integers(least, most, shape).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def wanted(chain: Chain, sizes: dict[str, int], given: list[Any]) -> list[Any] | None:
    """What numpy makes of it, None where it refuses. Raises Skip for arrays that are too large."""
    scope: dict[str, Any] = {"np": np, **_WORDS, **sizes, **dict(zip(chain.inputs, given, strict=True))}
    for line in chain.numpys:
        try:
            exec(line, scope)
        except ValueError:
            return None
        need(all(np.size(scope[n]) <= LARGEST for names in chain.made for n in names if n in scope))
    return [np.asarray(scope[n]) for n in chain.outputs]


def run(seed: int, ended: Counter[str], arena: Arena | None = None) -> None:
    """One chain. Raises AssertionError for a wrong answer, TensorLangError for a chain or a call that should
    not have been refused."""
    chain = Chain(seed)
    if chain.refused is not None:
        ended["steps refused"] += 1
    if not chain.outputs:
        return
    args = [*chain.inputs.values(), *map(chain.tensor, chain.outputs)]
    told = {str(n) for t in chain.inputs.values() for n in t.shape}
    if any(
        v in str([t.shape for t in args]) or f" {v}" in "\n".join(chain.numpys) for v in "mn" if v not in told
    ):
        return  # a size that no argument tells
    f = tl.compile(args, name="k")
    rng = np.random.default_rng(seed)
    for q in range(8):
        m, n = (1, 1) if q == 0 else (int(rng.choice(SIZES)), int(rng.choice(SIZES)))
        sizes = {"m": 0 if q == 1 else m, "n": 0 if q == 2 else n}
        if chain.least and 0 in sizes.values():
            continue
        given = [values(rng, t, sizes) for t in chain.inputs.values()]
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of means of nothing
                want = wanted(chain, sizes, given)
        except Skip:
            continue
        if arena:
            arena.place(q % 2 == 1)
        with arena.copies(given) if arena else nullcontext([a.copy() for a in given]) as inputs:
            try:
                result = f(*inputs)
            except tl.CallError:
                if want is None:
                    ended["calls refused"] += 1
                    continue
                raise
            got = list(result) if isinstance(result, tuple) else [result]
            for name, a, b in zip(chain.inputs, given, inputs, strict=True):
                assert a.tobytes() == b.tobytes(), f"{sizes}: {name} was written to"
        if want is not None:
            for name, a, b in zip(chain.outputs, want, got, strict=True):
                agree(f"{sizes}: {name}", a, b)
            ended["right"] += 1
    ended["programs"] += 1


def agree(what: str, want: Any, got: Any) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype), (
        f"{what}: {got.shape} {got.dtype}, not {want.shape} {want.dtype}"
    )
    near = np.isclose(want.astype("f8"), got.astype("f8"), rtol=1e-4, atol=1e-4, equal_nan=True)
    assert np.all(near), f"{what} differs in {int((~near).sum())} of {near.size}"
