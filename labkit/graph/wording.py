"""What a drawing says about an operator: its call in full for the tooltip, its name and numbers for the node."""

from __future__ import annotations

from collections import Counter

from labkit.graph.operator_kinds import kind_of
from labkit.graph.spec import Op, OpGraph, Ref

LONGEST = 30
"""Characters of a name in a node; the start of longer ones is cut off, their whole is in the tooltip."""


def call(graph: OpGraph, op: Op) -> str:
    """The operator as it is called, with its shapes, module and source line."""
    results = ", ".join(f"%{name}: {graph.tensors[name]}" for name in op.outputs) or "(nothing)"
    operands = ", ".join([*map(_show, op.args), *(f"{key}={_show(value)}" for key, value in op.kwargs.items())])
    reads = "; ".join(f"%{name}: {graph.tensors[name]}" for name in dict.fromkeys(op.inputs))
    lines = [
        f"{results} = {op.target}({operands})",
        f"reads {reads or 'no tensor'}",
        f"module {op.module or '(top)'} {op.module_type}".rstrip(),
    ]
    if op.source:
        lines.append(f"{op.source}  {op.source.text}".rstrip())
    if op.repeat > 1:
        lines.append(f"runs {op.repeat} times")
    return "\n".join(lines)


def _show(value) -> str:
    return (
        f"[{', '.join(map(_show, value))}]"
        if isinstance(value, list | tuple)
        else repr(value)
        if isinstance(value, Ref)
        else str(value)
    )


def literals(op: Op) -> str:
    """Numbers of the call that tell operators of one name apart: an exponent, a dimension, a dtype."""
    found = [_number(value) for value in op.args if isinstance(value, int | float) and not isinstance(value, bool)]
    if op.operator == "_to_copy" and "dtype" in op.kwargs:
        found = [str(op.kwargs["dtype"]).removeprefix("torch.")]
    text = " ".join(found[:2])
    return f" {text}" if text and len(text) <= 12 and kind_of(op.operator) in ("pointwise", "movement") else ""


def _number(value) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def summary(ops: list[Op]) -> list[str]:
    """The two kinds of operator that say most about a module: products and attention first, then what is most frequent."""
    count = Counter("attention" if kind_of(op.operator) == "attention" else op.operator for op in ops)
    heavy = [name for name in count if name == "attention" or kind_of(name) == "product"]
    names = [*heavy, *(name for name, _ in count.most_common() if name not in heavy)]
    texts = [cut(f"{count[name]} {name}" if count[name] > 1 else name) for name in names]
    lines = [", ".join(texts[i : i + 2]) for i in range(0, min(len(texts), 4), 2)]
    return [line for line in lines if len(line) <= 2 * LONGEST]


def cut(name: str) -> str:
    """The name, without its start where it is too long."""
    return name if len(name) <= LONGEST else "…" + name[-LONGEST + 1 :]


def si(value: float) -> str:
    """Three digits and a prefix: "1.5 G"."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} "


def bytes_text(count: int) -> str:
    """Bytes with a decimal prefix."""
    return f"{si(count)}B"
