"""Functions that kernels may call by name: Python callables and addresses of C symbols. Knows nothing of
tensors or machine code.

The reference, the interpreter and the runtime all look things up in the table.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.names import identifier, is_symbol
from ..core.ndarray import NDArray
from ..errors import DeclareError, TensorLangError

_packed: dict[str, Callable[..., Any]] = {}
_symbols: dict[str, int] = {}


def register_func(
    name: str | Callable[..., Any], f: Callable[..., Any] | None = None, override: bool = False
) -> Any:
    """Make a Python function callable from ``te.extern`` as ``te.call_packed(name, …)``; also a decorator.

    It is called with numpy arrays over the kernel's memory, ints and floats, and writes its outputs in place.
    What it returns is dropped; what it raises ends the kernel and is raised by the call. Raises DeclareError
    when the name is taken.
    """
    if not isinstance(name, str):
        return register_func(name.__name__, name, override)
    word = name
    if not word:
        raise DeclareError("register_func(''): a function is called by its name", try_="@tl.register_func")

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if word in _packed and not override:
            raise DeclareError(
                f"register_func({word!r}): the name is taken", try_="override=True, or another name"
            )
        _packed[word] = function
        return function

    return register if f is None else register(f)


LOWEST = 4096  # addresses below are nobody's


def register_symbol(name: str, address: Any) -> None:
    """Make a C function callable from ``te.extern`` as ``te.call_extern(dtype, name, …)``: an address, or a
    ctypes function.

    Functions of the C library and of libraries loaded into the process are found without this. Raises
    DeclareError for what is no address, and for what no C function is called."""
    if not is_symbol(name):
        raise DeclareError(
            f"register_symbol({name!r}): no C function can be called so",
            because="the names of functions in machine code are made of letters, digits, _ and $",
            try_=f"tl.register_symbol({identifier(name) if name else 'my_function'!r}, address)",
        )
    try:
        if isinstance(address, str | bytes):  # ctypes takes the address of the text
            raise TypeError
        value = address if isinstance(address, int) else ctypes.cast(address, ctypes.c_void_p).value
    except (TypeError, ctypes.ArgumentError):
        raise DeclareError(
            f"register_symbol({name!r}): {type(address).__name__} is not an address",
            try_=f"tl.register_symbol({name!r}, ctypes.CDLL(path).{name})",
        ) from None
    if not value or value < LOWEST:
        raise DeclareError(f"register_symbol({name!r}): no address")
    _symbols[name] = value


def packed(name: str) -> Callable[..., Any]:
    """The registered Python function, which gets its arrays with TVM's words. Raises TensorLangError when
    there is none of that name."""
    found = _packed.get(name)
    if found is None:
        raise TensorLangError(
            f"call_packed({name!r}): no function of that name is registered",
            because=f"registered: {', '.join(sorted(_packed)) or 'none'}",
            try_=f"@tl.register_func({name!r}) on a Python function",
        )
    function = found
    return lambda *args: function(*[a.view(NDArray) if type(a) is np.ndarray else a for a in args])


def c_function(name: str, result: np.dtype[Any], arguments: tuple[np.dtype[Any], ...]) -> Callable[..., Any]:
    """A C function of numbers as a function of numpy arrays, element by element. Raises TensorLangError when
    there is no such symbol."""
    kind = ctypes.CFUNCTYPE(np.ctypeslib.as_ctypes_type(result), *map(np.ctypeslib.as_ctypes_type, arguments))
    address = _symbols.get(name)
    try:
        f = kind(address) if address else kind((name, ctypes.CDLL(None)))
    except AttributeError:
        raise TensorLangError(
            f"call_pure_extern({name!r}): there is no C function of that name in this process",
            try_=f"tl.register_symbol({name!r}, address)",
        ) from None

    def evaluate(*arrays: Any) -> Any:
        given = np.broadcast_arrays(*[np.asarray(a, t) for a, t in zip(arrays, arguments, strict=True)])
        shape = given[0].shape if given else ()
        made = (
            [f(*[x.item() for x in row]) for row in zip(*[g.reshape(-1) for g in given], strict=True)]
            if given
            else [f()]
        )
        return np.array(made, result).reshape(shape)

    return evaluate


def symbols() -> dict[str, int]:
    """The registered C symbols with their addresses."""
    return dict(_symbols)
