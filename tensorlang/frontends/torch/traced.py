"""What dynamo does with calls of kernels in a function that is compiled. Knows dynamo's rules."""

from __future__ import annotations

import torch._dynamo


def leave_kernels() -> None:
    """Have dynamo break graphs at calls of kernels. It would trace into them, as into any Python, until it
    ends in an error at the first thing it cannot say."""
    torch._dynamo.trace_rules.add("tensorlang")
