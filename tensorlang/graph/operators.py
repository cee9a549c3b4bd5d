"""What Python's operators say of a value of a graph: nodes are made by ``g.call``, which knows the graph they
belong to. Knows no graph."""

from __future__ import annotations

from typing import Any, NoReturn

from ..errors import DeclareError

# the operator in Python, and the function of ``ops`` that is called for it
_TWO = {
    "add": ("+", "add"),
    "sub": ("-", "subtract"),
    "mul": ("*", "multiply"),
    "truediv": ("/", "divide"),
    "floordiv": ("//", "floor_divide"),
    "mod": ("%", "mod"),
    "pow": ("**", "power"),
    "matmul": ("@", "matmul"),
    "and": ("&", "bitwise_and"),
    "or": ("|", "bitwise_or"),
    "lt": ("<", "less"),
    "le": ("<=", "less_equal"),
    "gt": (">", "greater"),
    "ge": (">=", "greater_equal"),
}
_ONE = {"neg": ("-", "negative"), "abs": ("abs", "abs"), "invert": ("~", "bitwise_not")}
_MIRRORED = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or")


class NoOperators:
    """Values refuse Python's operators, numpy's functions and what asks for elements, and say the call."""

    __slots__ = ()
    name: str

    def __bool__(self) -> bool:
        return True  # there is one; ``if value`` asks for no more

    def __len__(self) -> NoReturn:
        raise self._refused(f"len({self.name})", f"{self.name}.shape[0]")

    def __getitem__(self, index: Any) -> NoReturn:
        raise self._refused(
            f"{self.name}[…]", f"g.call(ops.strided_slice, {self.name}, begin=(0,), end=(4,)), or ops.take"
        )

    def __iter__(self) -> NoReturn:
        raise self._refused(f"a loop over {self.name}", f"g.call(ops.split, {self.name}, …)")

    def __float__(self) -> NoReturn:
        raise self._refused(f"float({self.name})", "g.output and the engine, which returns numbers")

    __int__ = __float__

    def __array__(self, *args: Any, **named: Any) -> NoReturn:
        raise self._refused(f"np.asarray({self.name})", "g.output and the engine, which returns arrays")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> NoReturn:
        raise self._refused(f"np.{ufunc.__name__} of {self.name}", f"g.call(ops.{ufunc.__name__}, …)")

    def _refused(self, what: str, instead: str) -> DeclareError:
        return DeclareError(
            f"{what}: {self.name} is a value of a graph",
            because="it has no elements until an engine runs, and operators are nodes of its graph",
            try_=instead,
        )


def _two(sign: str, op: str, mirrored: bool) -> Any:
    def method(self: Any, other: Any) -> NoReturn:
        mine = self.name
        theirs = getattr(other, "name", None) or (other if isinstance(other, int | float) else "…")
        constant = f"g.constant({theirs})" if isinstance(other, int | float) else theirs
        text = f"{theirs} {sign} {mine}" if mirrored else f"{mine} {sign} {theirs}"
        given = f"{constant}, {mine}" if mirrored else f"{mine}, {constant}"
        raise self._refused(text, f"g.call(ops.{op}, {given})")

    return method


def _one(sign: str, op: str) -> Any:
    def method(self: Any) -> NoReturn:
        raise self._refused(f"{sign}({self.name})", f"g.call(ops.{op}, {self.name})")

    return method


for _name, (_sign, _op) in _TWO.items():
    setattr(NoOperators, f"__{_name}__", _two(_sign, _op, False))
    if _name in _MIRRORED:
        setattr(NoOperators, f"__r{_name}__", _two(_sign, _op, True))
for _name, (_sign, _op) in _ONE.items():
    setattr(NoOperators, f"__{_name}__", _one(_sign, _op))
