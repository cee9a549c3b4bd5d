"""ONNX's messages as plain data: nodes, attributes, arrays. The only file that knows the ``onnx`` package."""

from __future__ import annotations

import functools
import heapq
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import TensorLangError

MAX_DEPTH = 50  # of graphs in nodes in graphs
MAX_BYTES = 2**40  # of a constant or a declared input
MAX_DENSE = 2**28  # elements of a sparse constant when it is written out
# types whose every byte pattern is a number
PLAIN = [
    "FLOAT",
    "DOUBLE",
    "FLOAT16",
    "BFLOAT16",
    *(f"{s}INT{n}" for s in ("", "U") for n in (8, 16, 32, 64)),
]
BROKEN = (  # what wrong bytes make of Python code that believes them
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    StopIteration,
    TypeError,
    ValueError,
)


@dataclass(frozen=True)
class Call:
    """A node: operator, names of inputs and outputs ("" for one left out), attributes, and the graphs among
    them by name."""

    op: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: dict[str, Any]
    graphs: dict[str, Body] = field(default_factory=dict)
    name: str = ""

    def renamed(self, names: Mapping[str, str]) -> Call:
        """The same node with other names for values, inside its graphs too."""
        graphs = {k: g.renamed(names) for k, g in self.graphs.items()}
        return replace(
            self,
            inputs=tuple(names.get(n, n) for n in self.inputs),
            outputs=tuple(names.get(n, n) for n in self.outputs),
            graphs=graphs,
        )

    @property
    def reads(self) -> set[str]:
        """All names it needs, those its graphs take from outside included."""
        return {n for n in self.inputs if n} | {n for g in self.graphs.values() for n in g.outside}

    def __repr__(self) -> str:
        domain = f"{self.domain}." if self.domain else ""
        return f"{domain}{self.op} {self.name or ', '.join(self.outputs)}"


@dataclass(frozen=True)
class Type:
    """What is declared of a value: ``kind`` is a numpy dtype's name, "sequence" or "optional" of ``of``, ""
    when nothing is; a size is a number, a name, or None; ``shape`` None: any rank."""

    kind: str
    shape: tuple[int | str | None, ...] | None = None
    of: Type | None = None

    @property
    def element(self) -> str:
        """The type of the numbers, those in sequences and optionals included."""
        return self.kind if self.of is None else self.of.element


@dataclass(frozen=True)
class Body:
    """A graph: nodes, names with types of inputs and outputs, arrays of constants; ``defaults`` are those
    constants that are listed as inputs too."""

    name: str
    calls: tuple[Call, ...]
    inputs: tuple[tuple[str, Type], ...]
    outputs: tuple[tuple[str, Type], ...]
    constants: dict[str, Any]
    defaults: tuple[tuple[str, Type], ...] = ()

    def given(self, names: Collection[str]) -> Body:
        """The graph with inputs in the place of these defaults, behind the others."""
        return replace(
            self,
            inputs=(*self.inputs, *(d for d in self.defaults if d[0] in names)),
            constants={n: a for n, a in self.constants.items() if n not in names},
            defaults=tuple(d for d in self.defaults if d[0] not in names),
        )

    @property
    def own(self) -> set[str]:
        """Names of the values it has or makes."""
        return {n for n, _ in self.inputs} | set(self.constants) | {n for c in self.calls for n in c.outputs}

    @property
    def outside(self) -> set[str]:
        """Names it takes from the graph around it."""
        read = {n for c in self.calls for n in c.reads} | {n for n, _ in self.outputs}
        return read - self.own

    def renamed(self, names: Mapping[str, str]) -> Body:
        """The same graph with other names for what it takes from outside."""
        own = self.own
        # a name of its own hides the one outside
        outer = {a: b for a, b in names.items() if a not in own}
        return self.with_names(outer) if outer else self

    def with_names(self, names: Mapping[str, str]) -> Body:
        """The same graph with other names for any of its values."""
        return Body(
            self.name,
            tuple(c.renamed(names) for c in self.calls),
            tuple((names.get(n, n), t) for n, t in self.inputs),
            tuple((names.get(n, n), t) for n, t in self.outputs),
            {names.get(n, n): a for n, a in self.constants.items()},
        )


