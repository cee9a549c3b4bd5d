"""The table of operators: each public one is a documented function, has an example, carries known tags,
lowers to a valid program within its bounds, and is compared with numpy by some test of this folder."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import tensorlang as tl
from tensorlang import ops
from tensorlang.loopir.verify import verify
from tensorlang.te.graph import operations
from tensorlang.te.serialize import from_json, to_json
from tests.ops.examples import EXAMPLES

OPERATORS = sorted(n for n in ops.__all__ if not inspect.ismodule(getattr(ops, n)))

# what reads or writes at places that only the data know
READ_BY_DATA = (
    "take",
    "gather",
    "gather_elements",
    "gather_nd",
    "nll_loss",
    "cross_entropy",
    "sort",
    "argsort",
    "top_k",
    "nonzero",
    "unique",
    "compress",
    "non_max_suppression",
    "grid_sample",
    "roi_align",
    "deform_conv",
    "grouped_matmul",
)


def _named_in_tests() -> list[re.Pattern[str]]:
    """What the test files of this folder call operators by: ``ops.name``, or text that may be one beside
    ``getattr(ops, …)``: ``"name"``, and ``f"max_pool{n}d"`` as a pattern."""
    found: set[str] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        if path.name == Path(__file__).name:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "ops"
            ):
                found.add(re.escape(node.attr))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(re.escape(node.value))
            elif isinstance(node, ast.JoinedStr) and any(
                isinstance(v, ast.Constant) and len(str(v.value)) > 3 for v in node.values
            ):
                found.add(
                    "".join(re.escape(v.value) if isinstance(v, ast.Constant) else r"\d" for v in node.values)
                )
    return [re.compile(f) for f in found]


def test_operators_are_documented_functions():
    for name in OPERATORS:
        f = getattr(ops, name)
        assert inspect.isfunction(f), f"ops.{name} is {f!r}: a module of that name hides the operator"
        assert len(inspect.getdoc(f) or "") > 6, f"ops.{name} has no docstring"
        if name != "einsum":  # whose subscripts say how many operands follow
            assert all(p.kind is not p.VAR_POSITIONAL for p in inspect.signature(f).parameters.values())


def test_every_public_function_of_a_family_is_an_operator():
    """A function that the list of its file lacks, and no other file imports, is an operator that nobody can
    call. Files without a list hold helpers."""
    files = {p: ast.parse(p.read_text(encoding="utf-8")).body for p in Path(ops.__file__).parent.glob("*.py")}
    shared = {
        n.name for body in files.values() for x in body if isinstance(x, ast.ImportFrom) for n in x.names
    }
    for path, body in files.items():
        lists = [
            x.value for x in body if isinstance(x, ast.Assign) and ast.unparse(x.targets[0]) == "__all__"
        ]
        if path.stem == "__init__" or not lists:
            continue
        made = {x.name for x in body if isinstance(x, ast.FunctionDef) and not x.name.startswith("_")}
        missing = made - set(ast.literal_eval(lists[0])) - shared
        assert not missing, f"{missing}: an operator is in the __all__ of {path.name}; a helper begins with _"


def test_operators_are_compared_with_numpy_somewhere():
    tested = _named_in_tests()
    missing = [n for n in OPERATORS if not any(p.fullmatch(n) for p in tested)]
    assert not missing, f"no test in tests/ops calls {', '.join(missing)}"


def test_operators_have_an_example():
    missing = [n for n in OPERATORS if n not in EXAMPLES]
    assert not missing, f"{', '.join(missing)}: a new operator has a row in EXAMPLES of tests/ops/examples.py"


@pytest.mark.parametrize("name", OPERATORS)
def test_example_is_a_valid_program_with_known_tags(name):
    args = EXAMPLES[name]()
    outputs = [t for t in args if t.op.input_tensors or name in ("arange", "eye", "full")]
    for op in operations([t.op for t in outputs]):
        assert (
            op.tag in ops.tags.TAGS
            or op.tag.startswith("conv")
            or op.tag.startswith("depthwise")
            or not op.input_tensors
            or op.name == f"{name}.start"  # the copy that te.scatter changes
        ), f"{op.name} has the tag {op.tag!r}"
    s = tl.te.create_schedule([t.op for t in outputs])
    verify(tl.lower(s, args, simple=True), in_bounds=name not in READ_BY_DATA)


@pytest.mark.parametrize(
    "name",
    [n for n in OPERATORS if n not in ("cumsum", "cumprod", "determinant", "inverse", "rnn", "gru", "lstm")],
)  # a scan has no JSON form
def test_example_travels_as_a_task(name):
    args = EXAMPLES[name]()
    text = to_json(args)
    back = from_json(text)
    assert to_json(back) == text and text == to_json(EXAMPLES[name]())
    for a, b in zip(operations([args[-1].op]), operations([back[-1].op]), strict=True):
        assert (a.name, a.tag, a.attrs) == (b.name, b.tag, b.attrs)
