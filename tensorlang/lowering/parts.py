"""Values too deep or too large for one expression, computed in named parts: what comes later walks
expressions by functions that call themselves, and writes what two sides of a choice share on both.

``y[i] = f(f(… 2,000 times … f(x[i])))`` → ``part = f(… 64 times …); part_1 = f(… part …); …; y[i] = part_30``

What only one side of a choice evaluates is evaluated only where it is taken there too: ``part =
if_then_else(taken, …, 0)``, where ``taken`` names the conditions on the way to it. A part that stands on
several ways is evaluated where one of them is taken. Knows expressions and statements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..core.dtype import BOOL
from ..core.recursion import Steps, run
from ..expr import make
from ..expr.deep import height as levels
from ..expr.linear import reads_data, wraps
from ..expr.nodes import Add, Const, Expr, FloorDiv, FloorMod, IfThenElse, Mul, Sub, TruncDiv, TruncMod, Var
from ..expr.walk import postorder, preorder, rewrite
from ..loopir.stmt import Let, Stmt
from .ways import Lit, Way, ways_to

DEEPEST = 64  # operations in a part
CHOICES = 8  # in one another in a part: the code of each is made anew for each around it
# operations as they are written, what is shared each time, of values that are left as they are
LARGEST = 1 << 10
SHARED = 1 << 6  # of a part because of its size
Parts = list[tuple[Var, Expr]]

_DIVISIONS = (FloorDiv, FloorMod, TruncDiv, TruncMod)


def in_parts(values: Sequence[Expr], names: dict[Expr, Var] | None = None) -> tuple[tuple[Expr, ...], Parts]:
    """The values in terms of their parts, and these, in order. ``names`` are parts that have names here
    already; those that any value may use are added."""
    known = {} if names is None else names
    if not known and all(levels(e) <= DEEPEST and _written(e) <= LARGEST for e in values):
        return tuple(values), []
    never: dict[Expr, None] = {}
    while True:
        cut = _cut(values, known, never)
        if not cut and not known:
            return tuple(values), []
        writer = _Writer(values, known, cut)
        if run(writer.all()):
            known.update((e, v) for e, v in writer.names.items() if e not in writer.ways)
            return tuple([writer.named(e) for e in values]), writer.parts
        # its condition depends on itself: it is computed where it stands, and all others once more
        never.update(writer.circular)  # they stay where they are


def _written(e: Expr) -> int:
    """The operations of an expression that is not deep, what is shared each time. Kept on the nodes."""
    if type(e) is Var or type(e) is Const:
        return 1
    return e.memo("written", lambda: 1 + sum(map(_written, e.children())))  # type: ignore[no-any-return]


def around(body: Stmt, parts: Parts) -> Stmt:
    """``body`` where the parts have their names."""
    for v, e in reversed(parts):
        body = Let(v, e, body)
    return body


def _cut(values: Sequence[Expr], known: dict[Expr, Var], never: dict[Expr, None]) -> dict[Expr, None]:
    """What becomes a part, the innermost first."""
    size: dict[Expr, int] = {}
    height: dict[Expr, int] = {}
    uses: dict[Expr, int] = {}
    for value in values:
        for e in postorder(value, size):
            if e not in size:
                kids = () if e in known else e.children()
                # as it would be written, what is shared each time: doubling 64 times is beyond any list, but
                # a number here
                size[e] = min(1 + sum([size[k] for k in kids]), 1 << 60)
                height[e] = 1 + max([height[k] for k in kids], default=-1)
                for k in kids:
                    uses[k] = uses.get(k, 0) + 1
    large = any(size[e] > LARGEST for e in values)
    cut: dict[Expr, None] = {}
    if not large and all(height[e] <= DEEPEST for e in values):
        return cut
    sums = _sums(values, size)
    inside: dict[Expr, int] = {}
    for e in list(size):
        inside[e] = 0
        if e in known or type(e) in (Var, Const):
            continue
        kids = e.children()
        height[e] = 1 + max([0 if k in cut else height[k] for k in kids], default=0)
        size[e] = 1 + sum([1 if k in cut else size[k] for k in kids])
        inside[e] = isinstance(e, IfThenElse) + max([0 if k in cut else inside[k] for k in kids], default=0)
        more = 2 if e in sums else 1
        deep = height[e] > more * DEEPEST or inside[e] > CHOICES
        if e not in never and (deep or (large and size[e] > more**4 * SHARED and uses.get(e, 0) > 1)):
            cut[e] = None
    return cut


def _sums(values: Sequence[Expr], nodes: Iterable[Expr]) -> dict[Expr, None]:
    """The sums of indices that are rather cut at their terms, to stay one: what an access may take in one
    stride."""
    found = dict.fromkeys(values)
    found.update((k, None) for e in nodes if _is_sum(e) for k in e.children())
    return {e: None for e in found if _is_sum(e)}


def _is_sum(e: Expr) -> bool:
    return type(e) in (Add, Sub, Mul) and e.dtype.is_index


class _Writer:
    def __init__(self, values: Sequence[Expr], known: dict[Expr, Var], cut: dict[Expr, None]) -> None:
        self.cut = cut
        self.ways = ways_to(values, cut, known)
        self.names: dict[Expr, Var] = {}
        self.taken: dict[Way, Expr] = {}
        self.parts: Parts = []
        self.done: dict[Expr, Expr] = dict(known)  # what expressions are in terms of parts
        self.begun: dict[Expr, None] = {}
        self.circular: dict[Expr, None] = {}  # what the condition on the way to it depends on

    def all(self) -> Steps[bool]:
        """Write every part; False when one is ``circular``."""
        for e in self.cut:
            if not (yield self.part(e)):
                return False
        return True

    def named(self, e: Expr) -> Expr:
        """``e`` in terms of parts that are written."""
        return rewrite(e, lambda node: None, self.done)

    def part(self, e: Expr) -> Steps[bool]:
        if e in self.names:
            return True
        if e in self.begun:
            self.circular[e] = None
            return False
        self.begun[e] = None
        if not (yield self.below(e.children())):
            return False
        value = e.with_children(*[self.named(k) for k in e.children()])
        way = self.ways.get(e)
        if way is not None:
            taken = yield self.condition(way)
            if taken is None:
                return False
            # what is not taken may divide by zero or read beyond an array
            value = make.if_then_else(taken, value, make.const(0, e.dtype))
        v = self.names[e] = Var("part", e.dtype, "data" if wraps(e) and e.dtype.is_index else "value")
        # behind those it is made of: ``around`` nests them in this order
        self.parts.append((v, value))
        self.done[e] = v
        return True

    def below(self, es: Sequence[Expr]) -> Steps[bool]:
        """Write the parts that these are in terms of."""
        seen: dict[Expr, None] = {}
        stack = list(es)
        while stack:
            e = stack.pop()
            if e in seen or e in self.done:
                continue
            seen[e] = None
            if e not in self.cut:
                stack += e.children()
            elif not (yield self.part(e)):
                return False
        return True

    def condition(self, way: Way) -> Steps[Expr | None]:
        """The name of the condition under which a way is taken; None when it cannot be stated without what
        stands on it."""
        if way in self.taken:
            return self.taken[way]
        chain: list[Lit] = []
        at: Way | None = way
        while isinstance(at, Lit) and at not in self.taken and len(chain) < DEEPEST // 2:
            chain.append(at)
            at = at.before
        found: Expr | None = None
        if isinstance(at, Lit):
            found = yield self.condition(at)
            if found is None:
                return None
        elif at is not None:
            for one in at.ways:
                other = yield self.condition(one)
                if other is None:
                    return None
                found = other if found is None else make.or_(found, other)
        for lit in reversed(chain):
            if not (yield self.below((lit.cond,))):
                return None
            cond = self.named(lit.cond)
            found = _and_then(found, cond if lit.holds else make.not_(cond))
        assert found is not None
        v = self.taken[way] = Var("taken", BOOL, "value")
        self.parts.append((v, found))
        return v


def _and_then(first: Expr | None, then: Expr) -> Expr:
    """Both conditions, where the second may be tested only if the first holds."""
    if first is None:
        return then
    free = not reads_data(then) and not any(
        isinstance(e, _DIVISIONS) and type(e.b) is not Const for e in preorder(then)
    )
    return make.and_(first, then) if free else make.if_then_else(first, then, make.const(False))
