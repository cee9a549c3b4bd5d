"""winograd: a convolution by 3×3 kernels becomes transforms and fewer multiplications, F(m×m, 3×3).

``C[n, o, y, x] = sum(A[n, c, y + i, x + j] * W[o, c, i, j])`` → ``C.kernel[a, b, c, o]``, ``C.data[a, b, p,
c]``, ``C.products[a, b, p, o] = sum(C.data[a, b, p, c] * C.kernel[a, b, c, o])``, ``C.inverse[n, y, x, o]``,
``C[n, o, y, x] = C.inverse[n, y, x, o]``

p are the tiles of m × m outputs. Channels are innermost in every new stage, so that transforms are sums of
whole vectors; an image or a weight that has them elsewhere is copied first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from ...expr import make
from ...expr.nodes import Expr, Var, const_int
from ...expr.walk import substitute
from ...te.axis import REDUCE, fresh_axis
from ...te.minimal_filtering import DATA_STAGE, INVERSE_STAGE, POINTS, PRODUCT_STAGE, WEIGHT_STAGE, row
from ...te.reducers import sum as te_sum
from ...te.tensor import ComputeOp, Operation, Tensor
from ..legality.filtering import TAPS, Filter, filter_of
from ..legality.verdict import Verdict, refuse
from ..state import ScheduleState, StageState, change
from .base import Primitive, check_plain, check_stage, check_untouched
from .fields import Meaning, StageName, whole

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Schedule, StageKey

# whoever draws one takes 2: it is exact for small integers, so that bits can be compared
Tile = Annotated[int, Meaning("tile", (2,))]


@dataclass(frozen=True, slots=True)
class Winograd(Primitive):
    """Compute ``stage``, a convolution by 3×3 kernels of stride 1, by Winograd's F(``tile`` × ``tile``,
    3×3)."""

    stage: StageName
    tile: Tile = 4
    name = "winograd"
    of = "schedule"

    def check(self, state: ScheduleState) -> Verdict:
        verdict = check_stage(state, self.stage)
        if not verdict:
            return verdict
        st = state.stage(self.stage)
        mark = (self.stage, None)
        if self.tile not in POINTS:
            return refuse(
                f"tile={self.tile}: tile × tile outputs are computed together",
                legal=", ".join(map(str, POINTS)),
            )
        verdict = check_plain(state, self.stage, mark)
        if not verdict:
            return verdict
        found = filter_of(st.compute)
        if isinstance(found, str):
            return refuse(f"`{self.stage}`: {found}", mark=mark)
        # seven stages take the place of one, and its loops say nothing of theirs
        return check_untouched(state, self.stage, self.name, mark)

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        st = state.stage(self.stage)
        op = st.compute
        found = filter_of(op)
        assert isinstance(found, Filter)
        ops = _Stages(state, self.stage, found, self.tile)
        products, inverse = ops.made()
        for new in ops.ops:
            state = state.insert_before(
                self.stage, StageState(new.name, new, (*new.axis, *new.reduce_axis), in_part=st.in_part)
            )
        places = tuple(a.var for a in (*found.batch, *(axis for axis, _, _ in found.places), found.outputs))
        leaves = tuple(iv for iv in st.leaves if iv.kind != REDUCE)
        state = state.with_stage(
            change(st, op=op.redefined((inverse(*places),), reduce_axis=()), leaves=leaves)
        )
        return state, products

    def uncertain_name(self) -> str:
        return f"{self.stage}.products"

    def python(self, w: Writer) -> None:
        of = w.tensor(self.stage)
        w.renewed(self.stage)
        w.line(f"{w.new_stage(self.uncertain_name(), self.stage)}s.winograd({of}, {self.tile})")

    @staticmethod
    def call(schedule: Schedule, tensor: Tensor | Operation | str, tile: int = 4) -> Tensor:
        """Compute ``tensor``, a convolution by 3×3 kernels of stride 1 in one group (of float32 or float64,
        its channels, height and width known, its image and weight in any order of dimensions), by Winograd's
        minimal filtering F(tile×tile, 3×3), tile 2 or 4; returns the tensor of the products,
        ``tensor.products``, [tile + 2, tile + 2, tiles, outputs]. After Lavin and Gray, "Fast algorithms for
        convolutional neural networks", CVPR 2016, section 4.

        4 (2) saves 3/4 (5/9) of the multiplications, and the transforms cost a pass over image, weight and
        result each: it pays from some 32 channels on. Rounding differs from that of the direct sum: with
        channels of ordinary data it is within 2e-5 (2e-6, of float32) of the largest output for tile 4 (2),
        where the direct sum is within 2e-6; 2 is exact for small integers, 4 is not.

        >>> A = te.placeholder((1, 32, 10, 10), name="A")
        >>> B = te.placeholder((32, 32, 3, 3), name="B")
        >>> C = ops.conv2d(A, B)
        >>> s = te.create_schedule(C.op)
        >>> s.winograd(C, tile=4)
        Tensor(conv2d.products: float32[6, 6, 4, 32])
        """
        stage: StageKey = tensor
        return schedule.perform(Winograd(schedule[stage].name, whole(tile)))  # type: ignore[no-any-return]


class _Stages:
    """The operations that take the place of a convolution, in order, as ``ops``."""

    def __init__(self, state: ScheduleState, stage: str, conv: Filter, tile: int) -> None:
        self.state, self.stage, self.conv, self.m = state, stage, conv, tile
        self.points, self.alpha = POINTS[tile], tile + 2
        self.ops: list[ComputeOp] = []
        self.extents = [const_int(axis.extent) or 1 for axis, _, _ in conv.places]
        self.tiles = [-(-n // tile) for n in self.extents]
        # may be symbols; the image's sizes are numbers, for tiles are counted in them
        self.batch: list[Any] = [a.extent for a in conv.batch]
        self.count: Any = self.tiles[0] * self.tiles[1]
        for n in self.batch:
            self.count = make.mul(self.count, n)
        self.channels, self.outputs = conv.channels.extent, conv.outputs.extent

    def made(self) -> tuple[Tensor, Tensor]:
        """The products and what is made of them."""
        kernel, data = self._kernel(), self._data()
        rc = fresh_axis("rc", self.channels, REDUCE)
        products = self._compute(
            PRODUCT_STAGE,
            "products",
            [*"abpo"],
            [self.alpha, self.alpha, self.count, self.outputs],
            lambda a, b, p, o: te_sum(data(a, b, p, rc) * kernel(a, b, rc, o), axis=rc),
            rc,
        )
        return products, self._inverse(products)

    def _compute(
        self,
        tag: str,
        name: str,
        names: Sequence[str],
        shape: Sequence[Any],
        body: Callable[..., Any],
        *reduced: Any,
    ) -> Tensor:
        axes = tuple(fresh_axis(n, make.as_expr(e)) for n, e in zip(names, shape, strict=True))
        free = self.state.free_name(f"{self.stage}.{name}")
        op = ComputeOp(free, axes, reduced, (make.as_expr(body(*[a.var for a in axes])),), tag)
        self.ops.append(op)
        return op.outputs[0]

    def _kernel(self) -> Tensor:
        """G g Gᵀ, outputs innermost."""
        conv, (high, wide) = self.conv, [tap for _, tap, _ in self.conv.places]

        def as_read(c: Any, i: Any, j: Any, o: Any) -> Expr:
            at = {
                conv.channels.var: c,
                conv.outputs.var: o,
                high.var: make.as_expr(i),
                wide.var: make.as_expr(j),
            }
            return substitute(conv.weight, at)

        tap: Callable[..., Expr] = as_read
        # a copy first, or the sums of the transform would gather a vector of outputs from as many places
        if conv.weight.indices[-1] is not conv.outputs.var:
            tap = self._compute(
                WEIGHT_STAGE, "taps", [*"cijo"], [self.channels, TAPS, TAPS, self.outputs], as_read
            )
        rows = self._compute(
            WEIGHT_STAGE,
            "kernel.rows",
            [*"cajo"],
            [self.channels, self.alpha, TAPS, self.outputs],
            lambda c, a, j, o: row(self.points.kernel, a, [tap(c, i, j, o) for i in range(TAPS)]),
        )
        return self._compute(
            WEIGHT_STAGE,
            "kernel",
            [*"abco"],
            [self.alpha, self.alpha, self.channels, self.outputs],
            lambda a, b, c, o: row(self.points.kernel, b, [rows(c, a, j, o) for j in range(TAPS)]),
        )

    def _data(self) -> Tensor:
        """Bᵀ d B of each tile, channels innermost."""
        image, m, alpha = self._image(), self.m, self.alpha

        def place(p: Expr) -> list[Expr]:
            found: list[Expr] = []
            for n in reversed([*self.batch, *self.tiles][1:]):
                found.insert(0, make.floormod(p, n))
                p = make.floordiv(p, n)
            return [p, *found]

        def rows_of(p: Any, a: Any, j: Any, c: Any) -> Expr:
            *batch, y, x = place(p)
            return row(self.points.data, a, [image(*batch, y * m + i, x * m + j, c) for i in range(alpha)])

        rows = self._compute(
            DATA_STAGE, "data.rows", [*"pajc"], [self.count, alpha, alpha, self.channels], rows_of
        )
        return self._compute(
            DATA_STAGE,
            "data",
            [*"abpc"],
            [alpha, alpha, self.count, self.channels],
            lambda a, b, p, c: row(self.points.data, b, [rows(p, a, j, c) for j in range(alpha)]),
        )

    def _image(self) -> Callable[..., Expr]:
        """The image with its channels innermost, and zeros where the last tiles reach beyond it."""
        conv, m = self.conv, self.m
        read = conv.data
        spatial = [d for d, i in enumerate(read.indices) if not isinstance(i, Var) and const_int(i) is None]
        # a tile of m outputs reads m + 2 places, its neighbour the last two of them again
        extents = [n * m + 2 for n in self.tiles]

        def element(*at: Any) -> Expr:
            *batch, y, x, c = at
            known = {a.var: b for a, b in zip((*conv.batch, conv.channels), (*batch, c), strict=True)}
            known |= {axis.var: at for (axis, _, _), at in zip(conv.places, (y, x), strict=True)}
            known |= {tap.var: make.const(0, "int32") for _, tap, _ in conv.places}
            found: Expr = substitute(read, known)
            for d, n, (_, _, added) in zip(spatial, extents, conv.places, strict=True):
                # the last tiles are whole ones, which an image of another size than a multiple of a tile does
                # not fill
                if const_int(read.tensor.shape[d]) is None or n + added > (
                    const_int(read.tensor.shape[d]) or 0
                ):
                    inside = make.lt(substitute(read.indices[d], known), read.tensor.shape[d])
                    found = make.if_then_else(inside, found, make.const(0, found.dtype))
            return found

        shape = [*self.batch, *extents, self.channels]
        names = [*[f"n{d}" for d in range(len(self.batch))], "y", "x", "c"]
        return self._compute(DATA_STAGE, "image", names, shape, element)

    def _inverse(self, products: Tensor) -> Tensor:
        """Aᵀ M A, outputs innermost; whole tiles."""
        m, (high, wide) = self.m, self.tiles
        names = [f"n{d}" for d in range(len(self.batch))]

        def number(batch: Sequence[Any], y: Any, x: Any) -> Expr:
            p: Any = 0
            for n, at in zip([*self.batch, high, wide], (*batch, y, x), strict=True):
                p = make.add(make.mul(p, n), at)
            return make.as_expr(p)

        def rows_of(*at: Any) -> Expr:
            *batch, y, x, b, o = at
            p = number(batch, make.floordiv(y, m), x)
            return row(
                self.points.inverse, make.floormod(y, m), [products(a, b, p, o) for a in range(self.alpha)]
            )

        rows = self._compute(
            INVERSE_STAGE,
            "inverse.rows",
            [*names, *"yxbo"],
            [*self.batch, high * m, wide, self.alpha, self.outputs],
            rows_of,
        )

        def whole_tile(*at: Any) -> Expr:
            *batch, y, x, o = at
            beside = [rows(*batch, y, make.floordiv(x, m), b, o) for b in range(self.alpha)]
            return row(self.points.inverse, make.floormod(x, m), beside)

        return self._compute(
            INVERSE_STAGE,
            "inverse",
            [*names, *"yxo"],
            [*self.batch, high * m, wide * m, self.outputs],
            whole_tile,
        )
