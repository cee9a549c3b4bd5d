"""The interpreter against a second, naive one on random functions: races, uninitialised reads, values."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tensorlang.expr.nodes import Const, Expr, Var
from tensorlang.expr.walk import substitute
from tensorlang.loopir.interpret import InterpretError, interpret
from tensorlang.loopir.stmt import Alloc, Buffer, For, If, Load, Seq, Stmt, Store, seq
from tensorlang.loopir.verify import verify

from .kernels import buffer, func, loop, n, read, store, var

SIZE = 6


def random_body(rng: random.Random, depth: int, scope: list[Var], buffers: list[Buffer]) -> Stmt:
    def index() -> Expr:
        e: Expr = n(rng.randrange(3))
        for v in scope:
            e = e + v * rng.choice([0, 0, 1, 1, 2, 3])
        return e % SIZE

    def one() -> Stmt:
        pick = rng.random()
        if depth > 0 and pick < 0.45:
            v = var(f"i{depth}")
            return loop(
                v,
                rng.randint(1, 3),
                random_body(rng, depth - 1, [*scope, v], buffers),
                rng.choice(["serial", "parallel"]),
            )
        if depth > 0 and pick < 0.6:
            b = buffer("t", SIZE, scope="local")
            z = var("z")
            fill: Stmt = loop(z, rng.choice([SIZE, SIZE, SIZE - 1]), store(b, z, 1.0))
            return Alloc(b, seq(fill, random_body(rng, depth - 1, scope, [*buffers, b])))
        if depth > 0 and scope and pick < 0.75:
            return If(index() < 3, random_body(rng, depth - 1, scope, buffers))
        value: Expr = (
            read(rng.choice(buffers), index())
            if rng.random() < 0.6
            else n(rng.randrange(5)).astype("float32")
        )
        return store(rng.choice(buffers), index(), value + 1.0)

    return seq(*[one() for _ in range(rng.randint(1, 3))])


class Failed(Exception):
    pass


class Naive:
    """Walks the tree, logs every access with the iterations of the parallel loops around it, compares all
    pairs."""

    def __init__(self, arrays: dict[Buffer, Any], written: dict[Buffer, bool]) -> None:
        self.memory: dict[Buffer, Any] = {b: (a, [written[b]] * SIZE, []) for b, a in arrays.items()}
        self.runs = 0
        self.path: tuple[tuple[int, int], ...] = ()

    def value(self, e: Expr, env: dict[Var, Expr]) -> Any:
        if isinstance(e, Load):
            return self.touch(e.buffer, self.value(e.indices[0], env), False)
        if not any(isinstance(c, Load) for c in e.children()):  # an index, a condition, a number
            found = substitute(e, env)
            assert type(found) is Const
            return found.value
        a, b = (self.value(c, env) for c in e.children())  # value + 1.0, the only operation on what is read
        return np.float32(a) + np.float32(b)

    def touch(self, b: Buffer, at: int, write: bool, value: Any = None) -> Any:
        data, init, log = self.memory[b]
        if not write and not init[at]:
            raise Failed("uninitialised")
        for at2, write2, path2 in log:
            if at2 == at and (write or write2):
                differ = next(((p, q) for p, q in zip(self.path, path2, strict=False) if p != q), None)
                if differ is not None and differ[0][0] == differ[1][0]:
                    raise Failed("race")
        log.append((at, write, self.path))
        if write:
            data[at] = value
            init[at] = True
        return data[at]

    def run(self, s: Stmt, env: dict[Var, Expr]) -> None:
        if isinstance(s, Seq):
            for part in s.stmts:
                self.run(part, env)
        elif isinstance(s, For):
            self.runs += 1
            me, outer = self.runs, self.path
            for x in range(self.value(s.extent, env)):
                if s.kind == "parallel":
                    self.path = (*outer, (me, x))
                self.run(s.body, {**env, s.var: n(x)})
            self.path = outer
        elif isinstance(s, If):
            if self.value(s.cond, env):
                self.run(s.then, env)
        elif isinstance(s, Alloc):
            self.memory[s.buffer] = (np.zeros(SIZE, np.float32), [False] * SIZE, [])
            self.run(s.body, env)
        elif isinstance(s, Store):
            value = self.value(s.value, env)
            self.touch(s.buffer, self.value(s.indices[0], env), True, value)


@pytest.mark.parametrize("seed", range(20))
def test_agrees_with_the_naive_one(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(15):
        a, c = buffer("A", SIZE), buffer("C", SIZE)
        z = var("z")
        f = func("f", (a, c), seq(loop(z, SIZE, store(c, z, 0.0)), random_body(rng, 4, [], [a, c])))
        verify(f)
        inputs = np.arange(SIZE, dtype=np.float32)
        mine = {a: inputs.copy(), c: np.zeros(SIZE, np.float32)}
        theirs = {a: inputs.copy(), c: np.zeros(SIZE, np.float32)}
        written = {b: b not in f.outputs for b in (a, c)}
        try:
            Naive(mine, written).run(f.body, {})
            want = "fine"
        except Failed as e:
            want = str(e)
        try:
            interpret(f, theirs[a], theirs[c], coverage=False)
            got = "fine"
        except InterpretError as e:
            got = e.kind
        assert got == want, f"\n{f}"
        if want == "fine":
            assert (mine[c] == theirs[c]).all() and (mine[a] == theirs[a]).all(), f"\n{f}"
