"""``python -m tensorlang.migrate file.py``: a program for TVM's TE made one for tensorlang, as far as that is
sure; the rest is listed with its lines. Reads programs as text and runs nothing of them.

Imports of ``tvm`` become those of ``tensorlang`` and ``autosched``, tuning options become arguments of
``tune``. Names that are not here are found by asking the modules, which say what is there instead.
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib
import inspect
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import signposts
from .errors import TensorLangError

HERE = ("te", "topi", "tir", "nd", "testing")  # of ``from tvm import …``, there under the same names
TUNERS = ("auto_scheduler",)  # which autosched is
FOREIGN = {"bind": "threads of a GPU; parallel and vectorize take loops of the CPU"}
# Of stages and kernels, whose names say that they are TVM's
GONE = {
    "set_store_predicate": signposts.STAGE["set_store_predicate"],
    "env_threads": signposts.STAGE["env_threads"],
    "imported_modules": signposts.MODULE["imported_modules"],
}
GPUS = ("cuda", "opencl", "rocm", "metal", "vulkan", "nvptx", "webgpu")  # kinds of TVM's targets
RENAMED = {"compute_dag": "tensors"}  # of what only TVM's objects have
# Methods of what a program makes by names that are left: AutoTVM's configurations, schedules of blocks
METHODS = {
    "define_split": "s.sample_tile(loop)",
    "define_knob": "s.sample_categorical([…])",
    "define_annotate": "s.sample_categorical([…])",
    "add_flop": "operations are counted by autosched",
    "tune": "autosched.tune(task, trials=…, records=…)",
    "config_space": "autosched.derive(task)",
    "get_block": "s[T] is the stage of a tensor",
    "get_loops": "s[T].leaf_iter_vars, s[T].op.axis, s[T].op.reduce_axis",
    "sample_perfect_tile": "s.sample_tile(loop)",
}
_OPTIONS = {"num_measure_trials": "trials", "early_stopping": "patience"}
_DROPPED = ("verbose", "runner", "builder", "num_measures_per_round")  # which tune does by itself
_GOES_ON = "autosched.tune does this by itself; its trials= counts those of its records"
# Objects that only tune's arguments are made of: how it measures, with which model, by which policy
_BY_ITSELF = ("LocalBuilder", "LocalRunner", "LocalRPCMeasureContext", "SketchPolicy", "XGBModel")


@dataclass
class Migration:
    """The new text, how many places were rewritten, and (line, what, why) of what is left to a person."""

    text: str
    rewritten: int = 0
    left: list[tuple[int, str, str]] = field(default_factory=list)


def migrate(source: str) -> Migration:
    """The program for tensorlang. Raises TensorLangError for text that is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as e:
        raise TensorLangError("migrate: this is no Python program", because=str(e)) from None
    reader = _Reader(source)
    reader.visit(tree)
    edits = sorted((*reader.edits, *reader.missing_import()), reverse=True)
    text = source.encode()
    for begin, end, new in edits:
        text = text[:begin] + new.encode() + text[end:]
    return Migration(text.decode(), len(edits), sorted(set(reader.left)))


