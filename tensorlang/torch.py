"""Torch and tensorlang: a backend of ``torch.compile``, and what it tells of itself. A façade: torch is
imported when something of it is used."""

from __future__ import annotations

from typing import Any

__all__ = ["backend", "graphs", "invalidate", "reset"]


def backend(gm: Any, inputs: Any, **kwargs: Any) -> Any:
    """The backend, as ``torch.compile(model, backend="tensorlang")`` finds it. Raises TensorLangError for
    a torch that is not supported and for options that it does not know."""
    from .frontends.torch import backend as room

    return room.tensorlang(gm, inputs, **kwargs)


def graphs() -> list[Any]:
    """What became of the graphs that torch handed over in this process, in their order."""
    from .frontends.torch import backend as room

    return list(room.GRAPHS)


def reset() -> None:
    """Forget these graphs. What is compiled stays."""
    from .frontends.torch import backend as room

    room.GRAPHS.clear()


def invalidate(module: Any) -> None:
    """Pack the parameters of a module anew at the next call of what was compiled of it. Needed when they were
    written through ``.data``, which torch does not count; other changes are noticed."""
    from .frontends.torch import region as room

    room.invalidate(module)
