"""The primitives as methods, for type checkers and editors; at run time ``schedule.py`` puts the functions
themselves on the handles. Generated: ``pytest tests/house/test_typing.py --refresh-golden`` writes it anew,
and the same test says when it is old."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, overload

from ..core.dtype import DType
from ..expr.literal import ExprLike
from ..expr.nodes import Var
from ..te.axis import IterVar
from ..te.tensor import Operation, Tensor
from ..te.tensor_intrin import TensorIntrin
from .primitives.fields import Factor
from .schedule import Stage, StageKey

class StageMethods:
    def split(self, parent: IterVar | str, factor: Factor | None=None, nparts: Factor | None=None, tail: str='auto') -> tuple[IterVar, IterVar]:
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
    def fuse(self, *loops: IterVar | str) -> IterVar:
        """Fuse neighbouring loops into one; returns it. Without loops, a new outermost loop of one
        iteration. Loops may be named in any order, as in TVM: the order of iterations stays what it is, and
        ``reorder`` first is what changes it. Raises ScheduleError for loops that are not neighbours, of two
        kinds, or annotated already.

        >>> A = te.placeholder((8, 8), name="A")
        >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
        >>> s = te.create_schedule(B.op)
        >>> i, j = B.op.axis
        >>> both = s[B].fuse(i, j)
        >>> print(s.tree())
        root
        └─ loop B.i.j.fused   0..64
           └─ compute B       reads A
        """
    def reorder(self, *loops: IterVar | str) -> None:
        """Put the named loops into this order, outermost first; the others stay where they are.

        >>> A = te.placeholder((8, 8), name="A")
        >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
        >>> s = te.create_schedule(B.op)
        >>> i, j = B.op.axis
        >>> s[B].reorder(j, i)
        >>> print(s.tree())
        root
        └─ loop B.j          0..8
           └─ loop B.i       0..8
              └─ compute B   reads A
        """
    def vectorize(self, loop: IterVar | str) -> None:
        """Run all iterations of the loop at once, one per vector lane. The extent must be constant.

        >>> A = te.placeholder((8, 8), name="A")
        >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
        >>> s = te.create_schedule(B.op)
        >>> i, j = B.op.axis
        >>> s[B].vectorize(j)
        >>> print(s.tree())
        root
        └─ loop B.i          0..8
           └─ loop B.j       0..8  vectorized
              └─ compute B   reads A
        """
    def unroll(self, loop: IterVar | str) -> None:
        """Write the iterations of the loop out one after the other. The extent must be constant.

        >>> A = te.placeholder((8, 8), name="A")
        >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
        >>> s = te.create_schedule(B.op)
        >>> i, j = B.op.axis
        >>> s[B].unroll(j)
        >>> print(s.tree())
        root
        └─ loop B.i          0..8
           └─ loop B.j       0..8  unrolled
              └─ compute B   reads A
        """
    def parallel(self, loop: IterVar | str) -> None:
        """Share the iterations of the loop out among threads. Not for reduction loops.

        >>> A = te.placeholder((8, 8), name="A")
        >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
        >>> s = te.create_schedule(B.op)
        >>> i, j = B.op.axis
        >>> s[B].parallel(i)
        >>> print(s.tree())
        root
        └─ loop B.i          0..8  parallel
           └─ loop B.j       0..8
              └─ compute B   reads A
        """
    def compute_at(self, parent: Stage, loop: IterVar | str) -> None:
        """Compute this stage inside ``loop`` of ``parent``: as much of it as one iteration of the loop reads.

        Calls come in any order: while a reader that could still be moved there is elsewhere, the stage waits
        at root (``s.pending``). Raises ScheduleError for a place that no later call could make legal.

        >>> A = te.placeholder((8, 8), name="A")
        >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
        >>> C = te.compute((8, 8), lambda i, j: B[i, j] * 2, name="C")
        >>> s = te.create_schedule(C.op)
        >>> s[B].compute_at(s[C], C.op.axis[0])
        >>> print(s.tree())
        root
        └─ loop C.i             0..8
           ├─ storage B         float32[1, 8]  global  32 B
           ├─ loop B.i          0..1
           │  └─ loop B.j       0..8
           │     └─ compute B   reads A
           └─ loop C.j          0..8
              └─ compute C      reads B
        """
    def compute_root(self) -> None:
        """Compute this stage whole, before everything that reads it: undoes ``compute_at``.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> s[y].compute_at(s[z], "i")
        >>> s[y].compute_root()
        >>> s[z].leaf_iter_vars == z.op.axis
        True
        """
    def compute_inline(self) -> None:
        """Write this stage's body into its readers; the stage disappears.

        >>> A = te.placeholder((8, 8), name="A")
        >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
        >>> C = te.compute((8, 8), lambda i, j: B[i, j] * 2, name="C")
        >>> s = te.create_schedule(C.op)
        >>> s[B].compute_inline()
        >>> print(s.tree())
        root
        └─ loop C.i          0..8
           └─ loop C.j       0..8
              └─ compute C   reads A
        """
    def reverse_compute_at(self, parent: Stage, loop: IterVar | str) -> None:
        """Compute this stage inside ``loop`` of ``parent``, a stage it reads element by element.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> s[z].reverse_compute_at(s[y], "i")
        >>> print(s.tree())
        root
        └─ loop z.i             0..8
           ├─ storage y         float32[1, 32]  global  128 B
           ├─ loop y.i          0..1
           │  └─ loop y.j       0..32
           │     └─ compute y   reads x
           └─ loop z.j          0..32
              └─ compute z      reads y
        """
    def reverse_compute_inline(self) -> None:
        """Write this elementwise stage into the stage it reads, whose loops it takes over.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> s[z].reverse_compute_inline()
        >>> print(s.tree())
        root
        └─ loop z.i          0..8
           └─ loop z.j       0..32
              └─ compute z   reads x
        """
    def reorder_reduction(self, *axes: IterVar | str) -> None:
        """Reduce over the axes in this order, the last the fastest: as the elements lie in memory, where they
        were named in another one. Floats are added up in another order, as they are by vectors anyway.

        ``reorder`` changes the loops of a schedule; this changes the declaration that primitives see, as
        ``rfactor`` and recipes do, which take the last axis for that along memory. ``tl.compile`` does so by
        itself. Raises ScheduleError where the axes are not those of the reduction, for reducers of the user's
        own, and where the schedule of the stage is begun.

        >>> A = te.placeholder((8, 4, 16), name="A")
        >>> x, y = te.reduce_axis((0, 4), "x"), te.reduce_axis((0, 16), "y")
        >>> B = te.compute((8,), lambda i: te.sum(A[i, x, y], axis=[y, x]), name="B")
        >>> s = te.create_schedule(B.op)
        >>> s[B].reorder_reduction(x, y)
        >>> print(s.tree())
        root
        └─ loop B.i          0..8
           └─ loop B.x       0..4    reduce
              └─ loop B.y    0..16   reduce
                 └─ compute B   reads A
        """
    def set_scope(self, scope: str) -> None:
        """Keep the results of this stage in ``"local"`` or ``"global"`` memory.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> s[y].set_scope("local")
        >>> print(s.tree())
        root
        ├─ storage y         float32[8, 32]  local  1 KiB
        ├─ loop y.i          0..8
        │  └─ loop y.j       0..32
        │     └─ compute y   reads x
        └─ loop z.i          0..8
           └─ loop z.j       0..32
              └─ compute z   reads y
        """
    def store_at(self, parent: Stage, loop: IterVar | str) -> None:
        """Make this stage's memory at ``loop`` of ``parent``, further out than the loop it is computed at.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> s[y].compute_at(s[z], "j")
        >>> s[y].store_at(s[z], "i")
        >>> print(s.tree())
        root
        └─ loop z.i                0..8
           ├─ storage y            float32[1, 1]  global  4 B  ring of 1
           └─ loop z.j             0..32
              ├─ loop y.i          0..1
              │  └─ loop y.j       0..1
              │     └─ compute y   reads x
              └─ compute z         reads y
        """
    def storage_align(self, axis: IterVar | str, factor: int, offset: int=0) -> None:
        """Pad this stage's memory so that the stride of data axis ``axis`` is a multiple of ``factor``
        elements, plus ``offset``.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> s[y].storage_align("i", factor=16, offset=8)
        >>> print(tl.lower(s, [x, z], simple=True))
        def main(x: float32[8, 32], z: float32[8, 32] out):
            y: float32[8, 32] strides [40, 1] global
            for i in range(0, 8):
                for j in range(0, 32):
                    y[i, j] = x[i, j] * 2.0
            for i_1 in range(0, 8):
                for j_1 in range(0, 32):
                    z[i_1, j_1] = y[i_1, j_1] + 1.0
        """
    def transform_layout(self, index_map: Callable[..., ExprLike | Sequence[ExprLike]], pad_value: float | str | None=None) -> tuple[IterVar, ...]:
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
    def tensorize(self, loop: IterVar | str, intrin: TensorIntrin) -> None:
        """Replace ``loop`` and everything inside it by the calls of ``intrin`` (from
        ``te.decl_tensor_intrin``). Raises ScheduleError where they compute something else.

        >>> def add(n):
        ...     a = te.placeholder((n,), name="a")
        ...     c = te.compute((n,), lambda i: a[i] + 1, name="c")
        ...     def code(ins, outs):
        ...         return te.call_extern("int32", "add_one", outs[0].access_ptr("w"), ins[0].access_ptr("r"))
        ...     return te.decl_tensor_intrin(c.op, code, name="add_one")
        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] + 1, name="y")
        >>> s = te.create_schedule(y)
        >>> s[y].tensorize("j", add(32))
        >>> print(tl.lower(s, [x, y], simple=True))
        def main(x: float32[8, 32], y: float32[8, 32] out):
            for i in range(0, 8):
                call_extern('add_one', &y[i, 0] (32 by 1), &x[i, 0] (32 by 1))
        """
    def decompose_reduction(self, loop: IterVar | str) -> None:
        """Write the initial values of this reduction before ``loop``, in loops of their own.

        >>> x = te.placeholder((8, 32), name="x")
        >>> k = te.reduce_axis((0, 32), name="k")
        >>> y = te.compute((8,), lambda i: te.sum(x[i, k], axis=k), name="y")
        >>> s = te.create_schedule(y)
        >>> s[y].decompose_reduction("k")
        >>> print(tl.lower(s, [x, y], simple=True))
        def main(x: float32[8, 32], y: float32[8] out):
            for i in range(0, 8):
                y[i] = 0.0
                for k in range(0, 32):
                    y[i] = y[i] + x[i, k]
        """
    def pragma(self, loop: IterVar | str, pragma_type: str, pragma_value: int | None=None) -> None:
        """Note ``pragma_type`` on a loop: ``auto_unroll_max_step`` (a number of steps), ``whole_vectors``
        (elements of a vector), ``stream_stores``, ``matrix_tiles``, ``until_known``, ``join_next`` or
        ``unroll_explicit``.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> s[z].pragma("i", "auto_unroll_max_step", 16)
        >>> print(s.trace)
          1  pragma(z, i, pragma=auto_unroll_max_step, value=16)
        """
    def prefetch(self, tensor: StageKey, loop: IterVar | str, offset: int=1, share: bool=False, level: int=1, outer: IterVar | str | None=None) -> None:
        """Ask for what this stage reads of ``tensor``, or writes where that is its own or of the same shape
        and this stage is computed in its loops, ``offset`` iterations of ``loop`` ahead. ``level=2`` brings
        it no nearer than the second cache: what streams from memory
        would come to the first one too early, or too late. ``outer`` counts the iterations of another loop,
        around ``loop``: each iteration of this one asks for what it will read then.

        ``share=True`` is for a stage computed inside loops of which some read the same elements again, as
        each tile of rows reads a block of a product's right operand: each iteration of ``loop`` asks for a
        share of the block ``offset`` after it. Without such loops, and where a block is not known to be one
        run of memory, it does nothing.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> s[y].prefetch(x, "i", 2)
        >>> print(s.trace)
          1  prefetch(y, x, i, offset=2)
        """
    def double_buffer(self) -> None:
        """Compute this stage one iteration of its loop ahead, into the other of two copies of its memory.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> s[y].compute_at(s[z], "i")
        >>> s[y].double_buffer()
        >>> print(s.tree())
        root
        └─ loop z.i             0..8
           ├─ storage y         float32[1, 32]  global  128 B  double
           ├─ loop y.i          0..1
           │  └─ loop y.j       0..32
           │     └─ compute y   reads x
           └─ loop z.j          0..32
              └─ compute z      reads y
        """
    def unroll_and_jam(self, loop: IterVar | str, factor: Factor) -> tuple[IterVar, IterVar]:
        """Run ``factor`` iterations of ``loop`` together: split, the inner half moved inside the loops that
        it encloses and unrolled there (vectorized and unrolled loops that are innermost stay inside). Returns
        (outer, inner).

        Raises ScheduleError where the loop cannot be split, or where the factor is known only at the call.

        >>> x = te.placeholder((8, 32), name="x")
        >>> k = te.reduce_axis((0, 32), name="k")
        >>> y = te.compute((8,), lambda i: te.sum(x[i, k], axis=k), name="y")
        >>> s = te.create_schedule(y)
        >>> _ = s[y].unroll_and_jam("i", 4)
        >>> print(s.tree())
        root
        └─ loop y.i.outer         0..2
           └─ loop y.k            0..32  reduce
              └─ loop y.i.inner   0..4  unrolled
                 └─ compute y     reads x
        """

class ScheduleMethods:
    def cache_read(self, tensor: StageKey, scope: str, readers: StageKey | Sequence[StageKey], dtype: str | DType='') -> Tensor:
        """Let ``readers`` (tensors or operations) read a copy of ``tensor`` in a buffer of its own; returns
        the copy.

        ``dtype`` is the type of the copy, one that holds every value of ``tensor`` exactly (int16 for int8);
        its own when left out.

        >>> A = te.placeholder((8, 8), name="A")
        >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
        >>> s = te.create_schedule(B.op)
        >>> copy = s.cache_read(A, "local", [B])
        >>> print(s.tree())
        root
        ├─ storage A.local         float32[8, 8]  local  256 B
        ├─ loop A.local.ax0        0..8
        │  └─ loop A.local.ax1     0..8
        │     └─ compute A.local   reads A
        └─ loop B.i                0..8
           └─ loop B.j             0..8
              └─ compute B         reads A.local
        """
    @overload
    def cache_write(self, tensor: Tensor | Operation | str, scope: str='local') -> Tensor:
        """Compute ``tensor`` in a buffer of its own (``tensor.local``) and copy it from there; returns that
        tensor. Raises ScheduleError for outputs of several computes.

        >>> A = te.placeholder((8, 8), name="A")
        >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
        >>> s = te.create_schedule(B.op)
        >>> acc = s.cache_write(B, "local")
        >>> print(s.tree())
        root
        ├─ storage B.local         float32[8, 8]  local  256 B
        ├─ loop B.local.i          0..8
        │  └─ loop B.local.j       0..8
        │     └─ compute B.local   reads A
        └─ loop B.i                0..8
           └─ loop B.j             0..8
              └─ compute B         reads B.local
        """
    @overload
    def cache_write(self, tensor: Sequence[Tensor], scope: str='local') -> tuple[Tensor, ...]:
        """Compute ``tensor`` in a buffer of its own (``tensor.local``) and copy it from there; returns that
        tensor. Raises ScheduleError for outputs of several computes.

        >>> A = te.placeholder((8, 8), name="A")
        >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
        >>> s = te.create_schedule(B.op)
        >>> acc = s.cache_write(B, "local")
        >>> print(s.tree())
        root
        ├─ storage B.local         float32[8, 8]  local  256 B
        ├─ loop B.local.i          0..8
        │  └─ loop B.local.j       0..8
        │     └─ compute B.local   reads A
        └─ loop B.i                0..8
           └─ loop B.j             0..8
              └─ compute B         reads B.local
        """
    @overload
    def rfactor(self, tensor: Tensor | Operation | str, axis: IterVar | str, factor_axis: int=0) -> Tensor:
        """Turn the reduction loop ``axis`` of ``tensor`` into an axis of partial results; returns their
        tensor (``tensor.rf``), or a tuple of tensors. The data axes of the partial results are those of
        ``tensor`` with the new one at ``factor_axis``. After Suriana, Adams and Kamil, "Parallel
        Associative Reductions in Halide", CGO 2017, section 4.

        >>> A, k = te.placeholder((64,), name="A"), te.reduce_axis((0, 64), name="k")
        >>> B = te.compute((1,), lambda i: te.sum(A[k], axis=k), name="B")
        >>> s = te.create_schedule(B.op)
        >>> ko, ki = s[B].split(k, factor=16)
        >>> part = s.rfactor(B, ki)
        >>> print(s.tree())
        root
        ├─ storage B.rf              float32[16, 1]  global  64 B
        ├─ loop B.rf.k.inner         0..16
        │  └─ loop B.rf.i            0..1
        │     └─ loop B.rf.k.outer   0..4  reduce
        │        └─ compute B.rf     reads A
        └─ loop B.i                  0..1
           └─ loop B.k.inner.v       0..16  reduce
              └─ compute B           reads B.rf
        """
    @overload
    def rfactor(self, tensor: tuple[Tensor, ...], axis: IterVar | str, factor_axis: int=0) -> tuple[Tensor, ...]:
        """Turn the reduction loop ``axis`` of ``tensor`` into an axis of partial results; returns their
        tensor (``tensor.rf``), or a tuple of tensors. The data axes of the partial results are those of
        ``tensor`` with the new one at ``factor_axis``. After Suriana, Adams and Kamil, "Parallel
        Associative Reductions in Halide", CGO 2017, section 4.

        >>> A, k = te.placeholder((64,), name="A"), te.reduce_axis((0, 64), name="k")
        >>> B = te.compute((1,), lambda i: te.sum(A[k], axis=k), name="B")
        >>> s = te.create_schedule(B.op)
        >>> ko, ki = s[B].split(k, factor=16)
        >>> part = s.rfactor(B, ki)
        >>> print(s.tree())
        root
        ├─ storage B.rf              float32[16, 1]  global  64 B
        ├─ loop B.rf.k.inner         0..16
        │  └─ loop B.rf.i            0..1
        │     └─ loop B.rf.k.outer   0..4  reduce
        │        └─ compute B.rf     reads A
        └─ loop B.i                  0..1
           └─ loop B.k.inner.v       0..16  reduce
              └─ compute B           reads B.rf
        """
    def separate(self, tensor: Tensor | Operation | str, axis: IterVar | str) -> Tensor:
        """Reduce windows in two passes: ``tensor`` along all its reduction axes but ``axis`` for each element
        that a window reaches along that, then along ``axis``; returns the tensor of the partial results,
        ``tensor.part``, as wide as the windows reach.

        ``axis`` moves one index of what is reduced, together with one axis of the result, as the columns of a
        pool do; its own extent is known. A sum of floats is added up in another order, which rounds
        otherwise. Raises ScheduleError for other reductions, and where the schedule of ``tensor`` is begun.

        >>> A = te.placeholder((9, 9), name="A")
        >>> i, j = te.reduce_axis((0, 3), name="i"), te.reduce_axis((0, 3), name="j")
        >>> B = te.compute((4, 4), lambda y, x: te.max(A[2 * y + i, 2 * x + j], axis=[i, j]), name="B")
        >>> s = te.create_schedule(B.op)
        >>> s.separate(B, j)
        Tensor(B.part: float32[4, 9])
        """
    def precompute(self, tensor: Tensor | Operation | str, axes: Sequence[IterVar | str] | IterVar | str) -> Tensor:
        """Compute what of the formula of ``tensor`` depends on ``axes`` alone in a stage before it, with
        these axes, and read it there: its largest such term that reads no axis else, has an operation and
        stands behind no condition; returns the tensor of the term, ``tensor.term``. Each call takes one term.

        It pays where a term is dear and other axes would compute it again: a window's cosines for each frame,
        the root of a variance for each pixel. ``tl.compile`` does so by itself. A term is rounded, which a
        fused multiply-add around it would not have done; results are else the same. Raises ScheduleError
        where no term depends on these axes alone, and where the schedule of ``tensor`` is begun.

        >>> A, W = te.placeholder((64, 256), name="A"), te.placeholder((256,), name="W")
        >>> B = te.compute((64, 256), lambda i, j: A[i, j] * te.exp(W[j]), name="B")
        >>> s = te.create_schedule(B.op)
        >>> s.precompute(B, [B.op.axis[1]])
        Tensor(B.term: float32[256])
        """
    def cache_windows(self, tensor: Tensor | Operation | str) -> Tensor:
        """Compute what the windows of ``tensor`` read in a stage before it, and read that at sums of axes:
        the image of a convolution with its margin of zeros, where the formula asks about the edges for each
        tap; a tensor at places that are no sums, as ``(i + k) % n`` and ``abs(i + k - 3)`` are. Returns the
        tensor of that stage, ``tensor.window``, as wide as the windows reach. Each call takes one tensor.

        It pays where windows overlap, and ``tl.compile`` does so by itself. Results are the same, bit for
        bit. Raises ScheduleError for other reductions, where nothing would be read twice, and where the
        schedule of ``tensor`` is begun.

        >>> A, W = te.placeholder((32,), name="A"), te.placeholder((5,), name="W")
        >>> k = te.reduce_axis((0, 5), name="k")
        >>> C = te.compute((32,), lambda i: te.sum(A[(i + k) % 32] * W[k], axis=k), name="C")
        >>> s = te.create_schedule(C.op)
        >>> s.cache_windows(C)
        Tensor(C.window: float32[36])
        """
    def split_sum(self, tensor: Tensor | Operation | str) -> Tensor:
        """Compute the terms of ``tensor``, a sum of integers, each over the axes that it depends on: of a
        product less zero points, ``sum((A[i, k] - p) * (B[k, j] - q[j]))``, the sum of ``A[i, k] * B[k, j]``,
        those of ``A`` for each i and of ``B`` for each j. Returns the tensor of the largest term's sums,
        ``tensor.products``. Results are the same, to the last bit, for integers wrap around.

        It pays where the largest term is a product of 8- or 16-bit integers, which processors sum in fours
        and pairs; ``tl.compile`` does so by itself. Raises ScheduleError for other sums, and where the
        schedule of ``tensor`` is begun.

        >>> A, B = te.placeholder((8, 16), "uint8", "A"), te.placeholder((16, 32), "int8", "B")
        >>> k = te.reduce_axis((0, 16), name="k")
        >>> at = lambda i, j: (A[i, k].astype("int32") - 3) * B[k, j].astype("int32")
        >>> C = te.compute((8, 32), lambda i, j: te.sum(at(i, j), axis=k), "C")
        >>> s = te.create_schedule(C.op)
        >>> s.split_sum(C)
        Tensor(C.products: int32[8, 32])
        """
    def split_choice(self, tensor: Tensor | Operation | tuple[Tensor, ...] | str) -> Tensor:
        """Find what ``tensor`` chooses in two reductions that vectors know: it reduces tuples with a reducer
        that compares one part of two and gives the one or the other, as argmax does. The extreme of that
        part is ``tensor.extreme``, the place of the first element that is it (the last, if the reducer takes
        the later of equals) ``tensor.place``, which is returned; ``tensor`` reads its sources there.
        Results are the same, to the last bit: rows with a NaN, and those where nothing is better than what
        the reducer begins with, are reduced as they were declared.

        It pays where the elements lie along memory; ``tl.compile`` does so by itself. What is compared is an
        element that is read, and the reduction is over one axis. Raises ScheduleError for others, and where
        the schedule of ``tensor`` is begun.

        >>> x = te.placeholder((8, 100), name="x")
        >>> pick = lambda a, b: tuple(te.select(a[1] >= b[1], p, q) for p, q in zip(a, b))
        >>> argmax = te.comm_reducer(pick, lambda t, u: (te.const(-1, t), te.min_value(u)), name="argmax")
        >>> k = te.reduce_axis((0, 100), name="k")
        >>> I, V = te.compute((8,), lambda i: argmax((k.var, x[i, k]), axis=k), name="I")
        >>> s = te.create_schedule(I.op)
        >>> s.split_choice(I)
        Tensor(I.place: int32[8])
        """
    def turn_sign(self, tensor: Tensor | Operation | str, operand: Tensor | Operation | str) -> Tensor:
        """Compute ``tensor``, an int32 sum of products of two tensors that are both int8 or both uint8, with
        ``operand`` in the other of these types: 128 is added to (taken away from) its elements, and 128 times
        sums of the other operand is taken away from (added to) the result. Returns the tensor of the
        products, ``tensor.products``. Results are the same, to the last bit.

        It pays where a processor sums products of uint8 and int8 in fours, as x86 with VNNI does, and those
        of one sign in pairs of 16 bits; ``tl.compile`` does so by itself. Each term of the sum reads another
        element of the other operand, as of the weight of a convolution. Raises ScheduleError for other sums,
        and where the schedule of ``tensor`` is begun.

        >>> A, B = te.placeholder((8, 16), "int8", "A"), te.placeholder((16, 32), "int8", "B")
        >>> k = te.reduce_axis((0, 16), name="k")
        >>> C = te.compute(
        ...     (8, 32), lambda i, j: te.sum(A[i, k].astype("int32") * B[k, j].astype("int32"), axis=k), "C"
        ... )
        >>> s = te.create_schedule(C.op)
        >>> s.turn_sign(C, A)
        Tensor(C.products: int32[8, 32])
        """
    def winograd(self, tensor: Tensor | Operation | str, tile: int=4) -> Tensor:
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
    @overload
    def sample_tile(self, loop: IterVar, parts: Literal[1]=1, *, max_factor: int=64, candidates: Iterable[int] | None=None, values: int | Sequence[int] | None=None, name: str | None=None, role: str='tile') -> Var:
        """Tile sizes of ``loop`` as a decision: one knob, or a tuple of ``parts`` knobs, to be passed to
        split as factor.

        ``values`` hold until a search decides. Every size is an integer from 1 to ``max_factor``, or one of
        ``candidates``.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> rows = s.sample_tile(z.op.axis[0], values=4, name="rows")
        >>> outer, inner = s[z].split("i", factor=rows)
        >>> print(s.tree())
        root
        ├─ storage y            float32[8, 32]  global  1 KiB
        ├─ loop y.i             0..8
        │  └─ loop y.j          0..32
        │     └─ compute y      reads x
        └─ loop z.i.outer       0..2  (7 // rows.0 + 1)
           └─ loop z.i.inner    0..4  (rows.0)
              └─ loop z.j       0..32
                 └─ compute z   reads y
        """
    @overload
    def sample_tile(self, loop: IterVar, parts: Literal[2, 3, 4, 5, 6, 7, 8], *, max_factor: int=64, candidates: Iterable[int] | None=None, values: Sequence[int] | None=None, name: str | None=None, role: str='tile') -> tuple[Var, ...]:
        """Tile sizes of ``loop`` as a decision: one knob, or a tuple of ``parts`` knobs, to be passed to
        split as factor.

        ``values`` hold until a search decides. Every size is an integer from 1 to ``max_factor``, or one of
        ``candidates``.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> rows = s.sample_tile(z.op.axis[0], values=4, name="rows")
        >>> outer, inner = s[z].split("i", factor=rows)
        >>> print(s.tree())
        root
        ├─ storage y            float32[8, 32]  global  1 KiB
        ├─ loop y.i             0..8
        │  └─ loop y.j          0..32
        │     └─ compute y      reads x
        └─ loop z.i.outer       0..2  (7 // rows.0 + 1)
           └─ loop z.i.inner    0..4  (rows.0)
              └─ loop z.j       0..32
                 └─ compute z   reads y
        """
    @overload
    def sample_tile(self, loop: IterVar, parts: int, *, max_factor: int=64, candidates: Iterable[int] | None=None, values: int | Sequence[int] | None=None, name: str | None=None, role: str='tile') -> Var | tuple[Var, ...]:
        """Tile sizes of ``loop`` as a decision: one knob, or a tuple of ``parts`` knobs, to be passed to
        split as factor.

        ``values`` hold until a search decides. Every size is an integer from 1 to ``max_factor``, or one of
        ``candidates``.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> rows = s.sample_tile(z.op.axis[0], values=4, name="rows")
        >>> outer, inner = s[z].split("i", factor=rows)
        >>> print(s.tree())
        root
        ├─ storage y            float32[8, 32]  global  1 KiB
        ├─ loop y.i             0..8
        │  └─ loop y.j          0..32
        │     └─ compute y      reads x
        └─ loop z.i.outer       0..2  (7 // rows.0 + 1)
           └─ loop z.i.inner    0..4  (rows.0)
              └─ loop z.j       0..32
                 └─ compute z   reads y
        """
    def sample_categorical(self, candidates: Sequence[int], *, name: str | None=None, value: int | None=None, role: str='categorical') -> Var:
        """One of ``candidates`` as a knob, to be passed where a primitive takes a number. ``value`` (else the
        first candidate) holds until a search decides.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> wide = s.sample_categorical([8, 16], value=16, name="wide")
        >>> outer, inner = s[z].split("j", factor=wide)
        >>> s.decisions
        {'wide': (16,)}
        """
    def sample_location(self, tensor: StageKey, *, value: int | None=None, name: str | None=None) -> int:
        """Compute ``tensor`` at one of its legal places: 0 is root (the loop of the scan it is part of), n
        the n-th of ``s.legal_places(tensor)``, of which those inside vector loops are left out.

        Returns the number.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> place = s.sample_location(y, value=1)
        >>> print(s.tree())
        root
        └─ loop z.i             0..8
           ├─ storage y         float32[1, 32]  global  128 B
           ├─ loop y.i          0..1
           │  └─ loop y.j       0..32
           │     └─ compute y   reads x
           └─ loop z.j          0..32
              └─ compute z      reads y
        """