@dataclass(frozen=True)
class Model:
    """A file: its graph, versions of operator sets by domain, functions it defines, notes on itself."""

    body: Body
    opsets: dict[str, int]
    functions: dict[tuple[str, str], Any]
    metadata: dict[str, str] = field(default_factory=dict)


def package() -> Any:
    """The ``onnx`` package. Raises TensorLangError when it is not there."""
    try:
        import onnx
    except ImportError:
        raise TensorLangError(
            "reading an ONNX file needs the package onnx", try_="pip install 'tensorlang[onnx]'"
        ) from None
    return onnx


def read(source: Any) -> Model:
    """A model from a path, bytes, or an ``onnx.ModelProto``. Raises TensorLangError for what is none."""
    onnx = package()
    folder: Path | None = None
    if isinstance(source, onnx.ModelProto):
        proto = source
    else:
        proto = onnx.ModelProto()
        if isinstance(source, bytes | bytearray | memoryview):
            # no folder: constants in other files cannot be found from here
            data, what = bytes(source), f"{len(source)} bytes"
        else:
            path = _path(source)
            folder, what = path.parent, str(path)
            try:
                data = path.read_bytes()
            except (OSError, ValueError) as e:
                raise TensorLangError(f"load_onnx: {path} cannot be read", because=str(e)) from None
        try:
            proto.ParseFromString(data)
        except Exception as e:
            raise TensorLangError(f"load_onnx: {what} is no ONNX model", because=str(e)) from None
        if not proto.HasField("graph"):
            raise TensorLangError(f"load_onnx: {what} is no ONNX model", because="it holds no graph")
    try:
        _texts(onnx, proto)
        return _model(_Reader(onnx, folder), proto)
    except BROKEN as e:
        raise TensorLangError("load_onnx: this is no ONNX model", because=reason(e)) from None


def _path(source: Any) -> Path:
    """A file, by its name. Raises TensorLangError, also for what never ends, such as a device or a pipe."""
    try:
        path = Path(source)
    except TypeError:
        raise TensorLangError(
            f"load_onnx takes a path, bytes or an onnx.ModelProto, not {type(source).__name__}",
            try_="tl.load_onnx('model.onnx')",
        ) from None
    try:
        special = path.exists() and not path.is_file()
    except OSError:  # reading it will say why
        special = False
    if special:
        raise TensorLangError(f"load_onnx: {path} cannot be read", because="it is not a regular file")
    return path


def _texts(onnx: Any, proto: Any) -> None:
    """Raises TensorLangError for a name that is not text: protobuf gives it as bytes. Reads no weights."""
    work = [proto]
    while work:
        message = work.pop()
        if isinstance(message, onnx.TensorProto):
            # the name alone: listing the fields of a constant would copy its weights
            parts: Any = [(onnx.TensorProto.DESCRIPTOR.fields_by_name["name"], message.name)]
        else:
            parts = message.ListFields()
        for field_, value in parts:
            if field_.type not in (field_.TYPE_STRING, field_.TYPE_MESSAGE):
                continue
            values = [value] if isinstance(value, str | bytes) or hasattr(value, "ListFields") else value
            if field_.type == field_.TYPE_MESSAGE:
                work.extend(values)
                continue
            for x in values:
                if isinstance(x, bytes):
                    what = f"the {field_.name} {short(repr(x))} is not text in UTF-8"
                    raise TensorLangError(f"load_onnx: this is no ONNX model: {what}")


def short(text: str) -> str:
    """The text, or its beginning when it is long."""
    return text if len(text) < 60 else f"{text[:57]}…"


def _model(reader: _Reader, proto: Any) -> Model:
    opsets = _versions(proto.opset_import)
    functions = {(_domain(f.domain), f.name): f for f in proto.functions}
    metadata = {p.key: p.value for p in proto.metadata_props}
    own = {k: reader.function(f) for k, f in functions.items()}
    return Model(reader.body(proto.graph), opsets, own, metadata)


def _versions(imports: Any) -> dict[str, int]:
    """The versions of operator sets by domain. Raises TensorLangError for numbers that are none."""
    found = {_domain(o.domain): int(o.version) for o in imports}
    for domain, version in found.items():
        if version < 1:
            raise TensorLangError(
                f"load_onnx: the operator set {domain or 'ai.onnx'!r} has the version {version}",
                because="versions begin at 1",
            )
    return found


