"""Pages made from the code: what is told once, in docstrings, tables and golden texts, is not told again by
hand. Knows the packages' public tables and the files of the tests' errors; knows nothing of Sphinx."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parent.parent
PACKAGES = ("tensorlang", "autosched")
# The public modules, in the order in which one meets them
REFERENCE = {
    "tensorlang": "Build, load, targets, errors, whole models",
    "tensorlang.te": "Declare what is computed",
    "tensorlang.ops": "Operators in numpy's and torch's words",
    "tensorlang.recipes": "Default schedules",
    "tensorlang.analysis": "What may be read of a schedule",
    "autosched": "Search",
}


def write(into: Path) -> None:
    """All pages, as files of that directory; those that nobody makes any more are removed."""
    made = {
        "operators.md": operators(),
        "primitives.md": primitives(),
        "settings.md": settings(),
        "errors.md": errors(),
        "rooms.md": rooms(),
        "passes.md": passes(),
        "glossary.md": glossary(),
        **references(),
        **{path.name: notebook(path) for path in (ROOT / "tutorials").glob("*.ipynb")},
    }
    into.mkdir(exist_ok=True)
    for old in into.iterdir():
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        at = into / name
        if not at.exists() or at.read_text(encoding="utf-8") != text:  # untouched files are not built again
            at.write_text(text, encoding="utf-8")


def notebook(path: Path) -> str:
    """A notebook, whose links to files beside its folder lead to their pages."""
    text = path.read_text(encoding="utf-8").replace("](../docs/", "](../")
    return text.replace("](../CONTRIBUTING.md", "](../contributing.md")


def operators() -> str:
    """Every operator with its signature and the first sentence of its docstring, by file."""
    about = (
        "Functions of te tensors, in `tensorlang.ops`. Each declares stages that a schedule can fuse; "
        "`tl.compile([x, ops.softmax(x)])` takes the default schedule of the recipe that fits. "
        "Details are in the [reference](reference-tensorlang.ops.md)."
    )
    lines = []
    for module in _modules_of("tensorlang.ops"):
        names = getattr(module, "__all__", [])
        functions = {n: f for n in names if inspect.isfunction(f := getattr(module, n))}
        if functions:
            lines += [f"## {module.__name__.rpartition('.')[2]}", "", _first_paragraph(module), ""]
            lines += ["| operator | |", "|---|---|"]
            lines += [
                f"| `{_cell(n + _signature(f))}` | {_cell(_first_sentence(f))} |"
                for n, f in functions.items()
            ]
            lines.append("")
    return _page("Operators", about, lines)


def primitives() -> str:
    """Every schedule primitive: its call and its docstring."""
    from tensorlang.schedule.primitives import TABLE

    about = (
        "Methods of a stage, `s[C].split(...)`, or of the schedule. Each is checked against what the loops "
        "allow, and becomes a step of the trace that `s.trace` prints, saves and replays. "
        '`s.can("split", C, ...)` answers without doing it.'
    )
    lines = []
    for primitive in TABLE:
        call: Callable[..., Any] = primitive.call
        lines += [f"## {primitive.name}", "", f"    {primitive.name}{_signature(call)}", ""]
        lines += _rst(inspect.getdoc(call) or inspect.getdoc(primitive) or "")
    return _page("Schedule primitives", about, lines)


def settings() -> str:
    """What the environment may say."""
    from tensorlang import options

    about = (
        "All settings are variables of the environment, read when they are needed and checked; a value "
        "that makes no sense is an error that names the variable. `python -m autosched doctor` shows those "
        "that are set."
    )
    lines = []
    for _, f in inspect.getmembers(options, inspect.isfunction):
        doc = inspect.getdoc(f) or ""
        if f.__module__ == options.__name__ and "TENSORLANG_" in doc.split("\n")[0]:
            lines += [f"- {_markdown(' '.join(doc.split()))}"]
    return _page("Settings", about, lines)


def errors() -> str:
    """The golden texts of errors, each with the mistake that it answers."""
    about = (
        "An error says what is wrong, because of what, where in your code, and what to try. These are the "
        "texts that the tests hold, each below the mistake that it answers. All are `tl.TensorLangError`. "
        "What begins with an underscore in a mistake is a helper of the tests, which declares its tensors."
    )
    lines = []
    goldens = ROOT / "tests" / "errors" / "golden"
    for golden in sorted(goldens.glob("*.txt")):
        family = golden.stem
        sources = _functions(ROOT / "tests" / "errors" / f"mistakes_{family}.py")
        lines += [f"## {family.capitalize()}", ""]
        for block in re.split(r"^# ", golden.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            name, _, message = block.partition("\n")
            lines += [f"### {name.replace('_', ' ')}", ""]
            if name in sources:
                lines += ["```python", sources[name], "```", ""]
            lines += ["```text", message.strip(), "```", ""]
    return _page("Errors", about, lines)


def rooms() -> str:
    """How it works: what each package and file says of itself."""
    about = (
        "What every room and file of the tree says of itself, in the order of names. The way of a kernel is "
        "in [build](#tensorlang-build); the way of a model in [graph](#tensorlang-graph)."
    )
    lines = []
    for package in PACKAGES:
        for module in _walk(package):
            depth = min(module.__name__.count(".") + 2, 4)
            lines += [f"{'#' * depth} {module.__name__}", "", *_rst(inspect.getdoc(module) or "")]
    return _page("How it works", about, lines)


def passes() -> str:
    """What each pass over loop IR and over graphs does."""
    from tensorlang.graph.passes import PASSES
    from tensorlang.passes.pipeline import PIPELINE

    lines = [f"1. **{p.name}**: {_markdown(p.does)}" for p in PIPELINE.passes]
    lines += ["", "## Over graphs", "", "With the level from which on each runs.", ""]
    lines += [f"- **{p.name}** (level {p.level}): {_markdown(_first_sentence(p.run))}" for p in PASSES]
    return _page("Passes", "## Over loop IR\n\nIn this order; `tl.lower` runs them.", lines)


def glossary() -> str:
    """The glossary of CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return "# Glossary\n" + text[text.index("## Glossary") + len("## Glossary") :].replace("\n### ", "\n## ")


