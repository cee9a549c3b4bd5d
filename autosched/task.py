"""What is to be tuned: a computation for given sizes on a target. Knows tensorlang's public names; nothing of
spaces, search or workers.

A task is known by its workload key, a hash of the computation without its names (``te.serialize``), not by
the import path of the function that declared it: so closures and notebook cells tune as well, a record speaks
of exactly what was measured, and a worker on this or another machine rebuilds the computation from text
without importing the user's code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, TypeVar, overload

import tensorlang as tl
from tensorlang import recipes, te
from tensorlang.analysis import Limits, analyse
from tensorlang.boundary import misfit
from tensorlang.entries import public
from tensorlang.protocols import Listed, Row

from .records import Record, apply_best, load
from .signposts import GONE_OF_TASK
from .tuning.adopted import Adopted

Declares = TypeVar("Declares", bound=Callable[..., Any])
Template = Callable[[tl.Schedule, list[te.Tensor]], Any]
_workloads: dict[str, Callable[..., Any]] = {}


@overload
def register_workload(func: str) -> Callable[[Declares], Declares]: ...
@overload
def register_workload(func: Declares) -> Declares: ...
def register_workload(func: Callable[..., Any] | str) -> Any:
    """Make a function that declares a computation known by name: ``@register_workload`` or
    ``@register_workload("name")``.

    The function takes plain sizes and returns the tensors of the kernel's signature, outputs last.
    Raises TensorLangError when another function has that name.
    """
    if isinstance(func, str):
        name = func
        if not name:
            raise tl.TensorLangError(
                "register_workload(''): a workload has a name",
                because="records call it so",
                try_="@autosched.register_workload, which takes the function's",
            )
        return lambda f: _register(name, f)
    return _register(getattr(func, "__name__", ""), func)


def _register(name: str, func: Callable[..., Any]) -> Callable[..., Any]:
    if not callable(func):
        raise tl.TensorLangError(
            f"register_workload: {type(func).__name__} is not a function that declares a computation",
            try_="@autosched.register_workload over a def that returns its tensors",
        )
    known = _workloads.get(name)
    # a notebook's cell that runs again defines the same function anew
    if known is not None and (known.__module__, known.__qualname__) != (func.__module__, func.__qualname__):
        raise tl.TensorLangError(
            f"register_workload({name!r}): the name is taken",
            because=f"by {known.__module__}.{known.__qualname__}",
        )
    _workloads[name] = func
    return func


def workload(name: str) -> Callable[..., Any]:
    """The registered function of that name. Raises TensorLangError when there is none."""
    result = _workloads.get(name)
    if result is None:
        raise tl.TensorLangError(
            f"no workload {name!r}", legal=", ".join(sorted(_workloads)) or "none is registered"
        )
    return result


@public(
    tl.TensorLangError, "SearchTask", GONE_OF_TASK, eager=True, page="autosched.reporting.objects:task_page"
)
class SearchTask:
    """A computation to tune: ``func(*args)`` returns its tensors, outputs last.

    ``func`` is a function or the name of a registered one; ``target`` as in ``tl.build``; ``template(s,
    tensors)`` makes the schedule with sampled values; without one, sketches are derived by rules, of which
    ``rules`` are tried first and those named in ``without`` not at all (see ``autosched.space.rules``;
    ``without=["winograd"]`` keeps the rounding of direct convolutions); ``limits`` of code and memory are
    kept by all that is searched, though not by the default schedule: ``Limits(workspace_bytes=1 << 20)`` of
    ``tensorlang.analysis``. Raises TensorLangError when the function does not return such tensors.

    >>> def scaled(m, n):
    ...     A = te.placeholder((m, n), name="A")
    ...     return [A, te.compute((m, n), lambda i, j: A[i, j] * 2, name="B")]
    >>> task = autosched.SearchTask(scaled, (64, 64))
    >>> task.flops
    4096.0
    """

    def __init__(
        self,
        func: Callable[..., Any] | str,
        args: Any = (),  # a single size needs no list
        target: str | tl.Target | None = None,
        *,
        template: Template | None = None,
        rules: Sequence[Any] = (),
        name: str | None = None,
        limits: Limits | None = None,
        without: Sequence[str] = (),
    ) -> None:
        call = workload(func) if isinstance(func, str) else func
        if not callable(call):
            raise tl.TensorLangError(
                f"SearchTask: {type(func).__name__} is not a function that declares a computation",
                try_="autosched.SearchTask.of([A, B, C]) for tensors already declared",
            )
        self.args: tuple[Any, ...] = Row("task.args", args if isinstance(args, list | tuple) else (args,))
        self.name = name if name is not None else f"{_word(call)}({', '.join(map(str, self.args))})"
        # as tl.compile takes it, or the search would begin with another schedule than what it is to replace
        self.target = tl.target.as_target(target or None).for_threads(tl.num_threads())
        _check_sizes(self.name, call, self.args)
        if template is not None:
            check_template(f"SearchTask {self.name}", template)
        self.template = template
        self.rules = tuple(rules)
        self.limits = limits
        self.without = tuple(without)
        if self.rules or self.without:
            from .space.rules import RULES, chosen

            chosen(self.name, self.rules, RULES, self.without)
        self.tensors = Listed("task.tensors", _tensors(self.name, call(*map(_as_argument, self.args))))
        # taken now: what is tuned stays what it was, whatever the tensors are used for later
        self.graph = te.serialize.to_json(self.tensors)
        self.exact_key = te.serialize.key_of(self.tensors)
        # without names: records of one task serve another that computes the same under other names
        self.workload_key, self.names = te.serialize.form_and_names(self.tensors)

    @staticmethod
    def of(
        tensors: Sequence[te.Tensor],
        target: str | tl.Target | None = None,
        *,
        template: Template | None = None,
        rules: Sequence[Any] = (),
        name: str = "task",
        limits: Limits | None = None,
        without: Sequence[str] = (),
    ) -> SearchTask:
        """A task from tensors already declared, outputs last.

        >>> x = te.placeholder((64,), name="x")
        >>> autosched.SearchTask.of([x, ops.relu(x)]).flops
        64.0
        """
        return SearchTask(
            lambda: list(tensors),
            (),
            target,
            template=template,
            rules=rules,
            name=name,
            limits=limits,
            without=without,
        )

    def __repr__(self) -> str:
        return f"SearchTask({self.name}, {self.workload_key}, {self.target})"

    @property
    def outputs(self) -> list[te.Tensor]:
        """The tensors that are computed, those of ``tensors`` that are no arguments.

        >>> def doubled(n):
        ...     x = te.placeholder((n,), name="x")
        ...     return [x, ops.multiply(x, 2.0)]
        >>> task = autosched.SearchTask(doubled, (1024,))
        >>> task.outputs
        [Tensor(multiply: float32[1024])]
        """
        return Listed("task.outputs", [t for t in self.tensors if _computed(t)])

    @cached_property
    def flops(self) -> float:
        """Operations of the computation as it is declared, whatever a schedule makes of it; 0 when a size is
        symbolic."""
        return Operations(analyse(self.schedule()).flops)

    def schedule(self) -> tl.Schedule:
        """A fresh schedule of the task's tensors, no step made.

        >>> def doubled(n):
        ...     x = te.placeholder((n,), name="x")
        ...     return [x, ops.multiply(x, 2.0)]
        >>> task = autosched.SearchTask(doubled, (1024,))
        >>> print(task.schedule().tree())
        root
        └─ loop multiply.i0      0..1024
           └─ compute multiply   reads x
        """
        return tl.create_schedule(self.outputs)

    def default_schedule(self) -> tl.Schedule:
        """What ``tl.compile`` makes of the computation, and a search begins with; each time a new one.

        >>> task = autosched.SearchTask(lambda n: [x := te.placeholder((n,)), ops.relu(x)], (1024,))
        >>> len(task.default_schedule().trace.steps) > 0
        True
        """
        return recipes.default_schedule(self.outputs, self.target, without=self.without)

    def apply_best(self, records: str | Path | Sequence[Record]) -> tuple[tl.Schedule, list[te.Tensor]]:
        """The best measured schedule of this task and target, and the tensors to build it with.

        Raises TensorLangError when no record of it succeeded.
        """
        listed, bad = load(records) if isinstance(records, str | Path) else (list(records), [])
        adopted = Adopted(self)
        # records of other targets and older forms are left out, and counted for the message
        mine = adopted.take(listed)
        return apply_best(
            mine, self.workload_key, str(self.target), self.name, self.schedule(), adopted.refused, bad
        ), list(self.tensors)

    def print_best(self, records: str | Path | Sequence[Record]) -> str:
        """The best measured schedule as Python text that a person can paste."""
        s, _ = self.apply_best(records)
        return s.trace.to_python(numbers=True)


class Operations(float):
    """How many there are. It is no function, and says so."""

    def __call__(self, *args: Any) -> NoReturn:
        raise tl.TensorLangError("task.flops is a number, not a function", try_="task.flops")


def _word(call: Callable[..., Any]) -> str:
    name = getattr(call, "__name__", "task")
    return "task" if name == "<lambda>" else name


def _check_sizes(name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Raises TensorLangError when a function does not take so many sizes."""
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):  # of C
        return
    try:
        signature.bind(*args)
    except TypeError as e:
        word = getattr(call, "__name__", "")
        raise tl.TensorLangError(
            f"task {name}: the function takes other sizes",
            because=f"{e}; {len(args)} given",
            legal=f"{word if word.isidentifier() else 'function'}({', '.join(signature.parameters)})",
        ) from None


