"""Tensor parallelism: the devices' programs compute what the module computes; parts, collectives and costs are what the method says."""

from __future__ import annotations

import copy
import functools
import math
import pickle
from collections import Counter

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

from labkit.graph import Split, capture, cost_of, shard
from labkit.graph.shard_views import view
from labkit.graph.sharding import ALL_GATHER, ALL_REDUCE, group_size
from labkit.graph.workloads import workload
from labkit.machines import machine
from labkit.machines.fusion import RULES, groups
from labkit.models.config import DecoderConfig, preset
from labkit.models.decoder import Decoder
from tests.graph.lockstep import Lockstep
from tests.graph.test_cost import CNN, Encoder, Experts


def collectives(graph) -> Counter:
    return Counter(op.target for op in graph.ops if op.target in (ALL_REDUCE, ALL_GATHER))


def leaves(value) -> list[torch.Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def same_as_the_module(module, inputs, devices: int):
    """The sharded graph, after its devices returned what the module returns."""
    graph = capture(module, *inputs)
    sharded = shard(graph, devices)
    with torch.no_grad():
        expected = leaves(module(*copy.deepcopy(inputs)))
    run = Lockstep(sharded, graph, inputs)
    assert len(run.results()) == devices and expected
    for returned in run.results():
        for ours, theirs in zip(returned, expected, strict=True):
            assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5), f"off by {(ours - theirs).abs().max()}"
    return sharded, run


def decoder(heads: int, kv_heads: int, layers: int = 4, **options) -> Decoder:
    torch.manual_seed(0)
    config = DecoderConfig(
        vocab_size=48, hidden_size=64, intermediate_size=96, num_layers=layers, num_heads=heads, num_kv_heads=kv_heads, head_dim=16, **options
    )  # fmt: skip
    return Decoder(config).eval()


TOKENS = torch.randint(0, 48, (2, 7), generator=torch.Generator().manual_seed(0))
HEADS = [(8, 4, 2), (8, 4, 4), (8, 4, 8), (8, 2, 4), (8, 2, 8), (4, 1, 4), (12, 6, 4), (8, 4, 6), (6, 3, 2)]
"""Query heads, key heads, devices: as many key heads, fewer than devices, one, and numbers that do not divide."""


@pytest.mark.parametrize("heads, kv_heads, devices", HEADS)
def test_a_decoders_prefill_is_what_the_module_computes(heads, kv_heads, devices):
    sharded, _ = same_as_the_module(decoder(heads, kv_heads, qkv_bias=True), (TOKENS,), devices)
    assert sharded.repeats and sharded.repeats[0].count == 4


@pytest.mark.parametrize("heads, kv_heads, devices", HEADS)
@pytest.mark.parametrize("new", [1, 3])
def test_a_cached_step_is_what_the_module_computes_and_leaves_each_device_its_part_of_the_cache(heads, kv_heads, devices, new):
    module = decoder(heads, kv_heads)
    cache = module.new_cache(2, 12)
    for tensor in leaves(cache):
        tensor.normal_(generator=torch.Generator().manual_seed(1))
    inputs = (TOKENS[:, :new].contiguous(), torch.arange(5, 5 + new), cache)
    sharded, run = same_as_the_module(module, inputs, devices)
    after = copy.deepcopy(cache)
    with torch.no_grad():
        module(*inputs[:2], after)
    for layer, pair in enumerate(after):
        for which, tensor in enumerate(pair):
            name = f"cache.{layer}.{which}"
            split = sharded.placements[name]
            if kv_heads == heads // 2 and heads % devices == 0 and devices % kv_heads == 0:
                assert split == Split(1, min(devices, kv_heads)), "a device holds the cache of its heads"
            for device, values in enumerate(run.values):
                assert torch.allclose(values[name], run.part(name, tensor, device), atol=1e-5)


