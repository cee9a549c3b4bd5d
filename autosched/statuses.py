"""How the measurement of a candidate ends: the words that records keep and workers answer. Knows nothing
else."""

from __future__ import annotations

OK, REFUSED, BUILD_ERROR, WRONG_ANSWER = "ok", "refused", "build_error", "wrong_answer"
CRASH, TIMEOUT, OUT_OF_MEMORY, KILLED = "crash", "timeout", "out_of_memory", "killed"
STATUSES = (OK, REFUSED, BUILD_ERROR, WRONG_ANSWER, CRASH, TIMEOUT, OUT_OF_MEMORY, KILLED)