def reason(error: BaseException) -> str:
    """What a plain exception says, in a line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


@dataclass(frozen=True)
class Function:
    """A function of a model: its nodes use names of inputs, outputs and attributes, which a call gives."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: dict[str, Any]
    calls: tuple[Call, ...]
    opsets: dict[str, int]


def _schema(op: str, domain: str, version: int) -> Any:
    """The standard's message on an operator, None when it has none."""
    onnx = package()
    try:
        # a file may be newer than the package: its newest schema is the nearest that is known
        return onnx.defs.get_schema(op, min(version, onnx.defs.onnx_opset_version()), domain)
    except onnx.defs.SchemaError:
        return None


def _defining(call: Call, version: int) -> Any:
    """The same where it says what the operator is in the words of others."""
    schema = None if call.graphs else _schema(call.op, call.domain, version)
    if schema is None or not (schema.has_function or schema.has_context_dependent_function):
        return None
    return schema


@dataclass(frozen=True)
class Signature:
    """What the standard says of an operator: least and most inputs and outputs, the places of inputs that
    cannot be left out, attributes with their kind and whether they must be there."""

    inputs: tuple[int, int]
    needed: tuple[int, ...]
    outputs: tuple[int, int]
    attributes: dict[str, tuple[str, bool]]


@functools.cache
def signature(op: str, domain: str, version: int) -> Signature | None:
    """None for an operator that is not in the standard."""
    s = _schema(op, domain, version)
    if s is None:
        return None
    attributes = {k: (a.type.name, bool(a.required)) for k, a in s.attributes.items()}
    # the sizes of a Resize stand in for its scales, which version 11 declares as if it had none besides
    needed = tuple(i for i, p in enumerate(s.inputs) if p.option.name == "Single" and op != "Resize")
    return Signature((s.min_input, s.max_input), needed, (s.min_output, s.max_output), attributes)


def defined(call: Call, version: int) -> bool:
    """Whether the standard says what an operator is in the words of others."""
    return _defining(call, version) is not None


def standard(call: Call, version: int, types: Sequence[Type]) -> Function | None:
    """What the standard says of an operator in the words of others, if it does, for inputs of these types."""
    onnx, schema = package(), _defining(call, version)
    if schema is None:
        return None
    reader = _Reader(onnx, None)
    if schema.has_function:
        body = schema.function_body
    else:
        attrs = {
            k: onnx.numpy_helper.from_array(x) if isinstance(x, np.ndarray) else x
            for k, x in call.attrs.items()
        }
        node = onnx.helper.make_node(call.op, call.inputs, call.outputs, domain=call.domain, **attrs)
        given = [reader.proto_of(t).SerializeToString() for t in types]
        text = schema.get_context_dependent_function(node.SerializeToString(), given)
        body = onnx.FunctionProto.FromString(text) if text else None
    if body is None or not body.node:
        return None
    found = reader.function(body)
    defaults = {
        k: onnx.helper.get_attribute_value(a.default_value)
        for k, a in schema.attributes.items()
        if a.default_value.name
    }
    texts = {k: x.decode() if isinstance(x, bytes) else x for k, x in defaults.items()}
    return replace(found, attrs={**texts, **{k: x for k, x in found.attrs.items() if x is not None}})


class Reference(str):
    """The value of an attribute inside a function: that of the attribute of this name of its call."""


class _Place(NamedTuple):
    """Where data lies: a stretch of a file of that size, in bytes; None for a length that is not stated."""

    path: Path
    size: int
    offset: int
    length: int | None


