"""The boundary between a user's code and ours: whatever goes wrong behind a public name comes out as one
error of ours, at the user's line.

``guard`` wraps the functions of a module and the methods of a class. A call that goes right passes through.
One that fails is looked at: an error of ours loses the frames between the user's line and the place where it
was raised; arguments that do not fit the signature, and plain exceptions that our own code ran into, become
errors that name the argument, what was asked for and what came. Exceptions of the user's own functions pass
as they are. ``missing`` words the error of a name that is not there. With ``TENSORLANG_DEBUG=1`` every frame
stays and nothing is reworded. Knows errors, options and the words of others; nothing of what it guards.
"""

from __future__ import annotations

import builtins
import collections.abc
import difflib
import functools
import inspect
import linecache
import opcode
import os
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from . import options, signposts
from .errors import TensorLangError, is_ours, readable_place
from .kinds import by_type, described, fits, with_article
from .protocols import Gone, fix, names_of, refuse

# Asked before each call of a public function: what they answer is its result, unless it is NotImplemented.
WATCHERS: list[Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]] = []
# What our code runs into when an argument is of a kind that nobody thought of.
PLAIN = (
    TypeError,
    ValueError,
    AttributeError,
    LookupError,
    ArithmeticError,
    AssertionError,
    OSError,
    RecursionError,
)
NEVER = (BrokenPipeError, InterruptedError)
FUNCTIONS = (types.FunctionType, type(functools.cache(len)))  # the second: what remembers its answers
HINTS = options.hints()  # whether somebody writes code in this process: see ``options.hints``
_IMPORT_FROM = opcode.opmap["IMPORT_FROM"]
_LIBRARIES = tuple(os.path.dirname(os.path.abspath(m.__file__ or "")) + os.sep for m in (os, np))


class UnknownNameError(TensorLangError, AttributeError):
    """A name that a module or an object of ours does not have."""


class UnknownImportError(TensorLangError, ImportError):
    """``from tensorlang import x`` of a name that is not there."""


class UnknownModuleError(UnknownImportError, ModuleNotFoundError):
    """``import tensorlang.x`` of a module that is not there."""


def missing(
    where: str,
    name: str,
    known: Iterable[str] | type,
    gone: Mapping[str, str],
    elsewhere: Mapping[str, str] | None = None,
) -> TensorLangError:
    """The error of ``where.name``: TVM's names that are ``gone`` say what is there instead, a name that is
    ``elsewhere`` says where, and others what is near. Made in a module's or class's ``__getattr__``."""
    reason, _, place = gone.get(name, "").rpartition("; ")
    place = place or (elsewhere or {}).get(name, "")
    caller: types.FrameType | None = sys._getframe(1)
    while caller is not None and is_ours(caller):
        caller = caller.f_back
    importing = (
        caller is not None and caller.f_lasti >= 0 and caller.f_code.co_code[caller.f_lasti] == _IMPORT_FROM
    )
    return (UnknownImportError if importing else UnknownNameError)(
        f"{where} has no {name!r}",
        because=reason or None,
        legal=None if place else lambda: _near(name, known),  # objects are asked in passing, by hasattr
        try_=place or None,
    )


def _near(name: str, known: Iterable[str] | type) -> str:
    near = [] if name.startswith("_") else close(name, names_of(known) if isinstance(known, type) else known)
    return f"near it: {', '.join(near)}" if near else ""


def not_a_function(module: types.ModuleType) -> TensorLangError:
    """The error of a module that is called: what it has, or what is written almost as it is."""
    above = sys.modules[module.__name__.rpartition(".")[0] or module.__name__]
    word = module.__name__.rpartition(".")[2]
    offered = set(getattr(above, "__all__", ()))
    made = [n for n, f in vars(module).items() if getattr(f, "__module__", "") == module.__name__]
    here = [n for n in getattr(module, "__all__", made) if n[0] != "_" and not _is_module(module, n)]
    here.sort(key=lambda n: (word not in n, n != n.lower()))
    spelled = [
        n for n in close(word, offered - {word}) if n.lower().replace("_", "") == word.replace("_", "")
    ]
    named = [n for n in here if n in offered] if word not in offered else []
    places = [f"{label_of(above)}.{n}" for n in spelled or named] or [f"{label_of(module)}.{n}" for n in here]
    return TensorLangError(
        f"{label_of(module)}(…): {label_of(module)} is a module, not a function",
        legal=", ".join(places[:4]) + (", …" if len(places) > 4 else "") if places else None,
    )


