"""One C program that calls every exported kernel, made for a target and run by its emulator. Knows C and
files; the kernels are given.

The program reads all inputs from one file and writes all outputs and statuses to another, in the order of the
kernels. It says the name of each kernel before it calls it, and does not call those named after the files.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tensorlang.core.dtype import dtype
from tensorlang.interface.c_header import parameters
from tensorlang.interface.signature import Dim, evaluate
from tests.cross.kernels import Case

_HEAD = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int called(int argc, char **argv, const char *name) {
    for (int i = 3; i < argc; i++)
        if (!strcmp(argv[i], name)) return 0;
    fprintf(stderr, "%s\\n", name);
    return 1;
}
static void *take(FILE *in, size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!p || fread(p, 1, bytes, in) != bytes) exit(3);
    return p;
}
static void *room(size_t bytes) {
    unsigned char *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!p) exit(3);
    for (size_t i = 0; i < bytes; i++) p[i] = 0xA5;
    return p;
}
"""


def write(cases: Sequence[Case], target: str, where: Path) -> list[Path]:
    """Export the kernels of the cases for the target; write the program and its input. The files to be
    compiled and linked."""
    objects, includes, functions, calls, data = [], [], [], [], []
    for c in cases:
        f = c.build(target)
        path = where / f"{c.name}.o"
        f.export(path)
        objects.append(path)
        includes.append(f'#include "{c.name}.h"')
        functions.append(_function(c, f))
        calls.append(f'    run_{c.name}(in, out, called(argc, argv, "{c.name}"));')
        data += [a.tobytes() for a in c.inputs]
    main = [
        "int main(int argc, char **argv) {",
        '    FILE *in = fopen(argv[1], "rb"), *out = fopen(argv[2], "wb");',
        "    if (!in || !out) return 2;",
        *calls,
        "    return fclose(out) ? 2 : 0;",
        "}",
    ]
    source = where / "program.c"
    source.write_text("\n".join([*includes, _HEAD, *functions, *main]) + "\n")
    (where / "inputs").write_bytes(b"".join(data))
    return [source, *objects]


def _function(c: Case, f: object) -> str:
    signature = f.signature  # type: ignore[attr-defined]
    dims: dict[str, int] = {}
    inputs, results = iter(c.inputs), iter(c.expected())
    lines, names, kept = [], [], []
    arrays = {p.name: next(results if p.output else inputs) for p in signature.params if p.kind == "buffer"}
    for p in signature.params:
        assert p.kind != "buffer" or arrays[p.name].dtype == dtype(p.dtype).to_numpy(), (
            f"{c.name}: {p.name} is {p.dtype}"
        )
        for size, n in zip(p.shape, arrays[p.name].shape, strict=True):
            if isinstance(size, str):
                dims[size] = n
    for i, p in enumerate(parameters(signature)):
        if isinstance(p.source, Dim):
            names.append(str(evaluate(p.source.name, dims)))
            continue
        array = arrays[p.source.name]
        kind = p.type.removeprefix("const ").removesuffix(" *")
        lines.append(
            f"    {kind} *p{i} = {f'room({array.nbytes})' if p.source.output else f'take(in, {array.nbytes})'};"
        )
        names.append(f"p{i}")
        if p.source.output:
            kept.append(f"    fwrite(p{i}, 1, {array.nbytes}, out);")
    return "\n".join(
        [
            f"static void run_{c.name}(FILE *in, FILE *out, int called) {{",
            *lines,
            f"    int status = called ? {c.name}({', '.join(names)}) : 0;",
            "    fwrite(&status, sizeof status, 1, out);",
            *kept,
            "}",
        ]
    )


def read(cases: Sequence[Case], results: bytes) -> list[tuple[int, list[np.ndarray]]]:
    """Status and outputs of each case, from what the program wrote."""
    out, at = [], 0
    for c in cases:
        status = int(np.frombuffer(results, "<i4", 1, at)[0])
        at += 4
        arrays = []
        for w in c.expected():
            arrays.append(np.frombuffer(results, w.dtype, w.size, at).reshape(w.shape))
            at += w.nbytes
        out.append((status, arrays))
    assert at == len(results)
    return out


def run(command: Sequence[str | Path]) -> str:
    """Run a command that must succeed; what it says."""
    status, said = attempt(command)
    assert status == 0, f"{command[0]} ended with {status}\n{said}"
    return said


def attempt(command: Sequence[str | Path]) -> tuple[int, str]:
    """Run a command: how it ended, and what it said."""
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr
