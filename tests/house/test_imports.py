"""Who may import whom. A new room is one row here; an import that is refused says which row forbids it."""

from __future__ import annotations

import ast
import graphlib
from pathlib import Path

import pytest

from tests.house.source import (
    HOME,
    PACKAGES,
    Import,
    imports,
    module_name,
    modules,
    none,
    parsed,
    python_files,
    relative,
)

GROUND = {"boundary", "core", "entries", "errors", "protocols", "signposts"}
EXPR = GROUND | {"expr"}
ARITH = EXPR | {"arith"}
TE = ARITH | {"te", "interface"}

# room of tensorlang → rooms it may import (itself goes without saying)
ROOMS: dict[str, set[str]] = {
    "errors": set(),
    "boundary": {"errors", "kinds", "options", "protocols", "signposts"},  # guards what it knows nothing of
    "kinds": {"errors", "protocols"},
    "protocols": {"errors"},
    "signposts": set(),
    "display": TE | {"loopir", "passes", "runtime", "schedule", "target"},  # what objects show
    "entries": {"boundary", "errors", "lazy", "protocols", "signposts"},  # what it is to be public
    "lazy": set(),
    "options": {"errors"},
    "core": {"errors"},
    "expr": GROUND,
    "arith": EXPR,
    "interface": GROUND,  # what kernels and their callers agree on
    "te": ARITH | {"interface"},
    "ops": TE,
    "target": GROUND | {"options", "interface"},
    "loopir": ARITH | {"interface"},
    "schedule": TE | {"options"},
    "lowering": TE | {"schedule", "loopir", "options"},
    "passes": ARITH | {"interface", "loopir", "target", "options"},  # never schedule or te
    "codegen": ARITH | {"interface", "loopir", "target", "options"},  # never schedule or te
    "native": {"options"},  # no kernels, no signatures: functions in machine code and what makes it of them
    "runtime": GROUND | {"interface", "options", "native"},  # a saved module loads without the compiler
    "analysis": TE | {"schedule", "lowering", "loopir", "target", "options"},
    "recipes": {"te", "ops", "analysis", "target", "entries", "errors", "schedule"},
    "workers": TE | {"ops", "build", "runtime", "options"},  # nothing of graphs or searches
    "graph": TE | {"ops", "build", "runtime", "workers", "target", "analysis", "options"},  # never a frontend
    "frontends": TE | {"ops", "graph", "runtime", "options", "display"},  # nothing of kernels
    "nd": GROUND,
    "testing": GROUND,
    "tir": GROUND | {"te"},
    "topi": TE | {"ops", "recipes", "schedule"},
    "build": {"*"},  # the only file that knows the whole flow
    "piecewise": {"*"},  # the same, nest by nest
    "__init__": {"*"},  # for type checkers; what it loads itself is `lazy`
    "torch": (GROUND - {"core"}) | {"frontends"},  # a façade, which imports torch when it is used
    "peers": {
        "errors",
        "frontends",
        "options",
        "runtime",
        "target",
    },  # nothing of kernels; caches to be emptied
    "commands": {"errors", "frontends", "peers", "runtime"},
    "__main__": {"__init__", "errors", "passes", "calibrate", "commands", "migrate"},
    "interpreter": GROUND | {"build", "display", "errors", "loopir", "runtime", "schedule"},
    "view": TE
    | {
        "analysis",
        "build",
        "codegen",
        "display",
        "loopir",
        "passes",
        "roofline",
        "runtime",
        "schedule",
        "target",
    },
    "given": TE | {"runtime"},  # arrays of constants, checked
    "explanation": TE | {"analysis", "loopir", "schedule", "target"},
    "roofline": {"analysis", "build", "core", "runtime", "schedule", "target", "te"},
    "migrate": {"errors", "signposts"},  # asks modules by name
    "calibrate": {"analysis", "build", "errors", "runtime", "schedule", "target", "te"},
}

# names that a room offers and another room sets, imported for type checkers alone: (file, room) → why
OFFERED = {("tensorlang/te/__init__.py", "schedule"): "te.create_schedule, TVM's word; the package sets it"}

# rooms that use public names only: they import packages as a user does, never the modules inside
PUBLIC_ONLY = {
    "tensorlang.recipes": {
        "tensorlang",
        "tensorlang.te",
        "tensorlang.ops",
        "tensorlang.ops.tags",
        "tensorlang.analysis",
        "tensorlang.target",
        "tensorlang.entries",
        "tensorlang.errors",
        "tensorlang.schedule",
    },
    "autosched": {
        "tensorlang",
        "tensorlang.te",
        "tensorlang.ops",
        "tensorlang.ops.tags",
        "tensorlang.recipes",
        "tensorlang.analysis",
        "tensorlang.errors",
        "tensorlang.boundary",
        "tensorlang.entries",
        "tensorlang.protocols",
        "tensorlang.core.collector",
        "tensorlang.core.renamed",
        "tensorlang.lazy",
        "tensorlang.options",
        "tensorlang.display",
        "tensorlang.display.plots",
        "tensorlang.roofline",
        "tensorlang.piecewise",
    },
}

