"""An exported kernel as a C function: its parameters and its header. Plain text from a signature; knows no
machine code.

``int name(const float *A, float *C, int64_t n)``: the arrays and numbers in the order of the kernel's
arguments, then the sizes that only shapes speak of. The code generator and the header both take the order and
the types from ``parameters``.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from ..core.dtype import DType, dtype
from ..core.names import COMPILERS, RUNTIMES, NameSupply, identifier
from ..errors import TensorLangError
from .signature import DIVISION, OUT_OF_BOUNDS, REFUSED, Check, Dim, Param, Signature, Size, names_in, show

BAD_SIZE = 2  # the status of an exported kernel that was given a size its declaration excludes

_KEYWORDS = """_Alignas _Alignof _Atomic _Bool _Complex _Generic _Imaginary _Noreturn _Static_assert
_Thread_local alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t
char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit
continue decltype default delete do double dynamic_cast else enum explicit export extern false float for
friend goto if inline int int16_t int32_t int64_t int8_t long main mutable namespace new noexcept not
not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires restrict
return short signed sizeof static static_assert static_cast struct switch template this thread_local throw
true try typedef typeid typename typeof typeof_unqual uint16_t uint32_t uint64_t uint8_t union unsigned
using virtual void volatile wchar_t while xor xor_eq"""
# macros, types and variables of headers that most programs include
_HEADERS = """CHAR_BIT EOF INT_MAX INT_MIN NAN NULL assert environ errno intptr_t max_align_t offsetof
ptrdiff_t size_t ssize_t stderr stdin stdout uintptr_t unix linux va_arg va_end va_list va_start"""
RESERVED = frozenset(
    [*_KEYWORDS.split(), *_HEADERS.split()]
)  # what no function and no parameter of C or C++ may be called, and the program's own ``main``

_MATH = """acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1
fabs fdim floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb
lrint lround modf nan nearbyint nextafter nexttoward pow remainder remquo rint round roundeven scalbln scalbn
sin sincos sinh sqrt tan tanh tgamma trunc"""
_OTHERS = """abort abs bcmp calloc close div exit fclose fopen fprintf fread free fwrite getenv index kill
link malloc memchr memcmp memcpy memmove memset open pause pipe posix_memalign printf puts qsort raise rand
read realloc remove rename scanf select send signal sleep snprintf sprintf strchr strcmp strcpy strlen
syscall system time wait write _fini _init _start"""
LIBRARY = frozenset(
    # each in double and in float
    [*RUNTIMES, *_OTHERS.split(), *(name + suffix for name in _MATH.split() for suffix in ("", "f"))]
)  # what programs and kernels call

_ROW = 118


@dataclass(frozen=True)
class CParameter:
    """One parameter: ``source`` is the Param or the Dim it passes, ``type`` its C type."""

    name: str
    type: str
    source: Param | Dim


def parameters(signature: Signature, taken: Sequence[str] = ()) -> tuple[CParameter, ...]:
    """The parameters of the C function in order, by other names than those ``taken``. A dim that a number of
    the same name passes is not passed again."""
    supply = NameSupply((*RESERVED, signature.name, *taken))
    out = [CParameter(_name(supply, p.name), _type(p), p) for p in signature.params]
    numbers = {p.name for p in signature.params if p.kind == "scalar"}
    return (
        *out,
        *(CParameter(_name(supply, d.name), "int64_t", d) for d in signature.dims if d.name not in numbers),
    )


def _name(supply: NameSupply, preferred: str) -> str:
    return supply.fresh(identifier(preferred).lstrip("_") or "arg")


def _type(p: Param) -> str:
    t = dtype(p.dtype)
    if p.kind == "scalar":
        # C has no half that all compilers know: one is passed as a float
        return "float" if t.is_float and t.bits == 16 else _element(t)
    return f"{'' if p.written else 'const '}{_element(t)} *"


def _element(t: DType) -> str:
    if t.is_bool:
        return "bool"
    if t.is_float:
        # in memory a half is its bits
        return {16: "uint16_t", 32: "float", 64: "double"}[t.bits]
    return f"{'u' if t.code == 'uint' else ''}int{t.bits}_t"


def check_name(name: str, called: frozenset[str]) -> None:
    """Raises TensorLangError when C cannot call a function of that name, when the C library has one, whose
    place this would take, and when the kernel itself calls another of that name."""
    other = "name=… of export, or of tl.build"
    if not isinstance(name, str) or identifier(name) != name:
        raise TensorLangError(
            f"export: no C function can be called {name!r}",
            because="names are made of letters, digits and underscores",
            try_=other,
        )
    if name in RESERVED:
        why = (
            "that is what a program's own function is called"
            if name == "main"
            else "C or C++ gives that word a meaning, or one of their headers"
        )
        raise TensorLangError(f"export: no C function can be called {name!r}", because=why, try_=other)
    if name == COMPILERS:
        raise TensorLangError(
            f"export: a C function cannot be called {name!r} here",
            because=f"the parts of it would be called {name}.…, as the compiler's own functions are",
            try_=other,
        )
    if name in LIBRARY:
        owner = "runtime" if name in RUNTIMES else "C library"
        raise TensorLangError(
            f"export: a C function cannot be called {name!r} here",
            because=f"programs that link it would call it in place of the {owner}'s {name}",
            try_=other,
        )
    if name in called:
        raise TensorLangError(
            f"export: a C function cannot be called {name!r} here",
            because=f"the kernel calls the library's {name}",
            try_=other,
        )


def header(signature: Signature, target: str, parallel: bool, symbols: tuple[str, ...]) -> str:
    """The C header. ``parallel``: the kernel has parallel loops. ``symbols``: functions it calls that are not
    of the C library."""
    name, taken = signature.name, parameters(signature)
    lines = _prototype(f"int {name}", taken)
    if signature.checks:
        lines += ["", *_checks(signature), f"void {name}_report(int64_t *record);"]
    return _framed(name, _said("kernel", signature, target, taken, symbols), lines, parallel)


def engine_header(signature: Signature, target: str, parallel: bool, symbols: tuple[str, ...]) -> str:
    """The C header of a whole model, as ``header``."""
    name, taken = signature.name, engine_parameters(signature)
    sizes = [p for p in taken if isinstance(p.source, Dim)]
    arena = (
        f"The bytes of memory that {name} needs for these sizes; the negative of a status for sizes it does "
        "not take. Memory given as arena begins at a multiple of 64 and is for one call at a time; NULL: the "
        "call takes memory and gives it back."
    )
    outputs = ", ".join(p.name for p in taken if isinstance(p.source, Param) and p.source.output)
    written = f"Writes the sizes of {outputs} one after another, as they are here. Returns a status."
    lines = [
        *_prototype(f"int {name}", taken, "void *arena"),
        "",
        *_comments(arena),
        *_prototype(f"int64_t {name}_arena", sizes),
        "",
        *_comments(written),
        *_prototype(f"int {name}_shapes", sizes, "int64_t *shapes"),
    ]
    return _framed(name, _said("model", signature, target, taken, symbols), lines, parallel)


def engine_parameters(signature: Signature) -> tuple[CParameter, ...]:
    """As ``parameters``, for a whole model."""
    return parameters(signature, ("arena", "shapes"))


def _said(
    what: str, signature: Signature, target: str, taken: Sequence[CParameter], symbols: tuple[str, ...]
) -> list[str]:
    """What the comment at the top says: a line for each parameter, and the rules of a call."""
    width = max((len(p.name) for p in taken), default=0)
    names = {q.source.name: q.name for q in taken}
    return [
        f'{signature.name}: a {what} compiled by tensorlang for the target "{_comment(target)}".',
        "",
        *(f"    {p.name:<{width}}  {_described(p, signature, names)}" for p in taken),
        "",
        *_rules(signature, symbols),
    ]


def _prototype(head: str, taken: Sequence[CParameter], *more: str) -> list[str]:
    params = [p.type + ("" if p.type.endswith("*") else " ") + p.name for p in taken]
    text = f"{head}({', '.join([*params, *more]) or 'void'});"
    return textwrap.wrap(text, _ROW, subsequent_indent=" " * (len(head) + 1), break_long_words=False)


def _framed(name: str, said: Sequence[str], lines: Sequence[str], parallel: bool) -> str:
    """A header with what is said of it, and its declarations."""
    guard = f"TENSORLANG_{name.upper()}_H"
    begin = [
        "/*",
        *(f" * {line}".rstrip() for line in said),
        " */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stdbool.h>",
        "#include <stdint.h>",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
    ]
    # only who has parallel loops needs to know how they run
    own = _PARALLEL if parallel else ()
    return "\n".join([*begin, *lines, *own, "", "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""])


def _described(p: CParameter, signature: Signature, names: dict[str, str]) -> str:
    if isinstance(p.source, Dim):
        sizes = {n for q in signature.params for size in q.shape for n in names_in(size)}
        return f"{'size' if p.source.name in sizes else 'stride'}{_facts(p.source)}"
    t = dtype(p.source.dtype)
    if p.source.kind == "scalar":
        return f"number  {t.name}"
    bits = f", the {t.bits} bits of each" if t.is_float and t.bits == 16 else ""
    shape = ", ".join("?" if n is None else show(_renamed(n, names)) for n in p.source.shape)
    strides = p.source.strides
    lying = (
        ""
        if strides is None
        else f", strides ({', '.join(show(_renamed(n, names)) for n in strides)}) in elements"
    )
    return (
        f"{'out' if p.source.output else 'i/o' if p.source.updated else 'in '}  "
        f"{t.name}[{shape}]{bits}{lying}"
    )


def _renamed(size: Size, names: dict[str, str]) -> Size:
    """A size in the words of the C function."""
    if isinstance(size, tuple):
        return (size[0], _renamed(size[1], names), _renamed(size[2], names))
    return names.get(size, size) if isinstance(size, str) else size


def _facts(d: Dim) -> str:
    facts = (
        ([f"at least {d.lo}"] if d.lo is not None else [])
        + ([f"at most {d.hi}"] if d.hi is not None else [])
        + ([f"a multiple of {d.multiple_of}"] if d.multiple_of > 1 else [])
    )
    return f"  {', '.join(facts)}" if facts else ""


def _rules(signature: Signature, symbols: tuple[str, ...]) -> list[str]:
    codes = [
        "Returns 0, or 1 when there is no memory for temporary buffers (the outputs are then incomplete)"
    ]
    if signature.dims:
        codes.append(f"or {BAD_SIZE} when a size is not what is said above (nothing is then written)")
    if signature.needs:
        codes.append(
            f"or {REFUSED} when sizes do not go together (nothing is then written): "
            f"{_comment('; '.join(signature.needs))}"
        )
    if signature.checks:
        codes.append(
            f"or {OUT_OF_BOUNDS} when an index is out of bounds (the outputs are then incomplete; see below)"
        )
    compact = (
        "unless their strides are given above, "
        if any(p.strides is not None for p in signature.params)
        else ""
    )
    texts = [
        f"Arrays are compact, {compact}in row-major order, and not NULL; each begins at a multiple of its "
        "element's size (64 bytes are "
        "faster). An output may not overlap any other array.",
        ", ".join(codes) + ".",
        "Safe to call from several threads at once. Link with -lm.",
    ]
    if symbols:
        texts.append(f"The program must define what the kernel calls: {', '.join(symbols)}.")
    return [line for text in texts for line in textwrap.wrap(text, _ROW)]


def _checks(signature: Signature) -> list[str]:
    words = 3 + max(len(c.loops) for c in signature.checks)
    text = (
        f"After the status {OUT_OF_BOUNDS}: writes {words} numbers: which access failed (as listed, from 1; "
        "0 when none did), the index, the extent it should be less than, then the variables of the loops "
        "around it. Calls that fail at the same time share one record."
    )
    listed = [
        f"{n}: {c.access}, {_what(c)}" + (f", in {', '.join(c.loops)}" if c.loops else "")
        for n, c in enumerate(signature.checks, 1)
    ]
    return ["/*", *(f" * {_comment(line)}" for line in [*textwrap.wrap(text, _ROW), *listed]), " */"]


def _what(c: Check) -> str:
    return "its divisor, and what is divided" if c.dim == DIVISION else f"index {c.dim}"


def _comments(text: str) -> list[str]:
    lines = textwrap.wrap(text, _ROW)
    return [
        f"{' *' if i else '/*'} {line}{' */' if i == len(lines) - 1 else ''}" for i, line in enumerate(lines)
    ]


_PARALLEL = (
    "",
    *_comments(
        "How a parallel loop runs: call body(context, first, last) on parts that together cover "
        "first = begin .. last = end, on any threads, and return when all are done. The one in the object "
        "file is weak and makes one call in the calling thread; a program may define its own. Loops of some "
        "microseconds always run in the calling thread."
    ),
    "void tensorlang_parallel(void (*body)(void *, int64_t, int64_t), void *context, int64_t begin, int64_t "
    "end);",
)


def _comment(text: str) -> str:
    """Text that cannot end a comment."""
    # names and target strings are the user's
    return text.replace("*/", "* /").replace("/*", "/ *")
