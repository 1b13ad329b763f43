"""How many operators a piece of work calls: what each call costs, it costs that many times."""

from __future__ import annotations

from collections.abc import Callable


def count_operators(work: Callable) -> int:
    """ATen operators, views included, that one call of `work()` dispatches, counted below composite ones such as linear."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counter(TorchDispatchMode):
        calls = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.calls += 1
            return func(*args, **(kwargs or {}))

    with Counter() as counter:
        work()
    return counter.calls