# package → the only places (prefixes) that may import it
HEAVY = {
    "llvmlite": (
        "tensorlang/codegen/llvm/",
        "tensorlang/runtime/",
        "tensorlang/native/object_code.py",
        "tensorlang/target/host.py",
    ),
    "xgboost": ("autosched/cost_model/boosters.py",),
    "sklearn": ("autosched/dynamic/decision_tree.py",),
    "matplotlib": ("autosched/reporting/plot.py",),
    "dask": ("autosched/measure/",),
    "ml_dtypes": ("tensorlang/core/dtype.py", "tensorlang/frontends/onnx/narrow.py"),
    "scipy": (),
    "pandas": (),
    "torch": ("tensorlang/frontends/torch/",),
    "onnx": ("tensorlang/frontends/onnx/proto.py",),
    "onnxruntime": ("tensorlang/peers/runtimes.py",),
    "openvino": ("tensorlang/peers/runtimes.py",),
    "MNN": ("tensorlang/peers/runtimes.py",),
    "_tools": ("tensorlang/peers/runtimes.py",),
    "islpy": (),
}

# imports inside functions: (file, package) → why
LAZY = {
    ("autosched/measure/fleet.py", "dask"): "an extra; takes a second to import",
    (
        "autosched/cost_model/boosters.py",
        "xgboost",
    ): "takes seconds to import; only where its library is not beside it",
    ("autosched/dynamic/decision_tree.py", "sklearn"): "takes seconds to import",
    ("tensorlang/frontends/onnx/proto.py", "onnx"): "an extra; takes a tenth of a second to import",
    ("tensorlang/frontends/torch/version.py", "torch"): "an extra, whose absence is told in words of ours",
    ("tensorlang/peers/runtimes.py", "onnxruntime"): "a peer, which need not be there",
    ("tensorlang/peers/runtimes.py", "openvino"): "a peer, which need not be there",
    ("tensorlang/peers/runtimes.py", "MNN"): "a peer, which need not be there",
    ("tensorlang/peers/runtimes.py", "_tools"): "of MNN, which need not be there",
    (
        "tensorlang/frontends/__init__.py",
        "tensorlang",
    ): "the table of ONNX's operators: only who loads a file needs it",
    (
        "tensorlang/build.py",
        "tensorlang.recipes",
    ): "recipes bring all operators; only who has no schedule needs them",
    ("tensorlang/build.py", "tensorlang.explanation"): "for who asks why",
    ("tensorlang/build.py", "tensorlang.view"): "pages are drawn for who asks for one",
    ("tensorlang/torch.py", "tensorlang.frontends"): "torch takes seconds to import, and may be missing",
    ("tensorlang/options.py", "platformdirs"): "takes 10 ms, and only the first schedule needs it",
    (
        "tensorlang/graph/kernel_cache.py",
        "importlib",
    ): "brings the package email, and only who compiles a graph needs it",
    ("tensorlang/graph/makers.py", "importlib"): "as above",
    ("autosched/tiers/keys.py", "importlib"): "as above, and only who keeps code in files needs it",
    (
        "autosched/task.py",
        "autosched.space",
    ): "spaces know tasks, and only who leaves a rule out asks for names",
    ("autosched/autotune.py", "filelock"): "brings logging, and only who tunes a function needs it",
    ("autosched/reporting/progress.py", "rich"): "takes 20 ms, and only who watches a tune needs it",
    ("autosched/tiers/stats.py", "rich"): "as above, or prints the numbers of a kernel",
    ("tensorlang/core/dtype.py", "ml_dtypes"): "takes 20 ms, and only kernels of bfloat16 need it",
    ("autosched/reporting/plot.py", "matplotlib"): "an extra; takes a second to import",
    ("autosched/reporting/progress.py", "IPython"): "is there in notebooks only",
}

FILES = python_files(*PACKAGES)


