"""partition: guards that only the last tiles need are kept out of the others.

``for io: for i in unrolled 0..8: if io * 8 + i < n: S`` → ``for io: if io * 8 + 7 < n: (for i: S) else: (for
i: if …: S)``

A choice in the value of a store, as the copy of a padded operand makes, is a guard like the others; and so is
a clamp of the index that a vector reads at, as those of a mirrored or repeated edge: in most vectors all
lanes take the same side of it, and read neighbours. Where a choice is between two tensors that are read, as
in those that are joined, there is a fast copy for each, and the careful one is left to the vectors on a seam.

The test stands inside the innermost plain loop on which such a guard depends, one test for all guards below,
so a nest has one fast and one careful copy; where the guards of other loops stand behind sums, whose products
must not ask, they do not make a tile careful. Only guards below vectorised or unrolled loops ask for it:
those of plain loops became bounds (``tighten``). A loop that was split with ``tail="guard"`` or ``"mask"``
keeps its one copy, and so do the loops inside it as far as its own guards go.
"""

from __future__ import annotations

from collections.abc import Set

from ..arith.conditions import conjunction, denied, holds_when_nonneg, never_negative
from ..arith.facts import Facts
from ..arith.inequalities import undivided
from ..core.recursion import Steps, run
from ..expr import make
from ..expr.linear import from_poly, poly, wraps
from ..expr.nodes import Expr, Var
from ..expr.walk import variables
from ..loopir.stmt import Alloc, For, Func, If, Let, Seq, Stmt, Store, preorder, seq
from .guards import alternatives, clamped, tested, without

MAX_COPIED = 4000  # statements after unrolling that may be written twice
MAX_TURNS = 400  # the same of those that are written a third time, for all terms of a sum but the last
# the same of those that are written for each part of what is joined, and how many parts: more are code that
# takes LLVM long
MAX_JOINED, MAX_PARTS = 100, 8


def partition(func: Func) -> Func:
    """The pass."""
    sizes = frozenset(v for v in func.dims if v.kind == "dim")
    return func.with_body(run(_walk(func.body, Facts(sizes=sizes))))


def _walk(s: Stmt, facts: Facts, kept: frozenset[Var] = frozenset(), outermost: bool = True) -> Steps[Stmt]:
    """``outermost`` where no plain loop is around."""
    if isinstance(s, Seq):
        new = []
        for x in s.stmts:
            new.append((yield _walk(x, facts, kept, outermost)))
        return s if all(a is b for a, b in zip(new, s.stmts, strict=True)) else seq(*new)
    if isinstance(s, For):
        inside = facts.bind(s.var, s.begin, make.sub(make.add(s.begin, s.extent), 1))
        if s.kind in ("vectorized", "unrolled"):
            return s
        of_sizes = _of_sizes(s) if outermost else None
        if of_sizes and isinstance(chosen := _two_copies(s, facts, kept, of_sizes), If):
            return (yield _walk(chosen, facts, kept, False))
        tail = dict(s.attrs).get("tail")
        body = yield _walk(s.body, inside, kept | {s.var} if tail in ("guard", "mask") else kept, False)
        if body is s.body and not tail and s.var in _wanted(s.body):
            body = _two_copies(s.body, inside, kept - {s.var}, own=s.var)
        return s if body is s.body else For(s.var, s.begin, s.extent, s.kind, body, s.attrs)
    if isinstance(s, If):
        then = yield _walk(s.then, facts.assume(s.cond), kept, outermost)
        orelse = None if s.orelse is None else (yield _walk(s.orelse, facts, kept, outermost))
        return s if then is s.then and orelse is s.orelse else If(s.cond, then, orelse)
    if isinstance(s, Alloc | Let):
        (part,) = s.parts()
        new_part = yield _walk(part, facts, kept, outermost)
        return s if new_part is part else s.with_parts(new_part)
    return s


def _guards(
    s: Stmt, fixed: dict[Var, str], facts: Facts, found: dict[Expr, Facts]
) -> Steps[dict[Expr, Facts]]:
    """Guards below ``s`` that depend on a vectorised or unrolled loop below ``s``, each with the facts where
    it stands; and clamps of vectors."""
    if isinstance(s, For):
        facts = facts.bind(s.var, s.begin, make.sub(make.add(s.begin, s.extent), 1))
        fixed = {**fixed, s.var: s.kind} if s.kind in ("vectorized", "unrolled") else fixed
        return (yield _guards(s.body, fixed, facts, found))
    for c in tested(s):
        if _of_indices(c) and any(v in variables(c) for v in fixed):
            found.setdefault(c, facts)
    lanes = {v for v, kind in fixed.items() if kind == "vectorized"}
    for c in clamped(s, lanes, facts) if lanes else ():
        if _of_indices(c):
            found.setdefault(c, facts)
    for part in s.parts():
        yield _guards(part, fixed, facts, found)
    return found


def _of_indices(cond: Expr) -> bool:
    """Whether a guard is an inequality of indices: sums of data wrap, ``a < a + 4`` is not a constant."""
    return not wraps(cond) and never_negative(cond) is not None


def _wanted(body: Stmt) -> dict[Var, None]:
    """The variables from outside that guards of vectorised and unrolled loops in ``body`` speak of."""
    inner = {st.var for st in preorder(body) if isinstance(st, For)}
    return {v: None for c in run(_guards(body, {}, Facts(), {})) for v in variables(c) if v not in inner}


