"""One program at many sizes: captured at a few, worked out for the rest.

The sizes in a captured program (dimensions, strides, the numbers in view and arange) are linear in any one of its free sizes, such as the
batch, as long as the program takes the same path. `Family` captures at four sizes, checks that this holds, and then gives the graph of
any other size in milliseconds; a size where the program differs, such as a batch of one, is captured by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from labkit.graph.spec import Op, OpGraph, Ref, TensorSpec

PROBES = (2, 3, 5, 7)
"""Sizes to capture at: the first two give every number's slope, the others check it. Small primes keep products apart."""


class NotLinear(ValueError):
    """The program's numbers are not linear in the size, or its operators differ between sizes."""


class Family:
    """The graphs of one program at every value of one size.

    make(n)  captures the program at size n, 1 or more.
    """

    def __init__(self, make: Callable[[int], OpGraph], probes: tuple[int, ...] = PROBES):
        self.make, self.probes = make, probes
        self.captured: dict[int, OpGraph] = {}
        self.worked_out: dict[int, OpGraph] = {}
        self._template: tuple | None = None
        self.reason = ""

    def at(self, n: int) -> OpGraph:
        """The graph at size n. Raises ValueError for a size below 1."""
        if not isinstance(n, int) or isinstance(n, bool) or n < 1:
            raise ValueError(f"size = {n!r}: expected a whole number, 1 or more")
        if n == 1 or self.reason or n in self.captured:
            return self._capture(n)
        if n not in self.worked_out:
            try:
                self.worked_out[n] = self._work_out(n)
            except NotLinear as error:
                self.reason = str(error)
                return self._capture(n)
        return self.worked_out[n]

    def prepare(self) -> Family:
        """Captures the probes and size 1 now, so that `at` is quick from here on."""
        self.at(1)
        self.at(max(self.probes) + 1)
        return self

    def _capture(self, n: int) -> OpGraph:
        if n not in self.captured:
            self.captured[n] = self.make(n)
        return self.captured[n]

    def _work_out(self, n: int) -> OpGraph:
        graphs = [self._capture(size) for size in self.probes]
        first, second = graphs[:2]
        low, high = self.probes[:2]
        line = _Line(low, high, n)
        result = _map(first, second, line)
        for size, graph in zip(self.probes[2:], graphs[2:], strict=True):
            expected = _map(first, second, _Line(low, high, size))
            if _numbers(expected) != _numbers(graph):
                raise NotLinear(
                    f"{graph.name}: numbers of the program are not linear in the size: {size} differs from what {low} and {high} give"
                )
        return result


class _Line:
    def __init__(self, low: int, high: int, at: int):
        self.low, self.high, self.size = low, high, at

    def __call__(self, a: int, b: int) -> int:
        if a == b:
            return a
        slope, rest = divmod(b - a, self.high - self.low)
        if rest:
            raise NotLinear(f"{a} at {self.low} and {b} at {self.high} lie on no line of whole numbers")
        return a + slope * (self.size - self.low)


def _map(first: OpGraph, second: OpGraph, line: _Line) -> OpGraph:
    if [op.target for op in first.ops] != [op.target for op in second.ops] or list(first.tensors) != list(second.tensors):
        raise NotLinear(f"{first.name}: the operators differ between sizes {line.low} and {line.high}")
    tensors = {name: _tensor(spec, second.tensors[name], line) for name, spec in first.tensors.items()}
    ops = tuple(_op(a, b, line) for a, b in zip(first.ops, second.ops, strict=True))
    return replace(first, tensors=tensors, ops=ops)


def _tensor(a: TensorSpec, b: TensorSpec, line: _Line) -> TensorSpec:
    if (a.shape, a.stride) == (b.shape, b.stride):
        return a
    shape = tuple(line(x, y) for x, y in zip(a.shape, b.shape, strict=True))
    return replace(a, shape=shape, stride=tuple(line(x, y) for x, y in zip(a.stride, b.stride, strict=True)))


def _op(a: Op, b: Op, line: _Line) -> Op:
    args = _value(a.args, b.args, line)
    kwargs = {key: _value(value, b.kwargs[key], line) for key, value in a.kwargs.items()}
    return a if args == a.args and kwargs == dict(a.kwargs) else replace(a, args=args, kwargs=kwargs)


def _value(a, b, line: _Line):
    if isinstance(a, list | tuple):
        if len(a) != len(b):
            raise NotLinear("a list has another length at another size")
        return type(a)(_value(x, y, line) for x, y in zip(a, b, strict=True))
    if isinstance(a, int) and not isinstance(a, bool):
        return line(a, b)
    if a != b and not (isinstance(a, Ref) and isinstance(b, Ref)):
        raise NotLinear(f"{a!r} is {b!r} at another size")
    return a


def _numbers(graph: OpGraph) -> list:
    return [(s.name, s.shape, s.stride) for s in graph.tensors.values()] + [
        (op.target, repr(op.args), repr(dict(op.kwargs))) for op in graph.ops
    ]
