"""xgboost, in a sixth of the time that its import takes: the only file that imports it, and only when a model
is first used.

``import xgboost`` imports scikit-learn where that is installed, for classes that make xgboost look like it
and that nobody here uses: 0.65 of 0.8 seconds of a processor, a fifth of a search of 64 trials, for whose
kernels the search must wait. Without scikit-learn xgboost does without these classes, and decides that in one
file, ``compat``. So its modules are imported under a name of our own, and to that one file scikit-learn is
missing. Nobody else sees it: who imports xgboost gets all of it. Where it was imported already it is taken as
it is, and so it is where this finds other files than it expects.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.machinery
import importlib.util
import sys
import threading
from types import ModuleType, SimpleNamespace
from typing import Any

OWN = "autosched_xgboost"  # the name of our own
MISSING = "sklearn"
_lock = threading.Lock()
_kept: list[Any] = []


def library() -> Any:
    """What has ``DMatrix``, ``Booster`` and ``train`` of xgboost. Raises what ``import xgboost`` does."""
    with _lock:
        if not _kept:
            _kept.append(_found())
        return _kept[0]


def _found() -> Any:
    if "xgboost" not in sys.modules and f"{MISSING}.model_selection" not in sys.modules:
        before = set(sys.modules)
        try:
            return _alone()
        except Exception:  # another release of it
            for name in set(sys.modules) - before:
                if name.partition(".")[0] == OWN:
                    del sys.modules[name]
    import xgboost

    return xgboost


def _alone() -> Any:
    spec = importlib.util.find_spec("xgboost")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("xgboost")
    package = ModuleType(OWN)
    package.__path__ = list(spec.submodule_search_locations)
    package.__spec__ = importlib.machinery.ModuleSpec(OWN, None, is_package=True)
    sys.modules[OWN] = package
    _without(f"{OWN}.compat")
    core, training = (importlib.import_module(f"{OWN}.{part}") for part in ("core", "training"))
    return SimpleNamespace(DMatrix=core.DMatrix, Booster=core.Booster, train=training.train)


def _without(name: str) -> None:
    """Import a module that does not find scikit-learn."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)

    def found(wanted: str, *rest: Any) -> Any:
        if wanted.partition(".")[0] == MISSING:
            raise ImportError(wanted)
        return builtins.__import__(wanted, *rest)

    # an import statement asks the builtins of the module it stands in
    vars(module)["__builtins__"] = {**vars(builtins), "__import__": found}
    sys.modules[name] = module
    spec.loader.exec_module(module)
