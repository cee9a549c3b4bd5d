"""``@autotune``: a function written over tensors becomes one that takes arrays, tuned when a shape is first
seen and remembered on disk. Knows tasks, tune and records; nothing of search or workers.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

import tensorlang as tl
from tensorlang import te
from tensorlang.boundary import check_path, close, guard
from tensorlang.entries import public
from tensorlang.errors import counted
from tensorlang.options import user_directory

from .records import RecordLog
from .task import SearchTask, check_template
from .tune import tune
from .tuning.budget import check_limits, check_seed
from .whole_files import write_whole

_SCALARS = (bool, int, float, str, type(None))


class AutotuneWarning(UserWarning):
    """A tune failed, and the kernel is the one of ``tl.compile``."""


def cache_directory() -> Path:
    """Where records are kept when no ``cache`` is given. Raises TensorLangError for a user without a home."""
    found = user_directory("cache")
    if found is None:
        raise tl.TensorLangError(
            "autotune: there is no directory to keep records in",
            because="this user has no home directory",
            try_="@autosched.autotune(cache='records'), or set HOME or XDG_CACHE_HOME",
        )
    return Path(found) / "autosched"


@overload
def autotune(
    func: Callable[..., Any],
    *,
    trials: int = 64,
    target: str | tl.Target | None = None,
    template: Any = None,
    cache: str | Path | None = None,
    seed: int = 0,
    progress: bool | None = False,
    **options: Any,
) -> Tuned: ...
@overload
def autotune(
    func: None = None,
    *,
    trials: int = 64,
    target: str | tl.Target | None = None,
    template: Any = None,
    cache: str | Path | None = None,
    seed: int = 0,
    progress: bool | None = False,
    **options: Any,
) -> Callable[[Callable[..., Any]], Tuned]: ...
def autotune(
    func: Callable[..., Any] | None = None,
    *,
    trials: int = 64,
    target: str | tl.Target | None = None,
    template: Any = None,
    cache: str | Path | None = None,
    seed: int = 0,
    progress: bool | None = False,
    **options: Any,
) -> Any:
    """Make a function over tensors one that takes numpy arrays: ``@autosched.autotune`` or
    ``@autosched.autotune(trials=200)``.

    ``func(A, B, *, …)`` gets a placeholder for each array (its parameter's name, shape and dtype) and every
    other argument (numbers, strings, None) as it is; it returns the output tensor, or a tuple or list of
    them. When such shapes are first seen, the computation is tuned with ``trials`` candidates and the records
    go to ``cache`` (a directory; the user's cache directory unless given), where other processes and later
    runs find them; an interrupted tune resumes where it stopped, one with fewer trials is continued,
    and a second process that wants the same at the same time waits for the first. When tuning fails, an
    AutotuneWarning says why and ``tl.compile`` makes the kernel, as it does where an array has no element.
    ``options`` go to ``tune``; ``progress=None`` shows it.

    The result has ``kernel(*args)`` and ``task(*args)``, which take the same arguments, and ``cache_clear()``
    for what this process holds. Raises TensorLangError for arguments it cannot take.
    """
    # of ``tune`` itself: an option that it gets is one here at once
    known = [n for n in inspect.signature(tune).parameters if n not in ("task", "records")]
    foreign = [n for n in options if n not in known]
    if foreign:
        near = close(foreign[0], known)
        raise tl.TensorLangError(
            f"autotune({foreign[0]}=…): there is no such option" + (f"; {near[0]!r} is near" if near else ""),
            because="options go to tune; records are kept in the directory cache="
            if foreign[0] == "records"
            else None,
            legal=", ".join(known),
        )
    limits = {n: options[n] for n in ("seconds", "patience", "batch", "timeout") if n in options}
    check_limits("autotune", trials=trials, **limits)
    check_seed("autotune", seed)
    if func is None:
        return functools.partial(
            autotune,
            trials=trials,
            target=target,
            template=template,
            cache=cache,
            seed=seed,
            progress=progress,
            **options,
        )
    if not callable(func):
        raise tl.TensorLangError(
            f"autotune({func!r}): not a function", try_="@autosched.autotune(trials=200) over a def"
        )
    if template is not None:
        check_template("autotune", template)
    if cache is not None:
        check_path(cache, "autotune(cache={})")
    where = tl.target.as_target(target or None)
    settings = {"trials": trials, "seed": seed, "progress": progress, **options}
    return Tuned(func, where, template, Path(cache) if cache is not None else cache_directory(), settings)


@public(tl.TensorLangError, "Tuned")
class Tuned:
    """What ``autotune`` makes of a function."""

    def __init__(
        self,
        func: Callable[..., Any],
        target: tl.Target,
        template: Any,
        cache: Path,
        settings: dict[str, Any],
    ) -> None:
        functools.update_wrapper(self, func)
        self.func, self.target, self.template, self.cache, self.settings = (
            func,
            target,
            template,
            cache,
            settings,
        )
        self.word = _word(func)
        self._names = _positional(func)
        self._kernels: dict[Any, tl.Module] = {}
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        n = len(self._kernels)
        return f"<tuned function {self.word}: {counted(n, 'kernel')} so far>"

    def __call__(self, *args: Any, **more: Any) -> Any:
        """The outputs for these arrays, of the library that the first of them is of."""
        given = [_array(a) for a in args]
        kernel = self.kernel(*given, **more)
        # an array of another library: results come back as arrays of that one
        like = next((a for a, g in zip(args, given, strict=True) if a is not g), None)
        named = {} if like is None else {"out_like": like}
        # asarray, since np.ascontiguousarray gives an array of no axis one
        return kernel(*[np.asarray(a, order="C") for a in given if _is_array(a)], **named)

    def kernel(self, *args: Any, **more: Any) -> tl.Module:
        """The kernel for arrays of these shapes, tuned if need be."""
        key = self._key(args, more)
        result = self._kernels.get(key)
        if result is None:
            with self._lock:  # two threads tune once
                result = self._kernels.get(key)
                if result is None:
                    result = self._kernels[key] = self._new(args, more)
        return result

    def _new(self, args: Sequence[Any], more: dict[str, Any]) -> tl.Module:
        if any(_is_array(a) and not a.size for a in args):
            # a batch of nothing comes now and then, and there is nothing to measure
            self._bound(args, more)
            return tl.compile(self._declared(args, more), target=self.target, name=self.word)
        return self._made(self.task(*args, **more))

    def task(self, *args: Any, **more: Any) -> SearchTask:
        """The task for arrays of these shapes."""
        self._key(args, more)
        self._bound(args, more)
        shown = ", ".join("×".join(map(str, a.shape)) if _is_array(a) else str(a) for a in args)
        name = f"{self.word}({shown})"
        return SearchTask(
            lambda: self._declared(args, more), (), self.target, template=self.template, name=name
        )

    def cache_clear(self) -> None:
        """Forget the kernels of this process; records on disk stay."""
        self._kernels.clear()

    def _key(self, args: Sequence[Any], more: dict[str, Any]) -> Any:
        """Arguments that are equal under this key share a kernel."""
        for what, a in [*zip([*self._names, *map(str, range(len(args)))], args, strict=False), *more.items()]:
            if not (_is_array(a) and what not in more) and not isinstance(a, _SCALARS):
                raise tl.TensorLangError(
                    f"{self.word}: argument {what} is of type {type(a).__name__}",
                    because="arrays (by position) become tensors; numbers, strings and None are taken as "
                    "they are",
                    try_="np.asarray(…)",
                )
        # the type beside the value: 1, 1.0 and True are equal keys, and make other kernels
        described = tuple(
            ("array", a.shape, a.dtype.str) if _is_array(a) else (type(a).__name__, a) for a in args
        )
        return described, tuple(sorted((k, type(v).__name__, v) for k, v in more.items()))

    def _bound(self, args: Sequence[Any], more: dict[str, Any]) -> None:
        """Raises TensorLangError for arguments that the function does not take."""
        parameters = inspect.signature(self.func)
        try:
            parameters.bind(*args, **more)
        except TypeError as e:
            raise tl.TensorLangError(
                f"{self.word}: {e}", legal=f"{self.word}({', '.join(parameters.parameters)})"
            ) from None

    def _declared(self, args: Sequence[Any], more: dict[str, Any]) -> list[te.Tensor]:
        inputs: list[te.Tensor] = []
        given: list[Any] = []
        for i, a in enumerate(args):
            if _is_array(a):
                name = self._names[i] if i < len(self._names) else f"arg{i}"
                try:
                    inputs.append(te.placeholder(a.shape, dtype=str(a.dtype), name=name))
                except tl.DeclareError as e:
                    raise tl.TensorLangError(
                        f"{self.word}: argument {name} is an array of {a.dtype}{list(a.shape)}",
                        because="kernels do not take such arrays",
                        legal=e.legal,
                    ) from None
                given.append(inputs[-1])
            else:
                given.append(a)
        made = self.func(*given, **more)
        outputs = list(made) if isinstance(made, tuple | list) else [made]
        if any(t is i for t in outputs for i in inputs):
            raise tl.TensorLangError(
                f"{self.word} returned one of its inputs", try_="return what te.compute made"
            )
        return [*inputs, *outputs]

    def _made(self, task: SearchTask) -> tl.Module:
        from filelock import FileLock

        try:
            self.cache.mkdir(parents=True, exist_ok=True)
            name = hashlib.sha256(f"{task.exact_key}\n{task.target}".encode()).hexdigest()[:24]
            # holds how many trials were asked for when a tune came to its end
            done = self.cache / f"{name}.done"
            # two processes that start together tune once; the second reads what the first has found
            with FileLock(self.cache / f"{name}.lock"):
                log = RecordLog(self.cache / f"{name}.jsonl")
                # a tune that was interrupted goes on from its records
                if _number(done) < self.settings["trials"] or not len(log):
                    tune(task, records=log, **self.settings)
                    write_whole(done, f"{self.settings['trials']}\n")
                schedule, tensors = task.apply_best(log.records)
            return tl.build(schedule, tensors, target=task.target, name=self.word)
        except (tl.TensorLangError, OSError) as e:
            advice = "; autotune(cache=…) or XDG_CACHE_HOME names a directory that can be written"
            said = f"{e}{advice if isinstance(e, OSError) else ''}"
            # a program that was to run faster still runs
            warnings.warn(f"{task.name} runs untuned: {said}", AutotuneWarning, stacklevel=4)
            return tl.compile(task.tensors, target=task.target, name=self.word)


def _word(func: Callable[..., Any]) -> str:
    """What kernels are called: a lambda and an object that is called have no name that C takes."""
    of = func.func if isinstance(func, functools.partial) else func
    name = getattr(of, "__name__", type(of).__name__).strip("<>")
    return name if name.isascii() and name.isidentifier() else "tuned"


def _positional(func: Callable[..., Any]) -> list[str]:
    code = getattr(func, "__code__", None)
    return list(code.co_varnames[: code.co_argcount]) if code is not None else []


def _number(file: Path) -> int:
    """The number in a file, 0 when there is none."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0


def _array(a: Any) -> Any:
    """An array of another library, such as a tensor of torch, as numpy's over the same memory; others as they
    are."""
    if isinstance(a, np.ndarray | np.generic) or not hasattr(a, "__dlpack__"):
        return a
    try:
        return np.from_dlpack(a)
    except Exception as error:  # the library's own: it may raise what it likes
        raise tl.CallError(
            f"{type(a).__qualname__} cannot be read as an array", because=f"{type(error).__name__}: {error}"
        ) from None


guard(Tuned, ("__call__",), "Tuned", tl.TensorLangError)


def _is_array(a: Any) -> bool:
    return isinstance(a, np.ndarray)
