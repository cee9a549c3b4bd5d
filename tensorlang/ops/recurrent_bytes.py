"""An lstm whose weights are whole numbers of 8 bits: its products are of bytes, exact in int32, and scaled
behind. The input and, step by step, the state are rounded to uint8 over their range. Knows the lstm of
floats."""

from __future__ import annotations

from typing import Any

from .. import te
from ..core.dtype import INT32
from ..expr.nodes import Expr
from ..te import Tensor
from . import inputs, tags
from .elementwise import cast, multiply
from .quantize import dynamic_quantize_linear
from .recurrent import Layer, Step, _first, _layer, _lstm_cell, _results
from .shape import reshape, swapaxes

__all__ = ["lstm_of_bytes"]


def lstm_of_bytes(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None,
    w_scale: Tensor,
    r_scale: Tensor,
    *,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    direction: str = "forward",
    activations: Any = None,
    activation_alpha: Any = None,
    activation_beta: Any = None,
    clip: float | None = None,
    input_forget: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """``ops.lstm`` with int8 weights w [D, I, 4 H] and r [D, H, 4 H] without zero points, times their scales
    [D] or [D, 4 H]; the rest as there."""
    layer = _layer(
        "lstm", "iofc", ["sigmoid", "tanh", "tanh"], x, _floats(w, w_scale), _floats(r, r_scale), b,
        sequence_lens, direction, activations, activation_alpha, activation_beta, clip, None,
    )  # fmt: skip
    firsts = {"h": _first(layer, "initial_h", initial_h), "c": _first(layer, "initial_c", initial_c)}
    rounded = dynamic_quantize_linear(x)
    states = []
    for d in range(len(layer.reverse)):
        step = _ByteStep(layer, d, firsts, rounded, (w, w_scale), (r, r_scale))
        states.append(_lstm_cell(layer, step, step.of_state(), None, input_forget))
    y, h, c = _results(layer, states)
    return y, h, c


def _floats(w: Tensor, scale: Tensor) -> Tensor:
    """[D, K, 4 H] as floats [D, 4 H, K], which say what the shapes are; nothing computes them."""
    each = reshape(scale, (scale.shape[0], 1, scale.shape[1] if scale.ndim == 2 else 1))
    return swapaxes(multiply(cast(w, scale.dtype), each), 1, 2)


class _ByteStep(Step):
    def __init__(
        self,
        layer: Layer,
        d: int,
        firsts: dict[str, Tensor | None],
        x: tuple[Tensor, Tensor, Tensor],
        w: tuple[Tensor, Tensor],
        r: tuple[Tensor, Tensor],
    ) -> None:
        self.x, self.w, self.r = x, w, r
        super().__init__(layer, d, firsts)

    def of_input(self) -> Tensor:
        (stored, *by), (w, _) = self.x, self.w
        lines, i = self.lines(stored), te.reduce_axis((0, w.shape[1]), "i")
        made = te.compute(
            (lines.shape[0], w.shape[2]),
            lambda m, g: te.sum(te.cast(INT32, lines(m, i)) * te.cast(INT32, w(self.d, i, g)), axis=i),
            name=f"{self.name}.input",
            tag=tags.DENSE,
        )
        return self._in_floats("given", made, self._sums("input_sums", w), self.w, *by)

    def of_state(self) -> Tensor:
        """The product of the state before a step with the recurrent weights."""
        (r, _), h = self.r, self.state["h"]
        scale, zero = self.range_of(h)
        stored = self.stage("stored", lambda t, n, k: te.cast("uint8", self.stored(h, scale, zero, t, n, k)))
        k = te.reduce_axis((0, r.shape[1]), "k")
        made = te.compute(
            (self.shape[0], self.shape[1], r.shape[2]),
            lambda t, n, g: te.sum(te.cast(INT32, stored(t, n, k)) * te.cast(INT32, r(self.d, k, g)), axis=k),
            name=f"{self.name}.state",
            tag=tags.DENSE,
        )
        return self._in_floats("of_state", made, self._sums("state_sums", r), self.r, scale, zero)

    def _in_floats(
        self,
        name: str,
        made: Tensor,
        sums: Tensor,
        weight: tuple[Tensor, Tensor],
        scale: Tensor,
        zero: Tensor,
    ) -> Tensor:
        """Products of stored numbers by a weight as floats, less what their zero point added. Scale and zero
        point are of all, or of each time."""
        each = weight[1]

        def value(*at: Any) -> Expr:
            own, g = at[: zero.ndim], at[-1]
            less = made(*at) - te.cast(INT32, zero(*own)) * sums(g)
            of_weight = each(self.d, g) if each.ndim == 2 else each(self.d)
            return te.cast(self.layer.inside, less) * (scale(*own) * of_weight)

        return inputs.stage(f"{self.name}.{name}", tags.ELEMENTWISE, made.shape, value)

    def _sums(self, name: str, w: Tensor) -> Tensor:
        """What a zero point of 1 adds to each sum."""
        k = te.reduce_axis((0, w.shape[1]), "k")
        return te.compute(
            (w.shape[2],),
            lambda g: te.sum(te.cast(INT32, w(self.d, k, g)), axis=k),
            name=f"{self.name}.{name}",
        )
