"""From Python source to LLVM text: functions written in a small part of Python, on numbers and pointers,
become native functions.

What is known while translating, numbers, names, closures, whole ``if``s and calls of Python functions on
such, is computed then; the rest becomes code. The language: assignments, ``if``, ``while``, ``for … in
range``, ``return``, ``break``, ``continue``; integers with C's arithmetic (signed, wrapping; ``//`` and ``%``
round toward zero); ``and``, ``or`` and conditional expressions compute what they need only. A variable has
one type. A condition known now is one comparison. Loops over ``unrolled(…)`` are written out. Everything else
is words (``words``): functions that write their instructions themselves.
"""

from __future__ import annotations

import ast
import linecache
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import FunctionType
from typing import Any

from .emit import Emitter, Place, Value
from .types import CFunction, Global, Type, resolve
from .words import WORDS, Inline, Word, unrolled

_SIGNS: dict[type, Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.Invert: operator.inv,
}
_OPERATORS: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.BitAnd: ("&", operator.and_),
    ast.BitOr: ("|", operator.or_),
    ast.BitXor: ("^", operator.xor),
    ast.LShift: ("<<", operator.lshift),
    ast.RShift: (">>", operator.rshift),
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.Is: ("==", operator.is_),
    ast.IsNot: ("!=", operator.is_not),
}


def module_text(exports: Mapping[str, FunctionType | Global]) -> str:
    """The LLVM text of a module with these functions and globals by symbol, and all that they use."""
    return Module(exports).text()


def named(x: FunctionType | Global) -> str:
    """Where the source of a native function is, or how large a global is."""
    return f"{x.name}:{x.size}" if isinstance(x, Global) else f"{x.__module__}.{x.__qualname__}"


class Module:
    """What is being translated: each function and global once."""

    def __init__(self, exports: Mapping[str, Any]) -> None:
        self.symbols = {id(x): symbol for symbol, x in exports.items()}
        self.exported = set(exports)
        self.functions: list[Any] = []
        self.globals: dict[str, Global] = {}
        self.declared: dict[str, str] = {}
        for x in exports.values():
            _ = self.use(x) if isinstance(x, Global) else self.require(x)

    def require(self, function: Any) -> str:
        """The symbol of a function that is to be in the module."""
        if isinstance(function, CFunction):
            self.declared[function.symbol] = function.text
            return function.symbol
        if not isinstance(function, FunctionType):
            raise TypeError(f"{function!r} is not a value of machine code")
        if function not in self.functions:
            self.functions.append(function)
        return self.symbols.setdefault(id(function), function.__name__)

    def use(self, memory: Global) -> str:
        symbol = self.symbols.setdefault(id(memory), memory.name)
        self.globals[symbol] = memory
        return symbol

    def text(self) -> str:
        bodies = []
        for function in self.functions:  # grows while it is walked
            symbol = self.symbols[id(function)]
            bodies.append(Translator(self, function).text(symbol, symbol not in self.exported))
        memory = [
            f"@{symbol} = {'' if symbol in self.exported else 'internal '}global [{g.size} x i8] "
            "zeroinitializer, align 64"
            for symbol, g in self.globals.items()
        ]
        declared = [f"declare {text}" for text in self.declared.values()]
        return "\n".join([*memory, *declared, "", *bodies])


@cache
def _source(path: str) -> dict[int, ast.FunctionDef]:
    """The functions of a file by the line they begin in."""
    functions = [
        n for n in ast.walk(ast.parse("".join(linecache.getlines(path)))) if isinstance(n, ast.FunctionDef)
    ]
    return {n.decorator_list[0].lineno if n.decorator_list else n.lineno: n for n in functions}


def _names(function: FunctionType) -> tuple[str, ...]:
    return function.__code__.co_varnames[: function.__code__.co_argcount]


