"""A fused group of operators to the price of one kernel: its shapes and bytes, handed to the product's kernel model.

The kernel model (`GpuKernels`, `TpuKernels`, ...) has one method for each kind of kernel; sizes are elements, traffic is bytes:

    matmul(m, k, n, dtype, batch=, weight_bytes_per_element=, epilogue_flops=, epilogue_bytes=)
    attention(batch, heads, kv_heads, q_len, kv_len, head_dim, dtype, fused=, causal=)
    reduction(rows, cols, dtype, reads=, writes=, flops=)       pointwise(elements, dtype, reads=, writes=, flops=, transcendental=)
    gather(rows, row_bytes, dtype)                              copy(reads, writes)

A model whose prices depend on more says so in `asks`, a set of names:

    "handed"  reduction and pointwise get handed=(reads, writes): bytes that the operators of the kernel read and write of one another's results
    "sticks"  matmul gets restickify=("a", "b"), the operands of which the innermost dimension in memory is not their last, weights excepted (they are laid
              out once, when they are loaded); copy gets pattern="transpose" where it brings another dimension innermost
"""

from __future__ import annotations

import functools
import tomllib
from math import prod

from labkit import paths
from labkit.graph.cost import GraphCost, argument_names
from labkit.graph.operators import MULTIPLY
from labkit.graph.spec import Op, OpGraph, Ref, TensorSpec
from labkit.machines.fusion import Group
from labkit.machines.kernel import KernelCost, Term


