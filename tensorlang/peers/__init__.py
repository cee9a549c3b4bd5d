"""Engines beside other runtimes of ONNX files, onnxruntime and OpenVINO where they are installed: speed
(``turns``) and answers (``answers``). Knows files of models and what runs them; nothing of kernels."""
