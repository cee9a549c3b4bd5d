"""Measurement in processes that may die. Knows computations, traces and targets as text; nothing of search,
models or files.

The parent talks JSON lines with a *nursery* (``python -m autosched.measure.nursery``), a plain child process
that has imported everything and does nothing but fork workers and watch them: builders compile the next
candidates while a runner times the present one. A worker that crashes, hangs or eats memory is an outcome
with a reason, and the next one is there in milliseconds. Chosen over ``multiprocessing``'s forkserver because
that imports the user's main module again (and so breaks scripts and notebooks without a ``__main__`` guard),
and because the same lines travel over ``ssh`` to another machine, and over a Dask cluster (``Fleet``) to
many.
"""

from __future__ import annotations

from tensorlang.entries import share

from .fingerprint import fingerprint
from .fleet import Fleet
from .measurer import Measurer
from .others import Others
from .protocol import Job, Outcome, Stages

__all__ = ["Fleet", "Job", "Measurer", "Others", "Outcome", "Stages", "fingerprint"]

share(__name__)
