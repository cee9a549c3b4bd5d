"""Mistakes with what objects answer (a wrong index, a wrong name, something else put in its place), with
syntax that they have no answer to, and with paths and lists of tensors. One line of code each; names and rules
are those of ``two_hundred``."""

from __future__ import annotations

INDEXED = """
A.shape[5]
A.shape['x']
A.shape[0] = 4
A.shape.append(3)
A.shape.x
for q in A.shape[3]: pass
A.op.outputs[2]
C.op.body[1]
s[D].op.axis.append(3)
s.outputs.append(D)
s.decisions["tile"]
s.trace.steps[3]
s.trace.notes[3]
s.trace.decisions["tile"]
f.signature.params[9]
f.signature.params["A"]
f.signature.params.A
f.signature.dims[0]
f.constants["B"]
f.constants.w
f.profile(a, a, seconds=0).rows[50]
tl.Target("llvm").mattr[100]
g.inputs['x']
g.inputs.append("x")
g.inputs[0] = 3
g.inputs[0].shape[4]
g.nodes.append(3)
g.nodes.append(g)
g.nodes.extend([1, 2])
g.nodes.insert(0, "relu")
g.nodes.add(3)
g.nodes['relu']
g.nodes[0].inputs[4]
g.nodes[0].outputs[3]
g.nodes[0].attrs["axis"]
g.outputs.append("y")
g.metadata["author"]
g.metadata.author
g.defaults["w"]
engine.run({"x": a})["z"]
engine.run({"x": a}).y
engine.constants[0]
task.args[7]
task.args['m']
task.outputs[4]
task()
s()
s(a, a)
s.trace(s)
with f: pass
with s: pass
with engine: pass
with g: pass
autosched.SearchTask.of([D])
autosched.SearchTask.of([A, D])
autosched.SearchTask.of([A, B, D, D])
autosched.SearchTask(lambda m, n: dense(m, n), (3,))
autosched.ShapeProfile({"m": (1, 8, 64)}).dims["n"]
autosched.RecordLog("x" * 300)
g.compile(cache="x" * 300)
g.compile(cache="a\\0b")
g.draw("x" * 300 + ".svg")
g.call(lambda: 3, x)
g.call(lambda t: t, x, y)
""".strip().splitlines()