class FusedHeads(nn.Module):
    """GPT-2's attention: queries, keys and values from one product, taken apart in one of four ways, and a fused gate."""

    def __init__(self, how: str, width: int = 64, heads: int = 4):
        super().__init__()
        self.how, self.heads, self.width = how, heads, width
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        made = self.qkv(x)
        if self.how == "unbind":
            q, k, v = made.view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        else:
            parts = {
                "chunk": lambda: made.chunk(3, dim=-1),
                "slice": lambda: (made[..., :c], made[..., c : 2 * c], made[..., 2 * c :]),
                "sizes": lambda: made.split([c, c, c], dim=-1),
            }[self.how]()
            q, k, v = (part.reshape(b, t, self.heads, -1).transpose(1, 2) for part in parts)
        scores = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(b, t, c))
        gate, value = self.up(x).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * value)


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("how", ["unbind", "chunk", "slice", "sizes"])
def test_a_fused_product_is_cut_head_by_head_and_attention_by_hand_stays_local(how, devices):
    sharded, _ = same_as_the_module(FusedHeads(how), (torch.randn(2, 5, 64),), devices)
    assert sharded.placements["qkv.weight"] == Split(0, devices, (64, 64, 64))
    assert sharded.placements["qkv.bias"] == Split(0, devices, (64, 64, 64))
    assert collectives(sharded) == {ALL_REDUCE: 2}, "one after attention, one after the gate: nothing else travels"


@pytest.mark.parametrize("devices", [2, 4])
def test_an_encoder_with_biases_is_what_the_module_computes(devices):
    sharded, _ = same_as_the_module(Encoder(), (torch.randn(2, 10, 64),), devices)
    assert collectives(sharded) == {ALL_REDUCE: 2}
    assert sharded.placements["up.bias"] == Split(0, devices) and sharded.placements["down.bias"] is None
    assert any(note.startswith("down.bias is whole") for note in sharded.notes)


@pytest.mark.parametrize("devices", [2, 4])
def test_an_mlp_is_cut_by_columns_and_then_by_rows(devices):
    module = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16, bias=False))
    sharded, _ = same_as_the_module(module, (torch.randn(3, 5, 16),), devices)
    assert sharded.placements["0.weight"] == Split(0, devices) and sharded.placements["2.weight"] == Split(1, devices)
    assert collectives(sharded) == {ALL_REDUCE: 1}
    assert [op.operator for op in sharded.ops if op.operator in ("all_reduce", "mm", "addmm", "gelu")] == [
        "addmm",
        "gelu",
        "mm",
        "all_reduce",
    ]


class Depthwise(nn.Module):
    """Convolutions with one group a channel between two that mix the channels."""

    def __init__(self):
        super().__init__()
        self.first, self.deep, self.last = nn.Conv2d(3, 16, 1), nn.Conv2d(16, 16, 3, groups=16), nn.Conv2d(16, 6, 1)
        self.norm = nn.BatchNorm2d(16)

    def forward(self, x):
        return self.last(F.avg_pool2d(F.relu6(self.norm(self.deep(self.first(x)))), 2))


@pytest.mark.parametrize("devices", [2, 4])
def test_convolutions_are_what_the_module_computes(devices):
    for make in (CNN, Depthwise):
        module = make().eval()
        for norm in (m for m in module.modules() if isinstance(m, nn.BatchNorm2d)):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
        sharded, _ = same_as_the_module(module, (torch.randn(2, 3, 16, 16),), devices)
        assert sharded.placements["first.weight"] == Split(0, devices)
        assert collectives(sharded) == {ALL_REDUCE: 1}


@pytest.mark.parametrize("devices", [2, 4])
def test_experts_are_divided_among_the_devices(devices):
    sharded, _ = same_as_the_module(Experts(), (torch.randn(8, 32),), devices)
    assert sharded.placements["up"] == sharded.placements["down"] == Split(0, devices), "each device has whole experts"


