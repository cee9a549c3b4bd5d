"""Any computation: the default schedule with run-time extents, one route. Knows no operators."""

from __future__ import annotations

from collections.abc import Mapping

import tensorlang as tl

from ..declaration import Declaration
from ..plan import Measured
from .base import Box, Options, Settings

LABEL = ("generic", "the default schedule with sizes read at run time")


def generic(decl: Declaration, box: Box, settings: Settings) -> Options:
    """The family that takes everything."""
    tensors = decl.stated(
        facts(box, settings.opt) if settings.closed else {d: {"hint": settings.opt[d]} for d in box}
    )
    module = tl.compile(tensors, decl.target, name=decl.short_name, constants=decl.values(tensors))
    return Options(
        "generic", module, tuple(d.name for d in module.signature.dims), [module], Measured((LABEL,), (), ())
    )


def facts(box: Box, opt: Mapping[str, int]) -> dict[str, dict[str, int | None]]:
    """What is known of dims that stay inside a box: then temporary buffers have a largest size, and need no
    allocation in a call."""
    return {d: {"lo": least, "hi": most, "hint": opt[d]} for d, (least, most) in box.items()}
