"""The native entry of all kernels: one function for the process, which checks what a descriptor lists. Knows
CPython's and numpy's structures.

``entry(self, args, nargs, names)`` is a METH_FASTCALL | METH_KEYWORDS function. It reads the array objects
directly, checks them against the descriptor, binds dims and runs the kernel. Whatever it does not know
exactly it hands, untouched, to the portable callable.

``self`` is a tuple whose first item is a bytes object: the descriptor (``runtime.call.describe``), eight-byte
words throughout. Every size has a slot: a dim that arrays tell begins as UNBOUND, a constant as itself, and
either must agree with what comes after. The slots of the dims, then those of the numbers are what the kernel
takes. The interpreter's lock is given up for calls that touch many bytes or do much work.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from .types import Array, CFunctions, Struct, at, f64, i1, i32, i64, ptr
from .words import address, cast, cttz, inline, local, null

INPUT, OUTPUT, FLOAT, INT = range(4)
NUMBER, SLOT, ADD, SUB, MUL, MIN, MAX, DIV, MOD = range(9)  # of a computed size
# of what stands on the stack in each call; a kernel beyond it has no native entry and takes the portable path
MAX_BUFFERS, MAX_SLOTS, MAX_DEPTH = 1024, 1024, 8
UNBOUND = -(1 << 63)
UNPLANNED = -1  # the status of an engine that meets these sizes for the first time
LARGE = 1 << 31  # products of smaller ones fit

c = CFunctions(
    "ptr PyObject_Vectorcall(ptr, ptr, i64, ptr)",
    "ptr PyEval_SaveThread()",
    "void PyEval_RestoreThread(ptr)",
    "i64 PyLong_AsLongLongAndOverflow(ptr, ptr)",
    "ptr PyLong_FromLong(i64)",
    "void Py_IncRef(ptr)",
    "void Py_DecRef(ptr)",
)
IMPORTS = tuple(c)


class Object(Struct):
    """Of CPython and numpy; ``call.layout_holds`` compares these five with the interpreter at hand."""

    type: ptr = at(8)


class Tuple(Struct):
    count: i64 = at(16)
    item: ptr = at(32 if sys.version_info >= (3, 14) else 24)  # 3.14 keeps a hash between the two


class Bytes(Struct):
    data: ptr = at(32, i64, 0)


class Float(Struct):
    bits: i64 = at(16)


class NumpyArray(Struct):
    data: i64 = at(16)
    ndim: i32
    shape: Array[i64]
    strides: Array[i64]
    descr: ptr = at(56)
    flags: i32


class Descriptor(Struct):
    """The head; ``…_at`` are places of what follows, in words. ``initial`` lies behind it: what each slot
    begins as, then the records."""

    kernel: Callable[[ptr, ptr, i64], i32]  # those that have no use for the third leave it
    context: i64
    portable: ptr
    fail: ptr
    ndarray: ptr
    none: ptr
    out: ptr  # the text "out" of a kernel whose last parameter is its one output; else null
    params: i64
    dims: i64
    slots: i64
    computed: i64
    computed_at: i64
    bounds_at: i64
    terms: i64
    terms_at: i64
    release: i64  # bytes
    release_work: f64
    initial: ptr = at(None, i64, 0)


class Record(Struct):
    """A parameter. ``type`` is the array's dtype or the number's type; of a number ``slot``, and of an
    integer the range, follow as sizes."""

    kind: i64
    type: ptr
    ndim: i64
    flags: i64
    itemsize: i64
    strided: i64
    next: i64  # words from this record to the next
    # slots of the axes, then of the strides if ``strided``; of a number its slot, lowest and highest value
    sizes: ptr = at(None, i64, 0)


class Computed(Struct):
    """A size that is computed from others: its slot, and ``count`` pairs of an operation and a number or
    slot, in reverse Polish order."""

    slot: i64
    count: i64
    steps: ptr = at(None, i64, 0)


class Bounds(Struct):
    lo: i64
    hi: i64
    multiple: i64


class Term(Struct):
    """A part of the work: a number and the slots it is multiplied with."""

    coefficient: f64
    factors: i64
    slots: ptr = at(None, i64, 0)


class Span(Struct):
    """The bytes an array lies in."""

    start: i64
    end: i64
    kind: i64


class Frame(Struct):
    """A call: what the kernel takes, and what is known of its arrays."""

    buffers: ptr = at(None, i64, MAX_BUFFERS)
    slots: ptr = at(None, i64, MAX_SLOTS)
    spans: ptr = at(None, Span, MAX_BUFFERS)
    stack: ptr = at(None, i64, MAX_DEPTH)
    status: ptr
    overflow: i32


@inline
def bound(slot: Array[i64], n: i64) -> i64:
    """The value of a slot, which is n from now on if it had none."""
    known = slot[0]
    if known == UNBOUND:
        slot[0] = n
        known = n
    return known


def computed(frame: Frame, t: Computed) -> i64:
    """The value of a computed size; UNBOUND where Python's arithmetic may be another."""
    top = 0
    for i in range(t.count):
        op, x = t.steps[2 * i], t.steps[2 * i + 1]
        if op <= SLOT:
            frame.stack[top] = x if op == NUMBER else frame.slots[x]
            top += 1
            continue
        top -= 1
        a, b = frame.stack[top - 1], frame.stack[top]
        if op == ADD:
            a += b
        elif op == SUB:
            a -= b
        elif op == MIN:
            a = min(a, b)
        elif op == MAX:
            a = max(a, b)
        # Python's integers do not wrap, so a product that might is left to the portable path
        elif not (-LARGE < a < LARGE) & (-LARGE < b < LARGE):
            return UNBOUND
        elif op == MUL:
            a *= b
        # the machine rounds towards zero, Python down: they agree on these only
        elif a < 0 or b <= 0:
            return UNBOUND
        elif op == DIV:
            a //= b
        else:
            a %= b
        frame.stack[top - 1] = a
    return frame.stack[0]


