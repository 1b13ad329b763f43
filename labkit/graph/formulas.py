"""FLOPs of operators that multiply and accumulate, from shapes; an FMA counts as two.

The same numbers as `torch.utils.flop_counter` wherever it has a formula (tests compare them): additions of a bias are left out, attention
counts every query against every key whether or not a mask hides it, convolution counts products with padding.
Each takes the operator's arguments with a `TensorSpec` in the place of each tensor, and its results; and gives an int, or None when the count
depends on values.
"""

from __future__ import annotations

from math import prod


def mm(args: dict, out) -> int:
    """[m, k] x [k, n]: 2 m k n. _scaled_mm too."""
    (m, k), (_, n) = args["self"].shape, args["mat2"].shape
    return 2 * m * k * n


def addmm(args: dict, out) -> int:
    """As `mm`."""
    (m, k), (_, n) = args["mat1"].shape, args["mat2"].shape
    return 2 * m * k * n


def mv(args: dict, out) -> int:
    """[m, k] x [k]."""
    return 2 * prod(args["self"].shape)


def dot(args: dict, out) -> int:
    """[k] x [k]."""
    return 2 * prod(args["self"].shape)


def bmm(args: dict, out) -> int:
    """[b, m, k] x [b, k, n]: 2 b m k n."""
    (b, m, k), (_, _, n) = args["self"].shape, args["mat2"].shape
    return 2 * b * m * k * n


def baddbmm(args: dict, out) -> int:
    """As `bmm`."""
    (b, m, k), (_, _, n) = args["batch1"].shape, args["batch2"].shape
    return 2 * b * m * k * n


def _convolution(x, weight, out, transposed: bool) -> int:
    # weight [c_out, c_in / groups, *filter]; every output point meets the whole filter, every input point when transposed.
    c_out, c_in, *taps = weight
    return 2 * x[0] * prod((x if transposed else out)[2:]) * prod(taps) * c_out * c_in


def convolution(args: dict, out) -> int:
    """2 B (output points) (filter points) c_out c_in / groups."""
    x = args.get("input", args.get("self"))
    return _convolution(x.shape, args["weight"].shape, out[0].shape, bool(args.get("transposed", False)))


def convolution_backward(args: dict, out) -> int:
    """The gradients that output_mask asks for: of the input a transposed convolution, of the weight one over the batch."""
    gradient, x, weight = (args[name].shape for name in ("grad_output", "input", "weight"))
    transposed, wanted = bool(args["transposed"]), args["output_mask"]
    total = 0
    if wanted[0]:
        total += _convolution(gradient, weight, x, not transposed)
    if wanted[1]:
        flipped = lambda shape: (shape[1], shape[0], *shape[2:])  # noqa: E731
        if transposed:
            total += _convolution(flipped(gradient), flipped(x), flipped(weight), False)
        else:
            total += _convolution(flipped(x), flipped(gradient), flipped(weight), False)
    return total


def _attention(query, key, value) -> int:
    b, heads, new, width = query
    seen, value_width = key[2], value[3]
    return 2 * b * heads * new * seen * (width + value_width)


def attention(args: dict, out) -> int:
    """q [B, H, T, D], k [B, K, S, D], v [B, K, S, E]: scores 2 B H T S D and their weighted values 2 B H T S E."""
    return _attention(args["query"].shape, args["key"].shape, args["value"].shape)


def attention_backward(args: dict, out) -> int:
    """Five products: the scores again, and the gradients of scores, value, query and key (Dao et al. 2022, arXiv:2205.14135)."""
    (b, heads, new, width), (_, _, seen, _), value = args["query"].shape, args["key"].shape, args["value"].shape
    return 2 * b * heads * new * seen * (3 * width + 2 * value[3])


def attention_rows(args: dict, out) -> int | None:
    """As `attention` with [B, T, H, D]; None for packed sequences, whose lengths are values."""
    if any(args.get(name) is not None for name in ("cum_seq_q", "cum_seq_k", "cu_seqlens_q", "cu_seqlens_k")):
        return None
    turned = [(s[0], s[2], s[1], s[3]) for s in (args["query"].shape, args["key"].shape, args["value"].shape)]
    return _attention(*turned)


def attention_rows_backward(args: dict, out) -> int | None:
    """As `attention_backward` with [B, T, H, D]; None for packed sequences."""
    if any(args.get(name) is not None for name in ("cum_seq_q", "cum_seq_k", "cu_seqlens_q", "cu_seqlens_k")):
        return None
    (b, new, heads, width), (_, seen, _, _), value = args["query"].shape, args["key"].shape, args["value"].shape
    return 2 * b * heads * new * seen * (3 * width + 2 * value[3])


def rnn_cell(args: dict, out) -> None:
    """Fused recurrent kernels: no formula yet, so they are reported."""
    return None