class _Reader:
    def __init__(self, onnx: Any, folder: Path | None) -> None:
        self.files: dict[Path, np.ndarray] = {}  # that hold data, mapped once each
        self.onnx = onnx
        self.folder = folder
        self.depth = 0

    def body(self, g: Any) -> Body:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TensorLangError(f"load_onnx: the graph {g.name!r} is in {MAX_DEPTH} others")
        constants = {t.name: self.array(t) for t in g.initializer}
        constants |= {t.values.name: self.sparse(t) for t in g.sparse_initializer}
        if len(constants) != len(g.initializer) + len(g.sparse_initializer):
            raise TensorLangError(f"load_onnx: two initialisers of the graph {g.name!r} have one name")
        found = Body(
            g.name,
            _in_order([self.call(n) for n in g.node]),
            tuple((v.name, self.type(v.type)) for v in g.input if v.name not in constants),
            tuple((v.name, self.type(v.type)) for v in g.output),
            constants,
            tuple((v.name, self.type(v.type)) for v in g.input if v.name in constants),
        )
        # not in a finally: an error ends the reading of the file
        self.depth -= 1
        return found

    def function(self, f: Any) -> Function:
        attrs: dict[str, Any] = dict.fromkeys(f.attribute)
        for a in f.attribute_proto:
            attrs[a.name] = self.attribute(a)
        return Function(
            tuple(f.input),
            tuple(f.output),
            attrs,
            _in_order([self.call(n) for n in f.node]),
            _versions(f.opset_import),
        )

    def call(self, n: Any) -> Call:
        attrs, graphs = {}, {}
        for a in n.attribute:
            if a.ref_attr_name:
                attrs[a.name] = Reference(a.ref_attr_name)
            elif a.type == self.onnx.AttributeProto.GRAPH:
                graphs[a.name] = self.body(a.g)
            else:
                attrs[a.name] = self.attribute(a)
        return Call(n.op_type, _domain(n.domain), tuple(n.input), tuple(n.output), attrs, graphs, n.name)

    def attribute(self, a: Any) -> Any:
        kinds = self.onnx.AttributeProto
        if a.type == kinds.TENSOR:
            return self.array(a.t)
        if a.type == kinds.SPARSE_TENSOR:
            return self.sparse(a.sparse_tensor)
        if a.type == kinds.TYPE_PROTO:
            return self.type(a.tp)
        value = self.onnx.helper.get_attribute_value(a)
        if isinstance(value, bytes):
            # attributes are bytes by the standard, and texts in all operators there are
            return value.decode("utf-8", "replace")
        if a.type in (kinds.INTS, kinds.FLOATS):
            return list(value)
        if a.type == kinds.STRINGS:
            return [s.decode("utf-8", "replace") for s in value]
        return value

    def array(self, t: Any) -> np.ndarray:
        place = self._external(t) if t.data_location == self.onnx.TensorProto.EXTERNAL else None
        try:
            _counted(t.dims, MAX_BYTES)
            mapped = None if place is None else self._mapped(t, place)
            if mapped is not None:
                return mapped
            a = np.asarray(self.onnx.numpy_helper.to_array(t, str(self.folder) if self.folder else ""))
            made, stated = list(a.shape), list(t.dims)
            if made != stated:
                raise ValueError(f"the dims are {stated}, the data has {a.size} elements")
        except TensorLangError:
            raise
        except Exception as e:
            raise TensorLangError(
                f"load_onnx: the constant {t.name!r} cannot be read", because=str(e)
            ) from None
        return a

    def _external(self, t: Any) -> _Place:
        """Where the data is. Raises TensorLangError unless that is a file of the model's folder, which is as
        long as the model states."""
        what = f"load_onnx: the data of the constant {t.name!r}"
        stated = {e.key: e.value for e in t.external_data}
        if self.folder is None:
            raise TensorLangError(
                f"{what} is in another file",
                because="bytes have no folder",
                try_="give the path of the model",
            )
        location = stated.get("location", "")
        try:
            # resolved, so that neither ".." nor a link leads out of the folder: a model must not read other
            # files
            folder, path = self.folder.resolve(), (self.folder / location).resolve()
            inside = bool(location) and folder in path.parents
            if not inside or Path(location).is_absolute():
                raise TensorLangError(f"{what} is in {location!r}, outside the folder of the model")
            if not path.is_file():
                raise TensorLangError(f"{what} is in {location!r}, which is not a file there")
            size, offset = path.stat().st_size, int(stated.get("offset", 0))
            length = int(stated.get("length", size - offset))
        except (OSError, ValueError, RuntimeError) as e:
            raise TensorLangError(f"{what} cannot be read", because=reason(e)) from None
        if offset < 0 or length < 0 or offset + length > size:
            raise TensorLangError(
                f"{what} is not all there", because=f"{length} bytes from {offset} on, of a file of {size}"
            )
        return _Place(path, size, offset, length if "length" in stated else None)

    def _mapped(self, t: Any, place: _Place) -> np.ndarray | None:
        """The elements where they lie in their file; None where they must be read: those of a few bits, which
        share bytes, such as lie askew, and data of another length than it should have. The file must stay as
        it is until the graph is compiled; an engine has copies."""
        if self.onnx.TensorProto.DataType.Name(t.data_type) not in PLAIN:
            return None
        kind = self.onnx.helper.tensor_dtype_to_np_dtype(t.data_type)
        wanted = math.prod(t.dims) * kind.itemsize
        if (
            wanted == 0
            # kernels want arrays whose elements are aligned
            or place.offset % kind.itemsize
            or place.offset + wanted > place.size
            or place.length not in (None, wanted)
        ):
            return None
        whole = self.files.get(place.path)
        if whole is None:
            whole = self.files[place.path] = np.memmap(place.path, np.uint8, "r", shape=(place.size,))
        part = np.asarray(whole)[place.offset : place.offset + wanted]
        return part.view(kind).reshape(tuple(t.dims))

    def sparse(self, t: Any) -> np.ndarray:
        what = f"load_onnx: the sparse constant {t.values.name!r} cannot be read"
        values, indices = self.array(t.values), self.array(t.indices)
        try:
            _counted(t.dims, MAX_DENSE)
            dense = np.zeros(tuple(t.dims), values.dtype)
            # numpy would count it from the end
            if indices.size and indices.min() < 0:
                raise IndexError("an index is negative")
            if indices.ndim == 1:
                dense.reshape(-1)[indices] = values
            else:
                dense[tuple(indices.T)] = values
        except BROKEN as e:
            raise TensorLangError(what, because=str(e)) from None
        return dense

    def type(self, t: Any) -> Type:
        which = t.WhichOneof("value")
        if which in ("sequence_type", "optional_type"):
            return Type(which.split("_")[0], None, self.type(getattr(t, which).elem_type))
        if which != "tensor_type":
            return Type("" if which is None else which)
        kind = self.dtype(t.tensor_type.elem_type)
        if not t.tensor_type.HasField("shape"):
            return Type(kind)
        return Type(kind, tuple(map(self._size, t.tensor_type.shape.dim)))

    def proto_of(self, t: Type) -> Any:
        """The message of a tensor's type; an empty one for no tensor."""
        if not t.kind:
            return self.onnx.TypeProto()
        number = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(t.kind))
        return self.onnx.helper.make_tensor_type_proto(number, t.shape)

    def _size(self, d: Any) -> int | str | None:
        which = d.WhichOneof("value")
        if which == "dim_value":
            # 0 and -1 are what exporters write for a size that they do not know
            return int(d.dim_value) if d.dim_value > 0 else None
        name = d.dim_param if which else ""
        return name if name and name != "?" else None

    def dtype(self, number: int) -> str:
        if number == self.onnx.TensorProto.STRING:
            return "string"
        try:
            return str(np.dtype(self.onnx.helper.tensor_dtype_to_np_dtype(number)))
        except Exception:
            return ""


