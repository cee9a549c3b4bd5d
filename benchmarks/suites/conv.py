"""All convolutions of ResNet-50 (v1.5) at batch 1, NCHW, with bias and relu; with weights given at the call
and as constants."""

from __future__ import annotations

import numpy as np

from ..harness.case import Argument, Array, Case

# channels in, size, channels out, kernel, stride: every shape of the network once
RESNET50 = (
    (3, 224, 64, 7, 2),
    (64, 56, 64, 1, 1),
    (64, 56, 64, 3, 1),
    (64, 56, 256, 1, 1),
    (256, 56, 64, 1, 1),
    (256, 56, 128, 1, 1),
    (128, 56, 128, 3, 2),
    (128, 28, 512, 1, 1),
    (256, 56, 512, 1, 2),
    (512, 28, 128, 1, 1),
    (128, 28, 128, 3, 1),
    (512, 28, 256, 1, 1),
    (256, 28, 256, 3, 2),
    (256, 14, 1024, 1, 1),
    (512, 28, 1024, 1, 2),
    (1024, 14, 256, 1, 1),
    (256, 14, 256, 3, 1),
    (1024, 14, 512, 1, 1),
    (512, 14, 512, 3, 2),
    (512, 7, 2048, 1, 1),
    (1024, 14, 2048, 1, 2),
    (2048, 7, 512, 1, 1),
    (512, 7, 512, 3, 1),
)
QUICK = {0, 2, 6, 8, 22}


def convolve(data: Array, weight: Array, bias: Array, *, stride: int, padding: int, groups: int) -> Array:
    """relu(conv2d(data, weight) + bias) in float64 by one product over windows."""
    data = np.pad(data.astype("float64"), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    out, inner, height, width = weight.shape
    windows = np.lib.stride_tricks.sliding_window_view(data, (height, width), axis=(2, 3))[
        :, :, ::stride, ::stride
    ]
    batch, _, rows, columns = windows.shape[:4]
    windows = windows.transpose(1, 4, 5, 0, 2, 3).reshape(
        groups, inner * height * width, batch * rows * columns
    )
    result = weight.astype("float64").reshape(groups, out // groups, -1) @ windows
    result = result.reshape(out, batch, rows, columns).transpose(1, 0, 2, 3)
    return np.maximum(result + bias[:, None, None], 0)


def conv_case(
    suite: str,
    channels: int,
    size: int | tuple[int, int],
    out: int,
    kernel: int,
    stride: int,
    *,
    groups: int = 1,
    padding: int | None = None,
    packed: bool,
    quick: bool,
) -> Case:
    """A convolution of a square or another image with a square kernel, padding (kernel - 1) / 2 unless given,
    bias and relu, batch 1."""
    padding = (kernel - 1) // 2 if padding is None else padding
    image = (size, size) if isinstance(size, int) else size
    after = tuple((n + 2 * padding - kernel) // stride + 1 for n in image)
    depth = channels // groups * kernel * kernel
    arguments = (
        Argument("data", (1, channels, *image)),
        Argument("weight", (out, channels // groups, kernel, kernel), constant=packed),
        Argument("bias", (out,), constant=packed),
    )
    shared = f" groups {groups}" if 1 < groups < channels else ""
    at = size if isinstance(size, int) else "x".join(map(str, size))
    name = f"{kernel}x{kernel}{f' s{stride}' if stride > 1 else ''} {channels}>{out}{shared} @{at}"
    params = {"stride": stride, "padding": padding, "groups": groups}
    return Case(
        suite,
        name,
        "conv2d",
        arguments,
        Argument("out", (1, out, *after)),
        lambda d, w, b: convolve(d, w, b, **params),
        flops=2.0 * out * after[0] * after[1] * depth,
        params=params,
        tolerance=1e-4,
        quick=quick,
    )


def cases() -> list[Case]:
    return [
        conv_case("conv", *shape, packed=packed, quick=i in QUICK)
        for packed in (False, True)
        for i, shape in enumerate(RESNET50)
    ]
