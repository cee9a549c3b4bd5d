"""A kernel that is to be compiled, as plain data: what goes to another process. Knows te and ``build``."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from ..build import unbound
from ..errors import CompileError
from ..runtime.codes import KernelCode
from ..te import serialize
from ..te.graph import variables_of


@dataclass(frozen=True)
class Job:
    """``text`` is the JSON of the tensors: ``inputs`` placeholders, then ``constants``, then the results;
    ``dims`` names all dims, ``told`` those that are arguments. ``steps`` is the JSON of a trace that is
    replayed; None: a default schedule."""

    text: str
    inputs: int
    constants: int
    dims: tuple[str, ...]
    told: tuple[str, ...]
    target: str
    math: str
    name: str
    steps: str | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(line: str) -> Job:
        data = json.loads(line)
        return Job(**{**data, "dims": tuple(data["dims"]), "told": tuple(data["told"])})


def compiled(job: Job) -> KernelCode:
    """The kernel of a job. Raises TensorLangError as ``build`` does."""
    tensors = serialize.from_json(job.text)
    found = {v.name: v for v in variables_of(tensors) if v.kind == "dim"}
    constants = tensors[job.inputs : job.inputs + job.constants]
    missing = [n for n in job.dims if n not in found]
    if missing:
        raise CompileError(f"{job.name}: the size {missing[0]} is in no tensor")
    return unbound(
        [*tensors, *(found[n] for n in job.told)],
        constants,
        [found[n] for n in job.dims],
        job.target,
        job.name,
        outputs=tensors[job.inputs + job.constants :],
        math=job.math,
        steps=job.steps,
    )