def check(d: Descriptor, frame: Frame, args: Array[ptr]) -> i64:
    """The bytes of all arrays, when the arguments are right as far as is known here; else -1."""
    for q in range(d.slots):
        frame.slots[q] = d.initial[q]
    r = cast(Record, address(d.initial[d.slots]))
    arrays, total = 0, 0
    for p in range(d.params):
        arg = cast(Object, args[p])
        if r.kind <= OUTPUT:
            a = cast(NumpyArray, arg)
            if (
                # exactly: a subclass may lie about its shape, and what it makes of the call is Python's
                # business
                arg.type != d.ndarray
                # by identity: numpy has one object for each built-in type; others that are equal take the
                # portable path
                or a.descr != r.type
                or i64(a.ndim) != r.ndim
                # aligned, and as the record asks contiguous or writable
                or i64(a.flags) & r.flags != r.flags
            ):
                return -1
            count = r.itemsize
            for x in range(r.ndim):
                n = a.shape[x]
                # the first array that has a dim binds it, all others are compared with it
                if bound(address(frame.slots[r.sizes[x]]), n) != n:
                    return -1
                count *= n
            span = frame.spans[arrays]
            span.start, span.end, span.kind = a.data, a.data + count, r.kind
            if r.strided != 0 and not lies(frame, r, a, span):
                return -1
            frame.buffers[arrays] = a.data
            arrays += 1
            total += count
        # a bool is no int here, nor a numpy scalar: the portable path converts them
        elif arg.type != r.type:
            return -1
        elif r.kind == FLOAT:
            frame.slots[r.sizes[0]] = cast(Float, arg).bits
        else:
            # sets no exception for an int, so there is nothing to clear
            value = c.PyLong_AsLongLongAndOverflow(arg, address(frame.overflow))
            if frame.overflow != 0 or value < r.sizes[1] or value > r.sizes[2]:
                return -1
            frame.slots[r.sizes[0]] = value
        r = cast(Record, address(cast(i64, r)[r.next]))
    t = cast(Computed, address(d.initial[d.computed_at]))
    for _ in range(d.computed):
        if frame.slots[t.slot] != computed(frame, t):
            return -1
        t = cast(Computed, address(t.steps[2 * t.count]))
    if not in_bounds(d, frame) or overlap(frame, arrays):
        return -1
    return total


@inline
def in_bounds(d: Descriptor, frame: Frame) -> i1:
    """Whether each dim is in its declared range and a multiple of what it is declared to be."""
    bounds = cast(Bounds, address(d.initial[d.bounds_at]))
    for q in range(d.dims):
        n, multiple = frame.slots[q], bounds[q].multiple
        if n < bounds[q].lo or n > bounds[q].hi or (multiple != 1 and n % multiple != 0):
            return False
    return True


