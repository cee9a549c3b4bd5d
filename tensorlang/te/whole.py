"""Arithmetic of whole tensors: ``A + B``, ``X - mean``, ``-A``, ``A < 0`` declare a compute that works
element by element, broadcast.

The rule of shapes is numpy's, that of dtypes the one of elements (``A[i] + B[i]``). Inside the function of a
``te.compute`` elements are meant; axes there do not mix with whole tensors. Knows computes; no operators of
``ops``, which broadcast by the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..arith.facts import Facts
from ..boundary import guard
from ..errors import DeclareError
from ..expr import make
from ..expr.linear import poly
from ..expr.make import ExprLike
from ..expr.nodes import Const, Expr, FloorDiv, FloorMod, Var, const_int
from ..expr.operators import Operators
from ..expr.walk import preorder, rewrite, variables
from .compute import compute, tag_around
from .tensor import Tensor

ELEMENTWISE = "elementwise"  # the tags of what is declared here
BROADCAST = "broadcast"


# --- shapes -------------------------------------------------------------------------------------------------


def is_one(n: ExprLike) -> bool:
    return const_int(make.as_expr(n)) == 1


def at_most(a: ExprLike, b: ExprLike) -> bool | None:
    """Whether ``a <= b``: True or False when that is sure whatever the symbols stand for, else None."""
    e = make.le(a, b)
    if isinstance(e, Const):
        return bool(e.value)
    # symbols of shapes are sizes, and so not negative; more is not known of them here
    facts = Facts(sizes=variables(e))
    found = facts.prove(e)
    return facts.looking_closely().prove(e) if found is None else found


def equal(a: ExprLike, b: ExprLike) -> bool | None:
    """Whether two sizes are one: True or False when that is sure whatever the symbols stand for, else
    None."""
    e = make.eq(a, b)
    if not isinstance(e, Const):
        found = Facts(sizes=variables(e)).prove(e)
        if found is None and at_most(a, b) and at_most(b, a):
            return True
        if found is not None or not any(isinstance(n, FloorMod) for n in preorder(e)):
            return found
        # a length with what pads it to whole blocks is so many blocks as soon as both are said by quotients
        e = make.eq(by_quotients(a), by_quotients(b))
    return bool(e.value) if isinstance(e, Const) else None


def by_quotients(n: ExprLike) -> Expr:
    """A size without remainders, and that of blocks where it is known to be so many."""
    return rewrite(make.as_expr(n), _by_quotient)


def _by_quotient(e: Expr) -> Expr:
    if isinstance(e, Var) and e.multiple_of > 1:
        return make.mul(make.floordiv(e, e.multiple_of), e.multiple_of)
    if isinstance(e, FloorMod):
        return make.sub(e.a, make.mul(make.floordiv(e.a, e.b), e.b))
    if not isinstance(e, FloorDiv):
        return e
    # the places of a block, as a length over the number of its blocks
    above, below = poly(e.a), poly(e.b)
    times = next((above.get(m, 0) // c for m, c in below.items()), 0)
    return make.const(times, e.dtype) if times and above == {m: times * c for m, c in below.items()} else e


def shortest(n: Expr) -> Expr:
    """A size in the fewest words: a number where quotients tell that it is one, as the places of a block,
    said as a padded length over the number of its blocks, are."""
    found = by_quotients(n)
    return found if isinstance(found, Const) else n


def text(shape: Sequence[Any]) -> str:
    """A shape as one writes it."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def broadcast_shape(where: str, tensors: Sequence[Tensor], but_last: int = 0) -> tuple[Expr, ...]:
    """The shape of the result by numpy's rule: aligned at the last dimension, sizes are one or 1; without the
    last ``but_last`` dimensions.

    A symbolic size counts as itself, never as a 1 to repeat: two that may differ do not broadcast. Raises
    DeclareError.
    """
    out: list[Expr] = []
    for d in range(1 + but_last, max((t.ndim for t in tensors), default=0) + 1):
        size = make.as_expr(1)
        for t in tensors:
            if d > t.ndim or is_one(t.shape[-d]):
                continue
            # the first size that is not 1 counts, in whatever tensor it stands
            if is_one(size):
                size = t.shape[-d]
            elif not equal(size, t.shape[-d]):
                sure = equal(size, t.shape[-d]) is False
                error = DeclareError(
                    f"{where}: shapes {' and '.join(f'{x.name} {text(x.shape)}' for x in tensors)} do not "
                    "broadcast",
                    because=f"counted from the end, dimension {d} is {size} in one and {t.shape[-d]} in the "
                    "other" + ("" if sure else ", which may differ when the kernel is called"),
                    try_="ops.expand_dims or ops.reshape to line them up"
                    if sure
                    else "one symbol for sizes that are equal",
                )
                raise error if sure else error.unless_equal(size, t.shape[-d])
        out.append(size)
    return tuple(reversed(out))


