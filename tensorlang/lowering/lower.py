"""The walk over the schedule tree that writes loop IR: nests, guards, initialisation of reductions, attached
producers.

Every guard stands as far out as its loops allow. Loops of one iteration vanish. Nothing is optimised here:
passes do that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..arith.conditions import conjunction, conjuncts
from ..arith.facts import Facts
from ..core.recursion import Steps, run
from ..errors import LowerError
from ..expr import make
from ..expr.linear import reads_data
from ..expr.nodes import Expr, IfThenElse, Var, const_int
from ..expr.walk import preorder, rewrite, substitute, variables
from ..loopir.loop_builder import Builder
from ..loopir.stmt import (
    NOTHING,
    PARALLEL,
    SERIAL,
    Alloc,
    Buffer,
    Extern,
    For,
    Func,
    If,
    Let,
    Load,
    Stmt,
    Store,
    View,
    load,
    seq,
)
from ..schedule.bounds import Bounds, bounds_of, lanes_around
from ..schedule.legality.places import pending_verdict
from ..schedule.legality.tensorize import Operand, match, mismatched
from ..schedule.primitives.kind import LIMITS
from ..schedule.primitives.prefetch import written_around
from ..schedule.relations import depends_on_dims, placed
from ..schedule.sliding import NOTHING as NO_SLIDE
from ..schedule.sliding import Slide, slides_of, sliding_parts
from ..schedule.state import Ahead, At, ScheduleState, StageState
from ..schedule.tree.nodes import LoopNode, StorageNode, TreeNode, tree_of
from ..schedule.tree.printer import draw
from ..te.axis import REDUCE, IterVar
from ..te.extern import ExternCall, ExternOp
from ..te.loops import LoopsOp
from ..te.reducers import Reduce, parts_alone
from ..te.scatter import COMBINE, ScatterOp, place
from ..te.tensor import Tensor, TensorRead
from ..te.tensor_intrin import declared
from .answers import until_known
from .buffers import argument_buffers, share_buffers, sizes_of, workspace_buffers
from .lanes import in_range, spare_guards
from .needs import cuts_of, needs_of, stated
from .parts import Parts, around, in_parts
from .scattered_rows import in_vectors, loop_over, own_axes, shared_axis
from .shares import CACHE_LINE, ask, next_share, next_stretch, requests
from .tails import check_tails, tail_note

Exprs = tuple[Expr, ...]
WRITTEN_OUT = 16  # requests for lines in one iteration, at most


def lower_state(
    state: ScheduleState,
    args: Sequence[Tensor | Var],
    name: str,
    constants: Sequence[Tensor] = (),
    strides: Mapping[Tensor, tuple[Expr, ...] | None] | None = None,
    like: Func | None = None,
) -> Func:
    """The kernel of a schedule whose sampled values are numbers, before any pass. ``constants`` are inputs
    that no call passes; ``strides`` tells how arguments lie where that differs from their declaration. It has
    the parameters of ``like``, a kernel of the same arguments.

    Raises LowerError for arguments that do not fit the computation, for stages that wait for a place, and for
    a loop whose kind needs a constant extent it lost.
    """
    _nobody_waits(state)
    buffers, params = argument_buffers(state, args, constants, strides)
    if like is not None:
        theirs = dict(zip(params, like.params, strict=True))
        buffers, params = {t: _buffer(theirs[b]) for t, b in buffers.items()}, like.params
    bounds = bounds_of(state)
    slides = slides_of(state, bounds)
    workspace_buffers(state, bounds, slides, buffers)
    share_buffers(state, buffers)
    dims = sizes_of(params, _counted(state, bounds))
    writer = _Writer(state, bounds, slides, buffers, params)
    outputs = tuple(
        buffers[t]
        for st in state.stages
        if st.is_output and not st.updates
        for t in st.op.outputs
        if buffers[t].scope == "arg"
    )
    updates = tuple(buffers[t] for st in state.stages for t in st.updates)
    _check_constants(constants, buffers, updates)
    given = frozenset((*dims, *(p for p in params if isinstance(p, Var))))
    # as keys, so that what several stages ask for is asked once
    needs = {**dict(cuts_of(bounds)), **dict(needs_of(state))}
    body = run(writer.nodes(tree_of(state)))
    for t in (t for st in state.stages if st.is_output for t in st.op.outputs):
        if buffers[t].scope != "arg":  # a result that the caller does not get
            body = Alloc(buffers[t], body)
    return Func(
        name,
        params,
        body,
        dims,
        outputs,
        constants=tuple(buffers[t] for t in constants),
        # what speaks of sizes that no argument gives cannot be asked at the entry
        needs=(*stated(given), *((c, why) for c, why in needs.items() if given >= variables(c))),
        updates=updates,
    )


def _buffer(parameter: Buffer | Var) -> Buffer:
    assert isinstance(parameter, Buffer)
    return parameter


def _counted(state: ScheduleState, bounds: Bounds) -> list[Expr]:
    """What loops count to and bodies read as numbers: the sizes in them are the kernel's."""
    known = bounds.stages
    return [
        e
        for st in state.stages
        if not st.is_placeholder and st.name in known
        for e in (*bounds[st.name].loops.values(), *_scalars(st))
    ]


