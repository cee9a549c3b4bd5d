"""Native code of the runtime: the thread pool, the memory for temporaries, the entry of calls, dispatch;
written in a small part of Python.

``translate`` makes LLVM text of such functions, ``object_code`` machine code of the text. Knows no kernels,
no signatures, no arrays of numpy.
"""