def _in_order(calls: Sequence[Call]) -> tuple[Call, ...]:
    """The nodes in an order in which they can run: as they stand, but for those that read what a later one
    makes. The standard asks for such an order, and converters to float16 put their casts last. Nodes of a
    cycle are behind all others."""
    maker = {n: i for i, c in enumerate(calls) for n in c.outputs if n}
    awaited = [{maker[n] for n in c.reads if n in maker} for c in calls]
    if all(max(a, default=-1) < i for i, a in enumerate(awaited)):
        return tuple(calls)
    readers: list[list[int]] = [[] for _ in calls]
    for i, needed in enumerate(awaited):
        for k in needed:
            readers[k].append(i)
    ready = [i for i, needed in enumerate(awaited) if not needed]
    order: list[int] = []
    while ready:
        order.append(heapq.heappop(ready))
        for i in readers[order[-1]]:
            awaited[i].discard(order[-1])
            if not awaited[i]:
                heapq.heappush(ready, i)
    cyclic = sorted({*range(len(calls))} - {*order})
    return tuple(calls[i] for i in [*order, *cyclic])


def _counted(dims: Sequence[int], most: int) -> None:
    """Raises ValueError for dims of which there is no array."""
    if any(n < 0 for n in dims):
        raise ValueError(f"the dims {list(dims)} are negative")
    if math.prod(n or 1 for n in dims) > most:
        raise ValueError(f"the dims {list(dims)} are those of more than {most} elements")


def dtype_name(number: Any) -> str:
    """numpy's name of ONNX's number of a type; a name is given back."""
    return number if isinstance(number, str) else _Reader(package(), None).dtype(int(number))