def _is_module(module: types.ModuleType, name: str) -> bool:
    return inspect.ismodule(vars(module).get(name))


def label_of(module: types.ModuleType) -> str:
    """What users call a module: ``tl``, ``te``, ``ops``, ``tl.target``, ``autosched.search``."""
    package, _, rest = module.__name__.partition(".")
    if package != __package__:
        return module.__name__
    return rest if rest.partition(".")[0] in ("te", "ops", "topi", "tir") else f"tl.{rest}".rstrip(".")


def answer(cls: type, label: str, gone: Mapping[str, str], *, often: bool = False) -> None:
    """Let objects of a class say what is near a name that they do not have, and refuse what Python's syntax
    asks of them in vain. ``often``: our code asks them in passing, and makes many."""
    of_class = signposts.OF_CLASS.get(cls.__name__, {})
    gone = {**of_class, **gone}

    def __getattr__(self: Any, name: str) -> Any:
        # Python and notebooks ask for many; so does our code, in passing
        if name.startswith("_") or (often and is_ours(sys._getframe(1))):
            raise AttributeError(name)
        raise missing(label if label == cls.__name__ else f"{label} (a {cls.__name__})", name, cls, gone)

    if "__getattr__" not in vars(cls) and HINTS:
        cls.__getattr__ = __getattr__  # type: ignore[attr-defined]
    for n in of_class:
        if not hasattr(cls, n):
            setattr(cls, n, Gone(functools.partial(missing, cls.__name__, n, cls, gone)))
    refuse(cls, label, signposts.INSTEAD.get(cls.__name__, {}))
    if not often and HINTS:
        fix(cls, label, signposts.SET)