class Pricer:
    """Prices the groups of one graph. weight_bytes: bytes per element of stored matrix weights, None for as captured."""

    def __init__(self, graph: OpGraph, costs: GraphCost, kernels, weight_bytes: float | None):
        self.graph, self.costs, self.kernels, self.weight_bytes = graph, costs, kernels, weight_bytes
        self.asks: frozenset[str] = getattr(kernels, "asks", frozenset())
        self.unknown: dict[str, None] = {}
        self.by_shape: dict[tuple, KernelCost] = {}

    def notes(self) -> list[str]:
        """What the prices leave out."""
        if not self.unknown:
            return []
        return [f"Without a formula for their FLOPs, priced by their bytes: {', '.join(self.unknown)}."]

    def __call__(self, group: Group) -> KernelCost:
        """The price of a group that the machine runs itself."""
        call = self._call(group)
        key = repr(call)
        if key not in self.by_shape:
            method, args, kwargs = call
            self.by_shape[key] = getattr(self.kernels, method)(*args, **kwargs)
        return self.by_shape[key]

    def _call(self, group: Group) -> tuple[str, tuple, dict]:
        for op in group.ops:
            if self.costs[op.name].flops is None:
                self.unknown[op.operator] = None
        if group.kind == "matmul":
            return self._matmul(group)
        if group.kind == "convolution":
            return self._convolution(group)
        if group.kind == "attention":
            return self._attention(group)
        reads, writes = sum(group.reads.values()), sum(group.writes.values())
        flops = sum(self.costs[op.name].flops or 0 for op in group.ops)
        functions = sum(self.costs[op.name].transcendental for op in group.ops)
        dtype = self._dtype(group)
        inside = {"handed": self._handed(group)} if "handed" in self.asks else {}
        if group.kind == "reduction":
            rows = max(group.reduced, 1)
            return (
                "reduction",
                (rows, max(group.elements // rows, 1), dtype),
                {"reads": reads, "writes": writes, "flops": flops, **inside},
            )
        if group.kind == "gather" and len(group.ops) == 1 and self._spec(group.anchor.outputs[0]).shape:
            made = self._spec(group.anchor.outputs[0])
            moved = min(made.nbytes, sum(group.writes.values()) or made.nbytes)
            row = made.shape[-1] * made.itemsize
            return "gather", (max(moved // row, 1), row, dtype), {}
        if flops == 0:
            turned = "sticks" in self.asks and any(self._turns(op) for op in group.ops)
            return "copy", (reads, writes), {"pattern": "transpose"} if turned else {}
        return (
            "pointwise",
            (group.elements, dtype),
            {"reads": reads, "writes": writes, "flops": flops, "transcendental": functions, **inside},
        )

    def _handed(self, group: Group) -> tuple[int, int]:
        """Bytes that the operators of a kernel read and write of one another's results."""
        reads = sum(sum(self.costs[op.name].reads.values()) for op in group.ops) - sum(group.reads.values())
        writes = sum(sum(self.costs[op.name].writes.values()) for op in group.ops) - sum(group.writes.values())
        return max(reads, 0), max(writes, 0)

    def _turns(self, op: Op) -> bool:
        """True for an operator that writes another dimension innermost than it reads."""
        made = self._spec(op.outputs[0])
        read = [self._spec(name) for name in op.inputs[:1]]
        return any(r.elements == made.elements and _innermost(r) != _innermost(made) for r in read)

    # -- multiply-accumulate --

    def _spec(self, name: str) -> TensorSpec:
        return self.graph.tensors[name]

    def _arguments(self, op: Op) -> dict[str, object]:
        values = dict(zip(argument_names(op.target), op.args, strict=False)) | dict(op.kwargs)
        return {name: self._spec(value.name) if isinstance(value, Ref) else value for name, value in values.items()}

    def _matmul(self, group: Group):
        args = self._arguments(group.anchor)
        first = args.get("mat1") or args.get("batch1") or args.get("self")
        second = args.get("mat2") or args.get("batch2") or args.get("vec") or args.get("tensor")
        *batch, m, k = (1, *first.shape) if len(first.shape) == 1 else first.shape
        n = second.shape[-1] if len(second.shape) > 1 else 1
        if len(second.shape) == 3 and second.stride[:1] == (0,) and prod(batch) > 1:
            # torch hands a linear layer on some layouts over as a batched product with one weight, expanded: a library runs it as one product.
            m, batch = m * prod(batch), []
            group.why.append(f"the right operand is the same for the whole batch: one product of {m} rows")
        kwargs = {"batch": prod(batch), **self._epilogue(group)}
        if self.weight_bytes is not None and second.role == "weight":
            kwargs["weight_bytes_per_element"] = self.weight_bytes
        if "sticks" in self.asks:
            turned = (name for name, spec in (("a", first), ("b", second)) if spec.role != "weight" and not _innermost(spec))
            kwargs |= {"restickify": found} if (found := tuple(turned)) else {}
        return "matmul", (m, k, n, first.dtype), kwargs

    def _convolution(self, group: Group):
        # A convolution is a matrix product of the unfolded input with the filters, one per group of channels (Chetlur et al. 2014,
        # arXiv:1410.0759); the unfolded input is not written to memory.
        args = self._arguments(group.anchor)
        out, weight = self._spec(group.anchor.outputs[0]), args["weight"]
        parts = args.get("groups", 1) or 1
        points = out.shape[0] * prod(out.shape[2:])
        return (
            "matmul",
            (points, prod(weight.shape[1:]), weight.shape[0] // parts, out.dtype),
            {"batch": parts, **self._epilogue(group)},
        )

    def _attention(self, group: Group):
        args = self._arguments(group.anchor)
        query, key = args["query"], args["key"]
        if "_attention_forward" in group.anchor.operator:  # [B, T, H, D]
            (b, t, h, d), (_, s, kh, _) = query.shape, key.shape
        else:
            (b, h, t, d), (_, kh, s, _) = query.shape, key.shape
        causal = bool(args.get("is_causal") or args.get("causal"))
        return "attention", (b, h, kh, t, s, d, query.dtype), {"fused": True, "causal": causal}

    def _epilogue(self, group: Group) -> dict[str, float]:
        """What the loop work in a matrix product's kernel adds: FLOPs, and bytes of operands that the product does not have itself."""
        rest = [op for op in group.ops if op is not group.anchor]
        if not rest:
            return {}
        own = {self.graph.storage(name) for name in (*group.anchor.inputs, *group.anchor.outputs)}
        extra = sum(moved for name, moved in group.reads.items() if name not in own)
        made = self._spec(group.anchor.outputs[0]).nbytes
        return {
            "epilogue_flops": sum(self.costs[op.name].flops or 0 for op in rest),
            "epilogue_bytes": max(extra + sum(group.writes.values()) - made, 0),
        }

    def _dtype(self, group: Group) -> str:
        """The dtype in which the group computes: the widest floating one of what it makes, else of what it reads."""
        floats = ("float64", "float32", "bfloat16", "float16")
        names = {self._spec(name).dtype for op in group.ops for name in (*op.outputs, *op.inputs)}
        return next((name for name in floats if name in names), next(iter(sorted(names)), "float32"))

    # -- what the machine cannot run --

    def refused(self, group: Group) -> KernelCost:
        """The operator on the host: operands out over the host link, work at the host's memory bandwidth, results back, and two waits."""
        host = host_constants()
        reads, writes = sum(group.reads.values()), sum(group.writes.values())
        link, memory, wait = host["link_bytes_per_s"], host["memory_bytes_per_s"], host["round_trip_s"]
        flops = sum(self.costs[op.name].flops or 0 for op in group.ops)
        compute = 0.0
        if group.kind in MULTIPLY:
            compute = flops / host["flops_per_s"]["value"]
        terms = (
            Term(
                "host",
                reads / link["value"],
                f"{reads:,} B to the host / {link['value'] / 1e9:g} GB/s",
                link["source"],
                overlaps=False,
            ),
            Term(
                "host",
                max((reads + writes) / memory["value"], compute),
                f"{reads + writes:,} B in the host's memory / {memory['value'] / 1e9:g} GB/s",
                memory["source"],
                overlaps=False,
            ),
            Term(
                "host", writes / link["value"], f"{writes:,} B back / {link['value'] / 1e9:g} GB/s", link["source"], overlaps=False
            ),
            Term(
                "latency",
                wait["value"],
                "the device waits for the host, and the host for the device",
                wait["source"],
                overlaps=False,
            ),
        )
        return KernelCost(terms, {"offchip": reads + writes, "host link": reads + writes}, flops, flops, (group.refused,))


def _innermost(spec: TensorSpec) -> bool:
    """True when the last dimension lies innermost in memory, or there is nothing to lie."""
    return len(spec.shape) < 2 or spec.shape[-1] == 1 or spec.stride[-1] == 1


@functools.cache
def host_constants() -> dict[str, dict]:
    """The host beside an accelerator (data/fitted/host.toml): {name: {value, unit, source, ...}}, in SI units."""
    found = tomllib.loads((paths.data_dir() / "fitted" / "host.toml").read_text(encoding="utf-8"))
    return {name: entry for name, entry in found.items() if isinstance(entry, dict)}
