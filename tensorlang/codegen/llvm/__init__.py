"""Loop IR to LLVM text, and LLVM text to object code.

``emit`` writes text: ``function`` (entry and arguments) calls ``statement`` (control flow), which calls
``expression`` (values), ``index`` (addresses, always 64 bits), ``memory`` (loads and stores of every form),
``mathlib`` (intrinsics) and ``parallel`` (outlined loops). ``export`` writes functions for C instead of the
runtime's entry. All share one ``Emitter``, which knows where each value is placed. ``compile_ll`` is the only
file that runs LLVM.
"""
