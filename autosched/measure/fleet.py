"""Measurement on the machines of a Dask cluster, in the same lines of JSON: the only file that knows
``dask.distributed`` (the extra ``fleet``), which it imports when a fleet is made.

Each worker process of the cluster keeps a ``Measurer`` of its own, so building overlaps running there too,
and a candidate that crashes kills neither the worker nor its neighbours. Jobs go out a few at a time; a
worker that is lost has its jobs given to another by the cluster, until it gives them up. A worker should have
its machine to itself, and one thread: ``dask worker --nthreads 1``.
"""

from __future__ import annotations

import atexit
import itertools
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any

import tensorlang as tl

from ..statuses import CRASH
from .measurer import Measurer
from .protocol import Job, Outcome, Stages

CHUNK = 4  # jobs that go out together
AHEAD = 2  # chunks on their way for each worker: one is measured while the other travels
_measurers: dict[Stages, Measurer] = {}  # of this process, when it is a worker
_turn = threading.Lock()


def measure_lines(stages: tuple[str, str], lines: list[str]) -> list[str]:
    """What a worker runs: the outcomes of the jobs, in order."""
    kind = Stages(*stages)
    with _turn:
        found = _measurers.get(kind)
        if found is None:
            found = _measurers[kind] = Measurer(kind)
            atexit.register(found.close)
        return [o.to_json() for o in found.run(map(Job.from_json, lines))]


def end_measuring() -> None:
    """What a worker runs at the end."""
    with _turn:
        while _measurers:
            _measurers.popitem()[1].close()


class Fleet:
    """Measures jobs on a Dask cluster: ``tune(task, measurer=Fleet("tcp://scheduler:8786"))``. ``cluster`` is
    an address, a cluster object or a client; the workers need this package installed. Close it, or use
    ``with``, to end the measuring processes on the workers.

    Raises TensorLangError when ``dask.distributed`` is not installed, when nobody answers within ``timeout``
    seconds, and when the cluster has no workers.
    """

    def __init__(self, cluster: Any, stages: Stages | None = None, timeout: float = 10.0) -> None:
        try:
            from dask.distributed import Client
        except ImportError as e:
            raise tl.TensorLangError(
                "Fleet: dask.distributed is not installed",
                because=str(e),
                try_="pip install tensorlang[fleet]",
            ) from None
        self.stages = stages or Stages()
        self.own = not isinstance(cluster, Client)
        try:
            self.client = Client(cluster, timeout=timeout) if self.own else cluster
        except (OSError, TimeoutError) as e:
            raise tl.TensorLangError(
                f"Fleet({cluster!r}): no cluster answers", because=str(e) or type(e).__name__
            ) from None
        self.workers = len(self.client.scheduler_info(n_workers=-1)["workers"])
        if not self.workers:
            self.close()
            raise tl.TensorLangError(
                f"Fleet({cluster!r}): the cluster has no workers",
                try_="dask worker ADDRESS --nthreads 1, on each machine",
            )

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """The outcomes of the jobs, in order; as many are taken ahead as keep all workers busy."""
        source = iter(jobs)
        sent: deque[tuple[list[Job], Any]] = deque()
        while True:
            while len(sent) < AHEAD * self.workers and (chunk := list(itertools.islice(source, CHUNK))):
                kind = (self.stages.build, self.stages.run)
                sent.append(
                    (chunk, self.client.submit(measure_lines, kind, [j.to_json() for j in chunk], pure=False))
                )
            if not sent:
                return
            chunk, future = sent.popleft()
            yield from self._outcomes(chunk, future)

    def _outcomes(self, chunk: list[Job], future: Any) -> list[Outcome]:
        try:
            return [Outcome.from_json(line) for line in future.result()]
        except Exception as e:  # of the cluster: what candidates do is in the outcomes
            return [
                Outcome(j.id, CRASH, f"the cluster gave the job up: {type(e).__name__}: {e}") for j in chunk
            ]

    def close(self) -> None:
        """End the measuring processes, and the connection if it is ours."""
        if self.client.status == "running":
            self.client.run(end_measuring)
        if self.own:
            self.client.close()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