class _Reader(ast.NodeVisitor):
    """Collects edits of the text, as bytes from and to, and what it does not know."""

    def __init__(self, source: str) -> None:
        lines = source.encode().splitlines(keepends=True)
        self.starts = [0]
        for line in lines:
            self.starts.append(self.starts[-1] + len(line))
        self.source = source
        self.edits: list[tuple[int, int, str]] = []
        self.left: list[tuple[int, str, str]] = []
        self.modules: dict[str, str] = {}  # name in the program → module of ours
        self.options: set[str] = set()  # names of tuning options
        self.dropped: set[str] = set()  # names of what tune does by itself
        self.whole: list[ast.stmt] = []  # imports of the package
        self.written: set[str] = set()  # lines of imports
        self.foreign: dict[str, str] = {}  # name in the program → what of TVM it is, which is not here
        self.made: dict[str, str] = {}  # name of what the program makes by those → how it says so
        self.sharers: set[str] = set()  # names of several tasks with their weights
        self.tuner_written_out = False  # as tvm.auto_scheduler

    def edit(self, node: ast.stmt | ast.expr, new: str) -> None:
        self.edits.append((self.starts[node.lineno - 1] + node.col_offset, self._end(node), new))

    def _end(self, node: ast.stmt | ast.expr) -> int:
        return self.starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def missing_import(self) -> list[tuple[int, int, str]]:
        """autosched, where the program named it by the package it was part of."""
        if not self.tuner_written_out or "autosched" in self.modules.values() or not self.whole:
            return []
        at = self.starts[self.whole[0].lineno - 1]
        return [(at, at, f"{' ' * self.whole[0].col_offset}import autosched\n")]

    def leave(self, node: ast.AST, what: str, why: str) -> None:
        self.left.append((getattr(node, "lineno", 0), what, why))

    # -- imports

    def visit_Import(self, node: ast.Import) -> None:
        if not any(a.name.partition(".")[0] == "tvm" for a in node.names):
            return
        made = list(dict.fromkeys(self._import(node, a) for a in node.names))
        if not node.col_offset and self.written.issuperset(made) and self._alone(node):
            self.edits.append((self.starts[node.lineno - 1], self.starts[node.end_lineno or node.lineno], ""))
            return
        self.written.update(made if not node.col_offset else ())
        self.edit(node, f"\n{' ' * node.col_offset}".join(made))

    def _alone(self, node: ast.stmt) -> bool:
        """Whether nothing else stands on the lines of a statement."""
        lines = self.source.splitlines()[node.lineno - 1 : node.end_lineno]
        return "\n".join(lines).strip() == ast.get_source_segment(self.source, node)

    def _import(self, node: ast.Import, a: ast.alias) -> str:
        top, _, rest = a.name.partition(".")
        if top != "tvm":
            return f"import {_alias(a)}"
        name = a.asname or "tvm"
        if not rest or (not a.asname and _here(rest)):
            self.whole.append(node)
            self.modules[name] = "tensorlang"
            return f"import tensorlang as {name}"
        if rest in TUNERS:
            self.modules[name] = "autosched"
            return f"import autosched as {name}"
        if _here(rest):
            self.modules[name] = ours = f"tensorlang.{rest}"
            module, _, last = ours.rpartition(".")
            return f"from {module} import {last} as {name}"
        self.leave(node, a.name, _why("tensorlang", rest.partition(".")[0]))
        if a.asname:
            self.foreign[name] = rest
        return f"import {_alias(a)}"

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level or module.partition(".")[0] != "tvm":
            return
        if module == "tvm":
            self.edit(node, f"\n{' ' * node.col_offset}".join(self._from_tvm(node)))
        elif _here(rest := module.removeprefix("tvm.")) or rest in TUNERS:
            ours = "autosched" if rest in TUNERS else f"tensorlang.{rest}"
            for a in node.names:
                self._known(node, ours, a.name)
            self.edit(node, f"from {ours} import {', '.join(map(_alias, node.names))}")
        else:
            self.leave(node, module, _why_deep(rest))
            self.foreign.update((a.asname or a.name, f"{rest}.{a.name}") for a in node.names)

    def _from_tvm(self, node: ast.ImportFrom) -> Iterator[str]:
        here, other = [], []
        for a in node.names:
            name = a.asname or a.name
            if a.name in HERE:
                self.modules[name] = f"tensorlang.{a.name}"
                here.append(_alias(a))
            elif a.name in TUNERS:
                self.modules[name] = "autosched"
                yield f"import autosched as {name}"
            else:
                self.leave(node, f"tvm.{a.name}", _why("tensorlang", a.name))
                self.foreign[name] = a.name
                other.append(_alias(a))
        if here:
            yield f"from tensorlang import {', '.join(here)}"
        if other:
            yield f"from tvm import {', '.join(other)}"

    # -- names

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if self._foreign(node):
            return
        base = self._module_of(node.value)
        if base == "tensorlang" and node.attr in TUNERS:
            self.tuner_written_out = True
            self.edit(node, next((n for n, m in self.modules.items() if m == "autosched"), "autosched"))
            return
        if base is None and node.attr in RENAMED:
            value = ast.get_source_segment(self.source, node.value)
            self.edit(node, f"{value}.{RENAMED[node.attr]}")
            return
        if isinstance(node.value, ast.Name) and node.value.id in self.dropped:
            self.leave(node, f"{node.value.id}.{node.attr}", _GOES_ON)
            return
        if base is not None:
            self._known(node, base, node.attr)
        elif node.attr in FOREIGN and not isinstance(node.value, ast.Name):
            self.leave(node, f".{node.attr}(…)", FOREIGN[node.attr])
        elif node.attr in GONE:
            self.leave(node, f".{node.attr}", GONE[node.attr])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if self.modules and isinstance(node.value, str) and node.value.partition(" ")[0] in GPUS:
            self.leave(node, repr(node.value), "kernels run on the CPU; target='llvm'")

    def _foreign(self, node: ast.Attribute) -> bool:
        """List the use of a name that is left, or of what was made by one; whether it was such a use."""
        root = _root(node)
        if root in self.foreign:
            why = _why_foreign(self.foreign[root], node)
        elif root in self.made:
            why = METHODS.get(node.attr, self.made[root])
        else:
            return False
        self.leave(node, " ".join((ast.get_source_segment(self.source, node) or "").split()), why)
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute | ast.Call | ast.Subscript):
            if isinstance(inner, ast.Call):
                for given in (*inner.args, *(k.value for k in inner.keywords)):
                    self.visit(given)
            inner = inner.func if isinstance(inner, ast.Call) else inner.value
        return True

    def _script(self, node: ast.FunctionDef | ast.ClassDef) -> bool:
        """Whether a decorator makes it a program of TVM's own language, whose lines are none of Python's."""
        texts = [(d, ast.get_source_segment(self.source, d) or "") for d in node.decorator_list]
        of = [d for d, text in texts if "script" in f"{self.foreign.get(_root(d) or '')}.{text}".split(".")]
        for decorator in of:
            self.visit(decorator)
        return bool(of)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if not self._script(node):
            self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if not self._script(node):
            self.generic_visit(node)

    def _module_of(self, node: ast.AST) -> str | None:
        """The module of ours that an expression names."""
        if isinstance(node, ast.Name):
            return self.modules.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self._module_of(node.value)
            if base == "tensorlang" and node.attr in TUNERS:
                return "autosched"
            found = f"{base}.{node.attr}" if base else None
            return found if found is not None and _is_module(found) else None
        return None

    def _known(self, node: ast.AST, module: str, name: str) -> None:
        why = _why(module, name)
        if why and not (module == "autosched" and name in ("TuningOptions", "RecordToFile")):
            written = ast.get_source_segment(self.source, node) if isinstance(node, ast.Attribute) else None
            self.leave(node, written or f"{module.rpartition('.')[2]}.{name}", why)

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            call = item.context_expr.func if isinstance(item.context_expr, ast.Call) else item.context_expr
            if (ast.get_source_segment(self.source, call) or "").rpartition(".")[2] == "Target":
                self.leave(node, "with Target(…)", "a target is an argument: target= of build and SearchTask")
        self.generic_visit(node)

    # -- tuning

    def visit_Assign(self, node: ast.Assign) -> None:
        names = [
            n.id
            for target in node.targets
            for n in ast.walk(target)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        ]
        why = self._made_of_what_is_left(node.value)
        for name in names:  # a name that is assigned anew is no longer what it was
            self.made.pop(name, None)
            self.sharers.discard(name)
        if (tasks := self._several_tasks(node.value)) is not None and isinstance(node.targets[0], ast.Name):
            self.sharers.add(node.targets[0].id)
            self.edit(node.value, tasks)
            return
        options = self._tuning_options(node.value)
        if options is not None and isinstance(node.targets[0], ast.Name):
            self.options.add(node.targets[0].id)
            self.edit(node.value, options)
            return
        if isinstance(node.targets[0], ast.Name) and self._by_itself(node.value):
            for n in ast.walk(
                node.value
            ):  # goes with the policy, and what it did is not quite what tune does
                if isinstance(n, ast.Attribute) and n.attr == "PreloadMeasuredStates":
                    self.leave(n, n.attr, _GOES_ON)
            self.dropped.add(node.targets[0].id)
            self.edit(node.value, "None")
            return
        if why:
            self.made.update((name, why) for name in names)
        self.generic_visit(node)

    def _made_of_what_is_left(self, node: ast.expr) -> str:
        """What to say of the names that such a value gets; empty where all of it is here."""
        function = node.func if isinstance(node, ast.Call) else node
        base = self._module_of(function.value) if isinstance(function, ast.Attribute) else None
        root = _root(node)
        if root in self.made:
            return self.made[root]
        gone = base is not None and isinstance(function, ast.Attribute) and _why(base, function.attr)
        return f"it comes from line {node.lineno}, which is left" if root in self.foreign or gone else ""

    def visit_Call(self, node: ast.Call) -> None:
        policies = [k.value for k in node.keywords if k.arg == "search_policy"]
        others = len(node.keywords) > len(policies)
        policies += node.args[1:2]
        alone = all(self._by_itself(p) or _named(p) in self.dropped for p in policies)
        given = node.args[0] if len(node.args) in (1, 2) and alone else None
        tuner = next((n for n, m in self.modules.items() if m == "autosched"), None)
        if tuner is None and "tensorlang" in self.modules.values():
            tuner = "autosched"
        if isinstance(node.func, ast.Attribute) and node.func.attr == "tune" and tuner:
            task = ast.get_source_segment(self.source, node.func.value)
            options = self._tuning_options(given) if given is not None and not others else None
            named = _named(node.args[0]) if node.args else None
            if named in self.options and given is not None and not others:
                options = named
            if options is not None and self._module_of(node.func.value) is None:
                self.tuner_written_out = True
                call = f"tune_tasks(*{task}" if task in self.sharers else f"tune({task}"
                self.edit(node, f"{tuner}.{call}, **{options})")
                return
            if named in self.options and self._module_of(node.func.value) is None:
                self.leave(node, f"{task}.tune(…)", f"{tuner}.tune({task}, **{named})")
        self._arguments(node)
        self.generic_visit(node)

    def _arguments(self, node: ast.Call) -> None:
        """Arguments of functions that are here, which have others."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name == "print_best" and len(node.args) == len(node.keywords) == 1:
            (mode,) = node.keywords
            if mode.arg == "print_mode" and getattr(mode.value, "value", None) == "schedule":
                self.edits.append((self._end(node.args[0]), self._end(mode.value), ""))
            elif mode.arg == "print_mode":
                self.leave(node, "print_best(…)", "the schedule is printed; f.get_source('asm') of a kernel")
        if name == "extract_tasks" and (len(node.args) > 2 or node.keywords):
            self.leave(
                node,
                "extract_tasks(…)",
                "autosched.extract_tasks(program) of tensors; models by tl.load_onnx('model.onnx')",
            )

    def _several_tasks(self, node: ast.AST) -> str | None:
        """``TaskScheduler(tasks, weights)`` as a tuple of the first arguments of tune_tasks."""
        if not (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "TaskScheduler"
            and self._module_of(node.func.value) == "autosched"
            and 1 <= len(node.args) <= 2
            and [k.arg for k in node.keywords] in ([], ["task_weights"][len(node.args) - 1 :])
        ):
            return None
        given = [
            ast.get_source_segment(self.source, a) for a in (*node.args, *(k.value for k in node.keywords))
        ]
        return f"({', '.join(map(str, given))}{',' if len(given) == 1 else ''})"

    def _by_itself(self, node: ast.AST) -> bool:
        """Whether it makes one of the objects that tune needs not be given."""
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _BY_ITSELF
            and self._module_of(node.func.value) == "autosched"
        )

    def _tuning_options(self, node: ast.AST | None) -> str | None:
        """``TuningOptions(…)`` as a dict of the arguments of tune; None for anything else."""
        if not (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "TuningOptions"
            and self._module_of(node.func.value) == "autosched"
            and not node.args
        ):
            return None
        made = []
        for k in node.keywords:
            value = ast.get_source_segment(self.source, k.value)
            if k.arg in _OPTIONS:
                made.append(f"{_OPTIONS[k.arg]}={value}")
            elif k.arg == "measure_callbacks" and (file := self._record_file(k.value)) is not None:
                made.append(f"records={file}")
            elif k.arg not in _DROPPED:
                self.leave(node, f"TuningOptions({k.arg}=…)", "autosched.tune has no such argument")
        return f"dict({', '.join(made)})"

    def _record_file(self, node: ast.AST) -> str | None:
        """The file of ``[RecordToFile(file)]``."""
        call = node.elts[0] if isinstance(node, ast.List) and len(node.elts) == 1 else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and len(call.args) == 1:
            if call.func.attr == "RecordToFile":
                return ast.get_source_segment(self.source, call.args[0])
        return None


def _alias(a: ast.alias) -> str:
    return f"{a.name} as {a.asname}" if a.asname else a.name


def _named(node: ast.AST) -> str | None:
    return node.id if isinstance(node, ast.Name) else None


def _root(node: ast.AST) -> str | None:
    """The name that a chain of attributes, calls and subscripts begins with."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return _named(node)


