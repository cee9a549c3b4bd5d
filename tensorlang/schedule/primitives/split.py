"""split: one loop becomes two.

``for i in 0..N`` → ``for i.outer in 0..ceil(N / f): for i.inner in 0..f: i = i.outer * f + i.inner``

What happens where the tiles do not fit is ``tail``:

- ``auto``: a test a tile chooses a body without guards where it can (``passes.partition``), a masked or
  shorter one else;
- ``guard``: one body with its test, the least code; ``mask``: the same, and the inner half must be a vector,
  whose lanes are masked;
- ``peel``: the last tiles are a loop of their own (``passes.peel``): no test in the main loop, the most code;
- ``shift``: the last tile begins earlier and computes some elements again: no guard, no mask, no second body.
  Not for reductions, nor for parallel loops;
- ``zeros``: a sum goes on behind its end, where a factor of what it adds is the zeros that a padded layout
  holds: no guard, no second body.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from ...expr import make
from ...expr.nodes import Expr, Var
from ...te.axis import IterVar
from ...te.scan import SCAN
from ..legality.verdict import YES, Verdict, refuse
from ..relations import Split as SplitRelation
from ..state import ScheduleState, change
from .base import Primitive, check_loop, check_number, fresh_loop_name, leaf, number, position, renamed
from .fields import Factor, LoopName, Meaning, Number, Size, StageName

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Stage

TAILS = ("auto", "guard", "mask", "peel", "shift", "zeros")
Tail = Annotated[str, Meaning("tail", TAILS)]


@dataclass(frozen=True, slots=True)
class Split(Primitive):
    """Split ``loop`` of ``stage`` by ``factor`` (extent of the inner loop) or into ``nparts`` (extent of the
    outer)."""

    stage: StageName
    loop: LoopName
    factor: Number | None = None
    nparts: Number | None = None
    tail: Tail = "auto"
    name = "split"

    def check(self, state: ScheduleState) -> Verdict:
        verdict = check_loop(state, self.stage, self.loop)
        if not verdict:
            return verdict
        if (self.factor is None) == (self.nparts is None):
            return refuse(
                "neither factor nor nparts says where to cut"
                if self.factor is None
                else "factor and nparts both say where to cut",
                try_="split(axis, factor=8) or split(axis, nparts=4)",
            )
        size = self.factor if self.factor is not None else self.nparts
        known = check_number(state, size)
        if not known:
            return known
        if isinstance(size, int) and not 1 <= size <= 0x7FFFFFFF:
            word, half = ("factor", "inner") if self.factor is not None else ("nparts", "outer")
            return refuse(f"{word} is {size}: it is how often the {half} loop runs", legal="1 to 2**31 - 1")
        if self.tail not in TAILS:
            return refuse(f"tail={self.tail!r} is not known", legal=", ".join(TAILS))
        # the other ways need to know at compile time whether, and where, there is a tail
        if isinstance(size, Size) and self.tail not in ("auto", "guard"):
            return refuse(
                f"tail={self.tail!r} of tiles whose size {size} is known only at the call",
                legal="auto, guard",
            )
        st = state.stage(self.stage)
        if leaf(st, self.loop).kind == SCAN:
            return refuse(
                f"loop {self.stage}.{self.loop} is a scan: its iterations are the rows, in order",
                mark=(self.stage, self.loop),
                try_="a loop of the update",
            )
        kind = st.kind(leaf(st, self.loop))
        # an annotation speaks of one loop: which half would have it
        if kind != "serial":
            return refuse(
                f"loop {self.stage}.{self.loop} is {kind} already",
                mark=(self.stage, self.loop),
                try_=f"split first, then {kind.removesuffix('d')} one half",
            )
        return YES

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        st = state.stage(self.stage)
        parent = leaf(st, self.loop)

        outer, inner = (
            IterVar(Var(fresh_loop_name(st, preferred), parent.dtype, "loop"), None, parent.kind)
            for preferred in _halves(self.loop)
        )

        def cut(by: Number | None) -> Expr | None:
            return (
                make.cast(parent.dtype, number(state, by))
                if isinstance(by, Size)
                else None
                if by is None
                else number(state, by)
            )

        rel = SplitRelation(parent, outer, inner, cut(self.factor), cut(self.nparts), self.tail)
        p = position(st, self.loop)
        new = change(
            st,
            leaves=(*st.leaves[:p], outer, inner, *st.leaves[p + 1 :]),
            relations=(*st.relations, rel),
            names=st.used() | {outer.name, inner.name},
            # initial values are written before all of the loop, so before its outer half
            init_at=outer.name if st.init_at == parent.name else st.init_at,
            pragmas={outer if iv is parent else iv: said for iv, said in st.pragmas.items()},
            # iterations ahead are counted in the loop that does one step of the old one
            prefetches=tuple(p.renamed({parent.name: inner.name}) for p in st.prefetches),
        )
        inside = renamed(
            state, self.stage, {parent.name: inner.name}
        )  # one iteration of it was one iteration of what is the inner loop now
        return state.with_stage(new, *inside), (outer, inner)

    def python(self, w: Writer) -> None:
        (loop,) = w.loops(self.stage, self.loop)
        how = [
            f"{k}={w.value(v)}"
            for k, v in (("factor", self.factor), ("nparts", self.nparts))
            if v is not None
        ]
        how += [f"tail={self.tail!r}"] if self.tail != "auto" else []
        new = w.new_loops(self.stage, *_halves(self.loop))
        w.line(f"{new} = s[{w.tensor(self.stage)}].split({', '.join([loop, *how])})")

    @staticmethod
    def call(
        stage: Stage,
        parent: IterVar | str,
        factor: Factor | None = None,
        nparts: Factor | None = None,
        tail: str = "auto",
    ) -> tuple[IterVar, IterVar]:
        """Split a loop by ``factor`` (extent of the inner loop) or into ``nparts`` (extent of the outer);
        returns (outer, inner). Either may be a size that is known at the call, as ``te.var("f")``: calls
        where it is not positive are refused.

        ``tail`` says what happens where the tiles do not fit: ``"auto"`` (a choice for each tile),
        ``"guard"`` (a test or a mask in every tile), ``"mask"`` (the same; the inner half must be a vector),
        ``"peel"`` (the last tiles are a loop of their own), ``"shift"`` (the last tile begins earlier and
        computes some elements twice), ``"zeros"`` (a sum goes on in the padding of an operand's transformed
        layout, which holds zeros). Lowering raises LowerError for a tail the loops do not allow.

        >>> A = te.placeholder((8, 8), name="A")
        >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
        >>> s = te.create_schedule(B.op)
        >>> i, j = B.op.axis
        >>> outer, inner = s[B].split(i, factor=4)
        >>> print(s.tree())
        root
        └─ loop B.i.outer       0..2
           └─ loop B.i.inner    0..4
              └─ loop B.j       0..8
                 └─ compute B   reads A
        """
        return stage.do(
            Split(
                stage.name,
                stage.loop_name("split", parent),
                stage.number("split", factor),  # type: ignore[no-any-return]
                stage.number("split", nparts),
                tail,
            )
        )


def _halves(loop: str) -> tuple[str, str]:
    """The names the loops are to have that one is split into."""
    return f"{loop}.outer", f"{loop}.inner"