@inline
def overlap(frame: Frame, arrays: i64) -> i1:
    """Whether an output shares memory with another array. Inputs may share theirs."""
    # few arrays, so pairs are cheaper than sorting
    for k in range(arrays):
        out = frame.spans[k]
        if out.kind == OUTPUT:
            for j in range(arrays):
                other = frame.spans[j]
                if j != k and other.start < out.end and out.start < other.end:
                    return True
    return False


@inline
def lies(frame: Frame, r: Record, a: NumpyArray, span: Span) -> i1:
    """Whether the strides of an array, in elements, are the declared ones, and, of one that is written,
    whether each steps over all that later ones reach. Sets the bytes it lies in."""
    # an empty array's strides mean nothing; the portable path knows what they should count as
    if span.start == span.end:
        return False
    itemsize, rank = r.itemsize, r.ndim
    bits, part = cttz(itemsize), itemsize - 1
    reach, low, high, nested = itemsize, 0, itemsize, True
    y = rank
    while y > 0:  # from the last axis to the first
        y -= 1
        n, stride = a.shape[y] - 1, a.strides[y]
        # not a multiple of the element's size, a power of two
        if stride & part != 0:
            return False
        elements = stride >> bits
        if bound(address(frame.slots[r.sizes[rank + y]]), elements) != elements:
            return False
        far = n * stride
        low, high = low + min(far, 0), high + max(far, 0)
        # each axis steps over all that the later ones reach, so no element is met twice: two iterations that
        # write one element would race. There are arrays without overlap that fail this; the portable path
        # looks closer
        nested = nested & ((abs(stride) >= reach) | (n == 0))
        reach += abs(far)
    span.start, span.end = a.data + low, a.data + high
    return nested or r.kind != OUTPUT


@inline
def heavy(d: Descriptor, slots: Array[i64]) -> i1:
    """Whether the call does much work."""
    work = 0.0
    t = cast(Term, address(d.initial[d.terms_at]))
    for _ in range(d.terms):
        product = t.coefficient
        for g in range(t.factors):
            product *= f64(slots[t.slots[g]])
        work += product
        t = cast(Term, address(t.slots[t.factors]))
    return work >= d.release_work


@inline
def failed(d: Descriptor, frame: Frame, status: i32) -> ptr:
    number = c.PyLong_FromLong(i64(status))
    if number == null:
        return null
    frame.status = number
    raised = c.PyObject_Vectorcall(d.fail, address(frame.status), 1, null)
    c.Py_DecRef(number)
    return raised


@inline
def only_out(d: Descriptor, names: Tuple) -> i1:
    """Whether ``out=`` is the one argument by name, and stands for the one output. Names in calls are texts
    of which there is one each."""
    return (names.count == 1) & (names.item == d.out)


def entry(self: Tuple, args: Array[ptr], nargs: i64, names: ptr) -> ptr:
    """The builtin of every kernel."""
    d = cast(Descriptor, address(cast(Bytes, self.item).data))
    frame = local(Frame)
    total = -1
    returned = d.none
    if nargs == d.params and names == null:
        total = check(d, frame, args)
    elif nargs + 1 == d.params and names != null and only_out(d, cast(Tuple, names)):
        total = check(d, frame, args)
        returned = args[nargs]
    if total < 0:
        return c.PyObject_Vectorcall(d.portable, args, nargs, names)
    # giving the lock up and taking it again costs as much as a small kernel, and under contention
    # milliseconds; a call that takes long must let others run
    if total >= d.release or heavy(d, frame.slots):
        thread = c.PyEval_SaveThread()
        status = d.kernel(frame.buffers, frame.slots, d.context)
        c.PyEval_RestoreThread(thread)
    else:
        status = d.kernel(frame.buffers, frame.slots, d.context)
    # Python makes the plan that is missing, or goes on where the table ends
    if status == UNPLANNED:
        return c.PyObject_Vectorcall(d.portable, args, nargs, names)
    if status != 0:
        return failed(d, frame, status)
    # None as well: it is counted up to version 3.11, and immortal from 3.12 on, where this does nothing
    c.Py_IncRef(returned)
    return returned