def _check_constants(
    constants: Sequence[Tensor], buffers: Mapping[Tensor, Buffer], updates: Sequence[Buffer]
) -> None:
    for t in constants:
        if any(buffers[t] is b for b in updates):
            raise LowerError(
                f"the constant `{t.name}` is updated in place", try_=f"pass {t.name} as an argument"
            )


def _nobody_waits(state: ScheduleState) -> None:
    pending = [st for st in state.stages if st.pending is not None]
    if pending:
        st = pending[
            -1
        ]  # the readers of the others may wait themselves; those of the last are what is missing
        place, why = st.pending.place if st.pending else None, pending_verdict(state, st)
        others = (
            f"; {', '.join(f'`{o.name}`' for o in pending[:-1])} wait{'s' if len(pending) == 2 else ''} too"
            if len(pending) > 1
            else ""
        )
        raise LowerError(
            f"`{st.name}` waits for its place at {place}",
            because=f"{why.reason}{others}",
            tree=lambda: draw(state),
            try_=f"{why.try_}; or s[{st.name}].compute_root()",
        )
    for st, reason in mismatched(state):
        raise _another_intrinsic(st, reason)


def _another_intrinsic(st: StageState, because: str) -> LowerError:
    return LowerError(
        f"tensorize({st.name}, {', '.join(st.tensorized or ())}): the loops are not those of the intrinsic "
        "any more",
        because=because,
        try_=f"s[{st.name}].tensorize(loop, intrinsic) again, with one that computes what its loops are now",
    )


def _scalars(stage: StageState) -> list[Expr]:
    own = {a.var for a in (*stage.compute.axis, *stage.compute.reduce_axis, *stage.op.spatial)}
    return [v for e in stage.compute.body for v in preorder(e) if type(v) is Var and v not in own]


