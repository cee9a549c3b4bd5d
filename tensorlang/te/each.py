"""One computation made for each value of a variable: the body of a loop whose iterations do not read each
other, as tensors with one axis more.

What depends on the variable gets the axis in front, the rest is computed once. Sizes may be ``numbers`` that
each iteration reads from data: a tensor of such a size is no array, for its rows differ in length. It is
written into what reads it, and a reduction over it is one over a range that is data (see ``ragged``). Knows
computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Expr, Var
from ..expr.walk import rewrite, variables
from .axis import IterVar, reduce_axis
from .compute import compute
from .graph import operations
from .reducers import Reduce
from .tensor import ComputeOp, Operation, PlaceholderOp, Tensor, TensorRead


def for_each(
    results: Sequence[Tensor], variable: Var, count: Expr, numbers: Mapping[Var, Tensor]
) -> list[Tensor]:
    """The results for ``variable`` from 0 to ``count``, one after another along a new first axis. A variable
    of ``numbers`` stands for the element of a tensor of rank 0, which may depend on ``variable`` and on
    numbers before it.

    Raises DeclareError for what cannot be made at once: a scan, a program, a scatter, and results or
    intermediate sums whose own size differs from one value to the next.
    """
    return _Each(variable, count, numbers).results(results)


class _Each:
    def __init__(self, variable: Var, count: Expr, numbers: Mapping[Var, Tensor]) -> None:
        self.variable = variable
        self.count = count
        self.numbers = numbers
        self.own = {variable, *numbers}
        self.made: dict[Operation, Sequence[Tensor]] = {}  # with the axis in front
        self.written: set[ComputeOp] = set()  # into what reads them

    def results(self, results: Sequence[Tensor]) -> list[Tensor]:
        for t in (*self.numbers.values(), *results):
            self._follow(t)
        return [self._whole(t) for t in results]

    def _follow(self, t: Tensor) -> None:
        for op in operations([t.op]):
            if op in self.made or op in self.written or not self._depends(op):
                continue
            if not isinstance(op, ComputeOp):
                raise DeclareError(f"{op.name}: not a compute, and another for each {self.variable}")
            if self._differs(a.extent for a in op.axis):
                if op.reduce_axis:
                    raise DeclareError(f"{op.name}: sums of a size that is another for each {self.variable}")
                self.written.add(op)
            else:
                self.made[op] = self._rows(op)

    def _depends(self, op: Operation) -> bool:
        read = any(t.op in self.made or t.op in self.written for t in op.input_tensors)
        if read or isinstance(op, PlaceholderOp):
            return read
        if not isinstance(op, ComputeOp):
            return self._differs(n for t in op.outputs for n in t.shape)
        ranges = (e for a in (*op.axis, *op.reduce_axis) if a.dom is not None for e in a.dom)
        return self._differs((*op.body, *ranges))

    def _differs(self, found: Iterable[Expr]) -> bool:
        return any(not self.own.isdisjoint(variables(e)) for e in found)

    def _rows(self, op: ComputeOp) -> Sequence[Tensor]:
        def element(row: IterVar, *at: IterVar) -> tuple[Expr, ...]:
            names: dict[Var, Expr] = {a.var: i.var for a, i in zip(op.axis, at, strict=True)}
            axes = []
            for a in op.reduce_axis:
                assert a.dom is not None
                begin, extent = (self._renamed(e, names, row) for e in a.dom)
                axes.append(reduce_axis((begin, make.add(begin, extent)), name=a.name))
                names[a.var] = axes[-1].var
            body = [self._renamed(e, names, row) for e in op.body]
            return tuple(e.with_axes(tuple(axes)) if isinstance(e, Reduce) else e for e in body)

        names = [f"i{d}" if a.name == "row" else a.name for d, a in enumerate(op.axis)]
        return compute((self.count, *(a.extent for a in op.axis)), element, op.name, varargs_names=names)

    def _whole(self, t: Tensor) -> Tensor:
        if t.op in self.made:
            return self.made[t.op][t.value_index]
        if t.op in self.written:
            raise DeclareError(f"{t.name}: a result of another size for each {self.variable}")
        return compute((self.count, *t.shape), lambda row, *at: t(*at), t.name)

    def _renamed(self, e: Expr, names: Mapping[Var, Expr], row: IterVar) -> Expr:
        def change(n: Expr) -> Expr | None:
            if type(n) is Var:
                if n is self.variable:
                    return make.cast(n.dtype, row.var)
                if n in self.numbers:
                    return make.cast(n.dtype, self._element(self.numbers[n], (), row))
                return names.get(n)
            return self._element(n.tensor, n.indices, row) if type(n) is TensorRead else None

        return rewrite(e, change)

    def _element(self, t: Tensor, at: Sequence[Expr], row: IterVar) -> Expr:
        op = t.op
        if op in self.made:
            return self.made[op][t.value_index](row, *at)
        if op in self.written:
            assert isinstance(op, ComputeOp)
            own = dict(zip([a.var for a in op.axis], at, strict=True))
            return self._renamed(op.body[t.value_index], own, row)
        return t(*at)