def _of_sizes(s: For) -> set[Expr]:
    """The guards in a nest that no plain loop changes, as those of tiles that all begin early enough: one
    test in front of all loops decides them."""
    loops = {
        st.var for st in preorder(s) if isinstance(st, For) and st.kind not in ("vectorized", "unrolled")
    }
    return {c for c in run(_guards(s, {}, Facts(), {})) if loops.isdisjoint(variables(c))}


def _two_copies(
    body: Stmt, facts: Facts, kept: frozenset[Var], only: set[Expr] | None = None, own: Var | None = None
) -> Stmt:
    """The body without its guards where those hold, else as it is; guards of loops around that are ``kept``
    stay in both, as do others than ``only`` these. ``own`` is the variable of the loop whose body it is."""
    loops = [st for st in preorder(body) if isinstance(st, For)]
    inner, lanes = {st.var for st in loops}, {st.var for st in loops if st.kind == "vectorized"}
    named = {st.var for st in preorder(body) if isinstance(st, Let)}  # not known in front of the body
    if run(_size(body)) > MAX_COPIED:
        return body
    clean: dict[Expr, None] = {}
    decided: dict[Expr, Expr | None] = {}  # guards, and the test that tells of each, if there has to be one
    for cond, known in run(_guards(body, {}, facts, {})).items():
        if not (kept | named).isdisjoint(variables(cond)) or (only is not None and cond not in only):
            continue
        p = never_negative(cond)
        assert p is not None
        worst = known.bound(from_poly(p, cond.a.dtype), lambda v: v in inner, False)  # type: ignore[attr-defined]
        if worst is not None:
            test = holds_when_nonneg(undivided(poly(worst)), worst.dtype)
            if facts.prove(test) is False:
                if variables(cond) <= lanes:
                    continue  # as of the margin of each of several rows in a vector: which lanes is a number
                # no iteration of this loop is clean, as where the first part of a join is short
                if only is None:
                    return _other_part(body, facts, kept)
                continue  # as the remainder of lanes that are rows of three side by side
            if only is not None and facts.prove(make.le(worst, 0)) is True:
                continue  # of a size that is at most a tile: its masks are whole in one case only
            decided[cond] = None if facts.prove(test) is True else test
            if decided[cond] is not None:
                clean[test] = None
    if not clean:
        return body
    test = conjunction(_needed(list(clean), facts))
    rest = body if only is not None else _other_part(body, facts.assume(denied(test)), kept)
    turns = {t: None for t in clean if own in variables(t)}
    if 0 < len(turns) < len(clean):
        free = {c: None for c, t in decided.items() if t is None or t in turns}
        mostly = If(conjunction(_needed(list(turns), facts)), without(body, free), rest)
        small = run(_size(body)) <= MAX_TURNS
        if _sums_over(own, body):
            # a tile that is the last one is so for a whole sum, in which most groups of products are complete
            rest = mostly if small else rest
        elif _behind_sums(body, decided.keys() - free.keys()):
            # of the tiles of a last panel most are whole. Where that takes much code, all of them test behind
            # their sums whether it is the last
            if not small:
                return mostly
            rest = mostly
    return If(test, without(body, decided), rest)


def _sums_over(var: Var | None, body: Stmt) -> bool:
    """Whether each turn of the loop of ``var`` stores where the one before did."""
    places = (i for st in preorder(body) if isinstance(st, Store) for i in st.indices)
    return all(var not in variables(i) for i in places)


def _behind_sums(body: Stmt, guards: Set[Expr]) -> bool:
    """Whether there are loops of sums below, and none of ``guards`` stands in one."""
    loops = [st for st in preorder(body) if isinstance(st, For) and st.kind not in ("vectorized", "unrolled")]
    sums = [st for st in loops if _sums_over(st.var, st.body)]
    return bool(sums) and all(guards.isdisjoint(run(_guards(st, {}, Facts(), {}))) for st in sums)


def _other_part(body: Stmt, facts: Facts, kept: frozenset[Var]) -> Stmt:
    """The body where not all that its choices ask for holds: what is read in the place of a part that no lane
    lies in, as in the second of two tensors that are joined, is a copy without that choice."""
    choices = alternatives(body)
    if not 0 < len(choices) < MAX_PARTS or run(_size(body)) > MAX_JOINED:
        return body
    inner = {st.var for st in preorder(body) if isinstance(st, For)}
    known = run(_guards(body, {}, facts, {}))
    for choice in choices:
        p = never_negative(denied(choice))
        if p is None or choice not in known or not kept.isdisjoint(variables(choice)):
            continue
        worst = known[choice].bound(from_poly(p, choice.a.dtype), lambda v: v in inner, False)  # type: ignore[attr-defined]
        test = None if worst is None else holds_when_nonneg(undivided(poly(worst)), worst.dtype)
        if test is None or facts.prove(test) is False:
            continue
        other = _two_copies(without(body, (), {choice}), facts.assume(test), kept)
        return other if facts.prove(test) is True else If(test, other, body)
    return body


def _needed(tests: list[Expr], facts: Facts) -> list[Expr]:
    """The tests that do not follow from the others."""
    out = list(tests)
    for t in tests:
        others = [c for c in out if c is not t]
        if others and facts.assume(conjunction(others)).prove(t) is True:
            out = others
    return out


def _size(s: Stmt) -> Steps[int]:
    if isinstance(s, For):
        n = int(s.extent.value) if s.kind == "unrolled" else 1  # type: ignore[attr-defined]
        return n * (yield _size(s.body)) + 1
    total = 1
    for p in s.parts():
        total += yield _size(p)
    return total
