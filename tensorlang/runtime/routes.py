"""What a dispatcher may run: kernels, kernels that share rows, the tree that picks among them, and whether
each fits. Knows signatures; runs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.dtype import dtype
from ..entries import public
from ..errors import TensorLangError, counted
from ..interface.signature import Dim, Param, Signature, evaluate, names_in, show
from .module import Module

# compares are written out in machine code: beyond that a table of shapes is faster and a tree takes long to
# compile
MAX_LEAVES = 4096
MAX_DEPTH = 256  # compares one after the other

Shape = tuple[int, ...]
Box = Mapping[str, tuple[int, int | None]]  # inclusive bounds of each dim; None: no upper one
Tree = Any  # a slot, or (dim, most, tree where dim <= most, tree where it is more)


@public(TensorLangError, "Rows")
@dataclass(frozen=True, repr=False)
class Rows:
    """Kernels that share the rows of a dim among them: ``kernels[h]`` takes any multiple of ``h`` rows. A
    call of m rows becomes ceil(m / highest) blocks of nearly equal height, h and h - 1, in two calls. Every
    height from 1 to ``highest`` has a kernel."""

    dim: str
    kernels: Mapping[int, Module]

    def __repr__(self) -> str:
        return f"<rows of {self.dim}: kernels of {', '.join(map(str, sorted(self.kernels)))}>"

    @property
    def highest(self) -> int:
        """The greatest number of rows that a kernel of the table takes."""
        return max(self.kernels)

    @property
    def modules(self) -> tuple[Module, ...]:
        """The kernels of the table in order, that of the fewest rows first."""
        return tuple(self.kernels[h] for h in sorted(self.kernels))


Route = Module | Rows


def check_shape(signature: Signature, shape: Shape) -> None:
    """Raises TensorLangError for sizes that are none of the dispatcher's."""
    if len(shape) != len(signature.dims):
        raise TensorLangError(
            f"{signature.name}: {shape} are {counted(len(shape), 'size')}",
            because=f"its dims are {', '.join(d.name for d in signature.dims)}",
        )
    for d, n in zip(signature.dims, shape, strict=True):
        if n < max(0, d.lo or 0) or (d.hi is not None and n > d.hi) or n % d.multiple_of:
            raise TensorLangError(f"{signature.name}: {d.name}={n} is not a size it takes", because=_range(d))


def check_route(signature: Signature, route: Route, box: Box | None, cut: str | None) -> None:
    """Whether a route takes all sizes of the box, None for one that gets none; ``cut`` is the dim whose rows
    may be cut. Raises TensorLangError."""
    if not isinstance(route, Rows):
        check_module(signature, route, box)
        return
    if sorted(route.kernels) != list(range(1, route.highest + 1)):
        raise TensorLangError(
            f"dispatcher {signature.name}: rows of {route.dim} need a kernel for each height from 1 to "
            f"{route.highest}",
            because=f"there are {sorted(route.kernels)}",
        )
    if route.dim != cut:
        raise TensorLangError(f"dispatcher {signature.name}: rows are cut along {cut}, not {route.dim}")
    for height, module in route.kernels.items():
        check_module(signature, module, box, {route.dim: height})


def check_module(
    mine: Signature, module: Module, box: Box | None, multiples: Mapping[str, int] | None = None
) -> None:
    """Whether a kernel takes the arguments of all sizes in the box (None: of no size, so only their form
    counts); dims in ``multiples`` come as multiples of that, down to none. Raises TensorLangError."""
    its, steps = module.signature, {d.name: d.multiple_of for d in mine.dims}
    where = f"dispatcher {mine.name}: {its.name}"
    if its.checks or its.externs:
        raise TensorLangError(
            f"{where} cannot be dispatched", because="it checks bounds or calls Python while it runs"
        )
    if len(its.params) != len(mine.params):
        raise TensorLangError(f"{where} takes {counted(len(its.params), 'argument')}, not {len(mine.params)}")
    fixed = {d: lo for d, (lo, hi) in (box or {}).items() if lo == hi}
    for d in its.dims:
        if d.name not in steps:
            raise TensorLangError(f"{where} has the dim {d.name}", legal=", ".join(steps))
        if box is None:
            continue
        lo, hi = box[d.name]
        part = (multiples or {}).get(d.name)
        least, step = (0, part) if part is not None else (lo, lo if lo == hi else steps[d.name])
        inside = (d.lo is None or least >= d.lo) and (d.hi is None or (hi is not None and hi <= d.hi))
        if not inside or step % d.multiple_of:
            raise TensorLangError(
                f"{where} does not take all sizes it would be given",
                because=f"{_range(d)}, and it would get {least} to {hi}",
            )
    for p, q in zip(mine.params, its.params, strict=True):
        same = (p.kind, p.dtype, p.output, p.updated, len(p.shape), p.strides) == (
            q.kind,
            q.dtype,
            q.output,
            q.updated,
            len(q.shape),
            q.strides,
        )
        if not same or any(not _same(a, b, fixed) for a, b in zip(p.shape, q.shape, strict=True)):
            raise TensorLangError(
                f"{where} takes other arguments", because=f"{p.name} is {_form(p)} here, {_form(q)} there"
            )


