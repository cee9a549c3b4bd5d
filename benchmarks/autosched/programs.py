"""Sixteen programs in which reductions feed each other, as people write them: what the search of chains is
measured on. Knows ``ops``.

Sizes are those of small models: large enough that a schedule matters, small enough that 64 trials take
seconds.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorlang import ops, te

Tensors = list[te.Tensor]


class Inputs:
    """Placeholders in the order they are asked for."""

    def __init__(self) -> None:
        self.made: Tensors = []

    def __call__(self, *shape: int, dtype: str = "float32") -> te.Tensor:
        self.made.append(te.placeholder(shape, dtype, name=f"in{len(self.made)}"))
        return self.made[-1]


def _double_product(p: Inputs) -> te.Tensor:
    return ops.matmul(ops.matmul(p(256, 256), p(256, 256)), p(256, 256))


def _double_product_relu(p: Inputs) -> te.Tensor:
    return ops.matmul(ops.relu(ops.matmul(p(256, 256), p(256, 256))), p(256, 256))


def _mlp(p: Inputs) -> te.Tensor:
    hidden = ops.dense(p(128, 256), p(1024, 256), p(1024), activation=ops.gelu)
    return ops.dense(hidden, p(256, 1024), p(256))


def _scores(p: Inputs) -> te.Tensor:
    return ops.softmax(ops.batch_matmul(p(8, 128, 64), p(8, 128, 64), transpose_b=True))


def _attention(p: Inputs) -> te.Tensor:
    return ops.scaled_dot_product_attention(p(1, 8, 128, 64), p(1, 8, 128, 64), p(1, 8, 128, 64))


def _normed_dense(p: Inputs) -> te.Tensor:
    return ops.layer_norm(ops.dense(p(256, 256), p(512, 256), p(512)), 512, p(512), p(512))


def _residual_norm(p: Inputs) -> te.Tensor:
    x = p(256, 512)
    return ops.layer_norm(ops.add(x, ops.dense(p(256, 256), p(512, 256))), 512, p(512), p(512))


def _conv_conv(p: Inputs) -> te.Tensor:
    return ops.conv2d(
        ops.relu(ops.conv2d(p(1, 32, 28, 28), p(64, 32, 3, 3), padding=1)), p(64, 64, 3, 3), padding=1
    )


def _conv_pool_conv(p: Inputs) -> te.Tensor:
    first = ops.relu(ops.conv2d(p(1, 16, 56, 56), p(32, 16, 3, 3), padding=1))
    return ops.conv2d(ops.max_pool2d(first, 2, 2), p(64, 32, 3, 3), padding=1)


def _residual_block(p: Inputs) -> te.Tensor:
    x = p(1, 64, 28, 28)
    y = ops.batch_norm(ops.conv2d(x, p(64, 64, 3, 3), padding=1), p(64), p(64), p(64), p(64))
    return ops.relu(ops.add(y, x))


def _separable(p: Inputs) -> te.Tensor:
    spatial = ops.relu(ops.depthwise_conv2d(p(1, 64, 56, 56), p(64, 1, 3, 3), padding=1))
    return ops.relu(ops.conv2d(spatial, p(128, 64, 1, 1)))


def _lstm_cell(p: Inputs) -> te.Tensor:
    n, h = 32, 256
    x, state, cell = p(n, h), p(n, h), p(n, h)
    gates = ops.add(ops.dense(x, p(4 * h, h), p(4 * h)), ops.dense(state, p(4 * h, h)))
    i, f, g, o = ops.split(gates, 4, axis=1)
    new = ops.add(ops.multiply(ops.sigmoid(f), cell), ops.multiply(ops.sigmoid(i), ops.tanh(g)))
    return ops.multiply(ops.sigmoid(o), ops.tanh(new))


def _swiglu(p: Inputs) -> te.Tensor:
    x = p(128, 256)
    gated = ops.multiply(ops.silu(ops.dense(x, p(512, 256))), ops.dense(x, p(512, 256)))
    return ops.dense(gated, p(256, 512))


def _conv_group_norm(p: Inputs) -> te.Tensor:
    return ops.relu(ops.group_norm(ops.conv2d(p(1, 32, 28, 28), p(64, 32, 3, 3), padding=1), 8, p(64), p(64)))


def _logsumexp_loss(p: Inputs) -> te.Tensor:
    logits = ops.dense(p(128, 256), p(1000, 256), p(1000))
    picked = ops.gather(logits, 1, p(128, 1, dtype="int32"))
    return ops.mean(ops.subtract(ops.logsumexp(logits, axis=1), ops.reshape(picked, (128,))))


def _transformer_block(p: Inputs) -> te.Tensor:
    n, d, heads = 128, 256, 4
    x = p(n, d)
    normed = ops.layer_norm(x, d, p(d), p(d))
    q, k, v = [
        ops.transpose(ops.reshape(ops.dense(normed, p(d, d), p(d)), (1, n, heads, d // heads)), (0, 2, 1, 3))
        for _ in range(3)
    ]
    mixed = ops.reshape(ops.transpose(ops.scaled_dot_product_attention(q, k, v), (0, 2, 1, 3)), (n, d))
    x = ops.add(x, ops.dense(mixed, p(d, d), p(d)))
    hidden = ops.dense(ops.layer_norm(x, d, p(d), p(d)), p(4 * d, d), p(4 * d), activation=ops.gelu)
    return ops.add(x, ops.dense(hidden, p(d, 4 * d), p(d)))


PROGRAMS: dict[str, Callable[[Inputs], te.Tensor]] = {
    "two products": _double_product,
    "two products, relu": _double_product_relu,
    "mlp": _mlp,
    "softmax of scores": _scores,
    "attention": _attention,
    "layer norm of dense": _normed_dense,
    "residual and norm": _residual_norm,
    "conv conv": _conv_conv,
    "conv pool conv": _conv_pool_conv,
    "conv bn relu add": _residual_block,
    "depthwise pointwise": _separable,
    "lstm cell": _lstm_cell,
    "swiglu": _swiglu,
    "conv group norm": _conv_group_norm,
    "logsumexp loss": _logsumexp_loss,
    "transformer block": _transformer_block,
}