class Odd(nn.Module):
    """What has no rule, or writes into what is cut."""

    def __init__(self, kind: str):
        super().__init__()
        self.kind, self.linear, self.more = kind, nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x, other):
        y = self.linear(x)
        if self.kind == "unknown":
            return torch.special.i0(y) * other
        if self.kind == "in place":
            y.add_(other)  # whole, into what is cut
            return self.more(y), y.sum()
        if self.kind == "through a view":
            y[:, 3:5].mul_(2)
            return self.more(y)
        if self.kind == "read twice":
            return self.more(y), y.cumsum(-1), y @ self.linear.weight, self.linear.weight.sum(0)
        if self.kind == "reductions":
            return (
                y.sum(-1),
                y.mean(-1, keepdim=True),
                y.amax(1),
                y.amin((0, 1)),
                y.sum(0),
                y.var(-1),
                y.argmax(0),
                y.max(dim=0),
                y.sum(),
            )
        if self.kind == "joined":
            both = torch.cat((y, y * 2), -1)
            return (
                both,
                torch.stack((y, y + 1), 1),
                torch.cat((y, other), 0),
                F.pad(y, (0, 0, 1, 1)),
                y.flip(0),
                y.flip(1),
                both[:, 8:24],
            )
        if self.kind == "addmm of an activation":
            return torch.addmm(other, x, self.linear.weight.t()), torch.addmm(other, x, self.linear.weight.t(), alpha=2)
        return (
            y.repeat(2, 1),
            y.squeeze(),
            y[:, None].expand(-1, 3, -1) + 1,
            F.layer_norm(y[None], (4, 16)),
            F.layer_norm(y, (16,)),
            y.T.softmax(1),
        )


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize(
    "kind", ["unknown", "in place", "through a view", "read twice", "reductions", "joined", "addmm of an activation", "views"]
)
def test_what_cannot_stay_cut_is_gathered_and_right(kind, devices):
    torch.manual_seed(0)
    sharded, _ = same_as_the_module(Odd(kind), (torch.randn(4, 8), torch.randn(4, 16)), devices)
    if kind == "unknown":
        assert any("special_i0" in note or "i0" in note.split() for note in sharded.notes)


STEPS = {
    "linear": lambda x, p: F.linear(x, p.weight[:, : x.shape[-1]]) if x.shape[-1] <= 24 else x,
    "heads": lambda x, p: x.reshape(*x.shape[:-1], 2, -1) if x.shape[-1] % 2 == 0 else x,
    "merge": lambda x, p: x.reshape(*x.shape[:-2], -1) if x.dim() > 2 else x,
    "flatten": lambda x, p: x.flatten(0, 1) if x.dim() > 2 else x,
    "turn": lambda x, p: x.transpose(-1, -2),
    "roll": lambda x, p: x.permute(*range(1, x.dim()), 0),
    "outer": lambda x, p: x[None],
    "first": lambda x, p: x[0] if x.dim() > 2 else x,
    "half": lambda x, p: x.chunk(2, -1)[0] * x.chunk(2, -1)[1] if x.shape[-1] % 2 == 0 else x,
    "tail": lambda x, p: x[..., x.shape[-1] // 2 :] if x.shape[-1] > 3 else x,
    "twice": lambda x, p: torch.cat((x, -x), -1) if x.shape[-1] < 24 else x,
    "pile": lambda x, p: torch.stack((x, x * 2), 1) if x.dim() < 4 else x,
    "softmax": lambda x, p: x.softmax(-1),
    "center": lambda x, p: x - x.mean(-1, keepdim=True),
    "total": lambda x, p: x.sum(0) if x.dim() > 2 else x,
    "scale": lambda x, p: x * p.scale[: x.shape[-1]] if x.shape[-1] <= 24 else x,
    "copies": lambda x, p: x.unsqueeze(1).expand(x.shape[0], 2, *x.shape[1:]).reshape(-1, *x.shape[1:]) if x.shape[0] < 8 else x,
    "tanh": lambda x, p: torch.tanh(x),
    "in place": lambda x, p: x.clone().mul_(2),
    "product": lambda x, p: x @ x.transpose(-1, -2) / x.shape[-1],
}


class Steps(nn.Module):
    def __init__(self, names):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.names, self.weight, self.scale = (
            names,
            nn.Parameter(torch.randn(24, 24, generator=generator) / 5),
            nn.Parameter(torch.ones(24) * 2),
        )

    def forward(self, x):
        for name in self.names:
            x = STEPS[name](x, self)
        return x


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(list(STEPS)), max_size=9), st.sampled_from([2, 3, 4, 6]))
def test_any_program_of_these_steps_is_what_the_module_computes(names, devices):
    x = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(2))
    same_as_the_module(Steps(["linear", *names]), (x,), devices)


# -- views --


@st.composite
def views(draw):
    """Two shapes of the same elements, and a split that fits the first."""
    primes = draw(st.lists(st.sampled_from([1, 2, 2, 2, 3, 4]), min_size=1, max_size=6))

    def shape():
        found, rest = [], list(primes)
        while rest:
            taken = draw(st.integers(1, len(rest)))
            found.append(math.prod(rest[:taken]))
            rest = rest[taken:]
        return tuple(found)

    before, after = shape(), shape()
    assume(math.prod(before) > 1)
    dim = draw(st.sampled_from([i for i, size in enumerate(before) if size > 1]))
    parts = draw(st.sampled_from([n for n in range(2, before[dim] + 1) if before[dim] % n == 0]))
    share = before[dim] // parts
    first = draw(st.integers(1, share))
    blocks = () if first == share else (first * parts, (share - first) * parts)
    return before, after, Split(dim, parts, blocks)


