"""The text of a random program of many stages, in TE's words and those of ``ops``. Knows no compiler.

A program is a list of lines: maps, statistics that several stages read, products, windows, recurrences,
scatters, functions of the user, scalars, indices that are data, empty and symbolic sizes, several outputs,
axes without names, every dtype. Values are small whole numbers, so every order of summation gives the same
bits; or integers of any size, whose sums and products wrap; or such with infinities and NaN among them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from .calls import FLOAT_CALLS, INT_CALLS, WRAPPING_CALLS

FLOATS = ("float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*INTEGERS, "float32", "float32", "float32", "float64", "float16", "bfloat16", "bool")
Shape = tuple[Any, ...]  # of numbers and "n"


def dims(shape: Shape) -> str:
    """The text of a shape."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


class Program:
    """The lines of one program, with the shape and dtype of each name. A ``short`` one is quick to interpret: few
    stages and elements, none of its sizes 0 or its values large."""

    def __init__(self, seed: int, short: bool = False) -> None:
        self.random = r = random.Random(seed)
        self.short = short
        self.lines: list[str] = []
        self.sizes: list[dict[str, int]] = [{}]
        if r.random() < 0.25:
            kind = r.choice(
                ('te.var("n")', 'te.size_var("n")', 'te.dim("n", 1, 40)', 'te.dim("n", 0, 64, multiple_of=4)')
            )
            self.lines.append(f"n = {kind}")
            self.sizes = [
                {"n": k}
                for k in ((0, 4, 12) if "multiple" in kind else (1, 2, 13) if "dim" in kind else (0, 1, 13))
            ]
        sizes = (1, 2, 3, 5, 8, 13, 16, 17, *(() if short else (32, 33, 33, 64)))
        large = () if short else (65, 100, 128, 200)
        self.pool = [r.choice(large if large and r.random() < 0.05 else sizes) for _ in range(3)]
        self.names: dict[str, tuple[Shape, str]] = {}
        self.inputs: list[str] = []
        self.together: dict[str, tuple[str, str]] = {}  # outputs of one compute: all are arguments, or none
        self.full = not short and r.random() < 0.2  # integers of any size
        self.special = (
            not short and not self.full and r.random() < 0.2
        )  # floats may be infinite, or no number
        for _ in range(r.randint(1, 3)):
            self.input(self.shape(), r.choice(INTEGERS if self.full else DTYPES))
        for _ in range(
            r.randint(2, 5) if short else r.randint(2, 9) if r.random() < 0.95 else r.randint(15, 30)
        ):
            self.stage()
        made = [name for name in self.names if name not in self.inputs] or [self.map(self.inputs[0])]
        chosen = [made[-1], *r.sample(made, min(len(made), r.choice((0, 0, 1, 2))))]
        self.outputs = list(dict.fromkeys(n for name in chosen for n in self.together.get(name, (name,))))

    def text(self) -> str:
        body = "\n".join(f"    {line}" for line in self.lines)
        return f"def program():\n{body}\n    return [{', '.join(self.inputs + self.outputs)}], [{', '.join(self.outputs)}]\n"

    def bounds(self, name: str) -> tuple[int, int]:
        """The range of the values of an input: from, and up to but not with."""
        t = self.names[name][1]
        return 0 if t == "bool" or t.startswith("u") else -3, 2 if t == "bool" else 4

    def shape(self) -> Shape:
        r = self.random
        out: list[Any] = [
            r.choice(self.pool)
            for _ in range(r.choice((0, 1, 1, 2, 2, 2) if self.short else (0, 1, 1, 2, 2, 2, 3)))
        ]
        if out and self.sizes != [{}] and r.random() < 0.6:
            out[0] = "n"
        elif out and not self.short and r.random() < 0.03:
            out[r.randrange(len(out))] = 0
        return tuple(out)

    def add(self, code: str, shape: Shape, t: str, wish: str = "T") -> str:
        name = f"{wish}{len(self.names)}"
        self.lines.append(f"{name} = {code}")
        self.names[name] = (shape, t)
        return name

    def input(self, shape: Shape, t: str) -> str:
        name = self.add(f'te.placeholder({dims(shape)}, "{t}", "A{len(self.names)}")', shape, t, "A")
        self.inputs.append(name)
        return name

    def some(self, fits: Callable[[Shape, str], bool]) -> str | None:
        """The name of a tensor that fits."""
        found = [n for n, (shape, t) in self.names.items() if fits(shape, t)]
        return self.random.choice(found) if found else None

    def like(self, shape: Shape, t: str) -> str:
        """A tensor of that shape, or a scalar."""
        return self.random.choice([n for n, (s, u) in self.names.items() if u == t and (s == shape or not s)])

    # -- kinds of stages
    # ----------------------------------------------------------------------------------------------

    def stage(self) -> None:
        getattr(self, self.random.choice(WRAPPING if self.full else KINDS))()

    def map(self, x: str = "") -> str:
        """A compute over the indices of a tensor, perhaps with those of others that broadcast to it."""
        r = self.random
        x = x or r.choice(list(self.names))
        shape, t = self.names[x]
        at = ", ".join("ijlm"[: len(shape)])
        element = f"{x}[{at}]" if shape else f"{x}()"
        like = [
            n
            for n, (s, u) in self.names.items()
            if u == t and (s == shape or (s and s == shape[-len(s) :]) or not s)
        ]
        y = r.choice(like)
        rank = len(self.names[y][0])
        other = f"{y}[{', '.join('ijlm'[len(shape) - rank : len(shape)])}]" if rank else f"{y}()"
        if t == "bool":
            body = r.choice(
                (
                    f"te.any({element}, {other})",
                    f"te.all({element}, {other})",
                    f"te.if_then_else({element}, {other}, {element})",
                )
            )
        else:
            body = r.choice(
                (
                    f"te.max(te.min({element} + {other}, 9), -9)"
                    if not t.startswith("u")
                    else f"te.min({element} + {other}, 9)",
                    f"te.max({element}, {other})",
                    f"te.if_then_else({element} > {other}, {element}, 1)",
                    f"te.select({other} < 3, {element}, {other})",
                    f"te.min({element}, 4)",
                )
            )
        if shape and r.random() < 0.3 and t != "bool":
            body = f"te.if_then_else({r.choice('ijlm'[: len(shape)])} % 3 == 1, {body}, {element})"
        args = f"lambda {at}: {body}" if shape else f"lambda: {body}"
        named = f', "C{len(self.names)}"' if r.random() < 0.6 else ""
        return self.add(f"te.compute({dims(shape)}, {args}{named})", shape, t)

    def pair(self) -> None:
        """One compute of two outputs."""
        x = self.random.choice(list(self.names))
        shape, t = self.names[x]
        at = ", ".join("ijlm"[: len(shape)])
        first, second = (f"{n}[{at}]" if self.names[n][0] else f"{n}()" for n in (x, self.like(shape, t)))
        both = (
            f"te.all({first}, {second}), te.any({first}, {second})"
            if t == "bool"
            else f"te.max({first}, {second}), te.min({first}, 3)"
        )
        name = self.add(f"te.compute({dims(shape)}, lambda {at}: ({both}))", shape, t, "U")
        other = f"V{len(self.names)}"
        self.names[other] = (shape, t)
        self.together[name] = self.together[other] = (name, other)
        self.lines[-1] = f"{name}, {other} = {self.lines[-1].partition(' = ')[2]}"

    def operator(self) -> None:
        x = self.random.choice(list(self.names))
        shape, t = self.names[x]
        name = self.random.choice(
            ("maximum", "minimum") if t != "bool" else ("logical_or", "logical_and", "logical_xor")
        )
        self.add(f"ops.{name}({x}, {self.like(shape, t)})", shape, t)

    def where(self) -> None:
        """A choice by a tensor of bools, which is compared into being if there is none."""
        x = self.random.choice(list(self.names))
        shape, t = self.names[x]
        cond = self.some(lambda s, u: u == "bool" and s in (shape, ()))
        if cond is None and t != "bool":
            cond = self.add(f"ops.less({x}, {self.like(shape, t)})", shape, "bool")
        if cond is not None:
            self.add(f"ops.where({cond}, {x}, {self.like(shape, t)})", shape, t)

    def statistic(self) -> None:
        """A reduction that a later stage of the same shape may read."""
        r = self.random
        x = self.some(lambda s, t: len(s) > 0)
        if x is None:
            return
        shape, t = self.names[x]
        axis, keep = r.randrange(len(shape)), r.random() < 0.4
        name = r.choice(("max", "min", "sum") if t != "bool" else ("any", "all"))
        if name == "sum" and t == "bfloat16":
            x, t = self.add(f'ops.cast({x}, "float32")', shape, "float32"), "float32"
        rest = tuple(1 if keep and d == axis else n for d, n in enumerate(shape) if keep or d != axis)
        call = f"ops.{name}({x}, axis={axis}, keepdims={keep})"
        if name == "sum" and self.full:
            self.add(f'{call[:-1]}, dtype="{t}")', rest, t)
            return
        if name == "sum":
            self.add(f'ops.cast({call}, "float64")', rest, "float64")
            return
        y = self.add(call, rest, t)
        if keep:
            self.add(f"ops.{'maximum' if t != 'bool' else 'logical_or'}({x}, {y})", shape, t)

    def place(self) -> None:
        """Where the largest or smallest element stands."""
        x = self.some(lambda s, t: len(s) > 0 and t != "bool")
        if x is not None:
            shape, _ = self.names[x]
            axis = self.random.randrange(len(shape))
            y = f"ops.{self.random.choice(('argmax', 'argmin'))}({x}, axis={axis})"
            self.add(f'ops.cast({y}, "int32")', shape[:axis] + shape[axis + 1 :], "int32")

    def reduce(self) -> None:
        """A reduction of TE, its axis with a name that others have, or with none."""
        r = self.random
        x = self.some(lambda s, t: len(s) > 0 and t != "bool")
        if x is None:
            return
        shape, t = self.names[x]
        axis = r.randrange(len(shape))
        k, letters = f"k{len(self.lines)}", [*"ijlm"[: len(shape)]]
        self.lines.append(
            f"{k} = te.reduce_axis((0, {shape[axis]})"
            + (")" if r.random() < 0.5 else f', "{r.choice("ik")}")')
        )
        order = [d for d in range(len(shape)) if d != axis]
        if r.random() < 0.3:
            r.shuffle(order)
        rest, free = tuple(shape[d] for d in order), [letters[d] for d in order]
        letters[axis] = k
        where = f", where={k} % 2 == 0" if r.random() < 0.2 else ""
        element, head = f"{x}[{', '.join(letters)}]", f"te.compute({dims(rest)}, lambda {', '.join(free)}: "
        if r.random() < 0.2:
            self.extremes(f"{head}{BOTH}(({element}, {element}), axis={k}{where}))", rest, t)
        else:
            self.add(f"{head}te.{r.choice(('max', 'min'))}({element}, axis={k}{where}))", rest, t)

    def extremes(self, code: str, shape: Shape, t: str) -> None:
        """A compute of two outputs, which are arguments together or neither."""
        name, other = f"U{len(self.names)}", f"V{len(self.names) + 1}"
        self.lines.append(f"{name}, {other} = {code}")
        self.names[name] = self.names[other] = (shape, t)
        self.together[name] = self.together[other] = (name, other)

    def ragged(self) -> None:
        """A reduction whose range is data, from an input or from another stage, right or not."""
        r = self.random
        x = self.some(lambda s, t: len(s) in (1, 2) and t != "bool")
        if x is None:
            return
        (*rows, _), t = self.names[x]
        k, ends = (
            f"k{len(self.lines)}",
            self.some(
                lambda s, u: (
                    u in ("int32", "int64")
                    and (list(s) == rows if rows else len(s) == 1 and s[0] not in ("n", 0))
                )
            ),
        )
        if ends is None or r.random() < 0.5:
            ends = self.input((rows[0] if rows else r.choice(self.pool) + 1,), r.choice(("int32", "int64")))
        if rows:
            begin, end, at, shape = "0", f"{ends}[i]", f"i, {k}", (rows[0],)
        else:
            begin, end, at, shape = f"{ends}[i]", f"{ends}[i + 1]", k, (self.names[ends][0][0] - 1,)
        if not rows and r.random() < 0.5:
            begin, end, at = "0", f"{end} - {begin}", f"{begin} + {k}"
        axis = f"{k} := te.reduce_axis(({begin}, {end}))"
        first = at.replace(k, f"({axis})", 1)
        where = f", where={k} % 2 == 0" if r.random() < 0.2 else ""
        how = r.choice(("max", "min", "sum") if t in ("float32", "float64", "int64") else ("max", "min"))
        y = self.add(
            f"te.compute({dims(shape)}, lambda i: te.{how}({x}[{first}], axis={k}{where}))", shape, t
        )
        if how == "sum":
            self.small(y)

    def product(self) -> None:
        """With a matrix for each of the batch, perhaps one that is there already; sometimes of many columns, as
        kernels pack what is read often."""
        x = self.some(lambda s, t: len(s) in (2, 3) and t in (*FLOATS, "float16", "bfloat16", "int32"))
        if x is None:
            return
        r, (shape, t) = self.random, self.names[x]
        columns = r.choice((*self.pool, *self.pool, *(() if self.short else (48, 64, 100, 130))))
        shared = self.some(
            lambda s, u: u == t and len(s) == len(shape) and s[:-1] == (*shape[:-2], shape[-1])
        )
        if shared is not None and r.random() < 0.6:
            w, columns = shared, self.names[shared][0][-1]
        else:
            w = self.input((*shape[:-2], shape[-1], columns), t)
        self.small(self.add(f"ops.matmul({x}, {w})", (*shape[:-1], columns), t))

    def small(self, y: str) -> None:
        shape, t = self.names[y]
        self.add(f'ops.minimum(ops.maximum({y}, ops.full((), -5, "{t}")), ops.full((), 5, "{t}"))', shape, t)

    def window(self) -> None:
        """A convolution or a pool of windows along the last dimension."""
        r = self.random
        x = self.some(
            lambda s, t: len(s) == 3 and t in FLOATS and s[1] not in ("n", 0) and s[2] not in ("n", 0)
        )
        if x is None:
            return
        (n, c, w), t = self.names[x]
        k, stride = r.randint(1, min(3, w)), r.randint(1, 2)
        out = (w - k) // stride + 1
        if r.random() < 0.5:
            f = self.input((r.choice(self.pool[:2]), c, k), t)
            self.small(self.add(f"ops.conv1d({x}, {f}, stride={stride})", (n, self.names[f][0][0], out), t))
        else:
            self.add(f"ops.max_pool1d({x}, {k}, {stride})", (n, c, out), t)

    def wrapping(self) -> None:
        """Arithmetic whose results leave the type, and comparisons that would hold if they did not."""
        x = self.some(lambda s, t: t in INTEGERS)
        if x is None:
            return
        r, (shape, t) = self.random, self.names[x]
        at = ", ".join("ijlm"[: len(shape)])
        a, b = (f"{n}[{at}]" if self.names[n][0] else f"{n}()" for n in (x, self.like(shape, t)))
        c = r.choice((1, 2, 3, 4, 7, 8, 100))
        body = r.choice(WRAPPING_CALLS).format(a=a, b=b, c=c)
        if shape and r.random() < 0.3:
            body = f"te.if_then_else({r.choice('ijlm'[: len(shape)])} % 3 == 1, {body}, {a})"
        self.add(f"te.compute({dims(shape)}, lambda {at}: {body})", shape, t)

    def running(self) -> None:
        x = self.some(lambda s, t: len(s) > 0 and t not in ("bool", "bfloat16"))
        if x is not None:
            shape, t = self.names[x]
            self.add(f'ops.cumsum({x}, {self.random.randrange(len(shape))}, dtype="{t}")', shape, t)

    def ordered(self) -> None:
        """Elements in an order, their places, the largest of them, the largest so far."""
        r = self.random
        x = self.some(lambda s, t: len(s) > 0 and t != "bool")
        if x is None or self.short:  # the interpreter wants both results of a step as arguments
            return
        shape, t = self.names[x]
        axis = r.randrange(len(shape))
        how = r.choice(("sort", "argsort", "top_k", "cummax", "cummin"))
        if how in ("cummax", "cummin"):
            code, rest = f"ops.{how}({x}, {axis})", shape
        elif how == "top_k":
            if shape[axis] in ("n", 0):
                return
            k = r.randint(1, shape[axis])
            code = f"ops.top_k({x}, {k}, {axis}, {r.random() < 0.5})"
            rest = (*shape[:axis], k, *shape[axis + 1 :])
        else:
            code, rest = f"ops.{how}({x}, {axis}, {r.random() < 0.5})", shape
        places = how == "argsort" or (how not in ("sort", "argsort") and r.random() < 0.4)
        if how not in ("sort", "argsort"):
            code += f"[{int(places)}]"
        self.add(f'ops.cast({code}, "int32")' if places else code, rest, "int32" if places else t)

    def placed(self) -> None:
        """Triangles, stacks, dimensions exchanged, products of few, elements put where data says."""
        r = self.random
        x = self.some(lambda s, t: len(s) > 1)
        if x is None:
            return
        shape, t = self.names[x]
        how = r.choice(("tril", "triu", "stack", "swapaxes", "rows", "elements", "one_hot"))
        if how in ("tril", "triu"):
            self.add(f"ops.{how}({x}, {r.randint(-2, 2)})", shape, t)
        elif how == "swapaxes":
            self.add(f"ops.swapaxes({x}, 0, {len(shape) - 1})", (shape[-1], *shape[1:-1], shape[0]), t)
        elif how == "stack":
            y = self.some(lambda s, u: s == shape and u == t)
            self.add(f"ops.stack([{x}, {y}], 1)", (shape[0], 2, *shape[1:]), t)
        elif how == "rows" and t != "bool" and shape[0] not in ("n", 0):
            index = self.input((r.choice(self.pool), 1), r.choice(("int32", "int64")))
            mode = r.choice(("clip", "wrap"))
            rest = (self.names[index][0][0], *shape[1:])
            self.add(f"ops.gather_nd({x}, {index}, 0, {mode!r})", rest, t)
        elif how == "elements" and t in ("float32", "int32", "int64"):
            index, axis = self.input(shape, "int32"), r.randrange(len(shape))
            last = f"{shape[axis]} - 1" if shape[axis] == "n" else max(0, shape[axis] - 1)
            at = ", ".join("ijlm"[: len(shape)])
            held = f"te.compute({dims(shape)}, lambda {at}: te.max(te.min({index}[{at}], {last}), 0))"
            kind = r.choice(("add", "max", "min"))
            y = self.add(f"ops.scatter_elements({x}, {held}, {x}, {axis}, {kind!r})", shape, t)
            if kind == "add" and not self.full:
                self.small(y)
        elif how == "one_hot" and t in ("int32", "int64"):
            self.add(f'ops.one_hot({x}, 5, dtype="int32")', (*shape, 5), "int32")

    def recurrence(self) -> None:
        """A scan over rows; sometimes with a stage of its own in each step."""
        x = self.some(lambda s, t: len(s) == 2 and s[0] not in ("n", 0, 1) and t != "bool")
        if x is None:
            return
        (steps, n), t = self.names[x]
        s, at = f"S{len(self.lines)}", self.random.choice(("max", "min"))
        self.lines.append(f'{s} = te.placeholder({dims((steps, n))}, "{t}", "{s}")')
        before = f"{s}[t - 1, i]"
        if self.random.random() < 0.4:
            self.lines.append(f"{s}m = te.compute({dims((steps, n))}, lambda t, i: te.min({before}, 4))")
            before = f"{s}m[t, i]"
        self.add(
            f"te.scan(te.compute({dims((1, n))}, lambda t, i: {x}[0, i]), te.compute({dims((steps, n))}, lambda t, i: te.{at}({before}, {x}[t, i])), {s})",
            (steps, n),
            t,
        )

    def scatter(self) -> None:
        """Updates at places that are data, or a histogram."""
        r = self.random
        x = self.some(lambda s, t: len(s) == 1 and t in ("int32", "int64", "float32"))
        if x is None:
            return
        shape, t = self.names[x]
        index, size = self.input(shape, r.choice(("int32", "int64"))), r.choice(self.pool)
        how = r.choice(("add", "max", "min", "set"))
        self.add(
            f'te.scatter(1, {dims(shape)}, lambda i: {index}[i], lambda i: {x}[i], "{how}", shape=({size},), dtype="{t}")',
            (size,),
            t,
        )

    def function(self) -> None:
        """A step that a Python function does."""
        x = self.some(lambda s, t: len(s) > 0 and t in (*FLOATS, "int32", "int64"))
        if x is None:
            return
        shape, t = self.names[x]
        y, call = self.like(shape, t), self.random.choice(("affine", "add", "add"))
        if call == "affine" or self.names[y][0] != shape:
            code = f'te.extern({dims(shape)}, [{x}], lambda i, o: te.call_packed("fuzz.affine", i[0], o[0], 3), dtype="{t}")'
        else:
            code = f'te.extern({dims(shape)}, [{x}, {y}], lambda i, o: te.call_packed("fuzz.add", i[0], i[1], o[0]), dtype="{t}")'
        self.small(self.add(code, shape, t))

    def take(self) -> None:
        """Elements at places that are data, clamped or wrapped; the source may be empty."""
        r = self.random
        x = self.some(lambda s, t: len(s) > 0)
        if x is None:
            return
        shape, t = self.names[x]
        axis, mode = r.randrange(len(shape)), r.choice(("clip", "wrap"))
        if r.random() < 0.3:
            index = self.input(
                tuple(r.choice(self.pool) if d == axis else n for d, n in enumerate(shape)),
                r.choice(("int32", "int64")),
            )
            self.add(f"ops.gather({x}, {axis}, {index}, {mode!r})", self.names[index][0], t)
            return
        index = self.input((r.choice(self.pool),), r.choice(("int32", "int64")))
        self.add(
            f"ops.take({x}, {index}, {axis}, {mode!r})",
            (*shape[:axis], *self.names[index][0], *shape[axis + 1 :]),
            t,
        )

    def cast(self) -> None:
        x = self.random.choice(list(self.names))
        shape, t = self.names[x]
        u = (
            self.random.choice(INTEGERS)
            if self.full
            else self.random.choice(
                (*FLOATS, "int32", "int64", "float16") if t != "bool" else ("float32", "int8", "int32")
            )
        )
        self.add(f'ops.cast({x}, "{u}")', shape, u)

    def compare(self) -> None:
        x = self.some(lambda s, t: t != "bool")
        if x is not None:
            shape, t = self.names[x]
            self.add(
                f"ops.{self.random.choice(('greater', 'less_equal', 'equal', 'not_equal'))}({x}, {self.like(shape, t)})",
                shape,
                "bool",
            )

    def intrinsic(self) -> None:
        """A function of a small whole number, brought to a small whole number again."""
        x = self.some(lambda s, t: t in (*FLOATS, "int8", "int32", "int64"))
        if x is not None:
            shape, t = self.names[x]
            at = ", ".join("ijlm"[: len(shape)])
            calls = FLOAT_CALLS if t in FLOATS else INT_CALLS
            y = self.random.choice(calls).format(
                x=f"te.max(te.min({x}[{at}], 9), -9)" if shape else f"te.max(te.min({x}(), 9), -9)"
            )
            y = f"te.floor({y} * 4 + 0.3)" if t in FLOATS else y
            self.add(f"te.compute({dims(shape)}, lambda {at}: te.max(te.min({y}, 9), -9))", shape, t)

    def reshaped(self) -> None:
        r = self.random
        x = r.choice(list(self.names))
        shape, t = self.names[x]
        last = len(shape) - 1
        how = r.choice(
            ("transpose", "flip", "concat", "pad", "expand", "flatten", "tile", "repeat", "slice", "half")
        )
        if how == "transpose":
            self.add(f"ops.transpose({x})", shape[::-1], t)
        elif how == "expand":
            self.add(f"ops.expand_dims({x}, 0)", (1, *shape), t)
        elif not shape or "n" in (shape[0], shape[-1]):
            return
        elif how == "flip":
            self.add(f"ops.flip({x}, {r.randrange(len(shape))})", shape, t)
        elif how == "concat":
            self.add(
                f"ops.concat([{x}, {self.some(lambda s, u: s == shape and u == t)}], 0)",
                (2 * shape[0], *shape[1:]),
                t,
            )
        elif how == "pad" and t != "bool":
            mode = r.choice(("constant", "edge", "reflect"))
            margins = "".join(f"(0, {int(d == last)}), " for d in range(len(shape)))
            if mode == "constant" or shape[-1] > 1:
                self.add(f"ops.pad({x}, ({margins}), {mode!r})", (*shape[:-1], shape[-1] + 1), t)
        elif how == "flatten" and len(shape) == 2:
            self.add(f"ops.reshape({x}, ({shape[0]} * {shape[1]},))", (shape[0] * shape[1],), t)
        elif how == "tile":
            self.add(f"ops.tile({x}, {(1,) * last + (2,)})", (*shape[:-1], 2 * shape[-1]), t)
        elif how == "repeat":
            self.add(f"ops.repeat({x}, 2, {last})", (*shape[:-1], 2 * shape[-1]), t)
        elif how == "slice" and shape[-1]:
            step = r.choice((1, 2, 3))
            self.add(
                f"ops.strided_slice({x}, [{min(1, shape[-1] - 1)}], [{shape[-1]}], [{step}], axes=[{last}])",
                (*shape[:-1], -(-(shape[-1] - min(1, shape[-1] - 1)) // step)),
                t,
            )
        elif how == "half" and shape[-1] and shape[-1] % 2 == 0:
            self.add(f"ops.split({x}, 2, {last})[{r.randrange(2)}]", (*shape[:-1], shape[-1] // 2), t)


BOTH = (
    "te.comm_reducer(lambda x, y: (te.min(x[0], y[0]), te.max(x[1], y[1])), "
    "lambda t, u: (te.max_value(t), te.min_value(u)))"
)
OFTEN = ("map", "map", "operator", "statistic", "statistic", "reduce", "product", "reshaped", "take")
SELDOM = (
    "cast",
    "compare",
    "where",
    "running",
    "recurrence",
    "scatter",
    "function",
    "pair",
    "place",
    "ragged",
    "placed",
)
COMMON = (*OFTEN, *OFTEN, *SELDOM)
KINDS = (*COMMON, "window", "intrinsic", "ordered")
WRAPPING = (*COMMON, *["wrapping"] * 8)
