"""ONNX's recurrent layers. Knows ops.

``layout`` 1 has the batch first, which ops (and layout 0) have second, after the time or the direction.
"""

from __future__ import annotations

from typing import Any

from ... import ops
from ...te import Tensor
from .table import te_op


def _first(x: Tensor | None, layout: int) -> Tensor | None:
    """The first two dimensions changed, where the layout says so."""
    return x if x is None or not layout else ops.swapaxes(x, 0, 1)


def as_results(made: tuple[Tensor, ...], layout: int, results: int) -> Any:
    """All states [T, D, B, H] and the last ones [D, B, H]; with layout 1 the batch first."""
    if layout:
        # [T, D, B, H] to [B, T, D, H]
        made = (ops.transpose(made[0], (2, 0, 1, 3)), *(ops.swapaxes(s, 0, 1) for s in made[1:]))
    return made[:results] if results > 1 else made[0]


@te_op("RNN")
def rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    activations: Any = None,
    activation_alpha: Any = None,
    activation_beta: Any = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int = 0,
    layout: int = 0,
    results: int = 1,
) -> Any:
    made = ops.rnn(
        _first(x, layout),  # type: ignore[arg-type]
        w,
        r,
        b,
        sequence_lens=lengths,
        initial_h=_first(initial_h, layout),
        direction=direction,
        activations=activations,
        activation_alpha=activation_alpha,
        activation_beta=activation_beta,
        clip=clip,
    )
    return as_results(made, layout, results)


@te_op("GRU")
def gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    activations: Any = None,
    activation_alpha: Any = None,
    activation_beta: Any = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int = 0,
    layout: int = 0,
    linear_before_reset: int = 0,
    results: int = 1,
) -> Any:
    made = ops.gru(
        _first(x, layout),  # type: ignore[arg-type]
        w,
        r,
        b,
        sequence_lens=lengths,
        initial_h=_first(initial_h, layout),
        direction=direction,
        activations=activations,
        activation_alpha=activation_alpha,
        activation_beta=activation_beta,
        clip=clip,
        linear_before_reset=bool(linear_before_reset),
    )
    return as_results(made, layout, results)


@te_op("LSTM")
def lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    peepholes: Tensor | None = None,
    *,
    activations: Any = None,
    activation_alpha: Any = None,
    activation_beta: Any = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int = 0,
    input_forget: int = 0,
    layout: int = 0,
    results: int = 1,
) -> Any:
    made = ops.lstm(
        _first(x, layout),  # type: ignore[arg-type]
        w,
        r,
        b,
        sequence_lens=lengths,
        initial_h=_first(initial_h, layout),
        initial_c=_first(initial_c, layout),
        p=peepholes,
        direction=direction,
        activations=activations,
        activation_alpha=activation_alpha,
        activation_beta=activation_beta,
        clip=clip,
        input_forget=bool(input_forget),
    )
    return as_results(made, layout, results)