@settings(max_examples=300, deadline=None)
@given(views())
def test_a_part_that_is_viewed_is_the_part_of_the_view(case):
    before, after, split = case
    whole = np.arange(math.prod(before)).reshape(before)
    found = view(split, before, after)
    if found is None:
        return
    assert found.fits(after) and found.parts == split.parts
    for device in range(2 * split.parts):
        mine = split.part(whole, device, 2 * split.parts)
        assert mine.shape == split.shape(before)
        assert np.array_equal(mine.reshape(found.shape(after)), found.part(whole.reshape(after), device, 2 * split.parts))


@pytest.mark.parametrize(
    "split, before, after, expected",
    [
        (Split(2, 4), (2, 7, 64), (2, 7, 8, 8), Split(2, 4)),  # whole heads
        (Split(2, 4), (2, 7, 64), (2, 7, 2, 32), None),  # two heads are not for four
        (Split(2, 4), (2, 7, 64), (14, 64), Split(1, 4)),
        (Split(1, 2), (2, 4, 8), (2, 32), Split(1, 2)),
        (Split(2, 2), (2, 4, 8), (2, 32), Split(1, 2, (8, 8, 8, 8))),  # put together behind another: part of every block
        (Split(1, 2, (8, 8, 8, 8)), (2, 32), (2, 4, 8), Split(2, 2)),
        (Split(1, 2, (16, 8, 8)), (5, 32), (5, 8, 4), Split(1, 2, (4, 2, 2))),  # more query heads than key heads, in one product
        (Split(0, 2), (4, 8), (32,), Split(0, 2)),
        (Split(0, 2), (1, 4)[1:], (1, 4), Split(1, 2)),
        (Split(1, 2, again=Split(2, 2)), (3, 2, 4, 5), (3, 8, 5), Split(1, 4)),  # copies of key heads become query heads
        (Split(1, 2, again=Split(2, 2)), (3, 4, 4, 5), (3, 16, 5), None),
    ],
)
def test_known_views(split, before, after, expected):
    assert view(split, before, after) == expected


def test_parts_of_neighbours_are_the_same():
    whole = np.arange(12)
    assert [list(Split(0, 2).part(whole, device, 4)) for device in range(4)] == [list(range(6))] * 2 + [list(range(6, 12))] * 2
    assert list(Split(0, 2, (4, 8)).part(whole, 1, 2)) == [2, 3, 8, 9, 10, 11]


# -- what it costs --


@functools.cache
def large():
    return workload("llama-3.1-70b", "decode", tokens=4096)


