"""What a failing case needs to be run alone: this file is pasted in front of the graph and the trace. Knows
public names and oracles only."""

from __future__ import annotations

import time

import numpy as np

import tensorlang as tl
from tensorlang import ops  # a pasted graph may name it
from tensorlang.expr import make
from tensorlang.expr.walk import substitute
from tensorlang.loopir.interpret import InterpretError, interpret
from tensorlang.loopir.stmt import preorder
from tensorlang.loopir.verify import verify
from tensorlang.te import reference
from tensorlang.te.axis import dims_of

BIG = 2500  # statements of a kernel that is not worth compiling here


def arrays(args, ranges, sizes, seed=0):
    """One array per tensor: small integers in inputs, rubbish in outputs."""
    rng = np.random.default_rng(seed)
    dims = {v: n for t in args for e in t.shape for v in dims_of(e) for n in [sizes[v.name]]}
    out = []
    for t in args:
        shape = tuple(max(0, reference.size_value(e, dims)) for e in t.shape)
        kind = t.dtype.to_numpy()
        if t.name in ranges:
            out.append(rng.integers(*ranges[t.name], shape).astype(kind))
        else:
            out.append(np.full(shape, 77, kind))
    return out, dims


def laid(t, a, seed=0):
    """A copy of an array that lies in memory as its tensor allows: compact, or with axes in any order, steps
    and directions."""
    if t.op.strides is None or not a.ndim:
        return a.copy()
    rng = np.random.default_rng([seed, a.size, a.ndim])
    steps, order = [int(rng.choice((1, 1, 2, -1, -2))) for _ in a.shape], rng.permutation(a.ndim)
    whole = np.full([a.shape[d] * abs(steps[d]) for d in order], 55, a.dtype)
    view = whole.transpose(np.argsort(order))[tuple(slice(None, None, s) for s in steps)]
    view[...] = a
    return view


