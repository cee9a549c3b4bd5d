"""What to write in the place of what breaks a graph: a table of what torch says, and advice. Knows nothing
else."""

from __future__ import annotations

import re

TEXT = "make text of what the compiled function returns; of a shape or a dtype it may be made inside"
OUTSIDE = "take the call out of the compiled function, or make it an operator: torch.library.custom_op"
# (what torch says or the line reads, what to write there); the first that fits
ADVICE: tuple[tuple[str, str], ...] = (
    (
        r"^while ",
        "a for loop of as many steps as it takes at most, with torch.where(condition, next, x) in it",
    ),
    (
        r"torch\.(equal|allclose|is_nonzero)\(",
        "(a == b).all() or torch.isclose(a, b).all() as the condition of torch.where or torch.cond",
    ),
    (
        r"generic_jump|[Dd]ata.dependent (branch|jump|control)|torch\.cond",
        "torch.where(condition, a, b) for elements, or torch.cond(condition, f, g, (x,)) for whole branches",
    ),
    (
        r"\.item\(\)|\.tolist\(\)|scalar_outputs|_local_scalar_dense|\b(int|float|bool)\(|data-dependent exp",
        "leave the number a tensor of no dimensions; where it must be a number, "
        "torch._dynamo.config.capture_scalar_outputs = True",
    ),
    (
        r"^assert ",
        'an assert whose message is plain text, or torch._assert_async(condition, "text"), which are traced',
    ),
    (
        r"nonzero|masked_select|unique|bincount|[Dd]ynamic.shape op|dynamic_output_shape",
        "a mask over all elements: torch.where(mask, x, 0), sums weighted by mask; or pad to a largest size",
    ),
    (
        r"builtin.{0,20}`?print|logging|warnings\.warn|\bprint\(|sys\.std(out|err)",
        "print what the compiled function returns, or "
        "torch._dynamo.config.reorderable_logging_functions.add(print)",
    ),
    (r"graph_break\(", "leave torch._dynamo.graph_break() out"),
    (
        r"\b(LSTM|GRU|RNN)\b|allow_rnn",
        "call it under torch.no_grad() or torch.inference_mode(), where the layer is one operator; in a "
        "training, in a function marked @torch.compiler.disable, which runs in torch between two graphs",
    ),
    (r"(?<![.\w])random\.|\bsecrets\.", "torch.rand(()) or torch.randint(n, (), …), which are traced"),
    (
        r"builtin operator `range` with argument types \['Tensor",
        "a range of as many steps as it takes at most, with torch.arange(most) < n as a mask",
    ),
    (
        r"register_\w*hook\(",
        "register hooks before the function is compiled: those of a module are traced with it",
    ),
    (
        r"(?<![.\w])id\(|\.data_ptr\(",
        "compare tensors with `is`, or ask before or after the compiled function",
    ),
    (r"\.(untyped_)?storage\(|\.nbytes\(", "x.numel() * x.element_size(), which is known while tracing"),
    (
        r"to_sparse|sparse_\w+_tensor|[Ss]parse [Tt]ensor",
        "a dense tensor, or make the sparse one before the call",
    ),
    (r"\bmath\.\w+\(", "torch's function of that name, which leaves the number a tensor"),
    (r"(?<![.\w])(str|repr|format)\(|\bf['\"]|object of type 'str'|example_value type: str", TEXT),
    (
        r"\bnp\.(save|load|savetxt|loadtxt)|\b(datetime|csv|gc|traceback|zlib|tempfile|concurrent|queue|weakref)\b"
        r"|\bopen\(|\btime\.|\bos\.|subprocess|socket|pickle|json|hashlib|uuid|inspect\.|torch\.save|manual_seed"
        r"|\b(asyncio|decimal|fractions|threading\.Thread|ctypes)\b",
        "do it before or after the compiled function",
    ),
    (r"copy\(", "x.clone()"),
    (r"\bsort(ed)?\b|\bheapq\b|\bbisect\b", "torch.sort or torch.topk of one tensor"),
    (
        r"tensorlang|\bkernel\(|Module\(?.{0,20}kernel",
        'tensorlang.torch.op(kernel, "my::name"), which is traced',
    ),
    (r"torch\._dynamo\.disable|skip(ped|file)|marked as skipped", OUTSIDE),
    (
        r"numpy|np\.|\.numpy\(\)",
        "torch's function of that name, or tensorlang.torch.op for a kernel of yours",
    ),
    (r"requires_grad_|\.backward\(", "gradients outside: loss.backward() after the compiled forward"),
    (r"[Cc]ontext manager|^with ", "enter the context outside of the compiled function"),
    (r"\b(generator|yield|iterator)\b", "a list made in advance in place of the generator"),
    (r"\b(try|except|raise)\b", "check the condition outside, or torch._check(condition)"),
    (
        r"size mismatch|tensor '.*' (size|stride)|\.size\(\)|shape\[",
        "torch._dynamo.mark_dynamic(x, dim) before the call, or torch.compile(…, dynamic=True)",
    ),
    (r"\b(set|dict|container|hash)\b", "tuples and lists of tensors, made before the call"),
)


def advice_for(reason: str, line: str) -> str:
    """What to write in the place of a line that breaks a graph, from what torch says of it."""
    first, _, rest = reason.partition("\n")
    context = rest.partition("Developer debug context:")[2].strip().partition("\n")[0]
    # what the line reads comes first: torch's words are of its own insides and fit too much
    for text in (line, first, rest.partition("Hint:")[0], context):
        for pattern, words in ADVICE:
            if text and re.search(pattern, text):
                return words
    hint = re.search(r"Hint: (.*)", reason)
    return hint[1] if hint else "take it out of the compiled function"
