"""Recurrent layers: rnn, gru and lstm, one or both directions (``te.scan``). Knows activations of elements
and how numbers are rounded to few bits; no other operator.

x is [T, B, I], time first. The product of x with the input weights is one stage for all times; a step of the
recurrence is the product of the last state with the recurrent weights and the gates. The weights of D
directions stand together, W [D, G H, I] and R [D, G H, H], where G gates of H rows each follow in the order
``gates``: ONNX's when left out, ``"ifco"`` and ``"rzh"`` are torch's. A bias b is [D, 2 G H]: the input's,
then the recurrent one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import te
from ..core.dtype import DType
from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Expr
from ..te import Tensor
from . import inputs, tags
from .cells import Activation, activation_of
from .places import kept_within
from .quantize import scale_of_range, zero_of_range
from .take import indices_of, signed

__all__ = ["gru", "lstm", "rnn"]

DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


@dataclass(frozen=True, slots=True)
class Layer:
    """The checked arguments that the three have in common, and what they compute in."""

    op: str
    x: Tensor
    w: Tensor
    r: Tensor
    b: Tensor | None
    lengths: Tensor | None
    reverse: tuple[bool, ...]
    functions: tuple[Activation, ...]
    clip: float | None
    order: str  # the gates, in the order of the weights
    inside: DType

    @property
    def size(self) -> Expr:
        """H, the elements of a state."""
        return self.r.shape[2]

    def row(self, gate: str, j: Any) -> Expr:
        """The row of the weights of that gate's element ``j``."""
        return make.add(make.mul(self.size, self.order.index(gate)), j)

    def bias(self, d: int, gate: str, j: Any, recurrent: bool | None = None) -> Expr:
        """The bias of a gate: of the input, of the state, or (None) both added."""
        if self.b is None:
            return make.const(0.0, self.inside)
        # ONNX's layout: the biases of the input for all gates, then those of the state
        of_state = make.add(make.mul(self.size, len(self.order)), self.row(gate, j))
        given = te.cast(self.inside, self.b(d, self.row(gate, j)))
        more = te.cast(self.inside, self.b(d, of_state))
        return given + more if recurrent is None else more if recurrent else given

    def place(self, d: int, step: Expr, n: Any) -> Expr:
        """Which element of x a step of a direction reads, and by which step an element is read: the way back
        begins at the end of a sequence."""
        times = self.x.shape[0]
        if not self.reverse[d]:
            return step
        if self.lengths is None:
            return make.sub(make.sub(times, 1), step)
        # backwards a sequence begins at its own end, not at that of the longest one; behind its length the
        # place is some place that ``alive`` leaves out
        return kept_within(signed(self.lengths(n)) - 1 - step, times)

    def clipped(self, e: Expr) -> Expr:
        """The argument of an activation, kept within the clip."""
        if self.clip is None:
            return e
        return make.max_(make.min_(e, make.const(self.clip, e.dtype)), make.const(-self.clip, e.dtype))

    def function(self, d: int, k: int, *, clips: bool = True) -> Callable[[Expr], Expr]:
        """Activation ``k`` of a direction, after the clip of a gate; a cell is not clipped (nor is it by
        onnxruntime, where ONNX's words leave it open)."""
        f = self.functions[d * (len(self.functions) // len(self.reverse)) + k]
        return (lambda e: f(self.clipped(e))) if clips else f


def _layer(
    op: str,
    order: str,
    default: Sequence[str],
    x: Any,
    w: Any,
    r: Any,
    b: Any,
    lengths: Any,
    direction: str,
    activations: Any,
    alpha: Any,
    beta: Any,
    clip: Any,
    gates: str | None,
) -> Layer:
    x, w, r = inputs.floating(op, x), inputs.floating(op, w, "w"), inputs.floating(op, r, "r")
    if direction not in DIRECTIONS:
        raise DeclareError(f"ops.{op}: direction={direction!r}", legal=", ".join(map(repr, DIRECTIONS)))
    gates = order if gates is None else gates
    # torch and Keras have the same gates in other orders: weights are read by a letter and never copied
    if sorted(gates) != sorted(order):
        raise DeclareError(f"ops.{op}: gates={gates!r}", legal=f"the letters {', '.join(order)} in any order")
    reverse = DIRECTIONS[direction]
    b, lengths = _fitting(op, len(order), x, w, r, b, lengths, direction)
    # each direction has functions of its own
    functions = activation_of(op, activations, [*default] * len(reverse), alpha, beta)
    limit = None if clip is None else inputs.number(op, "clip", clip)
    return Layer(op, x, w, r, b, lengths, reverse, functions, limit, gates, inputs.wide(x.dtype))


def _fitting(
    op: str, gates: int, x: Tensor, w: Tensor, r: Tensor, b: Any, lengths: Any, direction: str
) -> tuple[Tensor | None, Tensor | None]:
    """The bias and the lengths of sequences. Raises DeclareError where the operands of a layer with so many
    gates do not fit each other."""
    for t, what in ((x, "[T, B, I]"), (w, f"[D, {gates} H, I]"), (r, f"[D, {gates} H, H]")):
        if t.ndim != 3:
            raise DeclareError(
                f"ops.{op}: {inputs.named(t)} has {t.ndim} dimension(s), 3 are needed",
                because=f"it is {what}",
            )
    rows = make.mul(r.shape[2], gates)
    wanted: dict[str, tuple[Any, Any]] = {
        f"the number of directions of w {w.name}": (w.shape[0], len(DIRECTIONS[direction])),
        f"the number of directions of r {r.name}": (r.shape[0], len(DIRECTIONS[direction])),
        f"the number of rows of r {r.name}": (r.shape[1], rows),
        f"the number of rows of w {w.name}": (w.shape[1], rows),
        f"the number of inputs of w {w.name}": (w.shape[2], x.shape[2]),
    }
    if b is not None:
        b = inputs.floating(op, b, "b")
        if b.ndim != 2:
            raise DeclareError(f"ops.{op}: b {inputs.named(b)}", because=f"it is [D, {2 * gates} H]")
        wanted[f"the number of rows of b {b.name}"] = (b.shape[1], make.mul(rows, 2))
    if lengths is not None:
        lengths = indices_of(op, lengths, "sequence_lens")
        if lengths.ndim != 1:
            raise DeclareError(
                f"ops.{op}: sequence_lens {inputs.named(lengths)}", because="there is one a sequence"
            )
        wanted[f"the size of sequence_lens {lengths.name}"] = (lengths.shape[0], x.shape[1])
    because = (
        f"direction={direction!r}, x is {inputs.named(x)}, r {inputs.text(r.shape)} has H = {r.shape[2]}"
    )
    for what, (have, need) in wanted.items():
        inputs.same_size(op, what, have, need, because)
    return b, lengths


def _first(layer: Layer, what: str, given: Any) -> Tensor | None:
    """The state before the first time, [D, B, H], or None for zeros."""
    if given is None:
        return None
    t = inputs.floating(layer.op, given, what)
    need = (make.as_expr(len(layer.reverse)), layer.x.shape[1], layer.size)
    if t.ndim != 3:
        raise DeclareError(f"ops.{layer.op}: {what} {inputs.named(t)}, {inputs.text(need)} is needed")
    for k, (have, want) in enumerate(zip(t.shape, need, strict=True)):
        inputs.same_size(layer.op, f"dimension {k} of {what} {t.name}", have, want, "it is [D, B, H]")
    return t


class Step:
    """One direction of a layer: the stages of its recurrence. Row ``t`` of a state is after ``t`` times."""

    def __init__(self, layer: Layer, d: int, firsts: dict[str, Tensor | None]) -> None:
        self.layer, self.d = layer, d
        x = layer.x
        self.name = (
            layer.op if len(layer.reverse) == 1 else f"{layer.op}.{'back' if layer.reverse[d] else 'on'}"
        )
        # one row more than times: the first is the state before
        rows = make.add(x.shape[0], 1)
        self.shape = (rows, x.shape[1], layer.size)
        self.state = {
            s: te.placeholder(self.shape, layer.inside, name=f"{self.name}.{s}_state") for s in firsts
        }
        self.init = {s: self._started(s, first) for s, first in firsts.items()}
        self.given = self.of_input()

    def lines(self, x: Tensor) -> Tensor:
        """All times of all sequences as the rows of one product, for a product of each time has few."""
        return inputs.stage(
            f"{self.name}.lines",
            tags.LINES,
            (make.mul(x.shape[0], x.shape[1]), x.shape[2]),
            lambda m, i: x(make.floordiv(m, x.shape[1]), make.floormod(m, x.shape[1]), i),
        )

    def of_input(self) -> Tensor:
        """The product of x with the input weights."""
        layer, lines = self.layer, self.lines(self.layer.x)
        i = te.reduce_axis((0, layer.x.shape[2]), "i")
        return te.compute(
            (lines.shape[0], layer.w.shape[1]),
            lambda m, g: te.sum(
                te.cast(layer.inside, lines(m, i)) * te.cast(layer.inside, layer.w(self.d, g, i)), axis=i
            ),
            name=f"{self.name}.input",
            tag=tags.DENSE,
        )

    def _started(self, s: str, first: Tensor | None) -> Tensor:
        shape = (1, *self.shape[1:])
        zero = make.const(0.0, self.layer.inside)
        return inputs.stage(
            f"{self.name}.{s}_first",
            tags.ELEMENTWISE,
            shape,
            lambda _, n, j: zero if first is None else te.cast(self.layer.inside, first(self.d, n, j)),
        )

    def alive(self, t: Any, n: Any, e: Expr, else_: Expr) -> Expr:
        """``e`` within the sequence, else the other one."""
        if self.layer.lengths is None:
            return e
        # row t is after t times
        return te.select(make.as_expr(t) <= signed(self.layer.lengths(n)), e, else_)

    def read(self, gate: str, t: Any, n: Any, j: Any) -> Expr:
        """What the input brings to a gate."""
        time = self.layer.place(self.d, make.sub(make.as_expr(t), 1), n)
        line = make.add(make.mul(time, self.layer.x.shape[1]), n)
        return self.given(line, self.layer.row(gate, j))

    def range_of(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """Scale and zero point, as floats [T], by which ``dynamic_quantize_linear`` rounds the state before a
        time, that of all sequences."""

        def end(what: str, fold: Callable[..., Expr]) -> Tensor:
            n, k = te.reduce_axis((0, self.shape[1]), "n"), te.reduce_axis((0, self.shape[2]), "k")
            return te.compute(
                (self.shape[0],), lambda t: fold(s(t - 1, n, k), axis=[n, k]), name=f"{self.name}.{what}"
            )

        def number(what: str, f: Callable[[Any], Expr]) -> Tensor:
            return inputs.stage(f"{self.name}.{what}", tags.ELEMENTWISE, (self.shape[0],), f)

        # one range for the states of all sequences, as ONNX quantises a whole tensor
        least, most = end("least", te.min), end("most", te.max)
        scale = number("scale", lambda t: scale_of_range(least(t), most(t)))
        return scale, number("zero", lambda t: zero_of_range(least(t), scale(t)))

    def stored(self, s: Tensor, scale: Tensor, zero: Tensor, t: Any, n: Any, k: Any) -> Expr:
        """The state before a time in steps of that range, as a float from 0 to 255."""
        top = make.const(255.0, self.layer.inside)
        whole = te.nearbyint(s(t - 1, n, k) / scale(t)) + zero(t)
        return make.max_(make.min_(whole, top), make.const(0.0, top.dtype))

    def rounded(self, s: Tensor) -> Callable[[Any, Any, Any], Expr]:
        """A state as ``dynamic_quantize_linear`` rounds that of all sequences, step by step."""
        scale, zero = self.range_of(s)
        return self.stage(
            "rounded", lambda t, n, k: (self.stored(s, scale, zero, t, n, k) - zero(t)) * scale(t)
        )

    def product(self, name: str, gates: str, value: Callable[[Any, Any, Any], Expr]) -> Tensor:
        """``value [T, B, H]`` of a step times the recurrent weights of some gates that stand together."""
        layer, k = self.layer, te.reduce_axis((0, self.layer.size), "k")
        begin = layer.row(gates[0], 0)
        return te.compute(
            (self.shape[0], self.shape[1], make.mul(layer.size, len(gates))),
            lambda t, n, g: te.sum(
                value(t, n, k) * te.cast(layer.inside, layer.r(self.d, make.add(begin, g), k)), axis=k
            ),
            name=f"{self.name}.{name}",
            tag=tags.DENSE,
        )

    def stage(self, name: str, f: Callable[..., Expr]) -> Tensor:
        """Elements [T, B, H] of a step."""
        return inputs.stage(f"{self.name}.{name}", tags.ELEMENTWISE, self.shape, f)

    def scanned(self, updates: dict[str, Tensor]) -> dict[str, Tensor]:
        """The states after every step."""
        names = list(updates)
        results = te.scan(
            [self.init[s] for s in names],
            [updates[s] for s in names],
            [self.state[s] for s in names],
            name=f"{self.name}.scan",
            tag=tags.SCAN,
        )
        return dict(zip(names, results, strict=True))


def _results(layer: Layer, states: Sequence[dict[str, Tensor]]) -> list[Tensor]:
    """The states after each time, [T, D, B, H], and each after the last, [D, B, H]."""
    x, op, zero = layer.x, layer.op, make.const(0.0, layer.inside)
    times = x.shape[0]

    def of(d: int, t: Any, n: Any, j: Any) -> Expr:
        step = make.as_expr(t)
        # the way back is its own inverse: the step that read time t is found as the time of step t
        e = states[d]["h"](layer.place(d, step, n) + 1, n, j)
        return e if layer.lengths is None else te.select(step < signed(layer.lengths(n)), e, zero)

    def chosen(d: Any, parts: Sequence[Expr]) -> Expr:
        return parts[0] if len(parts) == 1 else te.if_then_else(make.eq(d, 0), *parts)

    directions = range(len(states))
    y = inputs.stage(
        op,
        tags.INJECTIVE,
        [times, len(states), x.shape[1], layer.size],
        lambda t, d, n, j: te.cast(x.dtype, chosen(d, [of(k, t, n, j) for k in directions])),
    )
    last = [
        inputs.stage(
            f"{op}.{s}",
            tags.INJECTIVE,
            [len(states), x.shape[1], layer.size],
            # row `times` is the last of every sequence: behind their ends states stay as they are
            lambda d, n, j, s=s: te.cast(x.dtype, chosen(d, [states[k][s](times, n, j) for k in directions])),
        )
        for s in states[0]
    ]
    return [y, *last]


def rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    *,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    direction: str = "forward",
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    clip: float | None = None,
) -> tuple[Tensor, Tensor]:
    """``h[t] = f(x[t] Wᵀ + h[t-1] Rᵀ + b)`` over time: all states [T, D, B, H] and the last ones [D, B, H].

    x is [T, B, I], w [D, H, I], r [D, H, H], b [D, 2 H]. D is 2 for ``direction="bidirectional"``, else 1;
    ``"reverse"`` begins at the end. ``initial_h`` is [D, B, H], zeros when left out. Behind
    ``sequence_lens`` [B] states stay and results are 0. ``activations`` names one function a direction
    (``"tanh"``; ``"relu"``, ``"sigmoid"``, … with ``activation_alpha`` and ``activation_beta`` where they
    have parameters), whose argument ``clip`` bounds. Raises DeclareError for shapes that do not fit, and
    functions that are not known.
    """
    layer = _layer(
        "rnn", "h", ["tanh"], x, w, r, b, sequence_lens, direction, activations, activation_alpha,
        activation_beta, clip, None,
    )  # fmt: skip
    first, states = _first(layer, "initial_h", initial_h), []
    for d in range(len(layer.reverse)):
        step, f = Step(layer, d, {"h": first}), layer.function(d, 0)
        states.append(_rnn_cell(layer, step, f))
    y, h = _results(layer, states)
    return y, h


def _rnn_cell(layer: Layer, step: Step, f: Callable[[Expr], Expr]) -> dict[str, Tensor]:
    h = step.state["h"]
    product = step.product("state", "h", lambda t, n, k: h(t - 1, n, k))

    def update(t: Any, n: Any, j: Any) -> Expr:
        new = f(step.read("h", t, n, j) + product(t, n, j) + layer.bias(step.d, "h", j))
        return step.alive(t, n, new, h(t - 1, n, j))

    return step.scanned({"h": step.stage("h_next", update)})


def gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    *,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    direction: str = "forward",
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    clip: float | None = None,
    linear_before_reset: bool = False,
    gates: str = "zrh",
) -> tuple[Tensor, Tensor]:
    """A gated recurrent unit (Cho et al. 2014): all states [T, D, B, H] and the last ones [D, B, H].

    Gates: update z, reset r, hidden h; ``h[t] = (1 - z) h~ + z h[t-1]`` with ``h~ = g(x Whᵀ + (r h[t-1]) Rhᵀ
    + …)``, or with ``linear_before_reset`` ``g(x Whᵀ + r (h[t-1] Rhᵀ + …))``, torch's form. w is [D, 3 H, I],
    r [D, 3 H, H], b [D, 6 H]. ``activations``: two a direction, ``("sigmoid", "tanh")``. Otherwise as
    :func:`rnn`. Raises DeclareError for weights of other shapes."""
    layer = _layer(
        "gru", "zrh", ["sigmoid", "tanh"], x, w, r, b, sequence_lens, direction, activations,
        activation_alpha, activation_beta, clip, gates,
    )  # fmt: skip
    first = _first(layer, "initial_h", initial_h)
    states = [
        _gru_cell(layer, Step(layer, d, {"h": first}), linear_before_reset) for d in range(len(layer.reverse))
    ]
    y, h = _results(layer, states)
    return y, h


def _gru_cell(layer: Layer, step: Step, linear_before_reset: bool) -> dict[str, Tensor]:
    h, d = step.state["h"], step.d
    f, g = layer.function(d, 0), layer.function(d, 1)
    # two products and not one: the letters of ``gates`` need not stand together
    z_product, r_product = (step.product(q, q, lambda t, n, k: h(t - 1, n, k)) for q in "zr")

    def gate(q: str, product: Tensor) -> Tensor:
        return step.stage(
            f"{q}_gate", lambda t, n, j: f(step.read(q, t, n, j) + product(t, n, j) + layer.bias(d, q, j))
        )

    update_gate, reset = gate("z", z_product), gate("r", r_product)
    if linear_before_reset:
        product = step.product("h", "h", lambda t, n, k: h(t - 1, n, k))
    else:
        # the product waits for the reset gate here, and cannot run together with those of the gates
        kept = step.stage("kept", lambda t, n, j: reset(t, n, j) * h(t - 1, n, j))
        product = step.product("h", "h", lambda t, n, k: kept(t, n, k))

    def update(t: Any, n: Any, j: Any) -> Expr:
        given, from_state = step.read("h", t, n, j), product(t, n, j)
        if linear_before_reset:
            # in this form alone the two biases cannot be added beforehand: the gate multiplies one of them
            of_state = reset(t, n, j) * (from_state + layer.bias(d, "h", j, True))
            hidden = g(given + of_state + layer.bias(d, "h", j, False))
        else:
            hidden = g(given + from_state + layer.bias(d, "h", j))
        z = update_gate(t, n, j)
        new = (1.0 - z) * hidden + z * h(t - 1, n, j)
        return step.alive(t, n, new, h(t - 1, n, j))

    return step.scanned({"h": step.stage("h_next", update)})


def lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    *,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    p: Tensor | None = None,
    direction: str = "forward",
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    clip: float | None = None,
    input_forget: bool = False,
    gates: str = "iofc",
    rounds_state: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Long short-term memory (Hochreiter and Schmidhuber 1997): all states [T, D, B, H], the last states and
    the last cells [D, B, H].

    Gates: input i, output o, forget f, cell c; ``c[t] = f c[t-1] + i g(…)``, ``h[t] = o tanh(c[t])``. w is
    [D, 4 H, I], r [D, 4 H, H], b [D, 8 H]; peepholes p [D, 3 H] of i, o and f (Gers and Schmidhuber 2000) are
    weights of the cell. ``input_forget`` makes f ``1 - i``. ``activations``: three a direction, ``("sigmoid",
    "tanh", "tanh")`` of gates, cell and state. With torch's weights ``gates="ifco"``. With ``rounds_state``
    the product with r reads the state as ``dynamic_quantize_linear`` rounds it. Otherwise as :func:`rnn`.
    ``y, h, c = ops.lstm(x, w, r, b, initial_h=h0, initial_c=c0)``. Raises DeclareError for weights of other
    shapes."""
    layer = _layer(
        "lstm", "iofc", ["sigmoid", "tanh", "tanh"], x, w, r, b, sequence_lens, direction, activations,
        activation_alpha, activation_beta, clip, gates,
    )  # fmt: skip
    firsts = {"h": _first(layer, "initial_h", initial_h), "c": _first(layer, "initial_c", initial_c)}
    if p is not None:
        p = inputs.floating("lstm", p, "p")
        if p.ndim != 2:
            raise DeclareError(f"ops.lstm: p {inputs.named(p)}", because="it is [D, 3 H]")
        inputs.same_size(
            "lstm", f"the number of rows of p {p.name}", p.shape[1], layer.size * 3, "it is [D, 3 H]"
        )
    states = []
    for d in range(len(layer.reverse)):
        step = Step(layer, d, firsts)
        h = step.state["h"]
        before = step.rounded(h) if rounds_state else lambda t, n, k, h=h: h(t - 1, n, k)
        states.append(_lstm_cell(layer, step, step.product("state", layer.order, before), p, input_forget))
    y, h, c = _results(layer, states)
    return y, h, c


def _lstm_cell(
    layer: Layer, step: Step, product: Tensor, p: Tensor | None, input_forget: bool
) -> dict[str, Tensor]:
    """The states of a direction, where ``product`` is that of the state before a step with r."""
    h, c, d, size = step.state["h"], step.state["c"], step.d, layer.size
    f, g = (layer.function(d, k) for k in range(2))
    of_cell = layer.function(d, 2, clips=False)

    def gate(q: str, t: Any, n: Any, j: Any, cell: Expr | None) -> Expr:
        e = step.read(q, t, n, j) + product(t, n, layer.row(q, j)) + layer.bias(d, q, j)
        if p is None or cell is None:
            return e
        return e + te.cast(e.dtype, p(d, make.add(make.mul(size, "iof".index(q)), j))) * cell

    def cell(t: Any, n: Any, j: Any) -> Expr:
        old = c(t - 1, n, j)
        i = f(gate("i", t, n, j, old))
        # coupled gates: what is not written is kept
        forget = 1.0 - i if input_forget else f(gate("f", t, n, j, old))
        new = forget * old + i * g(gate("c", t, n, j, None))
        return step.alive(t, n, new, old)

    next_cell = step.stage("c_next", cell)

    def state(t: Any, n: Any, j: Any) -> Expr:
        now = next_cell(t, n, j)
        # the peephole of the output gate sees the new cell, those of the others the one before
        new = f(gate("o", t, n, j, now)) * of_cell(now)
        return step.alive(t, n, new, h(t - 1, n, j))

    return step.scanned({"h": step.stage("h_next", state), "c": next_cell})