def signpost(
    module: types.ModuleType,
    label: str,
    gone: Mapping[str, str],
    elsewhere: Callable[[str], Mapping[str, str]] | None = None,
) -> None:
    """Let a module say where a name went that it does not have."""

    def __getattr__(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        known = getattr(module, "__all__", None) or vars(module)
        raise missing(label, name, known, gone, elsewhere(name) if elsewhere else {})

    module.__getattr__ = __getattr__  # type: ignore[method-assign]


def close(name: str, known: Iterable[str]) -> list[str]:
    """The names that ``name`` may be a slip of, the likeliest first."""
    listed = sorted({k for k in known if not k.startswith("_")})
    found = difflib.get_close_matches(name, listed, 3, 0.6)
    low = name.lower().replace("_", "")
    same = [k for k in listed if k.lower().replace("_", "") == low]
    return list(dict.fromkeys([*same, *found]))


def guard(
    owner: Any,
    names: Iterable[str],
    label: str,
    error: type[TensorLangError],
    *,
    eager: bool | Collection[str] = False,
    direct: bool = False,
) -> None:
    """Guard functions of a module or methods of a class. ``label`` is how users call the owner; plain
    exceptions become an ``error``. ``eager``: numbers, words and objects of ours are held against the
    annotations before the call, where a wrong one would do harm first; or these parameters only. ``direct``:
    code of ours calls them too, and gets the same errors as before; functions stay where they were made, and
    what users give to them and to constructors is held against the annotations."""
    for name in names:
        inside = inspect.getattr_static(owner, name, None)
        f = inside.__func__ if isinstance(inside, staticmethod | classmethod) else inside
        if not isinstance(f, FUNCTIONS) or hasattr(f, "__guarded__"):
            continue
        makes = name in ("__init__", "__new__")
        word = label if makes else f"{label}.{name}" if label else name
        method = makes or (inside is f and not inspect.ismodule(owner))
        wrapped: Any = _entry(f, word, error, eager, method, direct)
        if isinstance(inside, staticmethod | classmethod):
            wrapped = type(inside)(wrapped)
        setattr(owner, name, wrapped)
        home = sys.modules.get(f.__module__)
        if inspect.ismodule(owner) and not direct and home is not None and vars(home).get(name) is f:
            setattr(home, name, wrapped)  # where pickle looks for it


def guard_class(
    cls: type,
    error: type[TensorLangError],
    label: str = "",
    *,
    eager: bool | Collection[str] = False,
    without: Collection[str] = (),
    direct: bool = False,
) -> None:
    """Guard the public methods of a class and its constructor."""
    names = [n for n in vars(cls) if (not n.startswith("_") and n not in without) or n == "__init__"]
    guard(cls, names, label or cls.__name__, error, eager=eager, direct=direct)


def guarded(f: Callable[..., Any], word: str, error: type[TensorLangError]) -> Callable[..., Any]:
    """A function that users get from a call, such as a reducer; see ``guard``."""
    return _entry(f, word, error, False, False, False)


def _entry(
    f: Callable[..., Any],
    word: str,
    error: type[TensorLangError],
    eager: bool | Collection[str],
    method: bool,
    direct: bool,
) -> Callable[..., Any]:
    check = _Arguments(f, word, error, method)
    made = direct and (not method or f.__name__ in ("__init__", "__new__"))

    @functools.wraps(f)
    def entry(*args: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        try:
            for watch in WATCHERS:
                if (found := watch(f, args, named)) is not NotImplemented:
                    return found
            if eager or (made and not is_ours(sys._getframe(1))):
                check.types(args, named, eager or made)
            return f(*args, **named)
        except TensorLangError as e:
            raise short(e) from e.__cause__
        except PLAIN as e:
            within = direct and is_ours(sys._getframe(1))
            if within or isinstance(e, NEVER) or options.debug() or not _is_our_mistake(e):
                raise
            raised = check.reworded(e, args, named)
        raise raised.with_traceback(None)

    entry.__guarded__ = True  # type: ignore[attr-defined]
    return entry


class _Arguments:
    """What a function takes, looked at when a call of it fails or, if ``eager``, before."""

    def __init__(self, f: Callable[..., Any], word: str, error: type[TensorLangError], method: bool) -> None:
        self.f = f
        self.method = method  # of an object, which stands first
        self.word = word
        self.error = error
        self.known: set[tuple[str, type]] = set()  # parameters and types of which every value fits

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.f)

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """The parameters that users give: not the object itself."""
        found = dict(self.signature.parameters)
        if self.method:
            del found[next(iter(found))]
        return found

    @functools.cached_property
    def kinds(self) -> dict[str, Any]:
        """What each parameter is annotated with, as far as that can be known."""
        try:
            return inspect.get_annotations(self.f, locals=_Names(self.f.__globals__), eval_str=True)
        except Exception:  # an annotation that is not an expression of types
            return {}

    @property
    def taken(self) -> list[str]:
        """The parameters, as a person writes them."""
        return list(self.parameters)

    def types(self, args: tuple[Any, ...], named: dict[str, Any], which: bool | Collection[str]) -> None:
        """Raises when an argument, or one of these, is not of its kind."""
        # nearly always all are, and to say which is whose takes longer than the look at them
        if all(map(self._plain, self.places, args)) and all(map(self._plain, named, named.values())):
            return
        try:
            bound = self.signature.bind(*args, **named)
        except TypeError:
            return  # the call says it
        wrong = self._wrong(
            bound.arguments
            if isinstance(which, bool)
            else {n: v for n, v in bound.arguments.items() if n in which}
        )
        if wrong is not None:
            raise wrong

    @functools.cached_property
    def places(self) -> list[str]:
        """The names of what is given by its place."""
        return [
            n
            for n, p in self.signature.parameters.items()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]

    def _plain(self, name: str, value: Any) -> bool:
        """Whether a value is of a type that is known to fit here, or fits."""
        kind = self.kinds.get(name)
        if kind is None or (name, type(value)) in self.known:
            return True
        if not fits(value, kind):
            return False
        if by_type(kind):
            self.known.add((name, type(value)))
        return True

    def _wrong(self, arguments: Mapping[str, Any]) -> TensorLangError | None:
        for name, value in arguments.items():
            kind = self.kinds.get(name)
            parameter = self.signature.parameters[name].kind
            if kind is None or parameter in (2, 4) or fits(value, kind):
                continue
            return self.error(
                f"{self.word}({name}={shown(value)}): {described(kind)} is needed",
                because=_came(value, kind),
                try_=signposts.MADE.get(described(kind)),
            )
        return None

    def reworded(self, e: BaseException, args: tuple[Any, ...], named: dict[str, Any]) -> TensorLangError:
        """The error that stands for a plain exception of a call with these arguments."""
        inner = innermost(e.__traceback__)
        at = inner and readable_place(inner.tb_frame.f_code.co_filename, inner.tb_lineno)
        try:
            bound = self.signature.bind(*args, **named)
        except TypeError as b:
            return self._unbound(str(b), named, args)
        found = self._wrong(bound.arguments)
        if found is None:
            given = ", ".join(f"{n}={shown(v)}" for n, v in bound.arguments.items() if n != "self")
            found = self.error(
                f"{self.word}({given[:200]}): not with these arguments",
                because=f"{type(e).__name__}: {' '.join(str(e).split())[:200]}",
                legal=f"{self.word}({', '.join(self.taken)}); TENSORLANG_DEBUG=1 shows where it came up",
            )
        found.at = at or found.at
        return found

    def _unbound(self, said: str, named: Mapping[str, Any], args: tuple[Any, ...]) -> TensorLangError:
        made = getattr(args[0], "__made__", None) if args and self.f.__name__ == "__init__" else None
        if made:
            given = ", ".join(map(shown, args[1:]))
            return self.error(f"{self.word}({given}): it is not made by calling its class", try_=made)
        parameters = self.signature.parameters
        foreign = [n for n in named if n not in parameters]
        what = said
        if foreign:
            what = f"there is no argument {foreign[0]!r}"
            here = [n for n in signposts.ARGUMENTS.get(foreign[0], "").split(", ") if n in self.taken]
            near = close(foreign[0], self.taken)
            what += f"; here it is {here[0]!r}" if here else f"; {near[0]!r} is near" if near else ""
        return self.error(f"{self.word}: {what}", legal=f"{self.word}({', '.join(map(str, self._call()))})")

    def _call(self) -> list[str]:
        shown_ = []
        for n, p in self.parameters.items():
            star = {2: "*", 4: "**"}.get(p.kind, "")
            anew = type(p.default).__name__.startswith("_")  # what a dataclass makes for each object
            value = "" if p.default is p.empty else "=…" if anew else f"={shown(p.default)}"
            shown_.append(star + n + value)
        return shown_


class _Names(dict[str, Any]):
    """The names of a module; one that only type checkers know may be anything."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, Any)


def _came(value: Any, kind: Any) -> str:
    """What came instead: of a list, the first that does not fit."""
    inner = typing.get_args(kind)
    if isinstance(value, list | tuple) and inner and typing.get_origin(kind) is collections.abc.Sequence:
        n, v = next((n, v) for n, v in enumerate(value) if not fits(v, inner[0]))
        return f"{with_article(type(v).__name__)} stands at place {n}"
    return f"{with_article(type(value).__name__)} came"


def misfit(fn: Any, *args: Any, **named: Any) -> TypeError | None:
    """Why a function cannot be called with these arguments; None where it can, and of functions of C, which
    do not tell."""
    try:
        inspect.signature(fn).bind(*args, **named)
    except TypeError as e:
        return e
    except ValueError:
        return None
    return None


def unusable(path: str | os.PathLike[str]) -> str:
    """Why no file has such a name; empty where one may."""
    if not os.fspath(path):
        return "a file has a name"
    if "\0" in os.fspath(path):
        return "no file has a null byte in its name"
    long = any(len(os.fsencode(part)) > LONGEST for part in Path(path).parts)
    return f"a name in it has more than {LONGEST} bytes, which no file system takes" if long else ""


def check_path(path: str | os.PathLike[str], said: str) -> None:
    """Raises TensorLangError where no file has such a name; ``said`` is what was asked, {} its place."""
    if why := unusable(path):
        raise TensorLangError(said.format(shown(os.fspath(path))), because=why)


def shown(value: Any) -> str:
    """A value as it may stand in a message: short, and without an address."""
    if value is None or isinstance(value, str | int | float | bytes):
        text = repr(value)
    elif isinstance(value, list | tuple):
        inside = ", ".join(map(shown, value[:4])) + (", …" if len(value) > 4 else "")
        text = f"[{inside}]" if isinstance(value, list) else f"({inside}{',' * (len(value) == 1)})"
    elif isinstance(value, type) or (callable(value) and hasattr(value, "__name__")):
        name = value.__name__
        text = "a function" if name == "<lambda>" else name
    elif type(value).__module__.partition(".")[0] in (__package__, "autosched") and hasattr(value, "name"):
        text = str(value.name)
    else:
        text = with_article(type(value).__name__)
    return text if len(text) <= 60 else text[:57] + "…"


def short(e: TensorLangError) -> TensorLangError:
    """The error without the frames of ours, to be raised again at once."""
    return e if options.debug() else e.with_traceback(trimmed(e.__traceback__))


def trimmed(tb: TracebackType | None) -> TracebackType | None:
    """The frames of a traceback that are the user's; those of ours are left out."""
    frames = []
    while tb is not None:
        if not is_ours(tb.tb_frame):
            frames.append(tb)
        tb = tb.tb_next
    found: TracebackType | None = None
    for t in reversed(frames):
        found = TracebackType(found, t.tb_frame, t.tb_lasti, t.tb_lineno)
    return found


def _is_our_mistake(e: BaseException) -> bool:
    """Whether our code ran into the exception, and not a function of the user's that we called. What numpy
    and Python's own library raise counts for whoever called them."""
    ours = True
    tb = e.__traceback__
    while tb is not None:
        if is_ours(tb.tb_frame):
            ours = True
        elif not tb.tb_frame.f_code.co_filename.startswith((*_LIBRARIES, "<frozen ", "<__array_function__")):
            ours = False
        tb = tb.tb_next
    return ours


def innermost(tb: TracebackType | None) -> TracebackType | None:
    """The user's innermost line in a traceback, be it in a function that we called; None without one."""
    found = None
    while tb is not None:
        name = tb.tb_frame.f_code.co_filename
        if not is_ours(tb.tb_frame) and not name.startswith((*_LIBRARIES, "<frozen ")):
            found = tb
        tb = tb.tb_next
    return found


LONGEST = 255  # bytes of a name in a path
MOST = 12  # lines of an error in a notebook


def _render_traceback_(self: TensorLangError) -> list[str]:
    """What IPython shows of an error of ours: the user's line and the message."""
    if options.debug():
        tb = sys.modules["IPython"].get_ipython().InteractiveTB
        made: list[str] = tb.structured_traceback(type(self), self, self.__traceback__)
        return made
    head = f"{type(self).__name__} at {self.at}" if self.at else type(self).__name__
    found = innermost(self.__traceback__)
    if found is None:
        return [head, "", *self.brief(MOST - 2)]
    name, line = found.tb_frame.f_code.co_filename, found.tb_lineno
    code = linecache.getline(name, line, found.tb_frame.f_globals).strip()
    return [head, f"----> {line} {code}", "", *self.brief(MOST - 3)]


TensorLangError._render_traceback_ = _render_traceback_  # type: ignore[attr-defined]  # errors know no settings
guard(TensorLangError, ("__init__",), "TensorLangError", TensorLangError, direct=True)