class _Writer:
    def __init__(
        self,
        state: ScheduleState,
        bounds: Bounds,
        slides: Mapping[str, Slide],
        buffers: dict[Tensor, Buffer],
        params: Sequence[Buffer | Var],
    ) -> None:
        self.state = state
        self.bounds = bounds
        self.buffers = buffers
        known = bounds.stages
        # workspaces are counted from the corner of what is computed at a time; outputs and scans from that of
        # the whole
        self.low = {
            st.key: bounds[st.name].store_low
            for st in state.stages
            if st.name in known and not (st.shares or st.is_opaque or st.is_output)
        }
        self.lanes = {
            st.key: tuple([v for _, v in lanes_around(state, bounds, st)])
            for st in state.stages
            if st.host is not None and not st.shares
        }
        self.slides = {st.key: slides[st.name] for st in state.stages if st.store is not None}
        for scan in (st for st in state.stages if st.is_scan):
            slide = slides[scan.name]
            self.slides.update((part.key, slide) for part in sliding_parts(state, scan) if slide.ring)
        self.guards: dict[str, list[tuple[int, Expr]]] = {}
        # the guards at each position, as they are written
        self.tests: dict[tuple[str, int], tuple[Expr, Parts]] = {}
        # where initial values are written, -1 where there are none
        self.starts: dict[str, int] = {}
        self.names: dict[str, dict[Expr, Var]] = {}  # parts of guards, known to what stands inside them
        # guards that reads ask instead of the store, with what else holds there
        self.spare: dict[str, tuple[Expr, Facts]] = {}
        self.alive = {p for p in params if isinstance(p, Buffer)}  # memory that exists where the walk is

    # -- the tree --------------------------------------------------------------------------------------------

    def nodes(self, nodes: Sequence[TreeNode], first: int = 0) -> Steps[Stmt]:
        done: list[Stmt] = []
        for i in range(first, len(nodes)):
            node = nodes[i]
            if isinstance(node, StorageNode):
                own = {self.buffers[t] for t in node.stage.op.outputs}
                self.alive |= own
                body = yield self.nodes(nodes, i + 1)
                self.alive -= own
                for t in reversed(node.stage.op.outputs):
                    body = Alloc(self.buffers[t], body)
                return seq(*done, body)
            done.append((yield self.nest(node)))
        return seq(*done)

    def nest(self, node: TreeNode) -> Steps[Stmt]:
        stage = node.stage
        first = stage.name not in self.guards
        if first:
            check_tails(stage, self.bounds)
            self.guards[stage.name] = self.placed_guards(stage)
            names: dict[Expr, Var] = {}
            self.names[stage.name] = names
            for p, g in sorted(self.together(stage).items()):
                (g,), parts = in_parts((g,), names)
                self.tests[stage.name, p] = g, parts
            self.starts[stage.name] = stage.first_init() if stage.compute.reduce_axis else -1
        position = stage.place_of(node.loop.name) if isinstance(node, LoopNode) else len(stage.leaves)
        assert position is not None
        if (
            stage.tensorized is not None
            and isinstance(node, LoopNode)
            and node.loop.name == stage.tensorized[0]
        ):
            return self.tensorized(stage, position, first)
        if isinstance(node, LoopNode):
            ahead = [self.prefetch(stage, node.loop, p) for p in stage.prefetches if p.loop == node.loop.name]
            inner = yield self.nodes(node.children)
            inner = until_known(stage, node.loop, position, self.buffers, self.target, inner)
            out = self.loop(stage, node.loop, self.guarded(stage, position, seq(*ahead, inner)))
        else:
            out = self.update(stage)
        # where a sum begins anew: in front of its first reduction loop, or where decompose_reduction says
        if position == self.starts[stage.name]:
            out = seq(self.initialisation(stage, position), out)
        # guards that speak of no loop of the stage's own stand around all of it
        return self.guarded(stage, -1, out) if first else out

    def loop(self, stage: StageState, iv: IterVar, body: Stmt, var: Var | None = None) -> Stmt:
        extent = self.bounds[stage.name].loops[iv]
        # the loop's variable is known to be 0, so nothing speaks of it
        if const_int(extent) == 1:
            return body
        kind = stage.kind(iv)
        if kind in ("vectorized", "unrolled") and depends_on_dims(extent):
            raise LowerError(
                f"loop {stage.name}.{iv.name} is {kind}, but its extent {extent} is known only at run time",
                because="it was constant when it was annotated; the stage was moved since",
                try_=f"split it by a constant after the last compute_at of {stage.name}, and take the inner "
                "half",
            )
        iterations = const_int(extent)
        # asked again here: a knob had no number yet when the loop was annotated
        if iterations is not None and iterations > LIMITS.get(kind, iterations):
            raise LowerError(
                f"loop {stage.name}.{iv.name} is {kind} and runs {iterations} times",
                because=f"the limit of {kind} loops is {LIMITS[kind]}",
                try_=f"split {iv.name} by a small factor and {kind.removesuffix('d')} the inner half",
            )
        notes = (
            *(stage.pragmas.get(iv, ()) if var is None else ()),
            *tail_note(stage, iv),
            *(self.doubled(stage, iv) if var is None else ()),
        )
        (extent,), parts = in_parts((extent,))
        return around(
            For(
                iv.var if var is None else var,
                make.const(0, iv.dtype),
                extent,
                kind,
                body,
                tuple(sorted(notes)),
            ),
            parts,
        )

    def doubled(self, stage: StageState, iv: IterVar) -> tuple[tuple[str, str], ...]:
        """The note that names the buffers which an iteration of this loop computes for the next one."""
        if stage.kind(iv) not in ("serial", "unrolled"):
            return ()  # iterations that do not follow one another have nothing to hand on
        inside = [
            st for st in self.state.attached(stage.name) if st.double and st.attach == At(stage.name, iv.name)
        ]
        return (
            (("double_buffer", ", ".join(self.buffers[t].name for st in inside for t in st.op.outputs)),)
            if inside
            else ()
        )

    # -- guards ----------------------------------------------------------------------------------------------

    def placed_guards(self, stage: StageState) -> list[tuple[int, Expr]]:
        """Each guard with the position of the innermost own loop it speaks of; -1 when it speaks of none."""
        where = {iv.var: p for p, iv in enumerate(stage.leaves)}
        guards = (*self.bounds.guards(stage), *self.slides.get(stage.key, NO_SLIDE).conditions)
        facts = self.bounds.known_at(stage.attach)
        spare = spare_guards(stage, self.bounds, guards, facts) if guards else []
        if spare:
            guards = tuple(g for g in guards if not any(g is x for x in spare))
            for g in guards:
                facts = facts.assume(g)
            self.spare[stage.name] = (conjunction(spare), facts)
        # the innermost it speaks of, but no deeper: each loop further in would test it again
        return [(max((where.get(v, -1) for v in variables(g)), default=-1), g) for g in guards]

    def guarded(
        self, stage: StageState, position: int, body: Stmt, renamed: dict[Var, Expr] | None = None
    ) -> Stmt:
        if (stage.name, position) not in self.tests:
            return body
        cond, parts = self.tests[stage.name, position]
        if renamed:  # other loops: parts of other values
            (cond,), parts = in_parts((substitute(self.together(stage)[position], renamed),))
        return around(If(cond, body), parts)

    def together(self, stage: StageState) -> dict[int, Expr]:
        """The guards at each position as one condition."""
        found: dict[int, list[Expr]] = {}
        for p, g in self.guards[stage.name]:
            found.setdefault(p, []).append(g)
        return {p: conjunction(conds) for p, conds in found.items()}

    # -- tensorize -------------------------------------------------------------------------------------------

    def tensorized(self, stage: StageState, position: int, first: bool) -> Stmt:
        """The calls that stand for the loops from ``position`` inwards."""
        assert stage.tensorized is not None
        intrin = declared(stage.tensorized[1])
        assert intrin is not None
        found = match(self.state, stage, position, intrin)
        assert not isinstance(found, str), "checked before anything was lowered"
        ins = [self.view(o, t.shape) for o, t in zip(found.inputs, intrin.inputs, strict=True)]
        out = self.view(found.output, intrin.op.outputs[0].shape)
        body, reset, update = intrin.calls([v.strides for v in ins], out.strides)

        def call(c: ExternCall) -> Stmt:
            args = tuple(a if isinstance(a, Expr) else out if a.output else ins[a.position] for a in c.args)
            return Extern(c.kind, c.name, args, (out.buffer,), c.result)

        if not found.outer_reduce:
            return self.guarded(stage, -1, call(body)) if first else call(body)
        if reset is None or update is None:
            raise LowerError(
                f"tensorize({stage.name}, {intrin.name}): reduction loops stand around it, and it has no "
                "reset and update",
                try_="return (body, reset, update) from its function, or keep the whole reduction inside it",
            )
        # the initial values are written by the plain loops, outside the first reduction loop; the call only
        # adds to them
        return self.guarded(stage, -1, call(update)) if first else call(update)

    def view(self, o: Operand, shape: tuple[Expr, ...]) -> View:
        """Where an operand of an intrinsic lies."""
        element = self.element(o.tensor, o.corner)
        assert isinstance(element, Load)
        strides = element.buffer.element_strides()
        return View(element.buffer, element.indices, shape, tuple(strides[d] for d in o.dims))

    # -- prefetches ------------------------------------------------------------------------------------------

    def prefetch(self, stage: StageState, loop: IterVar, p: Ahead) -> Stmt:
        """Ask in ``loop`` for the box of a tensor that a later iteration reads, or writes where it is the
        stage's own, one element of each cache line; or for a share of what comes after the loops that read
        the same again."""
        tensor = p.tensor
        # memory made inside the loop: a later iteration has another
        if self.buffers.get(tensor) not in self.alive:
            return NOTHING
        if p.share:
            line = max(1, CACHE_LINE // tensor.dtype.bytes)
            asked = next_share(self.bounds, stage, loop, tensor, p.offset, line)
            return seq(*[ask(self.element(tensor, at), False, p.level) for at in asked])
        place = At(stage.name, loop.name)
        own = tensor.op is stage.key or written_around(self.bounds.state, stage.name, tensor)
        ends = self.bounds.written(stage, place) if own else self.bounds.touched(tensor.op, [stage], place)
        if ends is None:
            return NOTHING
        of = next((iv.var for iv in stage.leaves if iv.name == p.of), loop.var)
        later = {of: make.add(of, p.offset)}
        index, loops = list[Expr](), list[tuple[Var, Expr]]()
        boxes = [self.bounds.box(end, whole) for end, whole in zip(ends, tensor.shape, strict=True)]
        steps, line = [1] * tensor.ndim, CACHE_LINE // tensor.dtype.bytes
        near = None if own else next_stretch(self.bounds, stage, loop, tensor, later, boxes)
        if near is not None:
            return seq(*[ask(self.element(tensor, at), False, p.level) for at in near])
        # from the dimension whose elements are neighbours outwards
        for d in reversed(range(tensor.ndim)):  # a line may hold several rows that are read whole
            steps[d] = max(1, line)
            row, size = const_int(boxes[d][1]), const_int(tensor.shape[d])
            line = 0 if not row or row != size else line // row
        for d, ((low, extent), step) in enumerate(zip(boxes, steps, strict=True)):
            v = Var(f"{tensor.op.name}.ahead{d}", low.dtype, "loop")
            within = tensor.shape[d] if d == tensor.ndim - 1 and p.level == 1 and not own else None
            count, at = requests(v, extent, step, within)
            loops.append((v, count))
            index.append(make.add(substitute(low, later), at))
        out: Stmt = ask(self.element(tensor, tuple(index)), own, p.level)
        # a few are written out: a loop of them takes longer than they do
        lines = math.prod(const_int(n) or WRITTEN_OUT + 1 for _, n in loops)
        for v, n in reversed(loops):
            out = For(v, make.const(0, v.dtype), n, "unrolled" if lines <= WRITTEN_OUT else "serial", out)
        return out

    # -- bodies ----------------------------------------------------------------------------------------------

    def value(self, stage: StageState, e: Expr) -> Expr:
        """A body expression with axes in terms of loops and reads in terms of buffers."""

        cond, facts = self.spare.get(stage.name, (None, None))

        def read(node: Expr) -> Expr | None:
            if type(node) is TensorRead:
                result = self.element(node.tensor, node.indices)
                if cond is None or facts is None or in_range(node, facts, self.bounds):
                    return result
                return make.if_then_else(cond, result, make.const(0, result.dtype))
            return None

        return rewrite(placed(e, self.bounds[stage.name].value), read)

    def element(self, tensor: Tensor, indices: tuple[Expr, ...]) -> Expr:
        low = self.low.get(tensor.op)
        if low is not None:
            indices = tuple(make.sub(i, o) for i, o in zip(indices, low, strict=True))
        if tensor.op in self.slides:
            indices = self.slides[tensor.op].place(indices)
        return load(self.buffers[tensor], (*indices, *self.lanes.get(tensor.op, ())))

    def target(self, stage: StageState) -> tuple[Expr, ...]:
        """Where one iteration writes: counted from the corner of the stage's storage."""
        b = self.bounds[stage.name]
        slide = self.slides.get(stage.key, NO_SLIDE)
        # memory that is not the stage's own: where the element is in the whole
        if stage.shares or stage.is_output:
            return slide.place(tuple(b.value[a.var] for a in stage.compute.axis))
        lanes = self.lanes.get(stage.key, ())
        if b.store_low is b.low:
            return (*[b.local[a.var] for a in stage.compute.axis], *lanes)
        index = tuple(
            make.sub(b.value[a.var], low) for a, low in zip(stage.compute.axis, b.store_low, strict=True)
        )
        return (*slide.place(index), *lanes)

    def update(self, stage: StageState) -> Stmt:
        op = stage.compute
        if isinstance(op, ExternOp):
            return self.extern(op)
        if isinstance(op, ScatterOp):
            return self.scatter(stage, op)
        if isinstance(op, LoopsOp):
            return self.program(op)
        tensors = op.outputs
        index = self.target(stage)
        first = op.body[0]
        names = dict(self.names[stage.name])
        if not isinstance(first, Reduce):
            made, parts = in_parts((*index, *[self.value(stage, e) for e in op.body]), names)
            return around(self.store_all(tensors, made[: len(index)], made[len(index) :]), parts)
        made, parts = in_parts((*index, *[self.value(stage, e) for e in first.sources]), names)
        index, sources = made[: len(index)], made[len(index) :]
        old = tuple(load(self.buffers[t], index) for t in tensors)
        values = first.reducer.combine(old, sources)
        out = around(self.store_all(tensors, index, values, parts_alone(first)), parts)
        # what reads memory is tested last: the other conditions may keep it in range
        if first.condition is not None:
            conds = conjuncts(self.value(stage, first.condition))
            for last in (2, 1, 0):
                some = [c for c in conds if reads_data(c) + isinstance(c, IfThenElse) == last]
                if some:
                    (cond,), parts = in_parts((conjunction(some),))
                    out = around(If(cond, out), parts)
        return out

    def extern(self, op: ExternOp) -> Stmt:
        """The call of an extern, with buffers for its handles."""
        args = tuple(
            a if isinstance(a, Expr) else self.buffers[(op.outputs if a.output else op.inputs)[a.position]]
            for a in op.call.args
        )
        for a in args:
            if isinstance(a, Buffer) and a.scope == "arg" and a.strides is not None:
                raise LowerError(
                    f"`{op.call.name}` is given {a.name}, which may have strides",
                    because="a function that is called gets the address of compact memory",
                    try_=f"s.cache_read({a.name}, ...), or {a.name} without strides",
                )
        return Extern(
            op.call.kind, op.call.name, args, tuple(self.buffers[t] for t in op.outputs), op.call.result
        )

    def program(self, op: LoopsOp) -> Stmt:
        """What a program of loops builds on the buffers of its tensors."""
        builder = Builder()
        ins, outs = (
            [builder.elements(self.buffers[t]) for t in tensors] for tensors in (op.inputs, op.outputs)
        )
        op.program.emit(builder, ins, outs, **op.attrs)
        return builder.body()

    def scatter(self, stage: StageState, op: ScatterOp) -> Stmt:
        """The updates in order, each where its place is inside."""
        buffer = self.buffers[op.outputs[0]]
        places = [place(self.value(stage, e)) for e in op.where]
        index = tuple(
            Var(f"{op.name}.at{d}", e.dtype, "data") if reads_data(e) else e for d, e in enumerate(places)
        )
        (value,), parts = in_parts((self.value(stage, op.value),))
        out = around(Store(buffer, COMBINE[op.combine](load(buffer, index), value), index), parts)
        inside = [c for i, n in zip(index, buffer.shape, strict=True) for c in (make.ge(i, 0), make.lt(i, n))]
        conds = [c for c in inside if self.bounds.facts.prove(c) is not True]
        # rows go as they are: what is asked of places is asked once for each
        own = own_axes(op, [*conds, *(e for i, e in zip(index, places, strict=True) if i is not e)])
        wide = CACHE_LINE // buffer.dtype.bytes
        for a in op.domain[len(op.domain) - own :][::-1]:
            out = in_vectors(a, out, wide) if a is op.domain[-1] else loop_over(a, out)
        if conds:
            out = If(conjunction(conds), out)
        # an index read from memory has a name, so that it is read once, tested, and used as it was tested
        for i, e in reversed(list(zip(index, places, strict=True))):
            if i is not e:
                (at,), parts = in_parts((e,))
                out = around(Let(i, at, out), parts)  # type: ignore[arg-type]
        shared = shared_axis(op)
        for a in reversed(op.domain[: len(op.domain) - own]):
            out = loop_over(a, out, PARALLEL if a is shared else SERIAL)
        return out

    def store_all(self, tensors: Sequence[Tensor], index: Exprs, values: Exprs, alone: bool = False) -> Stmt:
        """Store every output; with several, all values are computed before the first is written, unless each
        stands ``alone`` and reads none of the others."""
        if alone or len(tensors) == 1:
            return seq(*[Store(self.buffers[t], v, index) for t, v in zip(tensors, values, strict=True)])
        names = [
            Var(f"{t.op.name}.new{i}", v.dtype, "data")
            for i, (t, v) in enumerate(zip(tensors, values, strict=True))
        ]
        body = seq(*[Store(self.buffers[t], n, index) for t, n in zip(tensors, names, strict=True)])
        for n, v in reversed(list(zip(names, values, strict=True))):
            body = Let(n, v, body)
        return body

    def initialisation(self, stage: StageState, position: int) -> Stmt:
        """The initial values, over copies of the data loops from ``position`` inwards."""
        op = stage.compute
        first = op.body[0]
        assert isinstance(first, Reduce)
        loops = [(p, iv) for p, iv in enumerate(stage.leaves) if p >= position and iv.kind != REDUCE]
        fresh = {iv.var: Var(iv.name, iv.dtype, "loop") for _, iv in loops}
        renamed: dict[Var, Expr] = dict(fresh.items())
        index = tuple(substitute(e, renamed) for e in self.target(stage))
        starts = tuple(substitute(self.value(stage, e), renamed) for e in first.start())
        made, parts = in_parts((*index, *starts))
        out = around(self.store_all(op.outputs, made[: len(index)], made[len(index) :]), parts)
        reduced = {iv.var for iv in stage.leaves if iv.kind == REDUCE}
        for p, iv in reversed(loops):
            # a guard that speaks of a reduction loop does not hold for the initial value, which is written
            # even if nothing is added
            if not any(q == p and variables(g) & reduced for q, g in self.guards[stage.name]):
                out = self.guarded(stage, p, out, renamed)
            out = self.loop(stage, iv, out, fresh[iv.var])
        return out
