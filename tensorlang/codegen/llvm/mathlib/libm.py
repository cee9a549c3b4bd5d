"""Calls of the C library, one lane after the other. Knows no expressions."""

from __future__ import annotations

from .kit import Kit, Num

PURE = "nounwind willreturn memory(none)"  # what LLVM may believe of such a function


def lanewise(m: Kit, name: str, *operands: Num) -> Num:
    """The C library's function of that name (``f`` is appended for float32), for one lane after the other."""
    em, element = m.em, m.element
    name += "f" if element == "float" else ""
    if m.lanes == 1:
        return Num(m, "f", em.call(element, name, *((element, x.operand) for x in operands), attributes=PURE))
    vector, out = m.type("f"), "poison"
    for lane in range(m.lanes):
        args = tuple((element, em.ins(f"extractelement {vector} {x.operand}, i64 {lane}")) for x in operands)
        one = em.call(element, name, *args, attributes=PURE)
        out = em.ins(f"insertelement {vector} {out}, {element} {one}, i64 {lane}")
    return Num(m, "f", out)