def _assigned(statements: list[Any]) -> list[str]:
    """The variables that statements set."""
    found: list[str] = []
    for s in statements:
        targets = (
            [s.target]
            if isinstance(s, (ast.AugAssign, ast.AnnAssign, ast.For))
            else getattr(s, "targets", [])
        )
        found += [n.id for t in targets for n in getattr(t, "elts", [t]) if isinstance(n, ast.Name)]
        found += _assigned([*getattr(s, "body", []), *getattr(s, "orelse", [])])
    return list(dict.fromkeys(found))


@cache
def signature(function: FunctionType) -> tuple[list[Any], Any]:
    """Types of the parameters and of the result, None for nothing."""
    kinds = [resolve(text, function.__globals__) for text in function.__annotations__.values()]
    return kinds[:-1], kinds[-1]


class Translator(Emitter):
    """Translates one function."""

    def __init__(self, module: Module, function: FunctionType) -> None:
        super().__init__(module)
        self.function = function
        self.rounds: list[tuple[str, str]] = []  # of each loop around: where it goes on, what comes after it
        self.back: str | None = None  # where an inlined function returns to

    def text(self, symbol: str, internal: bool) -> str:
        kinds, result = signature(self.function)
        body = self.enter(
            self.function,
            [Value(kind, f"%{name}") for kind, name in zip(kinds, _names(self.function), strict=True)],
        )
        self.body(body)
        if self.here is not None:
            self.write("ret void")
        params = ", ".join(f"{k} %{name}" for name, k in zip(_names(self.function), kinds, strict=True))
        head = f"define {'internal ' if internal else ''}{result or 'void'} @{symbol}({params}) {{"
        return "\n".join([head, "entry:", *self.allocas, *self.lines, "}\n"])

    def enter(self, function: FunctionType, args: Sequence[Any]) -> list[ast.stmt]:
        """Begin with the names of a function and its arguments; its statements."""
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        self.scopes = {name: cell.cell_contents for name, cell in cells}, function.__globals__, WORDS
        self.function = function
        kinds, self.result = signature(function)
        self.env = {
            name: self.value(x, kind) for name, x, kind in zip(_names(function), args, kinds, strict=True)
        }
        return _source(function.__code__.co_filename)[function.__code__.co_firstlineno].body

    def inlined(self, function: FunctionType, args: Sequence[Any]) -> Any:
        """A call whose code stands here."""
        outer = {
            name: getattr(self, name) for name in ("env", "scopes", "function", "result", "rounds", "back")
        }
        body = self.enter(function, args)
        self.rounds, self.back = [], self.fresh("back")
        self.body(body)
        self.leave(self.back)
        self.begin(self.back)
        result = self.env.get("return")
        vars(self).update(outer)
        return result

    # -- statements

    def body(self, statements: list[ast.stmt]) -> None:
        for s in statements:
            if self.here is None:
                return
            try:
                getattr(self, f"do_{type(s).__name__}")(s)
            except (TypeError, AttributeError, KeyError) as error:
                error.add_note(
                    f"{self.function.__code__.co_filename}:{s.lineno}: {ast.unparse(s).splitlines()[0]}"
                )
                raise

    def do_Expr(self, s: ast.Expr) -> None:
        self.see(s.value)

    def do_Pass(self, s: ast.Pass) -> None:
        """Nothing."""

    def do_Assign(self, s: ast.Assign) -> None:
        (target,) = s.targets
        found = self.see(s.value)
        if isinstance(target, ast.Tuple):
            for t, x in zip(target.elts, found, strict=True):
                self.assign(t, x)
        else:
            self.assign(target, found)

    def do_AnnAssign(self, s: ast.AnnAssign) -> None:
        kind = resolve(ast.unparse(s.annotation), self.function.__globals__)
        found = self.see(s.value)  # type: ignore[arg-type]
        self.assign(s.target, Value(kind, self.value(found, kind).text))

    def do_AugAssign(self, s: ast.AugAssign) -> None:
        target = self.see(s.target) if isinstance(s.target, ast.Name) else self.place(s.target)
        found = self.operate(s.op, target, self.see(s.value))
        if isinstance(target, Place):
            self.store(target, found)
        else:
            self.assign(s.target, found)

    def assign(self, target: ast.expr, x: Any) -> None:
        if isinstance(target, ast.Name):
            self.env[target.id] = self.value(x) if isinstance(x, (Place, Global)) else x
        else:
            self.store(self.place(target), x)

    def do_Return(self, s: ast.Return) -> None:
        found = None if s.value is None else self.value(self.see(s.value), self.result)
        if found is not None and found.type.name != self.result.name:
            raise TypeError(f"{self.result} is returned, not {found.type}")
        if self.back is not None:
            self.env = {**self.env, "return": found}
            self.leave(self.back)
        else:
            self.write("ret void" if found is None else f"ret {found.type} {found.text}")
            self.here = None

    def do_If(self, s: ast.If) -> None:
        yes, no, after = self.fresh("then"), self.fresh("else"), self.fresh("after")
        known = self.test(s.test, yes, no if s.orelse else after)
        if known is not None:
            self.body(s.body if known else s.orelse)
            return
        for label, statements in ((yes, s.body), (no, s.orelse)):
            if statements:
                self.begin(label)
                self.body(statements)
                self.leave(after)
        self.begin(after)

    def do_While(self, s: ast.While) -> None:
        self.loop(s, s.test, None, None)

    def do_For(self, s: ast.For) -> None:
        assert isinstance(s.target, ast.Name) and isinstance(s.iter, ast.Call)
        args = [self.see(a) for a in s.iter.args]
        if self.see(s.iter.func) is unrolled:
            for x in args[0]:
                self.env[s.target.id] = x
                self.body(s.body)
            return
        begin, end = (0, *args) if len(args) == 1 else args
        self.env[s.target.id], last = begin, self.value(end)
        self.loop(s, None, s.target.id, last)

    def loop(self, s: Any, test: ast.expr | None, step: str | None, end: Value | None) -> None:
        """A loop: variables that it sets are merged at its head, where what comes round is filled in at the
        end."""
        head, inside, again, after = (self.fresh(hint) for hint in ("loop", "body", "next", "after"))
        changed = [name for name in dict.fromkeys([*_assigned(s.body), step]) if name in self.env]
        self.env = {name: self.value(x) if name in changed else x for name, x in self.env.items()}
        self.leave(head)
        ((block, before),) = self.edges[head]
        self.begin(head, loop=True)
        first = len(self.lines)
        for name in changed:
            self.env[name] = self.new(before[name].type, "phi")
        phis = dict(self.env)
        if end is not None:
            self.fork(self.compare("<", self.env[step], end), inside, after)  # type: ignore[index]
        elif test is None or self.test(test, inside, after):
            self.leave(inside)
        self.begin(inside)
        self.rounds.append((again, after))
        self.body(s.body)
        self.rounds.pop()
        self.leave(again)
        self.begin(again)
        if step is not None and self.here:
            self.env[step] = self.binary("+", self.env[step], 1)
        for i, name in enumerate(changed):
            many = [(before[name], block), *([(self.env[name], self.here)] if self.here else [])]
            phi = phis[name]
            self.lines[first + i] = f"  {phi.text} = phi {phi.type} {self.arms(phi.type, many)}"
        self.leave(head)
        self.begin(after)

    def do_Break(self, s: ast.Break) -> None:
        self.leave(self.rounds[-1][1])

    def do_Continue(self, s: ast.Continue) -> None:
        self.leave(self.rounds[-1][0])

    # -- conditions

    def test(self, node: ast.expr, yes: str, no: str) -> Any:
        """Go on at one of two labels; or the condition, when it is known now."""
        if isinstance(node, ast.BoolOp):
            *most, last = node.values
            for x in most:
                then = self.fresh("and" if isinstance(node.op, ast.And) else "or")
                self.test(x, *((then, no) if isinstance(node.op, ast.And) else (yes, then)))
                self.begin(then)
            return self.test(last, yes, no)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.test(node.operand, no, yes)
        result = self.see(node)
        if not isinstance(result, (Value, Place)):
            return result
        self.fork(result, yes, no)
        return None

    # -- expressions

    def see(self, node: ast.expr) -> Any:
        """A Value, a Place, or what is known of Python's."""
        return getattr(self, f"see_{type(node).__name__}")(node)

    def see_Constant(self, node: ast.Constant) -> Any:
        return node.value

    def see_Name(self, node: ast.Name) -> Any:
        if node.id in self.env:
            return self.env[node.id]
        return next(scope for scope in self.scopes if node.id in scope)[node.id]

    def see_Tuple(self, node: ast.Tuple) -> Any:
        return tuple(map(self.see, node.elts))

    def see_Attribute(self, node: ast.Attribute) -> Any:
        x = self.see(node.value)
        return self.field(x, node.attr) if isinstance(x, (Value, Place, Global)) else getattr(x, node.attr)

    def see_Subscript(self, node: ast.Subscript) -> Any:
        x, index = self.see(node.value), self.see(node.slice)
        return self.element(x, index) if isinstance(x, (Value, Place, Global)) else x[index]

    def place(self, node: ast.expr) -> Place:
        result = self.see(node)
        if not isinstance(result, Place):
            raise TypeError("no place in memory")
        return result

    def operate(self, op: ast.AST, a: Any, b: Any) -> Any:
        sign, known = _OPERATORS[type(op)]
        if not isinstance(a, (Value, Place)) and not isinstance(b, (Value, Place)):
            return known(a, b)
        return (self.compare if isinstance(op, ast.cmpop) else self.binary)(sign, a, b)

    def see_BinOp(self, node: ast.BinOp) -> Any:
        return self.operate(node.op, self.see(node.left), self.see(node.right))

    def see_Compare(self, node: ast.Compare) -> Any:
        xs = [self.see(x) for x in (node.left, *node.comparators)]
        xs = [self.value(x) if isinstance(x, Place) else x for x in xs]
        parts = [self.operate(op, a, b) for op, a, b in zip(node.ops, xs, xs[1:], strict=False)]
        return parts[0] if len(parts) == 1 else self.binary("&", *parts)

    def see_BoolOp(self, node: ast.BoolOp) -> Any:
        first, *rest = node.values
        more = ast.BoolOp(node.op, rest) if len(rest) > 1 else rest[0]
        both = isinstance(node.op, ast.And)
        return self.choose(
            self.see(first),
            lambda: self.see(more) if both else True,
            lambda: False if both else self.see(more),
        )

    def see_UnaryOp(self, node: ast.UnaryOp) -> Any:
        x = self.see(node.operand)
        if not isinstance(x, (Value, Place)):
            return _SIGNS[type(node.op)](x)
        if isinstance(node.op, ast.USub):
            return self.binary("-", 0, x)
        return self.binary("^", x, isinstance(node.op, ast.Not) or -1)

    def see_IfExp(self, node: ast.IfExp) -> Any:
        condition = self.see(node.test)
        return self.choose(condition, lambda: self.see(node.body), lambda: self.see(node.orelse))

    def see_Call(self, node: ast.Call) -> Any:
        to, args = self.see(node.func), [self.see(a) for a in node.args]
        if isinstance(to, Word):
            return to.write(self, *args)
        if isinstance(to, Type):
            return self.convert(to, args[0])
        if isinstance(to, CFunction):
            symbol = f"@{self.module.require(to)}"
            if not to.variadic:
                return self.call(to.result, symbol, to.kinds, args)
            values = [self.value(a) for a in args]
            return self.call(
                to.result,
                symbol,
                [v.type for v in values],
                values,
                f"({', '.join(map(str, [*to.kinds, '...']))}) ",
            )
        if isinstance(to, (Value, Place)):
            pointer = self.value(to)
            *kinds, result = pointer.type.of.__args__
            return self.call(result if isinstance(result, Type) else None, pointer.text, kinds, args)
        if isinstance(to, Inline):
            return self.inlined(to.function, args)
        if isinstance(to, FunctionType):
            kinds, result = signature(to)
            return self.call(result, f"@{self.module.require(to)}", kinds, args)
        return to(*args)
