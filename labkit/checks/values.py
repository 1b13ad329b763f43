"""Plain values that cross a process boundary as JSON: what a check passes in and what a learner's function returns.

Only exact built-in types, numpy scalars and arrays, and torch tensors are accepted on the way out: an object with an
`__eq__` of its own never reaches a comparison. Nothing here is a pickle.
"""

from __future__ import annotations

import math
import sys

MAX_ELEMENTS = 1_000_000


class NotPlain(TypeError):
    """A value of a type that a check does not compare."""


def encode(value, _depth: int = 0):
    """JSON form of a plain value. Raises NotPlain for any other type, a nesting deeper than 20, or over a million elements."""
    kind = type(value)
    if _depth > 20:
        raise NotPlain("a value nested more than 20 levels deep")
    if value is None or kind in (bool, str):
        return value
    if kind is int:
        return value if abs(value) < 2**53 else {"$int": str(value)}
    if kind is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if kind in (list, tuple):
        _limit(len(value))
        items = [encode(item, _depth + 1) for item in value]
        return items if kind is list else {"$tuple": items}
    if kind is dict:
        _limit(len(value))
        return {"$dict": [[encode(k, _depth + 1), encode(v, _depth + 1)] for k, v in value.items()]}
    return _encode_array(value, kind)


def _encode_array(value, kind):
    # sys.modules, not import: a value of a numpy or torch type exists only where the module is loaded, and a check must stay cheap.
    numpy = sys.modules.get("numpy")
    torch = sys.modules.get("torch")
    if torch is not None and kind in (torch.Tensor, torch.nn.Parameter):
        _limit(value.numel())
        data = value.detach().cpu()
        return {"$tensor": encode(data.tolist()), "dtype": str(data.dtype).removeprefix("torch."), "shape": list(data.shape)}
    if numpy is not None and kind is numpy.ndarray and value.dtype.kind in "biuf":
        _limit(value.size)
        return {"$array": encode(value.tolist()), "dtype": str(value.dtype), "shape": list(value.shape)}
    if numpy is not None and isinstance(value, numpy.generic) and kind.__module__ == "numpy" and value.dtype.kind in "biuf":
        return encode(value.item())
    raise NotPlain(f"an object of type {kind.__module__}.{kind.__qualname__}")


def _limit(count: int) -> None:
    if count > MAX_ELEMENTS:
        raise NotPlain(f"a value with {count} elements (at most {MAX_ELEMENTS})")


def decode(value):
    """Inverse of `encode`. Arrays and tensors come back as the dict {"data", "dtype", "shape"}: a judge compares data, not objects."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$int" in value:
        return int(value["$int"])
    if "$float" in value:
        return float(value["$float"])
    if "$tuple" in value:
        return tuple(decode(item) for item in value["$tuple"])
    if "$dict" in value:
        return {_key(decode(k)): decode(v) for k, v in value["$dict"]}
    for tag in ("$tensor", "$array"):
        if tag in value:
            return {"data": decode(value[tag]), "dtype": value["dtype"], "shape": tuple(value["shape"])}
    raise ValueError(
        f"not an encoded value: a dict with the keys {sorted(value)}; expected one written by labkit.checks.values.encode"
    )


def _key(key):
    return key if isinstance(key, (str, int, float, bool, tuple, type(None))) else repr(key)


def is_number(value) -> bool:
    """True for a finite or infinite int or float; False for bool and anything else."""
    return type(value) in (int, float)


def short(value, limit: int = 80) -> str:
    """A value as a learner reads it in a message: 6 significant digits, cut to `limit` characters."""
    text = _short(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _short(value) -> str:
    if type(value) is float:
        return f"{value:.6g}"
    if type(value) in (list, tuple):
        inner = ", ".join(_short(item) for item in value[:8]) + (f", ... ({len(value)} in all)" if len(value) > 8 else "")
        if type(value) is list:
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if type(value) is dict:
        return "{" + ", ".join(f"{k!r}: {_short(v)}" for k, v in list(value.items())[:8]) + "}"
    return repr(value)
