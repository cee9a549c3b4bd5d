"""The loop IR: statements, functions, printer, verifier, interpreter. Knows expressions and nothing above: no
tensors of the language, no schedules. Its grammar stands at the top of ``stmt.py``."""

from . import printer as printer  # gives Func and Stmt their text