def test_the_work_of_all_devices_is_the_work_of_one():
    cost, one = cost_of(shard(large(), 8)), cost_of(large())
    assert cost.matmul_flops * 8 == one.matmul_flops > 0 and not cost.unpriced
    assert cost.by_kind()["collective"][:2] == (80 * 2 + 1, 0)


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_a_device_holds_its_share_of_the_weights_and_of_the_cache(devices):
    sharded, config = shard(large(), devices), preset("llama-3.1-70b")
    table, norms = config.vocab_size * config.hidden_size, (2 * config.num_layers + 1) * config.hidden_size
    assert sharded.bytes_of("weight") == 2 * ((config.parameters - table - norms) // devices + table + norms)
    assert 1 < sharded.bytes_of("weight") * devices / large().bytes_of("weight") < 1.15, "the table of embeddings is whole"
    caches = {spec.name: spec.nbytes * sharded.times(spec.name) for spec in sharded.by_role("kv_cache") if not spec.producer}
    assert sum(caches.values()) * devices == 2 * config.kv_cache_elements(1, 4096)


def test_beyond_the_key_heads_devices_hold_copies():
    sharded = shard(large(), 16)
    assert sharded.placements["model.layers.79.self_attn.k_proj.weight"] == Split(0, 8)
    assert sharded.placements["cache.79.1"] == Split(1, 8)
    assert sharded.placements["model.layers.79.self_attn.q_proj.weight"] == Split(0, 16)
    assert any("k_proj.weight is cut into 8 parts, each held by 2 devices" in note for note in sharded.notes)
    attention = next(op for op in sharded.ops if "scaled_dot_product" in op.operator)
    assert [sharded.tensors[name].shape for name in attention.inputs[:3]] == [(1, 4, 1, 128), (1, 4, 4096, 128), (1, 4, 4096, 128)]


@pytest.mark.parametrize("batch", [1, 2])
def test_a_layer_has_two_sums_over_devices_of_one_activation_each(batch):
    sharded = shard(workload("llama-3.1-70b", "decode", tokens=64, batch=batch), 8)
    repeat = sharded.repeats[0]
    sums = [sharded.by_name[name] for name in repeat.ops if sharded.by_name[name].target == ALL_REDUCE]
    assert len(sums) == 2 and all(op.repeat == 80 and group_size(op) == 8 for op in sums)
    assert [sharded.tensors[op.outputs[0]].elements for op in sums] == [batch * 1 * 8192] * 2
    rest = [op for op in sharded.ops if op.operator == "all_gather_into_tensor"]
    assert [op.repeat for op in rest] == [1], "the logits are put together"
    assert sharded.tensors[sharded.outputs[0]].shape == (batch, 1, 128256) and sharded.tensors[sharded.outputs[0]].role == "output"
    assert "_c10d_functional.all_reduce.default(%mm_3, sum, tp8)  x80" in sharded.to_text()


def test_expanded_dimensions_stay_free():
    sharded = shard(large(), 8)
    expanded = next(spec for spec in sharded.tensors.values() if spec.producer == "expand")
    assert expanded.shape == (1, 1, 8, 4096, 128) and expanded.stride[2] == 0
    assert expanded.nbytes * 8 * 8 == 2 * expanded.elements * 8, "eight views of one head"


@pytest.mark.parametrize("rules", RULES)
def test_a_collective_is_a_kernel_of_its_own(rules):
    sharded = shard(workload("llama-3.1-70b", "prefill", tokens=16), 8)
    grouping = groups(sharded, cost_of(sharded), RULES[rules])
    alone = [group for group in grouping.groups if any("c10d" in op.target for op in group.ops)]
    assert len(alone) == 3 and all(len(group.ops) == 1 and group.kind == "collective" for group in alone)


def test_a_model_that_does_not_fit_on_one_product_is_priced_on_eight():
    product = machine("A100-80")
    with pytest.raises(ValueError, match="does not fit"):
        product.compile(large())
    plan = product.compile(shard(large(), 8))
    assert sum(kernel.repeat for kernel in plan.kernels if kernel.what == "collective") == 161


# -- what it is --


def test_one_device_runs_the_same_graph():
    assert shard(large(), 1) is large()


@pytest.mark.parametrize("devices", [0, -2, 2.0, "2", True, None])
def test_other_numbers_of_devices_are_refused(devices):
    with pytest.raises(ValueError, match=f"devices = {devices!r}: expected a whole number, 1 or more"):
        shard(large(), devices)


def test_the_program_of_one_device_is_not_sharded_again_and_does_not_run_alone():
    graph = capture(nn.Linear(4, 4), torch.ones(2, 4))
    sharded = shard(graph, 2)
    with pytest.raises(ValueError, match="one of 2 devices already"):
        shard(sharded, 2)
    with pytest.raises(ValueError, match="wait for the other 1"):
        sharded.run(torch.ones(2, 4))
    with pytest.raises(ValueError, match="expected a collective"):
        group_size(sharded.ops[0])


def test_it_is_named_pickles_expands_and_is_the_same_every_time():
    sharded = shard(large(), 8)
    assert sharded.name == "llama-3.1-70b decode on 8 devices" and sharded.devices == 8
    assert any("embed_tokens.weight is whole" in note for note in sharded.notes)
    again = pickle.loads(pickle.dumps(shard(large(), 8)))
    assert again.to_text() == sharded.to_text() and dict(again.placements) == dict(sharded.placements)
    written = sharded.expand()
    assert written.cost().bytes == sharded.cost().bytes and collectives(written) == {ALL_REDUCE: 160, ALL_GATHER: 1}


def test_a_tied_table_stays_whole_and_says_so():
    sharded, _ = same_as_the_module(decoder(4, 2, tied_embeddings=True), (TOKENS,), 2)
    assert sharded.placements["model.embed_tokens.weight"] is None
    assert any("embed_tokens.weight is whole" in note and "runs alike on all" in note for note in sharded.notes)
