"""Engines beside other runtimes of ONNX files, onnxruntime, OpenVINO and MNN where they are installed: speed
(``turns``) and answers (``answers``). Knows files of models and what runs them; nothing of kernels."""
