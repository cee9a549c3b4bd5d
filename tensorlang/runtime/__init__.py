"""Runtime: loads machine code, checks arguments, calls, times, saves. Knows signatures, never expressions,
code generators or compilers: what it needs in machine code beside kernels, ``native`` makes.

A saved module loads and runs with this room, ``native``, ``core``, ``errors`` and ``options`` alone.
"""

from .dispatch import Dispatcher
from .module import Module, load
from .profile import Profile
from .routes import Rows
from .threads import num_threads, plan_workspace, release_workspace, set_num_threads
from .timing import Timing

load_module = load  # TVM's word

__all__ = [
    "Dispatcher",
    "Module",
    "Profile",
    "Rows",
    "Timing",
    "load",
    "load_module",
    "num_threads",
    "plan_workspace",
    "release_workspace",
    "set_num_threads",
]
