"""Settings from the environment: the only file that reads ``os.environ``. Imports errors only.

Each variable is read when it is asked for, checked, and a bad value is an error that names the variable.
"""

from __future__ import annotations

import os

from .errors import TensorLangError

MAX_THREADS = 1024


def thread_limit() -> int | None:
    """``TENSORLANG_NUM_THREADS``: how many threads a parallel kernel may use, or None when it is not set."""
    text = os.environ.get("TENSORLANG_NUM_THREADS", "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_THREADS):
        raise TensorLangError(
            f"TENSORLANG_NUM_THREADS={text}",
            because=f"a thread limit is a whole number from 1 to {MAX_THREADS}",
            try_="unset it to use every processor this process may run on",
        )
    return int(text)


def native_calls() -> bool:
    """``TENSORLANG_NATIVE_CALLS=0`` keeps calls on the portable path."""
    text = os.environ.get("TENSORLANG_NATIVE_CALLS", "").strip()
    if text not in ("", "0", "1"):
        raise TensorLangError(
            f"TENSORLANG_NATIVE_CALLS={text}", because="it is 0 (portable calls) or 1 (native calls)"
        )
    return text != "0"


def workspace_bytes() -> int | None:
    """``TENSORLANG_WORKSPACE_BYTES``: most bytes of temporary memory kept between calls, 0 for none, or None
    when it is not set."""
    text = os.environ.get("TENSORLANG_WORKSPACE_BYTES", "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text) < 1 << 62):
        raise TensorLangError(
            f"TENSORLANG_WORKSPACE_BYTES={text}",
            because="it is a whole number of bytes",
            try_="0 keeps nothing; unset it for the default",
        )
    return int(text)


def perf_map() -> bool:
    """``TENSORLANG_PERF_MAP=1`` lists the functions of loaded kernels in the file perf-PID.map, where
    ``perf`` finds their names."""
    text = os.environ.get("TENSORLANG_PERF_MAP", "").strip()
    if text not in ("", "0", "1"):
        raise TensorLangError(
            f"TENSORLANG_PERF_MAP={text}", because="it is 0 (no list) or 1 (kernels are listed for perf)"
        )
    return text == "1"


def debug() -> bool:
    """``TENSORLANG_DEBUG=1``: tracebacks show every frame of ours, and plain exceptions stay as they are."""
    return os.environ.get("TENSORLANG_DEBUG", "").strip() not in ("", "0")


def hints() -> bool:
    """``TENSORLANG_HINTS=0``: objects do not say what is near a name that they lack, nor refuse that one is
    written. A class that may say so has each of its attributes looked up by hand (Python 3.11: 30 to 80 ns in
    place of 9), a tenth of what lowering takes; it is for processes in which nobody writes code. Asked once,
    when classes are made."""
    text = os.environ.get("TENSORLANG_HINTS", "").strip()
    if text not in ("", "0", "1"):
        raise TensorLangError(f"TENSORLANG_HINTS={text}", because="it is 0 (plain errors) or 1 (hints)")
    return text != "0"


def isolate() -> bool:
    """``TENSORLANG_ISOLATE=1`` runs LLVM in a child process (some 10 ms a kernel), so that a crash of it is
    an error instead of the end."""
    text = os.environ.get("TENSORLANG_ISOLATE", "").strip()
    if text not in ("", "0", "1"):
        raise TensorLangError(
            f"TENSORLANG_ISOLATE={text}", because="it is 0 (LLVM runs in this process) or 1 (in a child)"
        )
    return text == "1"


def cost_table() -> str | None:
    """``TENSORLANG_COST``: the file with this machine's table of costs, or ``generic`` for the one that is
    the same for all processors; None when it is not set."""
    return os.environ.get("TENSORLANG_COST", "").strip() or None


def cache() -> str | bool | None:
    """``TENSORLANG_CACHE``: the directory of compiled kernels, False for ``0``, or None when it is not
    set."""
    text = os.environ.get("TENSORLANG_CACHE", "").strip()
    return None if not text else False if text == "0" else text


def user_directory(kind: str) -> str | None:
    """The user's directory for this project's ``cache`` or ``config``; None for a user without a home, as in
    containers that run under a number."""
    import platformdirs

    try:
        return str(getattr(platformdirs, f"user_{kind}_dir")("tensorlang", appauthor=False))
    except RuntimeError:  # newer versions of platformdirs; others gave a path below "~"
        return None


def torch_backend() -> bool:
    """``TENSORLANG_TORCH=0`` leaves to torch what ``torch.compile(backend="tensorlang")`` hands over."""
    text = os.environ.get("TENSORLANG_TORCH", "").strip()
    if text not in ("", "0", "1"):
        raise TensorLangError(
            f"TENSORLANG_TORCH={text}", because="it is 0 (torch computes all) or 1 (engines do)"
        )
    return text != "0"


def settings() -> dict[str, str]:
    """The variables of this project that are set, by name."""
    return {
        k: v
        for k, v in sorted(os.environ.items())
        if k.startswith(("TENSORLANG_", "AUTOSCHED_", "XDG_CACHE_HOME"))
    }


def of_children(root: str) -> dict[str, str]:
    """The environment of a process that imports packages from ``root`` first."""
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}


def of_workers(root: str = "") -> dict[str, str]:
    """The environment of a process that compiles for this one, see ``hints``; ``root`` as in
    ``of_children``. The threads of numpy's OpenBLAS sleep as soon as they have nothing to do: else they spin
    for a tenth of a second from import on, on a processor that compiles."""
    inherited = of_children(root) if root else os.environ
    return {"OPENBLAS_THREAD_TIMEOUT": "4", **inherited, "TENSORLANG_HINTS": "0"}