def check_template(name: str, template: Any) -> None:
    """Raises TensorLangError for what is not called with a schedule and tensors."""
    wrong = misfit(template, None, None)
    if wrong:
        lacks = "function of (s, tensors)" if callable(template) else "function"
        raise tl.TensorLangError(
            f"{name}: the template is no {lacks}",
            because=str(wrong) if callable(template) else None,
            try_="template=g of def g(s, tensors), which samples sizes by s.sample_tile(loop)",
        )


def _as_argument(x: Any) -> Any:
    """A float says so when it is taken for a size."""
    return te.axis.FloatArgument(x) if isinstance(x, float) else x


def _computed(t: te.Tensor) -> bool:
    return not isinstance(t.op, te.PlaceholderOp)


def _tensors(name: str, result: Any) -> list[te.Tensor]:
    listed = list(result) if isinstance(result, tuple | list) else [result]
    for t in listed:
        if not isinstance(t, te.Tensor):
            raise tl.TensorLangError(
                f"task {name}: the function returned {type(t).__name__}, not a tensor",
                try_="return [A, B, C]: the tensors of the kernel, outputs last",
            )
    twice = next((t for t in listed if listed.count(t) > 1), None)
    if twice is not None:
        raise tl.TensorLangError(
            f"task {name}: {twice.name} is among the tensors more than once",
            try_=f"[{', '.join(t.name for t in dict.fromkeys(listed))}]",
        )
    made = te.graph.operations([t.op for t in listed])
    states = [t for op in made for t in getattr(op, "state", ())]  # of scans, which give them
    absent = [t for t in te.graph.inputs(listed) if t not in listed and t not in states]
    if absent:
        names = ", ".join(t.name for t in absent)
        raise tl.TensorLangError(
            f"task {name}: {names} {'is' if len(absent) == 1 else 'are'} read and not among the tensors",
            because=f"a kernel gets its arguments by this list, which is {', '.join(t.name for t in listed)}",
            try_=f"[{', '.join(t.name for t in (*absent, *listed))}]",
        )
    if not listed or not _computed(listed[-1]):
        raise tl.TensorLangError(
            f"task {name}: the last tensor is not computed", try_="return inputs first, outputs last"
        )
    return listed
