"""The twenty tasks that tuners are compared on: the operators of Ansor's evaluation (Zheng et al., OSDI 2020,
section 7.1), sizes of odd numbers, and blocks of networks. Knows ``ops``.

Sizes are those of small models at batch 1: a kernel takes tens of microseconds to a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorlang import ops, te

from .programs import Inputs


def _capsule(p: Inputs) -> te.Tensor:
    """A convolution whose elements are 4 × 4 matrices (Hinton, Sabour and Frosst, ICLR 2018)."""
    x, w = p(16, 16, 8, 4, 4), p(3, 3, 8, 16, 4, 4)
    r, s = te.reduce_axis((0, 3), "r"), te.reduce_axis((0, 3), "s")
    c, k = te.reduce_axis((0, 8), "c"), te.reduce_axis((0, 4), "k")
    return te.compute(
        (14, 14, 16, 4, 4),
        lambda i, j, f, a, b: te.sum(x[i + r, j + s, c, a, k] * w[r, s, c, f, k, b], axis=(r, s, c, k)),
        name="capsule",
    )


def _two_norm(p: Inputs) -> te.Tensor:
    x = p(512, 512)
    i, j = te.reduce_axis((0, 512), "i"), te.reduce_axis((0, 512), "j")
    squares = te.compute((1,), lambda _: te.sum(x[i, j] * x[i, j], axis=(i, j)), name="squares")
    return te.compute((1,), lambda n: te.sqrt(squares[n]), name="norm")


def _conv_bn_relu(p: Inputs) -> te.Tensor:
    y = ops.conv2d(p(1, 32, 28, 28), p(64, 32, 3, 3), padding=1)
    return ops.relu(ops.batch_norm(y, p(64), p(64), p(64), p(64)))


def _mlp(p: Inputs) -> te.Tensor:
    hidden = ops.dense(p(64, 256), p(512, 256), p(512), activation=ops.relu)
    return ops.dense(hidden, p(128, 512), p(128))


TASKS: dict[str, Callable[[Inputs], te.Tensor]] = {
    "C1D": lambda p: ops.relu(ops.conv1d(p(1, 64, 256), p(128, 64, 3), p(128), padding=1)),
    "C2D": lambda p: ops.conv2d(p(1, 64, 28, 28), p(64, 64, 3, 3), padding=1),
    "C3D": lambda p: ops.conv3d(p(1, 16, 8, 28, 28), p(32, 16, 3, 3, 3), padding=1),
    "GRP": lambda p: ops.conv2d(p(1, 64, 28, 28), p(64, 16, 3, 3), padding=1, groups=4),
    "DIL": lambda p: ops.conv2d(p(1, 64, 28, 28), p(64, 64, 3, 3), padding=2, dilation=2),
    "DEP": lambda p: ops.depthwise_conv2d(p(1, 96, 56, 56), p(96, 1, 3, 3), padding=1),
    "T2D": lambda p: ops.conv_transpose2d(p(1, 64, 14, 14), p(64, 32, 4, 4), stride=2, padding=1),
    "CAP": _capsule,
    "NRM": _two_norm,
    "GMM": lambda p: ops.matmul(p(256, 256), p(256, 256)),
    "odd": lambda p: ops.matmul(p(391, 333), p(333, 257)),
    "TBG": lambda p: ops.batch_matmul(p(8, 128, 64), p(8, 128, 64), transpose_b=True),
    "SFM": lambda p: ops.softmax(p(512, 512), -1),
    "conv bn relu": _conv_bn_relu,
    "self-attention": lambda p: ops.scaled_dot_product_attention(
        p(1, 4, 128, 64), p(1, 4, 128, 64), p(1, 4, 128, 64)
    ),
    "MLP": _mlp,
    "layer norm": lambda p: ops.layer_norm(p(256, 768), 768, p(768), p(768)),
    "pool": lambda p: ops.max_pool2d(p(1, 64, 56, 56), 3, stride=2, padding=1),
    "conv 1x1": lambda p: ops.relu(ops.conv2d(p(1, 128, 28, 28), p(128, 128, 1, 1), p(128))),
    "transposed product": lambda p: ops.matmul(p(256, 192), p(320, 192), transpose_b=True),
}
