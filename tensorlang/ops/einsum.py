"""einsum: products and sums by labels of dimensions, as numpy's. Knows what products share; no other
operator.

Two operands are one reduction over the labels that are not wanted; more are taken two at a time, each time
summing over the labels that nobody asks for any more, in the order of fewest multiplications that
``numpy.einsum_path`` finds. Dtypes as for ``ops.matmul``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from .. import te
from ..boundary import shown
from ..core.dtype import DType
from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from . import inputs, tags
from .matmul import accumulator, rounded

__all__ = ["einsum"]

OPEN = 64  # what an open size counts as
MOST = 52  # labels that numpy tells apart
FEW = 6  # operands, up to which every order is looked at

Labels = tuple[str, ...]  # a letter for a dimension, "...0", "...1" for those of an ellipsis


@dataclass(frozen=True, slots=True)
class Term:
    """A tensor and the label of each of its dimensions."""

    tensor: Tensor
    labels: Labels


def einsum(
    subscripts: str, *operands: Tensor | Sequence[Tensor], out_dtype: str | DType | None = None
) -> Tensor:
    """The sum over labels that the result does not name, of products of elements with equal labels.

    Operands follow one by one, as in numpy and TVM, or as one list, as torch takes them too.
    ``ops.einsum("bij,bjk->bik", x, y)`` multiplies matrices, ``"ii"`` is the trace, ``"ii->i"`` the
    diagonal, ``"...ij->...ji"`` turns the last two dimensions; spaces are ignored. Without ``->`` the result
    has the ellipsis and then the labels that occur once, in alphabetical order. A size of 1 is repeated.
    Raises DeclareError for subscripts that do not fit the operands, sizes of one label that differ, and
    labels of the result that no operand has.

    >>> x, y = te.placeholder((4, 8), name="x"), te.placeholder((8, 3), name="y")
    >>> ops.einsum("ij,jk->ik", x, y)
    Tensor(einsum: float32[4, 3])
    """
    if not isinstance(subscripts, str):
        raise DeclareError(
            f"ops.einsum: subscripts are {shown(subscripts)}, text is needed",
            because="labels of dimensions come first, then the operands",
            try_="ops.einsum('ij,jk->ik', A, B)",
        )
    listed = len(operands) == 1 and isinstance(operands[0], tuple | list)
    given: Sequence[Any] = operands[0] if listed else operands  # type: ignore[assignment]
    xs = [inputs.tensor("einsum", x, f"operand {k}") for k, x in enumerate(given)]
    terms, wanted = _parsed(subscripts, xs)
    sizes = _sizes(terms)
    common = inputs.result_type(*[x.dtype for x in xs])
    inside, out = accumulator("einsum", common, common, out_dtype)
    # no product is taken: a float keeps its type, as numpy's einsum of one operand does
    if len(xs) == 1 and out_dtype is None:
        out = inside if common.is_int else common
    pairs = _pairs(terms, wanted)
    for k, pair in enumerate(pairs, 1):
        now = [terms[n] for n in pair]
        terms = [t for n, t in enumerate(terms) if n not in pair]
        # a label that nobody behind reads is summed now
        later = {c for t in terms for c in t.labels} | set(wanted)
        both = dict.fromkeys(c for t in now for c in t.labels)
        last = k == len(pairs)
        labels = wanted if last else tuple(c for c in both if c in later)
        name = "einsum" if last else f"einsum.{k}"
        terms.append(Term(_contracted(name, now, labels, sizes, inside), labels))
    (total,) = terms
    return rounded("einsum", total.tensor, out)


def _pairs(terms: Sequence[Term], wanted: Labels) -> list[tuple[int, ...]]:
    """Which operands are taken together, one after the other, of those left: the product is the last."""
    letters = {c: n for n, c in enumerate(dict.fromkeys(c for t in terms for c in t.labels))}
    if len(terms) < 3:
        return [tuple(range(len(terms)))]
    if len(letters) > MOST:
        return [(0, 1), *((0, n) for n in range(len(terms) - 2, 0, -1))]
    given = list[Any]()
    for t in terms:
        shape = [max(1, OPEN if (n := const_int(d)) is None else n) for d in t.tensor.shape]
        given += [np.broadcast_to(np.float32(0), shape), [letters[c] for c in t.labels]]
    how = "optimal" if len(terms) <= FEW else "greedy"
    _, *path = np.einsum_path(*given, [letters[c] for c in wanted], optimize=how)[0]
    found, left = list[tuple[int, ...]](), len(terms)
    for step in path:
        # some at once, as numpy would take them, are taken from the left
        first, *more = sorted(int(n) for n in step)
        for k, n in enumerate(more):
            found.append((first, n) if not k else (n - k - 1, left - 1))
            left -= 1
    return found


def _contracted(
    name: str, terms: Sequence[Term], labels: Labels, sizes: dict[str, Expr], inside: DType
) -> Tensor:
    """The product of the terms, summed over the labels that the result has not."""
    inner = {
        c: te.reduce_axis((0, sizes[c]), c if c.isalpha() else f"e{c[3:]}")
        for c in dict.fromkeys(c for t in terms for c in t.labels)
        if c not in labels
    }

    def element(*i: Any) -> Expr:
        at = {**inner, **dict(zip(labels, i, strict=True))}
        factors = [
            te.cast(
                inside,
                t.tensor(
                    *[0 if inputs.is_one(n) else at[c] for n, c in zip(t.tensor.shape, t.labels, strict=True)]
                ),
            )
            for t in terms
        ]
        value = reduce(make.mul, factors)
        return te.sum(value, axis=list(inner.values())) if inner else value

    return inputs.stage(name, tags.REDUCE if inner else tags.BROADCAST, [sizes[c] for c in labels], element)


def _sizes(terms: Sequence[Term]) -> dict[str, Expr]:
    """The size of each label: what its dimensions agree on, 1 repeated."""
    known: dict[str, tuple[Expr, Tensor]] = {}
    for t in terms:
        for n, c in zip(t.tensor.shape, t.labels, strict=True):
            # a size of 1 is no evidence: another operand may have the label's real one
            if c not in known or inputs.is_one(known[c][0]):
                known[c] = (n, t.tensor)
            elif not inputs.is_one(n):
                label = f"label {c!r}" if c.isalpha() else "a dimension of the ellipsis"
                inputs.same_size(
                    "einsum",
                    f"the size of {label} in {inputs.named(t.tensor)}",
                    n,
                    known[c][0],
                    f"it is that in {inputs.named(known[c][1])}",
                )
    return {c: n for c, (n, _) in known.items()}


# --- subscripts ---------------------------------------------------------------------------------------------


def _refused(subscripts: str, why: str, **more: Any) -> DeclareError:
    return DeclareError(f"ops.einsum: subscripts {subscripts!r}", because=why, **more)


def _parsed(subscripts: str, xs: Sequence[Tensor]) -> tuple[list[Term], Labels]:
    """The terms, and the labels of the result. Raises DeclareError."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(xs):
        names = ", ".join(f"x{n}" for n in range(1, len(parts) + 1))
        raise _refused(
            subscripts,
            f"it has {len(parts)} term(s), and {len(xs)} operand(s) came",
            try_=f"ops.einsum({subscripts!r}, {names})",
        )
    terms = [Term(x, _labels(subscripts, part, x)) for part, x in zip(parts, xs, strict=True)]
    rank = max((sum(c[0] == "." for c in t.labels) for t in terms), default=0)
    # numbered from the end, so that ellipses of fewer dimensions align at the last one
    dots = tuple(f"...{d}" for d in range(rank - 1, -1, -1))
    if arrow:
        letters = _letters(subscripts, right)
        wanted = tuple(c for part in letters for c in (dots if part == "..." else (part,)))
    else:
        every = [c for t in terms for c in t.labels if c.isalpha()]
        # without an arrow numpy's rule: what occurs once, in the order of the alphabet
        wanted = (*dots, *sorted(c for c in set(every) if every.count(c) == 1))
    if len(set(wanted)) != len(wanted):
        raise _refused(subscripts, "the result names a label twice")
    if arrow and dots and dots[0] not in wanted:
        raise _refused(
            subscripts, "the result has no ellipsis, and an operand has", try_="'...' in the result"
        )
    missing = [c for c in wanted if not any(c in t.labels for t in terms)]
    if missing:
        raise _refused(subscripts, f"no operand has the label {missing[0]!r} of the result")
    return terms, wanted


def _letters(subscripts: str, part: str) -> list[str]:
    """The labels of one term, the ellipsis as one. Raises DeclareError for anything but letters."""
    before, dots, after = part.partition("...")
    if not (before + after).isalpha() and before + after:
        bad = next(c for c in before + after if not c.isalpha())
        raise _refused(subscripts, f"{bad!r} is not a label", legal="letters, and one '...' a term")
    return [*before, *(["..."] if dots else []), *after]


def _labels(subscripts: str, part: str, x: Tensor) -> Labels:
    """A label for each dimension of ``x``."""
    letters = _letters(subscripts, part)
    free = x.ndim - len([c for c in letters if c != "..."])
    if free < 0 or (free and "..." not in letters):
        raise _refused(
            subscripts, f"{part!r} has {x.ndim - free} label(s), {inputs.named(x)} has {x.ndim} dimension(s)"
        )
    known: list[str] = []
    for c in letters:
        known += [f"...{d}" for d in range(free - 1, -1, -1)] if c == "..." else [c]
    return tuple(known)
