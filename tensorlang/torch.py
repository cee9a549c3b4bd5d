"""Torch and tensorlang: a backend of ``torch.compile``, and what it tells of itself. A façade: torch is
imported when something of it is used."""

from __future__ import annotations

import sys
from typing import Any

from . import signposts
from .boundary import misfit, shown
from .entries import close
from .errors import TensorLangError
from .protocols import Listed

__all__ = ["adaptive", "backend", "enable", "explain", "graphs", "invalidate", "monitor", "op", "reset"]


def backend(gm: Any, inputs: Any, **kwargs: Any) -> Any:
    """The backend, as ``torch.compile(model, backend="tensorlang")`` finds it. Raises TensorLangError for
    a torch that is not supported and for options that it does not know.

    Give ``torch.compile`` the name: torch then asks for the backend before it traces, and recurrent layers
    stay whole. Given this function, it traces first, and a recurrent layer is a break unless
    ``torch._dynamo`` was imported before ``tensorlang.torch``."""
    from .frontends.torch import backend as room

    return room.tensorlang(gm, inputs, **kwargs)


def graphs() -> list[Any]:
    """What became of the graphs that torch handed over in this process, in their order."""
    from .frontends.torch import backend as room

    return Listed("tensorlang.torch.graphs()", room.GRAPHS)


def reset() -> None:
    """Forget these graphs. What is compiled stays."""
    from .frontends.torch import backend as room

    room.GRAPHS.clear()


def enable(on: bool = True) -> None:
    """Switch the backend off (``enable(False)``), and on again: torch computes what it hands over, also where
    an engine was compiled for it. ``TENSORLANG_TORCH=0`` in the environment does so for a whole process."""
    from .frontends.torch.settings import SWITCH

    SWITCH.turn(bool(on))


def invalidate(module: Any) -> None:
    """Pack the parameters of a module anew at the next call of what was compiled of it. Needed when they were
    written through ``.data``, which torch does not count; other changes are noticed."""
    from .frontends.torch import region as room

    room.invalidate(module)


def adaptive(
    model: Any,
    budget: float | None = None,
    *,
    memory: int | None = None,
    background: bool = True,
    options: Any = None,
    dynamic: bool | None = None,
) -> Any:
    """``model``, compiled when that pays: calls are eager until as many of a kind have come as compiling
    costs, ``compile ÷ (eager − compiled)``, which is 6.25 for 500 ms ÷ (100 ms − 20 ms)::

        fast = tensorlang.torch.adaptive(model, budget=60)
        y = fast(x)
        print(fast)                          # what became of each kind of call, with this arithmetic

    It is compiled beside the program (in the call itself where gradients are asked for, or where the model
    changes what it holds), for ``budget`` seconds at most; not where that would take more than ``memory``
    bytes (None: what is free). Kinds of calls that gain nothing, small batches for one, stay eager; after
    three failures all do. ``options`` and ``dynamic`` are those of ``torch.compile``. ``wait()`` waits for
    what is being compiled, ``release()`` gives it up.
    """
    from .frontends.torch import adaptive as room
    from .frontends.torch.settings import settings_of

    _check_called("adaptive", model)
    if dynamic is not None and not isinstance(dynamic, bool):
        raise TensorLangError(f"tensorlang.torch.adaptive(dynamic={shown(dynamic)}): True, False or None")
    settings_of(options, None)
    # ``not most >= 0`` refuses NaN as well
    for word, most in (("budget", budget), ("memory", memory)):
        if most is not None and (
            isinstance(most, bool) or not isinstance(most, int | float) or not most >= 0
        ):
            raise TensorLangError(
                f"tensorlang.torch.adaptive({word}={shown(most)}): a number from 0, or None",
                try_="budget=60, in seconds; memory=1 << 30, in bytes",
            )
    return room.Adaptive(
        model, budget, memory=memory, background=background, options=options, dynamic=dynamic
    )


def monitor(many: int = 3) -> Any:
    """Count from now on how often functions are compiled anew, and learn which size to mark as dynamic so
    that they are not; a warning names a function that was compiled anew ``many`` times::

        with tensorlang.torch.monitor() as seen:
            serve()
        print(seen)              # forward: compiled anew 3 times … write torch._dynamo.mark_dynamic(x, 0)
        seen.recompilations

    Without ``with`` it counts until its ``stop()``.
    """
    from .frontends.torch import monitor as room

    if isinstance(many, bool) or not isinstance(many, int) or many < 1:
        raise TensorLangError(
            f"tensorlang.torch.monitor({shown(many)}): a whole number from 1", try_="many=3"
        )
    return room.Monitor(many)


def explain(fn: Any, *args: Any, **kwargs: Any) -> Any:
    """What becomes of ``fn(*args)`` in ``torch.compile(fn, backend="tensorlang")``: graphs, where they break,
    with file and line, and what to write there, operators that stay in torch, guards, recompilations, and the
    time of each region beside eager's. ``fn`` is called a few times. Prints as text, shows itself in
    notebooks, and ``save("report.html")`` writes one page::

        print(tensorlang.torch.explain(model, x))
    """
    from .frontends.torch import explain as room

    _check_called("explain", fn)
    wrong = misfit(getattr(fn, "forward", fn), *args, **kwargs)
    if wrong:
        raise TensorLangError(
            f"tensorlang.torch.explain: {getattr(fn, '__name__', type(fn).__name__)} takes other arguments",
            because=str(wrong),
            try_="tensorlang.torch.explain(model, x), with the arguments of a call",
        )
    return room.explained(fn, args, kwargs)


def op(kernel: Any, name: str, *, replace: bool = False) -> Any:
    """A kernel as an operator of torch, ``"my::matmul"``, that takes and gives tensors; dynamo traces it
    without a break, for its shapes follow from the kernel's signature::

        square = tensorlang.torch.op(tl.compile([x, x * x]), "my::square")
        y = torch.compile(lambda t: square(t) + 1)(torch.ones(4))

    A name stands for one kernel; with ``replace`` it stands for this one from now on. Raises TensorLangError
    for kernels that are not of compact tensors alone, names that torch refuses, and names that torch has.
    """
    from .frontends.torch import custom as room

    return room.custom_operator(kernel, name, replace)


def _check_called(call: str, fn: Any) -> None:
    if not callable(fn):
        raise TensorLangError(
            f"tensorlang.torch.{call}({shown(fn)}, …): a model, or a function of torch tensors, is needed"
        )


def _before_tracing() -> None:
    """What dynamo is to know before it traces a function, for it looks for its backend first."""
    from .frontends.torch.traced import prepare

    prepare()


if "torch._dynamo" in sys.modules:
    _before_tracing()

# the backend is called by torch alone, which wants its exceptions as they are
backend.__guarded__ = True  # type: ignore[attr-defined]
close(__name__, "tensorlang.torch", TensorLangError, signposts.TORCH, flags=True)
