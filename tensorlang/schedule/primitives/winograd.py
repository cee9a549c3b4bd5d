"""winograd: a convolution by 3×3 kernels becomes transforms and fewer multiplications, F(m×m, 3×3).

``C[n, o, y, x] = sum(A[n, c, y + i, x + j] * W[o, c, i, j])`` → ``C.kernel[a, b, c, o]``, ``C.data[a, b, p,
c]``, ``C.products[a, b, p, o] = sum(C.data[a, b, p, c] * C.kernel[a, b, c, o])``, ``C.inverse[n, y, x, o]``,
``C[n, o, y, x] = C.inverse[n, y, x, o]``

p are the tiles of m × m outputs. Channels are innermost in every new stage, so that transforms are sums of
whole vectors; an image or a weight that has them elsewhere is copied first.

Of a volume each plane is transformed once, and the taps along its depth are summed as they are: ``C.products[
a, b, n, z, p, o] = sum(C.data[a, b, n, z + k, p, c] * C.kernel[a, b, k, c, o])``, p the tiles of a plane.
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
        where = [*([] if found.deep is None else [found.deep]), *found.places]
        places = tuple(a.var for a in (*found.batch, *(axis for axis, _, _ in where), found.outputs))
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
        its channels known, its image and weight in any order of dimensions), by Winograd's
        minimal filtering F(tile×tile, 3×3), tile 2 or 4; returns the tensor of the products,
        ``tensor.products``, [tile + 2, tile + 2, tiles, outputs], or of a volume, whose kernels may be of any
        depth, [tile + 2, tile + 2, images, planes, tiles of a plane, outputs]. After Lavin and Gray, "Fast
        algorithms for convolutional neural networks", CVPR 2016, section 4.

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
        # of a plane, in tiles; may be symbols, as the number of images
        self.sides: list[Any] = [make.ceildiv(axis.extent, tile) for axis, _, _ in conv.places]
        self.batch: list[Any] = [a.extent for a in conv.batch]
        self.taps = 1 if conv.deep is None else const_int(conv.deep[1].extent) or 1
        # an axis for rows and columns each, where they are open: of one for both nobody could tell which rows
        # of the image some tiles read
        self.apart = any(const_int(n) is None for n in self.sides)
        # planes have an axis, and so have the images of a volume
        deep = [] if conv.deep is None else [conv.deep[0].extent]
        self.front: list[Any] = [*self.batch, *deep] if deep or self.apart else []
        if self.apart:
            self.tiles = [*self.front, *self.sides]
        else:
            plane: Any = make.mul(*self.sides)
            for n in [] if self.front else self.batch:
                plane = make.mul(plane, n)
            self.tiles = [*self.front, plane]
        self.channels, self.outputs = conv.channels.extent, conv.outputs.extent

    def made(self) -> tuple[Tensor, Tensor]:
        """The products and what is made of them."""
        kernel, data = self._kernel(), self._data()
        rc = fresh_axis("rc", self.channels, REDUCE)
        rk = [fresh_axis("rk", make.as_expr(self.taps), REDUCE)] if self.taps > 1 else []

        def summed(a: Any, b: Any, *at: Any) -> Expr:
            *p, o = at
            if rk:
                p[len(self.batch)] = make.add(p[len(self.batch)], rk[0].var)
            found: Expr = te_sum(data(a, b, *p, rc) * kernel(a, b, *rk, rc, o), axis=[*rk, rc])
            return found

        products = self._compute(
            PRODUCT_STAGE,
            "products",
            [*"ab", *self._named(), "o"],
            [self.alpha, self.alpha, *self.tiles, self.outputs],
            summed,
            *rk,
            rc,
        )
        return products, self._inverse(products)

    def _named(self) -> list[str]:
        """The names of the axes of tiles."""
        ahead = self._places()[:-2] if self.front else []
        return [*ahead, *("yx" if self.apart else "p")]

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
        deep, taps = (["k"], [self.taps]) if self.taps > 1 else ([], [])

        def as_read(*place: Any) -> Expr:
            *k, c, i, j, o = place
            at = {
                conv.channels.var: c,
                conv.outputs.var: o,
                high.var: make.as_expr(i),
                wide.var: make.as_expr(j),
            }
            if conv.deep is not None:
                at[conv.deep[1].var] = k[0] if k else make.const(0, "int32")
            return substitute(conv.weight, at)

        tap: Callable[..., Expr] = as_read
        # a copy first, or the sums of the transform would gather a vector of outputs from as many places
        if conv.weight.indices[-1] is not conv.outputs.var:
            names, shape = [*deep, *"cijo"], [*taps, self.channels, TAPS, TAPS, self.outputs]
            tap = self._compute(WEIGHT_STAGE, "taps", names, shape, as_read)

        def rows_of(*at: Any) -> Expr:
            *ahead, a, j, o = at
            return row(self.points.kernel, a, [tap(*ahead, i, j, o) for i in range(TAPS)])

        rows = self._compute(
            WEIGHT_STAGE,
            "kernel.rows",
            [*deep, *"cajo"],
            [*taps, self.channels, self.alpha, TAPS, self.outputs],
            rows_of,
        )
        return self._compute(
            WEIGHT_STAGE,
            "kernel",
            [*"ab", *deep, *"co"],
            [self.alpha, self.alpha, *taps, self.channels, self.outputs],
            lambda a, b, *at: row(self.points.kernel, b, [rows(*at[:-1], a, j, at[-1]) for j in range(TAPS)]),
        )

    def _data(self) -> Tensor:
        """Bᵀ d B of each tile, channels innermost."""
        image, m, alpha = self._image(), self.m, self.alpha

        def place(*at: Any) -> list[Expr]:
            *front, p = map(make.as_expr, at)
            if self.apart:
                return [*front, p]
            found: list[Expr] = []
            for n in reversed([*([] if front else self.batch), *self.sides][1:]):
                found.insert(0, make.floormod(p, n))
                p = make.floordiv(p, n)
            return [*front, p, *found]

        def rows_of(*at: Any) -> Expr:
            *p, a, j, c = at
            *batch, y, x = place(*p)
            return row(self.points.data, a, [image(*batch, y * m + i, x * m + j, c) for i in range(alpha)])

        tiles = [*self.tiles]
        if self.conv.deep is not None:  # planes that are read
            tiles[len(self.batch)] = make.add(tiles[len(self.batch)], self.taps - 1)
        rows = self._compute(
            DATA_STAGE, "data.rows", [*self._named(), *"ajc"], [*tiles, alpha, alpha, self.channels], rows_of
        )
        return self._compute(
            DATA_STAGE,
            "data",
            [*"ab", *self._named(), "c"],
            [alpha, alpha, *tiles, self.channels],
            lambda a, b, *p: row(self.points.data, b, [rows(*p[:-1], a, j, p[-1]) for j in range(alpha)]),
        )

    def _image(self) -> Callable[..., Expr]:
        """The image with its channels innermost, and zeros where the last tiles reach beyond it."""
        conv, m = self.conv, self.m
        read = conv.data
        spatial = [d for d, i in enumerate(read.indices) if not isinstance(i, Var) and const_int(i) is None]
        spatial = spatial[-2:]  # behind the depth
        # a tile of m outputs reads m + 2 places, its neighbour the last two of them again
        extents = [make.add(make.mul(n, m), 2) for n in self.sides]
        ahead = [*conv.batch, *([] if conv.deep is None else [conv.deep[0]])]

        def element(*at: Any) -> Expr:
            *batch, y, x, c = at
            known = {a.var: b for a, b in zip((*ahead, conv.channels), (*batch, c), strict=True)}
            if conv.deep is not None:
                known[conv.deep[1].var] = make.const(0, "int32")
            known |= {axis.var: at for (axis, _, _), at in zip(conv.places, (y, x), strict=True)}
            known |= {tap.var: make.const(0, "int32") for _, tap, _ in conv.places}
            found: Expr = substitute(read, known)
            for d, n, (_, _, added) in zip(spatial, extents, conv.places, strict=True):
                # the last tiles are whole ones, which an image of another size than a multiple of a tile does
                # not fill
                beyond = const_int(make.sub(make.add(n, added), read.tensor.shape[d]))
                if beyond is None or beyond > 0:
                    inside = make.lt(substitute(read.indices[d], known), read.tensor.shape[d])
                    found = make.if_then_else(inside, found, make.const(0, found.dtype))
            return found

        shape = [*(self.front or self.batch), *extents, self.channels]
        if conv.deep is not None:
            shape[-4] = make.add(shape[-4], self.taps - 1)
        return self._compute(DATA_STAGE, "image", [*self._places(), "c"], shape, element)

    def _places(self) -> list[str]:
        """The names of the axes of an image."""
        deep = ["z"] * (self.conv.deep is not None)
        return [*[f"n{d}" for d in range(len(self.batch))], *deep, "y", "x"]

    def _inverse(self, products: Tensor) -> Tensor:
        """Aᵀ M A, outputs innermost; whole tiles."""
        m, (high, wide) = self.m, self.sides
        front, names = self.front or self.batch, self._places()

        def number(batch: Sequence[Any], y: Any, x: Any) -> list[Any]:
            """Where a tile is among the products."""
            if self.apart:
                return [*batch, y, x]
            ahead, counted = (batch, []) if self.front else ([], batch)
            p: Any = 0
            for n, at in zip([*self.batch[: len(counted)], high, wide], (*counted, y, x), strict=True):
                p = make.add(make.mul(p, n), at)
            return [*ahead, make.as_expr(p)]

        def rows_of(*at: Any) -> Expr:
            *batch, y, x, b, o = at
            p = number(batch, make.floordiv(y, m), x)
            return row(
                self.points.inverse, make.floormod(y, m), [products(a, b, *p, o) for a in range(self.alpha)]
            )

        rows = self._compute(
            INVERSE_STAGE,
            "inverse.rows",
            [*names, *"bo"],
            [*front, make.mul(high, m), wide, self.alpha, self.outputs],
            rows_of,
        )

        def whole_tile(*at: Any) -> Expr:
            *batch, y, x, o = at
            beside = [rows(*batch, y, make.floordiv(x, m), b, o) for b in range(self.alpha)]
            return row(self.points.inverse, make.floormod(x, m), beside)

        return self._compute(
            INVERSE_STAGE,
            "inverse",
            [*names, "o"],
            [*front, make.mul(high, m), make.mul(wide, m), self.outputs],
            whole_tile,
        )
