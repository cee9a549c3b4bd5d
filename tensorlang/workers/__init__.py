"""Processes that compile. Knows te and build; nothing of graphs or searches.

A search has workers of its own (``autosched.measure``): they are stopped while a kernel is timed, die and are
born again for candidates that crash or hang, and leave kernels in a directory where a runner finds them. Here
nothing is timed and every kernel is wanted, so a worker is a plain process that reads jobs and writes code.
"""

from ..entries import share
from .job import Job, compiled
from .processes import Ahead, compile_all

__all__ = ["Ahead", "Job", "compile_all", "compiled"]

share(__name__)
