"""Scalar expressions: nodes, smart constructors, intrinsics, walks, numpy columns, printer. Knows no tensors'
meaning, no schedules, no loops: readers of tensors and buffers are nodes that other rooms derive from
:class:`Expr`."""

from . import wiring as wiring
