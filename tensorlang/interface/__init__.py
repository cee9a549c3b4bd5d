"""What a compiled kernel and the world agree on: its arguments and their sizes, the C function it is exported
as, the functions it may call by name, the nests it can time, the instruction sets it may use. Plain data that
the code generator writes and the runtime reads, so that neither knows the other; saved files hold it. Knows
dtypes; nothing of expressions, loops or machine code.
"""