def _why_foreign(path: str, node: ast.Attribute) -> str:
    """What there is instead of ``path.attribute``: what the tuner or the package says of the name, else of
    the module that it is in."""
    names: list[str] = []
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        names.append(inner.attr)
        inner = inner.value
    if path.partition(".")[0] in ("autotvm", "meta_schedule"):
        for name in names:
            why = _why("autosched", name)
            if (why and ";" in why) or "autosched." in why:
                return why
    return _why_deep(path)


def _here(rest: str) -> bool:
    """Whether a module of TVM is here under its name: ``te``, ``topi.nn``."""
    return rest.partition(".")[0] in HERE and _is_module(f"tensorlang.{rest}")


def _is_module(path: str) -> bool:
    module, _, name = path.rpartition(".")
    return inspect.ismodule(getattr(_found(module), name, None))


def _found(module: str) -> Any:
    """A module of ours, by attributes of its package: also one that has no file."""
    package, *rest = module.split(".")
    return functools.reduce(getattr, rest, importlib.import_module(package))


def _why(module: str, name: str) -> str:
    """Why there is no such name, and what there is instead; empty for one that is there."""
    try:
        getattr(_found(module), name)
    except TensorLangError as e:
        said = [str(t() if callable(t) else t) for t in (e.because, e.try_, e.legal) if t]
        return "; ".join(said) or "there is no such name"
    except AttributeError:
        return "there is no such name"
    return ""


