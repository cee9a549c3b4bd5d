"""What the fields of a primitive hold. A field's type says what it is for: text is the name of a stage, a
tensor, a loop, an axis or one of a few words, a number is a literal, a knob or a size. Checks of traces,
their Python text and the fuzzers read it from there.

Knows no state and no particular primitive.
"""

from __future__ import annotations

import functools
import types
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, SupportsIndex, Union, get_args, get_origin, get_type_hints

from ...errors import DeclareError
from ...expr.nodes import Expr, Var
from ..legality.verdict import YES, Verdict, refuse


@dataclass(frozen=True, slots=True)
class Knob:
    """A sampled value by name, where a primitive takes a number."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Size:
    """A size that is known at the call, by name, where a primitive takes a number; ``var`` is its variable
    where the program does not speak of it: an argument only loops are cut by."""

    name: str
    var: Var | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.name


Number = int | Size | Knob
# what users give: numpy's integers, the variables of knobs and sizes too
Factor = SupportsIndex | Knob | Size | Expr


@dataclass(frozen=True)
class Meaning:
    """What the text or number in a field is; ``words`` are those it usually is, where they are few."""

    of: str
    words: tuple[Any, ...] = ()


SCOPES = ("local", "global")
StageName = Annotated[str, Meaning("stage")]
# of the stage that makes it, arguments too; its output is the field `index`, else 0
TensorName = Annotated[str, Meaning("tensor")]
LoopName = Annotated[str, Meaning("loop")]  # of the stage in the nearest StageName before it
AxisName = Annotated[str, Meaning("axis")]  # a data axis of that stage
Scope = Annotated[str, Meaning("scope", SCOPES)]
DecisionName = Annotated[str, Meaning("decision")]  # a new name for a sampled value
# what it is for; a search picks its moves by it
Role = Annotated[str, Meaning("role", ("tile", "categorical", "unroll"))]
Digit = tuple[int, int, int]  # (old axis, stride, size); size 0: all that is left


@dataclass(frozen=True)
class FieldType:
    """The type of a field: the exact types a value may have, that of its elements when it is a tuple, what it
    is for, and all in words."""

    name: str
    allowed: frozenset[type]
    element: type | None
    meaning: Meaning
    said: str


_SAID = {
    int: "an int",
    bool: "True or False",
    Knob: "a knob",
    Size: "a size",
    float: "a number",
    str: "text",
    type(None): "None",
}
_ELEMENTS = {int: "a tuple of ints", str: "a tuple of text", tuple: "a tuple of (axis, stride, size)"}


@functools.cache
def field_types(kind: Any) -> tuple[FieldType, ...]:
    """The types of the fields of a primitive, in order."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(_field_type(f.name, hints[f.name]) for f in fields(kind))


def _field_type(name: str, hint: Any) -> FieldType:
    allowed: dict[type, str] = {}
    element: type | None = None
    meaning = Meaning("")
    for part in get_args(hint) if get_origin(hint) in (types.UnionType, Union) else (hint,):
        plain, meaning = _plain(part, meaning)
        if get_origin(plain) is tuple:
            inside, meaning = _plain(get_args(plain)[0], meaning)
            element = get_origin(inside) or inside
            allowed[tuple] = _ELEMENTS[element]
        else:
            allowed[plain] = _SAID[plain]
    said = " or ".join(allowed.values())
    return FieldType(
        name, frozenset(allowed), element, meaning, said.replace(" or ", ", ", max(len(allowed) - 2, 0))
    )


def _plain(hint: Any, meaning: Meaning) -> tuple[Any, Meaning]:
    """A type without its meaning, and that."""
    return (get_args(hint)[0], hint.__metadata__[0]) if get_origin(hint) is Annotated else (hint, meaning)


def mistyped(p: Any) -> Verdict:
    """Refuses a primitive with a field that is not of its type: traces are plain data, and checks may rely on
    it."""
    for f in field_types(type(p)):  # type: ignore[arg-type]  # a class is hashable
        value = getattr(p, f.name)
        # exact types: True is an int to isinstance, and a trace must read back as what it was
        right = type(value) in f.allowed
        if right and f.element is not None and type(value) is tuple:
            right = all([type(v) is f.element for v in value])
            right = right and (
                f.element is not tuple or all([len(v) == 3 and {*map(type, v)} == {int} for v in value])
            )
        if not right:
            return refuse(f"{f.name} must be {f.said}, not {quoted(value)}")
    return YES


def shown(value: Any) -> str:
    """A field as it is shown: what is not plain data by its type, for its own text may say anything."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(shown, value))}]"
    kind = type(value).__name__
    article = "an" if kind[:1].lower() in "aeiou" else "a"
    return str(value) if isinstance(value, str | int | float | Knob | Size | Expr) else f"{article} {kind}"


def quoted(value: Any) -> str:
    """Text in quotes, anything else as it is shown."""
    return repr(value) if isinstance(value, str) else shown(value)


def whole(value: Any) -> Any:
    """A number or a list of numbers that a user gave (numpy's too), as int or tuple of ints; what is none
    comes back as it is, for :func:`mistyped` to refuse."""
    try:
        if isinstance(value, list | tuple | range | set | frozenset) or hasattr(value, "tolist"):
            listed = value.tolist() if hasattr(value, "tolist") else value
            return tuple(v.__index__() for v in listed) if not isinstance(listed, int) else listed
        return value.__index__()
    # left as it is: the check of the field says what is wrong with it, in one place for all calls
    except (AttributeError, TypeError, DeclareError):
        return value
