"""transform_layout: the memory of a stage is laid out by another index map.

``P[i, j]`` with ``lambda i, j: (j // 16, i, j % 16)`` → ``P[jo, i, ji]`` and every reader asks for ``P[j //
16, i, j % 16]``

The map is kept as digits: every new dimension is one digit ``axis // stride % size`` of one old axis, the
outermost digit of an axis without ``% size``, or several such digits read as one number, ``y * w + x`` for an
``x`` of ``w`` values or fewer, a number or a dim. That covers splitting, permuting and merging axes, which is
what packing is. A size that does not divide is padded, and so are rows of fewer than ``w`` values; the
padding is computed as zero so that vectors may read it (a reduction's as its initial values); ``pad_value``
is another number to fill it with, and ``"any"`` leaves in it what the formula gives there, which takes no
test.

Inputs and outputs may be laid out too: then the caller's array has the new shape. What lies in the padding of
an input is never read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from ...arith.conditions import denied
from ...arith.facts import Facts
from ...arith.simplify import simplify_expr
from ...core.dtype import DType
from ...core.names import NameSupply
from ...core.node import intern
from ...errors import ScheduleError, counted
from ...expr import linear, make
from ...expr.literal import ExprLike
from ...expr.nodes import Const, Expr, FloorDiv, FloorMod, IfThenElse, Var, const_int
from ...expr.walk import preorder, rewrite, substitute
from ...te.axis import AXIS_SEPARATOR, IterVar, fresh_axis
from ...te.reducers import Reduce
from ...te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, TensorRead, reads_in
from ..legality.verdict import YES, Verdict, refuse
from ..state import ScheduleState, StageState, change
from .base import Primitive, check_own_memory
from .fields import Digit, Meaning, StageName

ANY = "any"  # will do as padding
Filling = Annotated[str, Meaning("padding", (ANY,))]

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Stage


@dataclass(frozen=True, slots=True)
class TransformLayout(Primitive):
    """Lay ``stage`` out by ``digits``: for each new dimension (old axis, stride, size), size 0 for the
    outermost digit of an axis. ``merged`` says how many digits make up each new dimension, the most
    significant first; empty: one each. ``pad_value`` fills what the digits pad; None: 0, or the initial
    values of a reduction; ``ANY``: whatever the formula gives there."""

    stage: StageName
    digits: tuple[Digit, ...]
    merged: tuple[int, ...] = ()
    pad_value: int | float | Filling | None = None
    name = "transform_layout"

    def groups(self) -> list[tuple[Digit, ...]]:
        """The digits of each new dimension."""
        out, at = [], 0
        for n in self.merged or (1,) * len(self.digits):
            out.append(self.digits[at : at + n])
            at += n
        return out

    def check(self, state: ScheduleState) -> Verdict:
        verdict = (
            YES
            if self.stage in state.position and state.stage(self.stage).is_placeholder
            else check_own_memory(state, self.stage)
        )
        if not verdict:
            return verdict
        st = state.stage(self.stage)
        return self._check_stage(state, st) and self._check_padding(st) and self._check_digits(st)

    def _check_stage(self, state: ScheduleState, st: StageState) -> Verdict:
        """Whether a stage may have another layout."""
        if st.is_placeholder and st.shares:
            return refuse(
                f"`{self.stage}` is the state of the scan `{st.shares[0].name}`: its memory is the scan's"
            )
        if st.op.strides is not None:
            return refuse(
                f"`{self.stage}` is declared with strides: its array may have any layout",
                try_="te.placeholder without strides",
            )
        opaque = next((r for r in state.readers(self.stage) if r.is_opaque), None)
        if opaque is not None:
            return refuse(
                f"`{opaque.name}` reads it whole, in the layout it was declared with", mark=(self.stage, None)
            )
        if st.relations or st.kinds or state.attached(self.stage) or st.align:
            return refuse(
                f"`{self.stage}` is scheduled already, and its axes would change",
                mark=(self.stage, None),
                try_="transform_layout before split, fuse and the like",
            )
        axes = _axes(st)
        for digit in self.digits:
            if not (0 <= digit[0] < len(axes) and digit[1] > 0 and digit[2] >= 0):
                return refuse(
                    f"the digit {digit}: (axis from 0 to {len(axes) - 1}, positive stride, size or 0)"
                )
        return YES

    def _check_padding(self, st: StageState) -> Verdict:
        """Whether the stage may have this ``pad_value``."""
        if self.pad_value is None:
            return YES
        if isinstance(self.pad_value, str):
            if self.pad_value != ANY:
                return refuse(f"pad_value={self.pad_value!r}: a number, or {ANY!r}")
            if st.is_placeholder:
                return refuse(f"pad_value={ANY!r}: `{self.stage}` is an input: its caller fills it")
            return YES
        if st.is_placeholder or (isinstance(st.op, ComputeOp) and st.op.reduce_axis):
            return refuse(
                f"pad_value={self.pad_value}: `{self.stage}` is "
                f"{'an input: its caller fills it' if st.is_placeholder else 'a reduction'}",
                mark=(self.stage, None),
                try_="no pad_value: what is padded of an input is never read, and holds the initial "
                "values of a reduction",
            )
        if self.pad_value != self.pad_value or abs(self.pad_value) == float("inf"):
            return refuse(f"pad_value={self.pad_value}: no number")
        narrow = next((t.dtype for t in st.op.outputs if not _fits(self.pad_value, t.dtype)), None)
        if narrow is not None:
            return refuse(
                f"pad_value={self.pad_value}: no {narrow}, which `{self.stage}` is", mark=(self.stage, None)
            )
        return YES

    def _check_digits(self, st: StageState) -> Verdict:
        """Whether the digits make each element of the stage's axes once, and read nothing beyond them."""
        axes = _axes(st)
        if self.merged and (sum(self.merged) != len(self.digits) or any(n < 1 for n in self.merged)):
            return refuse(f"{self.merged} is no way to take {len(self.digits)} digits together")
        for group in self.groups():
            for axis, stride, size in group[1:]:
                if not size and stride > 1 and const_int(axes[axis].extent) is None:
                    return refuse(
                        f"axis `{axes[axis].name}` has a symbolic size, and only the first part of a merged "
                        "index may be what is "
                        "left of such an axis",
                        mark=(self.stage, None),
                    )
        for axis in range(len(axes)):
            why = self._covers(axis, axes[axis])
            if why:
                return refuse(why, try_="a permutation of axes, with axes cut as i // 16 and i % 16")
        beyond = _beyond(self._transformed(st)[0]) if self.pad_value == ANY else None
        if beyond is not None:
            return refuse(
                f"the padding, as the formula makes it, may read beyond `{beyond.name}`",
                mark=(self.stage, None),
                try_="no pad_value, which computes the padding as zero",
            )
        return YES

    def _covers(self, axis: int, old: IterVar) -> str | None:
        """Why the digits of an axis do not add up to it, or None."""
        name, extent = old.name, const_int(old.extent)
        # from the lowest digit on: the strides of a number's digits are the products of the sizes below
        mine = sorted(((stride, size) for a, stride, size in self.digits if a == axis))
        if not mine:
            return f"the map forgets axis `{name}`: two elements would share a place"
        expected = 1
        for stride, size in mine:
            if stride != expected:
                return (
                    f"the map gives axis `{name}` the digits {mine}, which leave out some of its values "
                    "or name them twice"
                )
            expected = stride * size
        whole = expected == 0 or (extent is not None and extent <= expected)
        return None if whole else f"the outermost part of axis `{name}` is cut off by a remainder"

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        st = state.stage(self.stage)
        axes = _axes(st)
        op, new_axes = self._transformed(st)

        def place(indices: Sequence[Expr]) -> tuple[Expr, ...]:
            return tuple(self._place(group, indices, axes) for group in self.groups())

        return laid_out(state, st, op, place), tuple(new_axes) if isinstance(op, ComputeOp) else ()

    def _transformed(self, st: StageState) -> tuple[Operation, list[IterVar]]:
        """The operation in the new layout, and its axes."""
        axes = _axes(st)
        new_axes: list[IterVar] = []
        parts: list[list[Expr]] = [[] for _ in axes]  # of the value of each old axis
        names = NameSupply(tuple(a.name for a in st.op.reduce_axis) if isinstance(st.op, ComputeOp) else ())
        for group in self.groups():
            sizes = [
                make.const(size, axes[a].dtype) if size else make.ceildiv(axes[a].extent, stride)
                for a, stride, size in group
            ]
            extent = sizes[0]
            for below in sizes[1:]:
                extent = make.mul(extent, below)
            if self.pad_value == ANY:
                extent = make.sub(extent, self._behind(group, axes))
            axis, stride, size = group[0]
            own = (
                axes[axis].name
                if stride == 1 and not size
                else f"{axes[axis].name}.{'inner' if size else 'outer'}"
            )
            preferred = own if len(group) == 1 else f"{'.'.join(axes[a].name for a, _, _ in group)}.fused"
            new_axes.append(fresh_axis(names.fresh(preferred), extent))
            rest: Expr = new_axes[-1].var
            # the last digit of a merged index runs fastest
            for p in reversed(range(len(group))):
                digit = rest if p == 0 else make.floormod(rest, sizes[p])
                rest = rest if p == 0 else make.floordiv(rest, sizes[p])
                parts[group[p][0]].append(make.mul(digit, group[p][1]))
        value: dict[Var, Expr] = {}
        inside: Expr | None = None
        for i, old in enumerate(axes):
            total = parts[i][0]
            for part in parts[i][1:]:
                total = make.add(total, part)
            value[old.var] = total
            if self.pad_value != ANY and self._pads(i, const_int(old.extent)):
                cond = make.lt(total, old.extent)
                inside = cond if inside is None else make.and_(inside, cond)

        fill = None if isinstance(self.pad_value, str) else self.pad_value
        return redefined(st, new_axes, value, inside, fill), new_axes

    def _behind(self, group: tuple[Digit, ...], axes: Sequence[IterVar]) -> int:
        """How many places behind the last value a new dimension would have: those its rows are longer by."""
        spare, below = 0, 1
        for a, stride, size in reversed(group[1:]):
            extent = const_int(axes[a].extent)
            if extent is None:
                return 0
            whole = -(-extent // stride)
            if size and self._outermost(a, stride):
                spare += (size - whole) * below
            below *= size or whole
        return spare

    def _pads(self, axis: int, extent: int | None) -> bool:
        """Whether the digits of an axis stand for more values than it has."""
        stride, size = max((stride, size) for a, stride, size in self.digits if a == axis)
        if extent is None:
            return stride > 1
        return extent % stride > 0 or 0 < size * stride != extent

    def _outermost(self, axis: int, stride: int) -> bool:
        return all(st <= stride for a, st, _ in self.digits if a == axis)

    def _place(self, group: tuple[Digit, ...], indices: Sequence[Expr], axes: Sequence[IterVar]) -> Expr:
        """The new index that the digits of these old ones make."""
        out: Expr | None = None
        for a, stride, size in group:
            digit = make.floordiv(indices[a], stride)
            # the outermost digit needs no remainder: it has no more values than there are
            digit = make.floormod(digit, size) if size and not self._outermost(a, stride) else digit
            out = (
                digit
                if out is None
                else make.add(make.mul(out, size or make.ceildiv(axes[a].extent, stride)), digit)
            )
        assert out is not None
        return out

    def python(self, w: Writer) -> None:
        of = w.tensor(self.stage)
        names = [f"i{n}" for n in range(1 + max((d[0] for d in self.digits), default=-1))]
        pad = "" if self.pad_value is None else f", pad_value={self.pad_value!r}"
        new = [_index_text(group, names, of) for group in self.groups()]
        if None in new:
            given = {k: v for k, v in self.arguments().items() if v is not None}
            w.line(f"s.step({', '.join([repr(self.name), *[f'{k}={v!r}' for k, v in given.items()]])})")
        else:
            w.line(f"s[{of}].transform_layout(lambda {', '.join(names)}: [{', '.join(map(str, new))}]{pad})")
        w.renewed(self.stage, layout=True)

    def __str__(self) -> str:
        shown = [
            " ++ ".join(
                f"axis {a}" + (f" // {stride}" if stride != 1 else "") + (f" % {size}" if size else "")
                for a, stride, size in group
            )
            for group in self.groups()
        ]
        return f"transform_layout({self.stage}, [{', '.join(shown)}])"

    @staticmethod
    def call(
        stage: Stage,
        index_map: Callable[..., ExprLike | Sequence[ExprLike]],
        pad_value: float | str | None = None,
    ) -> tuple[IterVar, ...]:
        """Lay this stage's memory out by ``index_map``, a function from its indices to the new ones, such as
        ``lambda n, c, h, w: [n, c // 16, h, w, c % 16]``. Returns the new axes (none for an input).

        The array a caller passes for an input or an output has the new shape. Where sizes do not divide, the
        rest is filled with ``pad_value`` (0 when left out; a reduction's with its initial values), and never
        read of an input. ``pad_value="any"`` computes there what the formula gives, without a test, where
        that reads nothing beyond a tensor; no reader asks for it. Raises ScheduleError for a map that does
        more than cut and reorder axes.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> axes = s[y].transform_layout(lambda i, j: [j // 8, i, j % 8])
        >>> [a.extent for a in axes]
        [4, 8, 8]
        """
        st = stage.state
        if st.is_opaque or st.is_inlined:
            return stage.do(TransformLayout(stage.name, ()))  # type: ignore[no-any-return]  # refused, with the reason
        axes = _axes(st)
        shown = tuple(Var(a.name, a.dtype, "loop") for a in axes)
        try:
            new = index_map(*shown)
        except TypeError as e:
            names = [a.name for a in axes]
            raise ScheduleError(
                f"s[{stage.name}].transform_layout: the map failed on "
                f"{counted(len(axes), 'index', 'indices')}",
                because=f"`{stage.name}` has the axes {', '.join(names)}; " + str(e).rpartition("() ")[2],
                try_=f"lambda {', '.join(names)}: [{', '.join(reversed(names))}]",
            ) from None
        listed: list[Any] = list(new) if isinstance(new, list | tuple) else [new]
        if any(e is AXIS_SEPARATOR for e in listed):
            raise ScheduleError(
                f"s[{stage.name}].transform_layout: AXIS_SEPARATOR",
                because="the memory of a CPU has one dimension",
                try_="the same map without it",
            )
        groups = [_as_digits(stage.name, make.as_expr(e), shown, [a.extent for a in axes]) for e in listed]
        merged = tuple(map(len, groups)) if any(len(g) > 1 for g in groups) else ()
        return stage.do(TransformLayout(stage.name, tuple(d for g in groups for d in g), merged, pad_value))  # type: ignore[no-any-return]


def _beyond(op: Operation) -> Tensor | None:
    """A tensor that an operation may read at indices beyond it, if any."""
    if not isinstance(op, ComputeOp):
        return None
    ranges = [(a.var, a.dom) for a in (*op.axis, *op.reduce_axis)]
    facts = Facts().bind_all((v, d.min, make.add(d.min, make.sub(d.extent, 1))) for v, d in ranges if d)
    held = next((e.condition for e in op.body if isinstance(e, Reduce) and e.init is None), None)
    if held is not None and not reads_in((held,)):  # nothing else is read of what a reduction leaves out
        facts = facts.assume(held)
    for body in op.body:
        known = facts
        while type(body) is IfThenElse:  # of which only the taken side is read
            found = _read_beyond((body.cond,), known) or _read_beyond((body.a,), known.assume(body.cond))
            if found is not None:
                return found
            known, body = known.assume(denied(body.cond)), body.b
        found = _read_beyond((body,), known)
        if found is not None:
            return found
    return None


def _read_beyond(exprs: tuple[Expr, ...], facts: Facts) -> Tensor | None:
    for e in reads_in(exprs):
        for index, n in zip(e.indices, e.tensor.shape, strict=True):
            if not (facts.prove(make.le(0, index)) and facts.prove(make.lt(index, n))):
                return e.tensor
    return None


def _axes(st: StageState) -> Sequence[IterVar]:
    """The axes of what is laid out; an input has none of its own, but dimensions."""
    if isinstance(st.op, ComputeOp):
        return st.op.axis
    return [fresh_axis(f"ax{d}", n) for d, n in enumerate(st.op.outputs[0].shape)]


def _fits(value: float, kind: DType) -> bool:
    """Whether a number is a value of a type (for floats, up to rounding)."""
    if kind.is_float:
        return True
    low, high = (0, 1) if kind.is_bool else kind.limits()
    return value == int(value) and low <= value <= high


def _filling(value: float, kind: DType) -> Expr:
    return make.const(value if kind.is_float else int(value), kind)


def laid_out(
    state: ScheduleState, st: StageState, op: Operation, place: Callable[[Sequence[Expr]], tuple[Expr, ...]]
) -> ScheduleState:
    """The state in which ``op`` is what ``st`` computes (or takes), and every reader asks for
    ``place(indices)`` of it."""

    def read(e: Expr) -> Expr | None:
        if type(e) is TensorRead and e.tensor.op is st.key:
            return intern(TensorRead, op.outputs[e.tensor.value_index], place(e.indices))
        return None

    readers = [
        change(
            r,
            op=r.compute.redefined(tuple(rewrite(e, read) for e in r.compute.body)),
            prefetches=tuple(
                p._replace(tensor=op.outputs[p.tensor.value_index]) if p.tensor.op is st.key else p
                for p in r.prefetches
            ),
        )
        for r in state.readers(st.name)
    ]
    leaves = (*op.axis, *op.reduce_axis) if isinstance(op, ComputeOp) else ()
    return state.with_stage(change(st, op=op, leaves=leaves, aliases=(*st.aliases, st.key)), *readers)


def redefined(
    st: StageState,
    new_axes: Sequence[IterVar],
    value: dict[Var, Expr],
    inside: Expr | None,
    pad: float | None = None,
) -> Operation:
    """The operation in the new layout: ``value`` has each old axis in terms of the new ones, ``inside`` where
    they are not padding."""
    op = st.op
    if isinstance(op, PlaceholderOp):
        return PlaceholderOp(op.name, tuple(a.extent for a in new_axes), op.dtype)
    assert isinstance(op, ComputeOp)
    body = tuple(substitute(e, value) for e in op.body)
    if any(isinstance(e, FloorDiv | FloorMod) for b in op.body for e in preorder(b)):
        body = tuple(_digits_known(e, new_axes) for e in body)
    if inside is not None:
        body = tuple(
            e.within(inside)
            if isinstance(e, Reduce)
            else make.if_then_else(inside, e, _filling(pad or 0, e.dtype))
            for e in body
        )
    return type(op)(op.name, tuple(new_axes), op.reduce_axis, body, op.tag, op.attrs)


def _digits_known(e: Expr, axes: Sequence[IterVar]) -> Expr:
    """An expression that knows what values axes have: quotients and remainders by which they were told apart
    before are gone, so that others see what is read along which."""
    facts = Facts().bind_all((a.var, make.const(0, a.dtype), make.sub(a.extent, 1)) for a in axes)
    return rewrite(e, lambda e: simplify_expr(e, facts) if isinstance(e, FloorDiv | FloorMod) else None)


def _as_digits(stage: str, e: Expr, axes: tuple[Var, ...], extents: Sequence[Expr]) -> tuple[Digit, ...]:
    """The digits an index is made of, the most significant first: weights must be the products of the sizes
    of those below, dims among them."""
    # from the smallest weight on: each must be the product of all sizes before it
    terms = sorted(linear.poly(e).items(), key=lambda term: (len(term[0]), term[1]))
    found: list[Digit] = []
    below, under, dims = 1, 1, list[Expr]()  # the places of all digits below, and without the last of them
    for factors, weight in terms:
        own = list(factors)
        for dim in dims:
            own = _without(own, dim)
        if found and not dims and found[-1][2] == 0 and weight > below > 0 and weight % under == 0:
            found[-1], below = (*found[-1][:2], weight // under), weight  # more places than it has values
        digit = (
            _as_digit(own[0], axes)
            if len(own) == 1 and len(factors) == len(dims) + 1 and below and weight == below
            else None
        )
        if digit is None:
            break
        axis, stride, size = digit
        extent = const_int(extents[axis])
        if not size and stride == 1 and isinstance(extents[axis], Var):
            dims.append(extents[axis])
        else:
            under = below
            below *= size or (0 if extent is None else -(-extent // stride))
        found.append(digit)
    if len(found) == len(terms) and found:
        return tuple(reversed(found))
    raise ScheduleError(
        f"s[{stage}].transform_layout: `{e}` is not one axis, or i // c, i % c or i // c % d of one, "
        "nor such parts read as one number",
        try_="a permutation of axes, with axes cut as i // 16 and i % 16, or merged as y * 56 + x for an x "
        "of 56 values",
    )


def _without(factors: list[Expr], one: Expr) -> list[Expr]:
    """The factors without one of them, all of them when it is not there."""
    at = next((i for i, f in enumerate(factors) if f is one), len(factors))
    return factors[:at] + factors[at + 1 :]


def _as_digit(e: Expr, axes: tuple[Var, ...]) -> Digit | None:
    size, stride = 0, 1
    if isinstance(e, FloorMod) and type(e.b) is Const:
        size, e = int(e.b.value), e.a
    if isinstance(e, FloorDiv) and type(e.b) is Const:
        stride, e = int(e.b.value), e.a
    return next(((i, stride, size) for i, v in enumerate(axes) if v is e), None)


def _index_text(group: Sequence[Digit], names: Sequence[str], of: str) -> str | None:
    """One new index as Python; None where it takes the number of blocks of an axis, which has no short
    name."""
    text = ""
    for axis, stride, size in group:
        digit = names[axis] + (f" // {stride}" if stride != 1 else "") + (f" % {size}" if size else "")
        if text and not size and stride != 1:
            return None
        whole = size or f"s[{of}].op.outputs[0].shape[{axis}]"
        text = f"{text if text.isidentifier() else f'({text})'} * {whole} + {digit}" if text else digit
    return text
