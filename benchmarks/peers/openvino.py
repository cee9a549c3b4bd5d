"""OpenVINO on the CPU, in float32: the ONNX model of a case, weights as its constants in packed cases, inputs
and output bound once."""

from __future__ import annotations

import io

import openvino

from ..harness.case import Array, Case
from ..harness.peer import Peer, Prepared
from ..onnx_cases import OPERATORS, model


class OpenVino(Peer):
    name = "openvino"
    package = "openvino"

    def start(self, threads: int) -> None:
        self.core = openvino.Core()
        # without the hint it would round where the processor has instructions for 16 bits
        self.options = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": str(threads),
        }

    def unsupported(self, case: Case) -> str | None:
        if case.op == "rfft":
            return "its DFT of real numbers keeps their last dimension"
        return None if case.op in OPERATORS else f"no {case.op}"

    def prepare(self, case: Case, arrays: dict[str, Array]) -> Prepared:
        text, given = model(case, arrays)
        request = self.core.compile_model(
            self.core.read_model(io.BytesIO(text)), "CPU", self.options
        ).create_infer_request()
        out = case.empty()
        held = {name: openvino.Tensor(array, shared_memory=True) for name, array in given.items()}
        for name, tensor in held.items():
            request.set_tensor(name, tensor)
        request.set_output_tensor(openvino.Tensor(out, shared_memory=True))

        def result() -> Array:
            request.infer()
            assert held
            return out

        return Prepared(request.infer, result)