def read(x: Tensor, indices: Sequence[ExprLike]) -> Expr:
    """The element of ``x`` that a broadcast result reads at ``indices``."""
    own = indices[len(indices) - x.ndim :]
    return x(*[0 if is_one(n) else i for i, n in zip(own, x.shape, strict=True)])


def broadcast(
    where: str,
    name: str,
    values: Sequence[Any],
    f: Callable[..., Any],
    tags: tuple[str, str] = (ELEMENTWISE, BROADCAST),
) -> Tensor:
    """``f`` of the elements of broadcast tensors, of which there is one at least; what is not a tensor is
    handed on as it is. The first of ``tags`` is for shapes that are one. Raises DeclareError for shapes that
    do not fit."""
    tensors = [v for v in values if isinstance(v, Tensor)]
    shape = broadcast_shape(where, tensors)
    same = all(
        len(t.shape) == len(shape) and all(equal(a, b) for a, b in zip(t.shape, shape, strict=True))
        for t in tensors
    )
    return compute(
        shape,
        lambda *i: f(*[read(v, i) if isinstance(v, Tensor) else v for v in values]),  # type: ignore[no-any-return]
        name=name,
        tag=tags[0] if same else tags[1],
    )


# --- Python's operators -------------------------------------------------------------------------------------

_SYMBOLS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and": "&",
    "or": "|",
    "xor": "^",
    "lshift": "<<",
    "rshift": ">>",
}
_NAMES = {
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "pow": "power",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
}
_UNARY = {"neg": "negative", "abs": "abs", "invert": "bitwise_not"}


def _element(t: Tensor, other: Any) -> Any:
    """An operand beside a whole tensor: another tensor, or what is the same for every element."""
    if isinstance(other, Tensor):
        return other
    e = make.as_expr(other)
    # ``A + i`` inside a compute: the tensor was meant to be indexed
    if any(getattr(v, "kind", "") == "loop" for v in preorder(e)):
        t.as_expr()  # says that one element is meant
    return other


def _tags() -> tuple[str, str]:
    return ("", "") if tag_around() else (ELEMENTWISE, BROADCAST)


def _binary(word: str, plain: Callable[[Any, Any], Any], flipped: bool) -> Callable[[Tensor, Any], Any]:
    def method(self: Tensor, other: Any) -> Any:
        # rank 0 is one element: arithmetic on it is an expression
        if not self.shape and not getattr(other, "shape", ()):
            return plain(self, other)
        beside = _element(self, other)
        shown = [self.name, beside.name if isinstance(beside, Tensor) else str(beside)]
        where = f" {_SYMBOLS[word]} ".join(reversed(shown) if flipped else shown)
        return broadcast(where, f"T_{_NAMES.get(word, word)}", (self, beside), plain, _tags())

    method.__name__ = _NAMES.get(word, word)
    return method


def _unary(name: str, plain: Callable[[Any], Any]) -> Callable[[Tensor], Any]:
    def method(self: Tensor) -> Any:
        return broadcast(self.name, f"T_{name}", (self,), plain, _tags()) if self.shape else plain(self)

    method.__name__ = name
    return method


def _astype(self: Tensor, dtype: Any) -> Any:
    """Converted to that dtype: every element, or the one of a tensor of rank 0."""
    return (
        broadcast(self.name, "T_cast", (self,), lambda x: make.cast(dtype, x), _tags())
        if self.shape
        else make.cast(dtype, self.as_expr())
    )


def _install() -> None:
    for word in _SYMBOLS:
        for name, flipped in ((f"__{word}__", False), (f"__r{word}__", True)):
            if hasattr(Operators, name):  # comparisons have no second form
                setattr(Tensor, name, _binary(word, getattr(Operators, name), flipped))
    for word, said in _UNARY.items():
        setattr(Tensor, f"__{word}__", _unary(said, getattr(Operators, f"__{word}__")))
    Tensor.__pos__ = lambda self: self  # type: ignore[method-assign, assignment, return-value]
    Tensor.astype = _astype  # type: ignore[method-assign]
    # those of elements are short by themselves
    names = [n for n, f in vars(Operators).items() if n.startswith("__") and callable(f) and n != "__bool__"]
    guard(Tensor, [*names, "astype"], "Tensor", DeclareError)


_install()