def _why_deep(path: str) -> str:
    """As ``_why`` of the first part of ``tensorlang.path`` that is not there."""
    parts = path.split(".")
    for n in range(len(parts)):
        why = _why(".".join(("tensorlang", *parts[:n])), parts[n])
        if why:
            return why
    return "its names are elsewhere here"


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; 0 when nothing is left to do by hand, else 1."""
    parser = argparse.ArgumentParser(
        prog="tensorlang migrate",
        description="Rewrite a program for TVM's TE or auto_scheduler for tensorlang, and list what is left.",
        epilog="examples: tensorlang migrate old.py > new.py; tensorlang migrate -i kernels/*.py",
    )
    parser.add_argument("files", nargs="+", metavar="file.py")
    parser.add_argument(
        "-i", "--in-place", action="store_true", help="write the files instead of printing them"
    )
    given = parser.parse_args(argv)
    left = 0
    for file in given.files:
        try:
            made = migrate(Path(file).read_text(encoding="utf-8"))
            if given.in_place:
                Path(file).write_text(made.text, encoding="utf-8")
            else:
                print(made.text, end="")
        except (OSError, UnicodeDecodeError, TensorLangError) as e:
            print(f"{file}: {e}", file=sys.stderr)
            left += 1
            continue
        for line, what, why in made.left:
            print(f"{file}:{line}: {what}: {why}", file=sys.stderr)
        print(f"{file}: {made.rewritten} places rewritten, {len(made.left)} left", file=sys.stderr)
        left += len(made.left)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