def moved(steps, name, a):
    """An array of the stage of that name as transform_layout lays it out, with 0 in the padding."""
    for p in steps:
        if p.name != "transform_layout" or p.stage != name:
            continue
        shape, at = [], []
        index = np.indices(a.shape, sparse=True)
        for group in p.groups():
            n, i = 1, 0
            for axis, stride, size in group:
                m = size or -(-a.shape[axis] // stride)
                digit = index[axis] // stride
                n, i = n * m, i * m + (digit % size if size else digit)
            shape.append(n)
            at.append(i)
        new = np.zeros(shape, a.dtype)
        if a.size:
            new[tuple(at)] = a
        a = new
    return a


def placed(schedule, args, outputs, values, want):
    """Values and wanted results as the schedule lays arguments out, and which elements of the results are no
    padding (None: all)."""
    if all(schedule.state.present(t) is t for t in args):
        return values, want, None
    steps, names = (
        schedule.trace.steps,
        [schedule.stage_name(t) if schedule.state.find(t.op) else "" for t in args],
    )
    real = [
        moved(steps, schedule.stage_name(t), np.ones(w.shape, bool))
        for t, w in zip(outputs, want, strict=True)
    ]
    return (
        [moved(steps, name, a) for name, a in zip(names, values, strict=True)],
        [moved(steps, schedule.stage_name(t), w) for t, w in zip(outputs, want, strict=True)],
        real,
    )


def compare(where, want, outputs, args, got, sizes, real=None):
    """Raise AssertionError at the first element that differs, of those that are ``real`` where padding was
    laid between them."""
    for n, (t, w) in enumerate(zip(outputs, want, strict=True)):
        g = got[next(i for i, a in enumerate(args) if a is t)]
        g = g if real is None else np.where(real[n], g, w).astype(g.dtype)
        if not np.array_equal(w, g):
            first = tuple(int(i) for i in np.argwhere(w != g)[0])
            raise AssertionError(
                f"{where} with {sizes}: {t.name}{list(first)} is {g[first]}, should be {w[first]} "
                f"({int((w != g).sum())} of {w.size} differ)"
            )


def interpreted(where, func, args, values, outputs, want, sizes, races=True, real=None):
    """Interpret a kernel; compare with the reference."""
    got = [laid(t, a) for t, a in zip(args, values, strict=True)]
    try:
        interpret(func, *got, races=races)
    except Exception as e:
        raise AssertionError(f"{where} with {sizes}: {type(e).__name__}: {e}") from e
    compare(where, want, outputs, args, got, sizes, real)


def well_formed(what, func):
    """Verify a kernel."""
    try:
        verify(func)
    except Exception as e:
        raise AssertionError(f"malformed after {what}: {e}") from e


def count(func):
    """Statements of a kernel."""
    return sum(1 for _ in preorder(func.body))


def refused(func, built, args, values, dims):
    """Whether the kernel is not for these sizes; then every way to run it must say so and leave the outputs
    as they are."""
    known = {v: make.const(n, v.dtype) for v, n in dims.items()}
    if all(substitute(cond, known).value for cond, _ in func.needs):
        return False
    got = [a.copy() for a in values]
    for what, error in ((lambda: interpret(func, *got), InterpretError), (lambda: built(*got), tl.CallError)):
        if built is not None or error is InterpretError:
            try:
                what()
            except error:
                continue
            raise AssertionError(f"not refused with {dims}: {[why for _, why in func.needs]}")
    assert all(a.tobytes() == b.tobytes() for a, b in zip(got, values, strict=True)), (
        "a refused call wrote something"
    )
    return True


def run(
    args,
    outputs,
    ranges,
    schedule,
    sizes,
    *,
    interpret_it=True,
    build_it=True,
    each_pass=False,
    thorough=True,
    seconds=None,
):
    """All oracles on one schedule and all sizes. Returns (interpreter runs, compiled runs).

    ``each_pass`` also interprets what each pass made. Unless ``thorough``, passes are not verified one by
    one, races not watched for, and what is interpreted is also built instead of being lowered again. Where
    ``seconds`` are given, a build may not use the processor for longer.
    """

    kept = []

    def hook(p, func, took):
        well_formed(f"pass {p}", func)
        kept.append((str(p), func))

    simple = tl.lower(schedule, args, "k", simple=True)
    well_formed("lowering", simple)
    slowly = thorough or each_pass
    start = time.process_time()
    final = tl.lower(schedule, args, "k", hooks=(hook,) if slowly else ())
    took = 0.0 if slowly else time.process_time() - start
    well_formed("all passes", final)
    start = time.process_time()
    built = None
    if build_it and count(final) <= BIG:
        built = tl.build(schedule, args, name="k") if slowly else tl.build(final)
    took += time.process_time() - start
    assert seconds is None or took < seconds, f"{took:.1f} s of the processor to build"
    runs = [0, 0]
    for one in sizes:
        values, dims = arrays(args, ranges, one)
        if refused(final, built, args, values, dims):
            continue
        given = {t: v for t, v in zip(args, values, strict=True) if t.name in ranges}
        want = reference.evaluate(outputs, given, dims)
        values, want, real = placed(schedule, args, outputs, values, want)
        if interpret_it:
            interpreted("lowered", simple, args, values, outputs, want, one, thorough, real)
            if each_pass:
                for name, func in kept:
                    interpreted(f"after pass {name}", func, args, values, outputs, want, one, real=real)
            interpreted("after all passes", final, args, values, outputs, want, one, thorough, real)
            runs[0] += 2
        if built is not None:
            got = [laid(t, a, 1) for t, a in zip(args, values, strict=True)]
            built(*got)
            compare("compiled", want, outputs, args, got, one, real)
            for a, v, t in zip(got, values, args, strict=True):
                assert t.name not in ranges or np.array_equal(a, v), f"the input {t.name} was changed"
            runs[1] += 1
    return tuple(runs)
