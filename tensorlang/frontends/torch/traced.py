"""What dynamo does with kernels and recurrent layers in a function that is compiled. Knows dynamo's rules and
settings."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import torch._dynamo
from torch._dynamo.symbolic_convert import InstructionTranslator

OURS = "tensorlang."  # the package of our backend
_EXPLAINED: ContextVar[bool] = ContextVar("explained", default=False)


def prepare() -> None:
    """What dynamo is to know before it traces a function for this backend."""
    # it would trace into kernels, as into any Python, and end in an error at what it cannot say
    torch._dynamo.trace_rules.add("tensorlang")
    # private, and so perhaps not there in another version: then graphs break at these layers. The default, as
    # what is set holds in one thread, and whoever sets it is to be obeyed
    entry = getattr(torch._dynamo.config, "_config", {}).get("allow_rnn")
    if entry is not None and entry.default is False:
        entry.default = WithoutGradients()
        # torch.export of a recurrent layer sets what it found when it is done: False, were we not there yet
        if torch._dynamo.config.allow_rnn is False:
            torch._dynamo.config.allow_rnn = entry.default


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """A context in which dynamo traces for another backend as it does for this one."""
    before = _EXPLAINED.set(True)
    try:
        yield
    finally:
        _EXPLAINED.reset(before)


class WithoutGradients(int):  # torch writes its settings as JSON
    """The setting ``torch._dynamo.config.allow_rnn``: true while a function is traced for this backend and no
    gradient is asked for. Recurrent layers are then one operator each; AOTAutograd cannot have them in the
    graphs of a training, and other backends get what they get without us. Under autocast torch gives the
    products within a layer a type of their own, so a layer is not whole there."""

    def __bool__(self) -> bool:
        if torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"):
            return False
        return _EXPLAINED.get() or _traced_for_us()

    def __repr__(self) -> str:  # part of the name of what torch keeps on the disk
        return "False"


def _traced_for_us() -> bool:
    try:
        tracer = InstructionTranslator.current_tx()
    except AttributeError:  # nothing is traced
        return False
    backend: Any = getattr(getattr(tracer, "output", None), "compiler_fn", None)
    for inner in ("_torchdynamo_orig_backend", "compiler_fn"):  # torch wraps it, also where options are given
        backend = getattr(backend, inner, backend)
    return str(getattr(backend, "__module__", "")).startswith(OURS)
