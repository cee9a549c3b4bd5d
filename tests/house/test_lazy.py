"""What an import loads, counted in modules: the packages load their rooms when a name of theirs is asked for,
type checkers see the same names, and whoever asks for one gets it whole and guarded."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from tests.house.source import HOME, PACKAGES, ROOT, imports

# what a program does → rooms that it must not load, and the most modules of ours
LOADS = {
    "import tensorlang": ({"numpy", "llvmlite", "tensorlang.errors"}, 3),
    "import autosched": ({"numpy", "llvmlite", "tensorlang.errors", "autosched.task"}, 4),
    "from tensorlang import te": ({"llvmlite", "tensorlang.schedule", "tensorlang.ops"}, 60),
    "import tensorlang as tl; tl.te.placeholder": ({"llvmlite", "tensorlang.schedule"}, 60),
    "import tensorlang as tl; tl.load": ({"tensorlang.te", "tensorlang.codegen", "tensorlang.expr"}, 65),
    "import tensorlang as tl; tl.Engine": ({"tensorlang.te", "tensorlang.codegen", "tensorlang.graph"}, 85),
    "import tensorlang as tl; tl.create_schedule": ({"tensorlang.passes", "tensorlang.lowering"}, 131),
    "import tensorlang as tl; tl.build": ({"tensorlang.ops", "tensorlang.recipes", "tensorlang.graph"}, 301),
}


def after(code: str) -> list[str]:
    """The modules that are loaded when this has run in a process of its own."""
    run = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"]
    return subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("code", LOADS)
def test_an_import_loads_no_more_than_it_needs(code):
    without, most = LOADS[code]
    loaded = after(code)
    assert not without & set(loaded)
    assert sum(m.split(".")[0] in PACKAGES for m in loaded) <= most


@pytest.mark.parametrize("package", PACKAGES)
def test_no_public_name_loads_anything_slow(package):
    loaded = {m.split(".")[0] for m in after(f"from {package} import *")}
    slow = {
        "ml_dtypes",
        "xgboost",
        "sklearn",
        "scipy",
        "matplotlib",
        "pandas",
        "torch",
        "dask",
        "IPython",
        "hypothesis",
        "pytest",
    } & loaded
    assert not slow, f"the names of {package} load {', '.join(sorted(slow))}"


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_see_the_names_that_are_loaded_late(package):
    module = importlib.import_module(package)
    path = HOME / package / "__init__.py"
    seen = {n: i.target for i in imports(path) if i.typing for n in i.names}
    files = [i.target.rpartition(".")[::2] for i in imports(path) if i.typing and not i.names]
    seen |= {name: room for room, name in files if room != package}  # functions that are named as their file
    modules = {name for room, name in files if room == package}
    assert seen == {n: f"{package}.{room}" for n, room in module.__places__.items()}
    assert set(module.__all__) <= seen.keys() | modules
    late = [i for i in imports(path) if not i.typing and i.target.split(".")[0] in PACKAGES]
    assert [i.target for i in late] == ["tensorlang.lazy"]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_file_named_as_a_function_leaves_the_function(package):
    module = importlib.import_module(package)
    same = [n for n in module.__places__ if (HOME / package / f"{n}.py").exists()]
    for name in same:
        kept = getattr(module, name)
        importlib.import_module(f"{package}.{name}")
        assert getattr(module, name) is kept and callable(kept) and hasattr(kept, "__guarded__")
        again = f"import {package}, {package}.{name}; assert callable({package}.{name})"
        after(again)
    assert same


def test_public_classes_are_closed_where_they_are_defined():
    """Whatever room is loaded first: no class that users hold an object of is without its guard."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            cls = getattr(module, name)
            if isinstance(cls, type) and not issubclass(cls, Exception) and name != "Record":
                assert hasattr(cls.__init__, "__guarded__") and "__getattr__" in vars(cls), name


def test_star_imports_take_all():
    code = "from tensorlang import *; from autosched import *; print(build, tune, te, sorted(dir())[:1])"
    assert "tensorlang.build" in after(code)