def box_of(signature: Signature, tree: Tree, slot: int) -> Box | None:
    """The smallest box of sizes that holds all for which the tree picks a slot; None when it picks it for
    none."""
    whole = {d.name: (max(0, d.lo or 0), d.hi) for d in signature.dims}
    steps = {d.name: d.multiple_of for d in signature.dims}
    boxes: list[Box] = []

    def visit(node: Tree, box: Box) -> None:
        if isinstance(node, int):
            if node == slot:  # only multiples of a dim's step come
                taken = {
                    d: (-(-lo // steps[d]) * steps[d], None if hi is None else hi // steps[d] * steps[d])
                    for d, (lo, hi) in box.items()
                }
                if all(hi is None or lo <= hi for lo, hi in taken.values()):
                    boxes.append(taken)
            return
        dim, most, low, high = node
        lo, hi = box[dim]
        visit(low, {**box, dim: (lo, most if hi is None else min(hi, most))})
        visit(high, {**box, dim: (max(lo, most + 1), hi)})

    visit(tree, whole)
    if not boxes:
        return None
    return {
        d: (
            min(b[d][0] for b in boxes),
            None if any(b[d][1] is None for b in boxes) else max(b[d][1] or 0 for b in boxes),
        )
        for d in whole
    }


def _form(p: Param) -> str:
    return f"{p.dtype}[{', '.join(map(show, p.shape))}]" if p.kind == "buffer" else p.dtype


def _same(a: Any, b: Any, fixed: Mapping[str, int]) -> bool:
    """Whether two sizes are equal under the fixed dims."""
    if a == b:
        return True
    if all(n in fixed for n in (*names_in(a), *names_in(b))):
        return evaluate(a, fixed) == evaluate(b, fixed)
    return False


def _range(d: Dim) -> str:
    upto = "" if d.hi is None else f" to {d.hi}"
    return f"{d.name} runs from {max(0, d.lo or 0)}{upto}" + (
        f" in steps of {d.multiple_of}" if d.multiple_of > 1 else ""
    )


def narrowed(signature: Signature, ranges: Box) -> Signature:
    """The signature with tighter ranges, and without what belongs to one kernel. Raises TensorLangError."""
    known = {d.name for d in signature.dims}
    for name in ranges:
        if name not in known:
            raise TensorLangError(
                f"dispatcher {signature.name}: it has no dim {name}", legal=", ".join(sorted(known)) or "none"
            )
    if signature.checks or signature.externs:
        raise TensorLangError(
            f"dispatcher: {signature.name} cannot be dispatched",
            because="it checks bounds or calls Python while it runs",
        )
    dims = []
    for d in signature.dims:
        lo, hi = ranges.get(d.name, (d.lo, d.hi))
        lo = max(lo or 0, d.lo or 0)
        dims.append(replace(d, lo=lo, hi=hi if d.hi is None else d.hi if hi is None else min(hi, d.hi)))
    return replace(signature, dims=tuple(dims), constants=())


def checked_tree(tree: Any, dims: Sequence[str], slots: int) -> Any:
    """The tree as tuples. Raises TensorLangError for what is none."""
    leaves = 0

    def visit(node: Any, depth: int = 0) -> Any:
        nonlocal leaves
        if depth > MAX_DEPTH:
            raise TensorLangError(f"dispatcher: the tree is more than {MAX_DEPTH} nodes deep")
        if isinstance(node, int) and not isinstance(node, bool):
            leaves += 1
            if not 0 <= node < slots:
                raise TensorLangError(f"dispatcher: the tree picks slot {node}", legal=f"0 to {slots - 1}")
            return node
        if not (
            isinstance(node, tuple | list)
            and len(node) == 4
            and node[0] in dims
            and type(node[1]) is int
            and abs(node[1]) < 1 << 63
        ):
            raise TensorLangError(
                f"dispatcher: {str(node)[:200]} is not a node of a tree",
                try_='a slot, or ("m", 16, low, high)',
            )
        return (node[0], node[1], visit(node[2], depth + 1), visit(node[3], depth + 1))

    made = visit(tree)
    if leaves > MAX_LEAVES:
        raise TensorLangError(f"dispatcher: the tree has {leaves} leaves", legal=f"at most {MAX_LEAVES}")
    return made


def numbered(tree: Any, places: Mapping[str, int]) -> Any:
    """The tree with the places of dims instead of names."""
    if isinstance(tree, int):
        return tree
    dim, most, low, high = tree
    return (places[dim], most, numbered(low, places), numbered(high, places))


def step_of(p: Param, dim: str | None, places: Mapping[str, int]) -> tuple[int, list[int]] | None:
    """The bytes of one row of a buffer along the dim, as a number and the dims it is multiplied with; None
    when it has no such axis."""
    if dim is None or not any(dim in names_in(n) for n in p.shape):
        return None
    rest = p.shape[1:]
    if (
        p.shape[0] != dim
        or p.strides is not None
        or any(dim in names_in(n) or isinstance(n, tuple) for n in rest)
    ):
        raise TensorLangError(
            f"dispatcher: rows of {dim} cannot be cut in {p.name}",
            because="they are not its first axis, whole and compact",
        )
    number, factors = dtype(p.dtype).bytes, []
    for n in rest:
        if isinstance(n, str):
            factors.append(places[n])
        else:
            number *= n
    return number, factors
