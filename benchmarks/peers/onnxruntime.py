"""onnxruntime on the CPU: each case a small graph, weights as initialisers in packed cases, inputs and output
bound once."""

from __future__ import annotations

import onnxruntime

from ..harness.case import Array, Case
from ..harness.peer import Peer, Prepared
from ..onnx_cases import OPERATORS, model


class OnnxRuntime(Peer):
    name = "onnxruntime"
    package = "onnxruntime"

    def start(self, threads: int) -> None:
        self.options = onnxruntime.SessionOptions()
        self.options.intra_op_num_threads = threads
        self.options.inter_op_num_threads = 1
        self.options.log_severity_level = 3

    def unsupported(self, case: Case) -> str | None:
        return None if case.op in OPERATORS else f"no {case.op}"

    def prepare(self, case: Case, arrays: dict[str, Array]) -> Prepared:
        text, given = model(case, arrays)
        session = onnxruntime.InferenceSession(text, self.options, providers=["CPUExecutionProvider"])
        binding, out = session.io_binding(), case.empty()
        held = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in given.items()}
        for name, value in held.items():
            binding.bind_ortvalue_input(name, value)
        binding.bind_output(case.result.name, "cpu", 0, out.dtype, list(out.shape), out.ctypes.data)

        def run() -> None:
            session.run_with_iobinding(binding)

        def result() -> Array:
            run()
            assert held
            return out

        return Prepared(run, result)
