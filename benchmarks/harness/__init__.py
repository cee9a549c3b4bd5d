"""The machinery of ``python -m benchmarks.run``: cases, turns, peaks, figures, tables and pictures. Knows no
operator and no peer by name."""
