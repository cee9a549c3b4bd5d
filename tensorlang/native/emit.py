"""The body of one native function as LLVM text: values, places in memory, blocks, joins. Knows no Python
source.

Values in control flow are merged by phis, so nothing has to be optimised afterwards for variables to be
registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .types import Block, Global, Struct, Type, f64, i1, i64, ptr


class Value(NamedTuple):
    """An LLVM value."""

    type: Any
    text: str


class Place(NamedTuple):
    """Memory that holds a value of a type: a field, an element."""

    type: Any
    address: str


Env = dict[str, Any]
Edge = tuple[str, Env]  # the block one comes from, and what the variables are there
_COMPARE = {"==": "eq", "!=": "ne", "<": "slt", "<=": "sle", ">": "sgt", ">=": "sge"}
# ordered: a comparison with NaN is false, and ``!=`` true, as in C and Python
_FLOATS = {"==": "oeq", "!=": "une", "<": "olt", "<=": "ole", ">": "ogt", ">=": "oge"}
_BINARY = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "//": "sdiv",
    "%": "srem",
    "&": "and",
    "|": "or",
    "^": "xor",
    "<<": "shl",
    ">>": "ashr",
}


class Emitter:
    """Writes instructions. Python numbers stand for constants and take the type of what they meet."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.env: Env = {}  # what the variables are here
        self.here: str | None = "entry"  # the block that is being written; None after its end
        self.edges: dict[str, list[Edge]] = {}  # by label
        self.count = 0

    def fresh(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def write(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def new(self, type_: Any, text: str) -> Value:
        """The result of an instruction."""
        name = f"%{self.fresh('v')}"
        self.write(f"{name} = {text}")
        return Value(type_, name)

    # -- operands

    def value(self, x: Any, like: Any = None) -> Value:
        """An operand as a value: places are loaded, numbers take the type ``like``."""
        if isinstance(x, Value):
            return x
        if isinstance(x, Place):
            inner = x.type
            # what stands in memory itself, an array or a structure, is its address; there is nothing to load
            if isinstance(inner, Block):
                return Value(Type("ptr", 8, inner.of), x.address)
            if isinstance(inner, type) and issubclass(inner, Struct):
                return Value(Type("ptr", 8, inner), x.address)
            return self.new(inner, f"load {inner}, ptr {x.address}")
        if isinstance(x, Global):
            return Value(Type("ptr", 8, x.of), f"@{self.module.use(x)}")
        if x is None:
            return Value(ptr, "null")
        if isinstance(x, bool):
            return Value(i1, str(x).lower())
        if isinstance(x, int):
            return Value(like or i64, str(x))
        if isinstance(x, float):
            return Value(f64, repr(x))
        return Value(ptr, f"@{self.module.require(x)}")  # a function as a value

    def pair(self, a: Any, b: Any) -> tuple[Value, Value]:
        """Two operands of one type."""
        # a number on the left takes its type from the right operand, which is therefore seen first; the order
        # of the instructions that they make does not matter, both have no effects
        loose = isinstance(a, int) and not isinstance(a, bool)
        second = self.value(b) if loose else None
        first = self.value(a, second.type if second else None)
        second = second or self.value(b, first.type)
        if first.type.name != second.type.name:
            raise TypeError(f"{first.type} meets {second.type}")
        return first, second

    def binary(self, op: str, a: Any, b: Any) -> Value:
        x, y = self.pair(a, b)
        name = {"add": "fadd", "sub": "fsub", "mul": "fmul"}[_BINARY[op]] if x.type is f64 else _BINARY[op]
        return self.new(x.type, f"{name} {x.type} {x.text}, {y.text}")

    def compare(self, op: str, a: Any, b: Any) -> Value:
        x, y = self.pair(a, b)
        test = f"fcmp {_FLOATS[op]}" if x.type is f64 else f"icmp {_COMPARE[op]}"
        return self.new(i1, f"{test} {x.type} {x.text}, {y.text}")

    def field(self, x: Any, name: str) -> Place:
        """A field of the structure that ``x`` points to."""
        pointer = self.value(x)
        kind, offset = pointer.type.of.fields[name]
        if not offset:
            return Place(kind, pointer.text)
        return Place(kind, self.new(ptr, f"getelementptr i8, ptr {pointer.text}, i64 {offset}").text)

    def element(self, x: Any, index: Any) -> Place:
        """An element of the array that ``x`` points to."""
        pointer = self.value(x)
        of = pointer.type.of
        if index == 0 and isinstance(index, int):
            return Place(of, pointer.text)
        # LLVM knows no structures of ours: an element is so many bytes
        step = of if isinstance(of, Type) else f"[{of.size} x i8]"
        return Place(
            of, self.new(ptr, f"getelementptr {step}, ptr {pointer.text}, i64 {self.value(index).text}").text
        )

    def store(self, place: Place, x: Any) -> None:
        value = self.value(x, place.type)
        if value.type.name != place.type.name:
            raise TypeError(f"{value.type} is stored as {place.type}")
        self.write(f"store {place.type} {value.text}, ptr {place.address}")

    def convert(self, to: Type, x: Any) -> Any:
        """A number as another type; integers are extended with their sign."""
        if isinstance(x, int):
            return Value(to, str(x))
        value = self.value(x)
        if value.type.name == to.name:
            return value
        if to is f64:
            return self.new(to, f"sitofp {value.type} {value.text} to double")
        if to.name == "ptr":
            return self.new(to, f"inttoptr {value.type} {value.text} to ptr")
        if value.type.name == "ptr":
            return self.new(to, f"ptrtoint ptr {value.text} to {to}")
        op = "zext" if value.type is i1 else "sext" if to.size > value.type.size else "trunc"
        return self.new(to, f"{op} {value.type} {value.text} to {to}")

    def call(
        self, result: Any, symbol: str, kinds: Sequence[Any], args: Sequence[Any], more: str = ""
    ) -> Value | None:
        """A call; ``kinds`` are the types of the parameters, ``more`` the list of those of a function that
        takes more."""
        values = [self.value(a, k) for a, k in zip(args, kinds, strict=True)]
        given = ", ".join(f"{v.type} {v.text}" for v in values)
        wrong = [
            f"{v.type} for {k}"
            for v, k in zip(values, kinds, strict=True)
            if v.type.name != getattr(k, "name", k)
        ]
        if wrong:
            raise TypeError(f"{symbol}: {', '.join(wrong)}")
        if result is None:
            self.write(f"call void {more}{symbol}({given})")
            return None
        return self.new(result, f"call {result} {more}{symbol}({given})")

    # -- control flow

    def leave(self, label: str) -> None:
        """End the block here, if it has not ended, by going on at a label."""
        if self.here is not None:
            self.edges.setdefault(label, []).append((self.here, self.env))
            self.write(f"br label %{label}")
            self.here = None

    def fork(self, condition: Any, yes: str, no: str) -> None:
        self.write(f"br i1 {self.value(condition).text}, label %{yes}, label %{no}")
        for label in (yes, no):
            self.edges.setdefault(label, []).append((self.here or "", self.env))
        self.here = None

    def begin(self, label: str, loop: bool = False) -> None:
        """Go on at a label, to which others come later if it is a ``loop``'s, with the variables that all
        have who come there; nothing follows when nobody does."""
        edges = self.edges.pop(label, [])
        self.env = {}
        if not edges:
            return
        # no jump to where one is
        if not loop and len(edges) == 1 and self.lines[-1] == f"  br label %{label}":
            self.lines.pop()
            self.here, self.env = edges[0]
            return
        self.lines.append(f"{label}:")
        self.here = label
        first = edges[0][1]
        # no variable was set on any way here, so nothing has to be merged
        if all(env is first for _, env in edges):
            self.env = dict(first)
            return
        for name, x in first.items():
            # one that is set on some ways only is unknown from here on, and reading it an error of the
            # translation
            if all(name in env for _, env in edges):
                many = [(env[name], block) for block, env in edges]
                self.env[name] = x if all(y is x or y == x for y, _ in many) else self.phi(many)

    def phi(self, many: Sequence[tuple[Any, str]]) -> Value:
        """One of several values, by the block one comes from."""
        kind = next((x.type for x, _ in many if isinstance(x, Value)), None) or self.value(many[0][0]).type
        return self.new(kind, f"phi {kind} {self.arms(kind, many)}")

    def arms(self, kind: Any, many: Sequence[tuple[Any, str]]) -> str:
        values = [(self.value(x, kind), block) for x, block in many]
        if any(v.type.name != kind.name for v, _ in values):
            raise TypeError(f"a variable is {', '.join(str(v.type) for v, _ in values)}")
        return ", ".join(f"[{v.text}, %{block}]" for v, block in values)

    def choose(self, condition: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        """One of two values, of which only that one is computed."""
        if not isinstance(condition, (Value, Place)):
            return yes() if condition else no()
        first, second, after = (self.fresh(hint) for hint in ("choose", "else", "chosen"))
        self.fork(condition, first, second)
        many = []
        for label, make in ((first, yes), (second, no)):
            self.begin(label)
            found = make()
            many.append((self.value(found) if isinstance(found, (Place, Global)) else found, self.here or ""))
            self.leave(after)
        self.begin(after)
        return self.phi(many)