def references() -> dict[str, str]:
    """A page for each public module: what it lists, in the order of names, unless an earlier page has it."""
    told: set[int] = set()
    found = {}
    for name, title in REFERENCE.items():
        module = importlib.import_module(name)
        lines = [f".. currentmodule:: {name}", ""]
        for item in sorted(module.__all__, key=str.lower):
            thing = getattr(module, item)
            made = inspect.unwrap(thing) if callable(thing) else thing  # each package guards it anew
            if id(made) in told or not str(getattr(thing, "__module__", "")).startswith(PACKAGES):
                continue
            told.add(id(made))
            if inspect.isclass(thing):
                lines += [f".. autoclass:: {item}", "   :members:"]
                # of errors, what Python's own have is known
                lines += [
                    ""
                    if issubclass(thing, BaseException)
                    else "   :inherited-members: object, tuple, int, str\n"
                ]
            elif callable(thing):
                lines += [f".. autofunction:: {item}", ""]
        found[f"reference-{name}.md"] = _page(name, title + ".", _rst("\n".join(lines)))
    return found


def _page(title: str, about: str, lines: Iterable[str]) -> str:
    return "\n".join([f"# {title}", "", about, "", *lines]).rstrip() + "\n"


def _rst(text: str) -> list[str]:
    """reStructuredText, as docstrings are, in a page of Markdown."""
    return ["```{eval-rst}", text, "```", ""]


def _modules_of(package: str) -> Iterator[ModuleType]:
    """The files of a package, in the order of names."""
    path = importlib.import_module(package).__path__
    for info in sorted(pkgutil.iter_modules(path), key=lambda m: m.name):
        yield importlib.import_module(f"{package}.{info.name}")


def _walk(package: str) -> Iterator[ModuleType]:
    """A package and all below it that can be imported, in the order of names; no programs."""
    from tensorlang.errors import TensorLangError

    top = importlib.import_module(package)
    yield top
    for info in pkgutil.walk_packages(top.__path__, f"{package}.", onerror=lambda name: None):
        if not info.name.endswith("__main__"):
            try:
                yield importlib.import_module(info.name)
            except (ImportError, TensorLangError):  # the doors of libraries that are not installed
                continue


def _functions(path: Path) -> dict[str, str]:
    """The bodies of a file's functions, by name."""
    source = path.read_text(encoding="utf-8")
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            first, last = node.body[0].lineno, node.body[-1].end_lineno
            found[node.name] = textwrap.dedent("\n".join(source.split("\n")[first - 1 : last]))
    return found


def _signature(f: Callable[..., Any]) -> str:
    """Names and defaults of its parameters, without types."""
    parameters = [
        p.replace(annotation=inspect.Parameter.empty) for p in inspect.signature(f).parameters.values()
    ]
    return str(inspect.Signature(parameters))


def _first_paragraph(thing: Any) -> str:
    return _markdown((inspect.getdoc(thing) or "").split("\n\n")[0])


def _first_sentence(thing: Any) -> str:
    text = " ".join(_first_paragraph(thing).split())
    return re.split(r"(?<=[.])(?<!et al.) ", text)[0]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _markdown(text: str) -> str:
    """The little reStructuredText of our docstrings as Markdown."""
    return re.sub(r":\w+:`([^`]*)`", r"`\1`", text.replace("``", "`"))
