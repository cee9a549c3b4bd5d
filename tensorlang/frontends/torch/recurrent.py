"""ATen's recurrent layers, kept whole: a scan a layer, not a thousand operators. Knows ops."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ... import ops
from ...expr.make import as_expr
from ...expr.nodes import const_int
from ...te import Tensor
from .table import graph_op, needs

Layer = Callable[..., Any]


@graph_op("lstm.input")
def lstm(g: Any, x: Any, hx: Sequence[Any], *args: Any) -> Any:
    """All states, then the last states and cells of the layers."""
    return _Stack(g, x, hx, args, _lstm_layer, 4).results(3)


@graph_op("gru.input")
def gru(g: Any, x: Any, hx: Any, *args: Any) -> Any:
    return _Stack(g, x, [hx], args, _gru_layer, 3).results(2)


@graph_op("rnn_tanh.input")
def rnn_tanh(g: Any, x: Any, hx: Any, *args: Any) -> Any:
    return _Stack(g, x, [hx], args, _rnn_layer, 1).results(2)


@graph_op("rnn_relu.input")
def rnn_relu(g: Any, x: Any, hx: Any, *args: Any) -> Any:
    return _Stack(g, x, [hx], args, functools.partial(_rnn_layer, of="relu"), 1).results(2)


class _Stack:
    """Layers one above the other, computed when a result is asked for."""

    def __init__(
        self, g: Any, x: Any, hx: Sequence[Any], args: Sequence[Any], layer: Layer, gates: int
    ) -> None:
        params, biases, layers, dropout, train, both, batch_first = args
        needs(not (train and dropout), "dropout between layers")
        self.g, self.x, self.hx, self.layer, self.gates = g, x, hx, layer, gates
        self.layers, self.directions, self.batch_first = layers, 2 if both else 1, batch_first
        self.each = 4 if biases else 2
        self.params = list(params)
        # one weight more each where states are projected
        needs(len(self.params) == layers * self.directions * self.each, "projections of states")
        needs(x.ndim == 3, "a sequence without a batch")
        needs(0 not in [const_int(as_expr(n)) for n in x.shape], "a sequence of no elements")
        needs(all(h.dtype == x.dtype for h in self.hx), "states of another type than the sequence's")

    def results(self, count: int) -> tuple[Callable[[], Any], ...]:
        return tuple(lambda k=k: self._result(k) for k in range(count))  # type: ignore[misc]

    def _result(self, k: int) -> Any:
        if k:
            last = [m[k] for m in self._made]
            return last[0] if len(last) == 1 else self.g(_beside, *last)
        x = self._made[-1][0]
        return self.g(_turned, x) if self.batch_first else x

    @functools.cached_property
    def _made(self) -> list[Any]:
        """The results of each layer."""
        found = []
        x = self.g(_turned, self.x) if self.batch_first else self.x
        for n in range(self.layers):
            weights = self.params[n * self.directions * self.each : (n + 1) * self.directions * self.each]
            firsts = self.hx
            if self.layers > 1:
                at = {"begin": n * self.directions, "count": self.directions}
                # torch stacks the first states of all layers and directions in one tensor
                firsts = [self.g(_some, h, **at) for h in self.hx]
            how = {"directions": self.directions, "each": self.each}
            made = self.g(self.layer, x, *firsts, *weights, **how)
            x = self.g(_joined, made[0])
            found.append((x, *made[1:]))
        return found


def _parts(weights: Sequence[Tensor], directions: int, each: int) -> tuple[Tensor, Tensor, Tensor | None]:
    """The weights of the input, of the state and both biases, a direction after the other."""
    of = [weights[d * each : (d + 1) * each] for d in range(directions)]
    w, r = (ops.stack([p[k] for p in of]) for k in range(2))
    b = ops.stack([ops.concatenate([p[2], p[3]]) for p in of]) if each == 4 else None
    return w, r, b


def _lstm_layer(x: Tensor, h: Tensor, c: Tensor, *weights: Tensor, directions: int, each: int) -> Any:
    w, r, b = _parts(weights, directions, each)
    # torch's order of the gates; ONNX has "iofc"
    return ops.lstm(x, w, r, b, initial_h=h, initial_c=c, direction=_direction(directions), gates="ifco")


def _gru_layer(x: Tensor, h: Tensor, *weights: Tensor, directions: int, each: int) -> Any:
    w, r, b = _parts(weights, directions, each)
    # torch resets after the product, as cuDNN does
    how: Any = {"direction": _direction(directions), "linear_before_reset": True, "gates": "rzh"}
    return ops.gru(x, w, r, b, initial_h=h, **how)


def _rnn_layer(x: Tensor, h: Tensor, *weights: Tensor, directions: int, each: int, of: str = "tanh") -> Any:
    w, r, b = _parts(weights, directions, each)
    how: Any = {"direction": _direction(directions), "activations": [of] * directions}
    return ops.rnn(x, w, r, b, initial_h=h, **how)


def _direction(directions: int) -> str:
    return "bidirectional" if directions == 2 else "forward"


def _turned(x: Tensor) -> Tensor:
    return ops.swapaxes(x, 0, 1)


def _beside(*parts: Tensor) -> Tensor:
    return ops.concatenate(list(parts), 0)


def _some(x: Tensor, *, begin: int, count: int) -> Tensor:
    return ops.strided_slice(x, [begin], [begin + count], [1], [0])


def _joined(y: Tensor) -> Tensor:
    """[T, D, B, H] as [T, B, D H]."""
    t, d, b, h = y.shape
    return ops.reshape(ops.transpose(y, (0, 2, 1, 3)), (t, b, d * h))
