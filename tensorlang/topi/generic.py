"""``topi.generic``: TVM's schedules by the name of the operator. All are the default schedule, which looks at
the computation itself."""

from __future__ import annotations

from collections.abc import Sequence

from ..entries import close
from ..errors import ScheduleError
from ..recipes.default_schedule import default_schedule as _default
from ..schedule import Schedule
from ..te import Tensor

__all__ = [
    "default_schedule",
    "schedule_adaptive_pool",
    "schedule_batch_matmul",
    "schedule_batch_norm",
    "schedule_broadcast",
    "schedule_conv1d_ncw",
    "schedule_conv1d_nwc",
    "schedule_conv2d_nchw",
    "schedule_conv2d_nhwc",
    "schedule_conv2d_transpose_nchw",
    "schedule_conv3d_ncdhw",
    "schedule_conv3d_ndhwc",
    "schedule_dense",
    "schedule_depthwise_conv2d_nchw",
    "schedule_depthwise_conv2d_nhwc",
    "schedule_elemwise",
    "schedule_group_conv2d_nchw",
    "schedule_injective",
    "schedule_matmul",
    "schedule_pool",
    "schedule_reduce",
    "schedule_softmax",
]


def default_schedule(outs: Tensor | Sequence[Tensor], layout: str | bool | None = None) -> Schedule:
    """A schedule for what ``outs`` compute; the second argument (``layout``, ``auto_inline``) is accepted for
    TVM's sake."""
    return _default([outs] if isinstance(outs, Tensor) else list(outs))


schedule_adaptive_pool = schedule_batch_matmul = schedule_batch_norm = schedule_conv1d_ncw = default_schedule
schedule_conv1d_nwc = schedule_conv2d_nchw = schedule_conv2d_nhwc = schedule_conv2d_transpose_nchw = (
    schedule_conv3d_ncdhw
) = default_schedule
schedule_conv3d_ndhwc = schedule_dense = schedule_depthwise_conv2d_nchw = schedule_depthwise_conv2d_nhwc = (
    schedule_elemwise
) = default_schedule
schedule_broadcast = schedule_group_conv2d_nchw = schedule_injective = schedule_matmul = schedule_pool = (
    default_schedule
)
schedule_reduce = schedule_softmax = default_schedule

close(__name__, "topi.generic", ScheduleError)
