"""Calls of every operator group of the public operator table, as functions of their tensors: `GROUPS[group][name] = (call, inputs)`.

inputs: names of the tensors that the call takes, of `TENSORS`. A call may not name a device or a dtype of its own.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own abbreviation


def _numbers(*size, seed=0, scale=3.0):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed)) * scale


TENSORS = {
    "x": _numbers(3, 70),
    "y": _numbers(3, 70, seed=1),
    "row": _numbers(70, seed=2),
    "column": _numbers(3, 1, seed=3),
    "one": _numbers(1, seed=4)[0],
    "positive": _numbers(3, 70, seed=5).abs() + 0.25,
    "w": _numbers(70, 65, seed=6, scale=0.5),
    "bias": _numbers(65, seed=7),
    "a3": _numbers(2, 5, 33, seed=8),
    "b3": _numbers(2, 33, 7, seed=9),
    "image": _numbers(2, 3, 6, 6, seed=10),
    "kernel": _numbers(4, 3, 3, 3, seed=11, scale=0.3),
    "q": _numbers(1, 2, 5, 16, seed=12, scale=0.5),
    "k": _numbers(1, 2, 5, 16, seed=13, scale=0.5),
    "v": _numbers(1, 2, 5, 16, seed=14),
    "square": _numbers(5, 5, seed=15),
    "table": _numbers(6, 70, seed=16),
    "transposed": _numbers(70, 3, seed=17).t(),
    "sliced": _numbers(6, 140, seed=18)[::2, ::2],
    "expanded": _numbers(1, 70, seed=19).expand(3, 70),
}
"""Float inputs, float32; each test rounds them to its dtype."""
INTEGERS = {
    "i": torch.arange(3 * 70).remainder(13).view(3, 70) - 5,
    "j": torch.arange(3 * 70).remainder(7).view(3, 70) + 1,
    "mask": torch.arange(3 * 70).remainder(3).view(3, 70) == 0,
    "rows": torch.tensor([5, 0, 0, 3]),
    "places": torch.tensor([[0, 69, 3], [1, 2, 68], [64, 63, 65]]),
    "picked": torch.tensor([2, 0]),
}
"""Index, integer and truth-value inputs, whatever the dtype of the others."""

MATRIX = {
    "mm": (torch.mm, "x w"),
    "matmul of a transposed": (lambda x, y: x.t() @ y, "x y"),
    "matmul with a vector": (torch.matmul, "x row"),
    "addmm": (lambda b, x, w: torch.addmm(b, x, w, beta=0.5, alpha=2), "bias x w"),
    "bmm": (torch.bmm, "a3 b3"),
    "matmul, broadcast": (lambda a, b: a @ b[0], "a3 b3"),
    "baddbmm": (lambda c, a, b: torch.baddbmm(c[:, :, :7], a, b), "a3 a3 b3"),
    "linear": (lambda x, w, b: F.linear(x, w.t(), b), "x w bias"),
    "einsum": (lambda x, w: torch.einsum("ij,jk->ki", x, w), "x w"),
    "conv2d": (lambda i, k: F.conv2d(i, k, stride=2, padding=1), "image kernel"),
    "avg_pool2d": (lambda i: F.avg_pool2d(i, 2), "image"),
    "triu": (lambda s: torch.triu(s, 1), "square"),
    "dot": (torch.dot, "row row"),
    "outer": (torch.outer, "row bias"),
}
ACTIVATIONS = {
    "softmax": (lambda x: F.softmax(x, -1), "x"),
    "softmax over rows": (lambda x: torch.softmax(x, 0), "x"),
    "log_softmax": (lambda x: F.log_softmax(x, -1), "x"),
    "layer_norm": (lambda x, r: F.layer_norm(x, (70,), r, r), "x row"),
    "rms_norm": (lambda x, r: F.rms_norm(x, (70,), r, 1e-5), "x row"),
    "group_norm": (lambda i: F.group_norm(i, 3), "image"),
    "gelu": (F.gelu, "x"),
    "gelu, tanh": (lambda x: F.gelu(x, approximate="tanh"), "x"),
    "silu": (F.silu, "x"),
    "relu": (F.relu, "x"),
    "sigmoid": (torch.sigmoid, "x"),
    "softplus": (F.softplus, "x"),
    "mish": (F.mish, "x"),
    "leaky_relu": (F.leaky_relu, "x"),
    "dropout, not training": (lambda x: F.dropout(x, 0.5, training=False), "x"),
    "attention": (F.scaled_dot_product_attention, "q k v"),
    "attention, causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), "q k v"),
}
UNARY = {
    name: (getattr(torch, name), "x")
    for name in ("abs", "neg", "exp", "tanh", "floor", "ceil", "sign", "sin", "cos", "square", "round", "trunc", "isnan", "logical_not")
} | {
    "log": (torch.log, "positive"),
    "sqrt": (torch.sqrt, "positive"),
    "rsqrt": (torch.rsqrt, "positive"),
    "reciprocal": (torch.reciprocal, "positive"),
    "clamp": (lambda x: x.clamp(-1.5, 2), "x"),
    "clamp with tensors": (lambda x, r: x.clamp(max=r), "x row"),
    "pow": (lambda x: x**3, "x"),
    "pow of a number": (lambda x: 2**x, "x"),
    "bitwise_not": (lambda m: ~m, "mask"),
    "of a transposed": (torch.exp, "transposed"),
    "of a sliced": (torch.exp, "sliced"),
    "of an expanded": (torch.exp, "expanded"),
}  # fmt: skip
BINARY = {
    "add": (torch.add, "x y"),
    "add, alpha": (lambda x, y: torch.add(x, y, alpha=0.5), "x y"),
    "add, row": (torch.add, "x row"),
    "add, column": (torch.add, "column row"),
    "add, 0-d": (torch.add, "x one"),
    "add, number": (lambda x: x + 1.25, "x"),
    "sub": (torch.sub, "x y"),
    "rsub": (lambda x: 1 - x, "x"),
    "mul": (torch.mul, "x y"),
    "mul, layouts differ": (torch.mul, "x transposed"),
    "mul of views": (lambda x, y: x[:, 1:] * y[:, :-1], "x y"),
    "div": (torch.div, "x positive"),
    "div by zero": (lambda x: x / (x * 0), "x"),
    "floor_divide": (lambda x, y: x // y, "x positive"),
    "remainder": (torch.remainder, "x positive"),
    "maximum": (torch.maximum, "x y"),
    "minimum": (torch.minimum, "x row"),
    "where": (lambda m, x, y: torch.where(m, x, y), "mask x y"),
    "where, number": (lambda m, x: torch.where(m, x, 0.5), "mask x"),
    "eq": (torch.eq, "x x"),
    "lt": (lambda x, r: x < r, "x row"),
    "ge, number": (lambda x: x >= 0, "x"),
    "bitwise_and": (lambda m, x: m & (x > 0), "mask x"),
    "bitwise_xor": (lambda m, x: m ^ (x > 0), "mask x"),
    "integers": (lambda i, j: i * j + i, "i j"),
    "integer division": (lambda i, j: i // j, "i j"),
    "true division of integers": (lambda i, j: i / j, "i j"),
    "integer and float": (lambda i, x: i * x, "i x"),
    "bool and float": (lambda m, x: m * x, "mask x"),
    "integer bits": (lambda i, j: (i & j) | (i ^ j), "i j"),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.25), "x y"),
    "addcmul": (lambda x, y, r: torch.addcmul(x, y, r, value=0.5), "x y row"),
}
REDUCTIONS = {
    "sum": (torch.sum, "x"),
    "sum(dim)": (lambda x: x.sum(1), "x"),
    "sum(dims, keepdim)": (lambda x: x.sum((0, 1), keepdim=True), "x"),
    "sum of integers": (lambda i: i.sum(0), "i"),
    "mean": (lambda x: x.mean(-1), "x"),
    "amax": (lambda x: x.amax(0), "x"),
    "amin": (lambda x: x.amin(1), "x"),
    "prod": (lambda x: x[:, :4].prod(0), "x"),
    "max(dim)": (lambda x: tuple(torch.max(x, 1)), "x"),
    "min(dim)": (lambda x: tuple(torch.min(x, 0)), "x"),
    "max": (torch.max, "x"),
    "topk": (lambda x: tuple(torch.topk(x, 4)), "x"),
    "sort": (lambda x: tuple(torch.sort(x, dim=0)), "x"),
    "norm": (lambda x: torch.linalg.vector_norm(x, dim=1), "x"),
    "any": (lambda m: m.any(1), "mask"),
    "all": (lambda m: m.all(0), "mask"),
    "argmax": (lambda x: x.argmax(1), "x"),
    "argmin": (lambda x: x.argmin(), "x"),
    "cumsum": (lambda x: x.cumsum(1), "x"),
    "var_mean": (lambda x: torch.var_mean(x, 1), "x"),
    "std": (lambda x: x.std(0), "x"),
    "logsumexp": (lambda x: x.logsumexp(1), "x"),
    "of a transposed": (lambda t: t.sum(0), "transposed"),
    "of an empty": (lambda x: x[:0].sum(0), "x"),
}
SHAPE = {
    "cat": (lambda x, y: torch.cat([x, y], 1), "x y"),
    "cat of a transposed": (lambda x, t: torch.cat([x, t]), "x transposed"),
    "stack": (lambda x, y: torch.stack([x, y], 1), "x y"),
    "pad": (lambda x: F.pad(x, (1, 2), value=0.5), "x"),
    "pad, reflect": (lambda i: F.pad(i, (1, 1, 1, 1), mode="reflect"), "image"),
    "flip": (lambda x: x.flip(1), "x"),
    "roll": (lambda x: x.roll(3, 1), "x"),
    "repeat": (lambda x: x.repeat(2, 1), "x"),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 0), "x"),
    "tile": (lambda r: r.tile(2, 2), "row"),
    "chunk": (lambda x: tuple(torch.chunk(x, 3, 1)), "x"),
    "unbind": (lambda x: x.unbind(0), "x"),
    "contiguous": (lambda t: t.contiguous(), "transposed"),
    "clone": (lambda t: t.clone(), "transposed"),
    "clone of an expanded": (lambda e: e.clone(), "expanded"),
    "channels_last": (lambda i: i.contiguous(memory_format=torch.channels_last), "image"),
    "movedim": (lambda i: i.movedim(1, 3), "image"),
    "tril": (torch.tril, "square"),
    "diag": (torch.diag, "square"),
}
INDEXING = {
    "embedding": (lambda t, r: F.embedding(r, t), "table rows"),
    "index_select": (lambda t, r: t.index_select(0, r), "table rows"),
    "index": (lambda t, r: t[r], "table rows"),
    "index, two": (lambda x, p: x[p.clamp(max=2), p], "x places"),
    "index, mask": (lambda x, m: x[m], "x mask"),
    "gather": (lambda x, p: x.gather(1, p), "x places"),
    "scatter": (lambda x, p, y: x.scatter(1, p, y), "x places y"),
    "index_add": (lambda t, r, x: t.index_add(0, r[:2], x[:2]), "table rows x"),
    "index_copy": (lambda t, p, x: t.index_copy(0, p, x[:2]), "table picked x"),
    "index_put": (lambda t, p, x: t.index_put((p,), x[:2]), "table picked x"),
    "masked_fill": (lambda x, m: x.masked_fill(m, 0.5), "x mask"),
    "masked_select": (torch.masked_select, "x mask"),
    "masked_scatter": (lambda x, m, y: x.masked_scatter(m, y), "x mask y"),
    "nonzero": (torch.nonzero, "mask"),
    "take_along_dim": (lambda x, p: torch.take_along_dim(x, p, 1), "x places"),
    "isin": (torch.isin, "i picked"),
    "unique": (torch.unique, "i"),
    "one_hot": (lambda r: F.one_hot(r, 6), "rows"),
}
CONVERSION = {
    "to float32": (lambda x: x.to(torch.float32), "x"),
    "to int": (lambda x: x.to(torch.int32), "x"),
    "to long": (lambda x: x.long(), "x"),
    "to bool": (lambda x: x.to(torch.bool), "x"),
    "int to int8": (lambda i: i.to(torch.int8), "i"),
    "int to bool": (lambda i: i.bool(), "i"),
    "bool to int": (lambda m: m.int(), "mask"),
    "type_as": (lambda m, x: m.type_as(x), "mask x"),
    "sum in float32": (lambda x: x.sum(1, dtype=torch.float32), "x"),
    "softmax in float32": (lambda x: torch.softmax(x, 1, dtype=torch.float32), "x"),
    "fp8": (lambda x: x.to(torch.float8_e4m3fn).to(torch.float32), "x"),
}
LIKE = {
    "zeros_like": (torch.zeros_like, "transposed"),
    "ones_like": (torch.ones_like, "sliced"),
    "full_like": (lambda x: torch.full_like(x, 2.5), "expanded"),
    "new_zeros": (lambda x: x.new_zeros(3, 4), "x"),
    "new_full": (lambda x: x.new_full((3,), 2), "x"),
    "new_ones, int": (lambda x: x.new_ones(3, dtype=torch.int32), "x"),
    "empty_like, filled": (lambda x: torch.empty_like(x).fill_(3), "transposed"),
}
GROUPS = {
    "matrix": MATRIX, "activations and norms": ACTIVATIONS, "unary": UNARY, "binary": BINARY, "reductions": REDUCTIONS, "shape": SHAPE,
    "indexing": INDEXING, "conversion": CONVERSION, "creation": LIKE,
}  # fmt: skip
CALLS = [(group, name) for group, calls in GROUPS.items() for name in calls]


def inputs_of(group: str, name: str, dtype: torch.dtype) -> list[torch.Tensor]:
    """The call's CPU inputs, floats in `dtype`; strides as listed above."""
    return [TENSORS[n].to(dtype) if n in TENSORS else INTEGERS[n] for n in GROUPS[group][name][1].split()]
