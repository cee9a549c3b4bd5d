"""The depthwise 3×3 convolutions of MobileNet (v1) at batch 1, NCHW, with bias and relu."""

from __future__ import annotations

from ..harness.case import Case
from .conv import conv_case

# channels, size, stride: every shape of the network once
MOBILENET = (
    (32, 112, 1),
    (64, 112, 2),
    (128, 56, 1),
    (128, 56, 2),
    (256, 28, 1),
    (256, 28, 2),
    (512, 14, 1),
    (512, 14, 2),
    (1024, 7, 1),
)
QUICK = {0, 3, 6}


def cases() -> list[Case]:
    return [
        conv_case(
            "depthwise", channels, size, channels, 3, stride, groups=channels, packed=packed, quick=i in QUICK
        )
        for packed in (False, True)
        for i, (channels, size, stride) in enumerate(MOBILENET)
    ]