def room_of(module: str) -> str:
    """`tensorlang.expr.make` → `expr`; the package itself → `__init__`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def ours(i: Import) -> bool:
    return i.target.split(".")[0] in PACKAGES


def may_be_late(path: Path, i: Import) -> bool:
    parts = i.target.split(".")
    return any((relative(path), ".".join(parts[:n])) in LAZY for n in range(1, len(parts) + 1))


def test_rooms_know_only_their_neighbours():
    def problems():
        for path in FILES:
            me = module_name(path)
            if me.split(".")[0] != "tensorlang":
                continue
            room = room_of(me)
            if room not in ROOMS:
                yield f"{relative(path)}: the room `{room}` has no row in ROOMS; say there whom it may import"
                continue
            allowed = ROOMS[room] | {room}
            for i in imports(path):
                if i.typing and (relative(path), room_of(i.target)) in OFFERED:
                    continue
                if i.target.split(".")[0] == "autosched":
                    yield f"{relative(path)}:{i.line}: imports autosched"
                elif ours(i) and "*" not in allowed and room_of(i.target) not in allowed:
                    yield (
                        f"{relative(path)}:{i.line}: `{room}` may not import `{room_of(i.target)}`; "
                        f"it may: {', '.join(sorted(allowed))}"
                    )

    none(problems())


def test_public_names_only_where_that_is_the_rule():
    def problems():
        for path in FILES:
            me = module_name(path)
            for owner, packages in PUBLIC_ONLY.items():
                if me != owner and not me.startswith(owner + "."):
                    continue
                for i in imports(path):
                    if not ours(i) or i.target == owner or i.target.startswith(owner + "."):
                        continue
                    if i.target not in packages:
                        yield f"{relative(path)}:{i.line}: `{i.target}` is not public; public are: {', '.join(sorted(packages))}"
                    private = [n for n in i.names if n.startswith("_") and not n.startswith("__")]
                    if private:
                        yield f"{relative(path)}:{i.line}: {private} of {i.target} is private"

    none(problems())


def test_heavy_packages_stay_in_their_places():
    none(
        f"{relative(path)}:{i.line}: {i.target} may be imported only in {HEAVY[i.target.split('.')[0]]}"
        for path in FILES
        for i in imports(path)
        if not relative(path).startswith(HEAVY.get(i.target.split(".")[0], ""))
    )


def test_no_imports_inside_functions():
    none(
        f"{relative(path)}:{i.line}: `{i.target}` is imported inside a function"
        for path in FILES
        for i in imports(path)
        if i.lazy and not may_be_late(path, i)
    )


def test_slow_packages_are_imported_lazily():
    none(
        f"{relative(path)}:{i.line}: `{i.target}` takes seconds: import it where it is used"
        for path in FILES
        for i in imports(path)
        if may_be_late(path, i) and not i.lazy and not i.typing
    )


def test_the_environment_is_read_in_one_place():
    def problems():
        for path in FILES:
            if relative(path) == "tensorlang/options.py":
                continue
            for node in ast.walk(parsed(path)):
                if (
                    isinstance(node, ast.Attribute)
                    and isinstance(node.value, ast.Name)
                    and node.value.id == "os"
                    and node.attr in ("environ", "getenv", "putenv")
                ):
                    yield f"{relative(path)}:{node.lineno}: os.{node.attr} belongs to tensorlang/options.py"
            for i in imports(path):
                if i.target == "os" and {"environ", "getenv"} & set(i.names):
                    yield f"{relative(path)}:{i.line}: {i.names} belongs to tensorlang/options.py"

    none(problems())


def test_no_module_imports_itself_through_others():
    graph = {
        name: [
            i.target
            for i in imports(path)
            if i.target in modules() and not i.lazy and not i.typing and i.target != name
        ]
        for name, path in modules().items()
    }
    done: set[str] = set()
    for start in graph:
        trail: list[str] = []
        stack = [(start, iter(graph[start]))] if start not in done else []
        while stack:
            name, rest = stack[-1]
            if len(trail) < len(stack):
                trail.append(name)
            for target in rest:
                if target in trail:
                    raise AssertionError(
                        "a cycle of imports: " + " → ".join([*trail[trail.index(target) :], target])
                    )
                if target not in done:
                    stack.append((target, iter(graph[target])))
                    break
            else:
                stack.pop()
                done.add(trail.pop())


def test_every_import_of_ours_exists():
    none(
        f"{relative(path)}:{i.line}: no module {i.target}"
        for path in FILES
        for i in imports(path)
        if ours(i)
        and i.target not in modules()
        and not (i.typing and (HOME / i.target.replace(".", "/")).with_suffix(".pyi").exists())
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_modules_do_not_import_each_other_in_a_circle(package):
    """At import; those of autosched not for the sake of type checkers either."""
    graph = {
        name: {i.target for i in imports(path) if not i.lazy and not (i.typing and package == "tensorlang")}
        - {name}
        for name, path in modules().items()
        if name.split(".")[0] == package
    }
    order = graphlib.TopologicalSorter({name: targets & graph.keys() for name, targets in graph.items()})
    order.prepare()  # raises CycleError, which names the modules
