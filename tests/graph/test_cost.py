"""FLOPs as torch.utils.flop_counter, over its registry and over models; bytes under both policies and both levels."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from labkit.graph import capture, cost_of
from labkit.graph.operators import KINDS, OPERATORS
from labkit.graph.workloads import workload
from labkit.models import build
from labkit.models.config import preset
from labkit.models.cost import phase_cost


class Calls(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def counted(module, *inputs) -> int:
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        module(*inputs)
    return counter.get_total_flops()


aten = torch.ops.aten
CALLS = {
    "mm": (lambda a, b: aten.mm(a, b), [(3, 5), (5, 7)]),
    "addmm": (lambda c, a, b: aten.addmm(c, a, b), [(7,), (3, 5), (5, 7)]),
    "bmm": (lambda a, b: aten.bmm(a, b), [(2, 3, 5), (2, 5, 7)]),
    "baddbmm": (lambda c, a, b: aten.baddbmm(c, a, b), [(2, 3, 7), (2, 3, 5), (2, 5, 7)]),
    "convolution": (lambda x, w: aten.convolution(x, w, None, [2, 1], [1, 0], [1, 1], False, [0, 0], 2), [(2, 4, 9, 8), (6, 2, 3, 3)]),
    "convolution, transposed": (lambda x, w: aten.convolution(x, w, None, [2, 2], [0, 0], [1, 1], True, [0, 0], 1), [(2, 4, 5, 6), (4, 3, 3, 2)]),
    "convolution, 1 dimension": (lambda x, w: aten.convolution(x, w, None, [1], [2], [1], False, [0], 1), [(2, 4, 20), (6, 4, 5)]),
    "convolution_backward": (
        lambda g, x, w: aten.convolution_backward(g, x, w, [6], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True]),
        [(2, 6, 7, 6), (2, 4, 9, 8), (6, 4, 3, 3)],
    ),
    "convolution_backward, of the weight": (
        lambda g, x, w: aten.convolution_backward(g, x, w, [6], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [False, True, False]),
        [(2, 6, 7, 6), (2, 4, 9, 8), (6, 4, 3, 3)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_an_operator_has_the_flops_of_torchs_counter(name):
    function, shapes = CALLS[name]
    inputs = [torch.randn(shape) for shape in shapes]
    module = Calls(function)
    assert capture(module, *inputs).cost().matmul_flops == counted(module, *inputs) > 0


META = {
    "_scaled_dot_product_flash_attention": (lambda q, k, v: aten._scaled_dot_product_flash_attention(q, k, v), [(2, 4, 6, 8)] * 3),
    "_scaled_dot_product_efficient_attention": (
        lambda q, k, v: aten._scaled_dot_product_efficient_attention(q, k, v, None, True), [(2, 4, 6, 8), (2, 4, 10, 8), (2, 4, 10, 8)],
    ),
    "_scaled_dot_product_cudnn_attention": (
        lambda q, k, v: aten._scaled_dot_product_cudnn_attention(q, k, v, None, True), [(2, 4, 6, 8), (2, 4, 10, 8), (2, 4, 10, 8)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", META)
def test_fused_attention_has_the_flops_of_torchs_counter(name):
    # These kernels exist for CUDA only; torch's counter and our formulas need the shapes alone.
    function, shapes = META[name]
    theirs = flop_registry[getattr(aten, name)]
    args = {"query": shapes[0], "key": shapes[1], "value": shapes[2]}
    ours = OPERATORS[name].formula({key: Shaped(shape) for key, shape in args.items()}, ())
    assert ours == theirs(*map(Tensorlike, shapes), out_val=None) > 0


class Shaped:
    def __init__(self, shape):
        self.shape = shape


def Tensorlike(shape):  # noqa: N802 - stands where a tensor is expected
    return torch.empty(shape, device="meta")


BACKWARD = [
    "_scaled_dot_product_efficient_attention_backward", "_scaled_dot_product_flash_attention_backward", "_scaled_dot_product_cudnn_attention_backward",
]  # fmt: skip


@pytest.mark.parametrize("name", BACKWARD)
def test_attentions_gradients_have_the_flops_of_torchs_counter(name):
    q, k = (2, 4, 6, 8), (2, 4, 10, 8)
    theirs = flop_registry[getattr(aten, name)](Tensorlike(q), Tensorlike(q), Tensorlike(k), Tensorlike(k), out_val=None)
    ours = OPERATORS[name].formula({"query": Shaped(q), "key": Shaped(k), "value": Shaped(k)}, ())
    assert ours == theirs > 0


def test_attention_in_rows_has_the_flops_of_torchs_counter():
    # [B, T, H, D]; torch's own formula for the dense case turns the shapes and calls the other.
    from torch.utils.flop_counter import sdpa_flop_count

    rows = {"query": Shaped((2, 6, 4, 8)), "key": Shaped((2, 10, 4, 8)), "value": Shaped((2, 10, 4, 8))}
    dense = sdpa_flop_count((2, 4, 6, 8), (2, 4, 10, 8), (2, 4, 10, 8))
    for name in ("_flash_attention_forward", "_efficient_attention_forward"):
        assert OPERATORS[name].formula(rows, ()) == dense > 0
        packed = {**rows, "cum_seq_q": object(), "cu_seqlens_q": object()}
        assert OPERATORS[name].formula(packed, ()) is None, "the lengths of packed sequences are values"
    from torch.utils.flop_counter import sdpa_backward_flop_count

    backward = sdpa_backward_flop_count((2, 4, 6, 8), (2, 4, 6, 8), (2, 4, 10, 8), (2, 4, 10, 8))
    for name in ("_flash_attention_backward", "_efficient_attention_backward"):
        assert OPERATORS[name].formula(rows, ()) == backward > 0


def test_every_operator_of_torchs_counter_has_a_row_with_a_formula():
    # flex_attention is a higher-order operator, not an ATen one: a captured graph shows what it is made of.
    names = {str(op).split(".")[-1] for op in flop_registry if str(op).startswith("aten.")}
    missing = sorted(name for name in names if name not in OPERATORS or OPERATORS[name].formula is None)
    assert len(names) >= 20 and not missing


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.second, self.head = nn.Conv2d(16, 32, 3, stride=2, groups=4), nn.Linear(32, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.first(x))), 2)
        return self.head(F.adaptive_avg_pool2d(F.relu(self.second(x)), 1).flatten(1))


class Encoder(nn.Module):
    """BERT's layer: self-attention with biases, layer norm after each part, GELU."""

    def __init__(self, width=64, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        x = self.first(x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, c)))
        return self.second(x + self.down(F.gelu(self.up(x))))


class Experts(nn.Module):
    """Two of four experts a token, all computed and weighted."""

    def __init__(self, width=32, experts=4):
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.up = nn.Parameter(torch.randn(experts, width, 2 * width))
        self.down = nn.Parameter(torch.randn(experts, 2 * width, width))

    def forward(self, x):
        weights, chosen = torch.topk(self.router(x).softmax(-1), 2)
        gate = torch.zeros(x.shape[0], self.up.shape[0]).scatter(1, chosen, weights)
        hidden = F.gelu(torch.einsum("td,edh->eth", x, self.up))
        return torch.einsum("eth,ehd,te->td", hidden, self.down, gate)


def decoder():
    return build("tiny", device="cpu").eval()


MODELS = {
    "decoder": (decoder, lambda: (torch.randint(0, 8, (2, 9)),)),
    "CNN": (lambda: CNN().eval(), lambda: (torch.randn(2, 3, 16, 16),)),
    "BERT-style encoder": (Encoder, lambda: (torch.randn(2, 10, 64),)),
    "MoE block": (Experts, lambda: (torch.randn(8, 32),)),
}


@pytest.mark.parametrize("via", ["fx", "export", "dynamo"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_the_flops_of_torchs_counter(name, via):
    make, inputs = MODELS[name]
    module, inputs = make(), inputs()
    cost = capture(module, *inputs, via=via).cost()
    assert cost.matmul_flops == counted(module, *inputs) > 0
    assert cost.flops > cost.matmul_flops and not cost.unpriced


def test_repeated_layers_cost_what_they_cost_written_out():
    graph = workload("llama-3.2-1b", "decode", tokens=16)
    assert graph.repeats and graph.expand().cost().flops == graph.cost().flops
    assert graph.expand().cost().bytes == graph.cost().bytes


@pytest.mark.parametrize("phase, new, context", [("prefill", 64, 0), ("decode", 1, 63)])
def test_the_graph_agrees_with_the_closed_form_of_a_decoder(phase, new, context):
    # The closed form counts, of attention, the keys that a query may see; the graph every key.
    config = preset("llama-3.2-1b")
    cost = workload("llama-3.2-1b", phase, tokens=64).cost()
    form = phase_cost(config, 1, new, context, 2)
    hidden = new * (new - 1) // 2 * 4 * config.num_layers * config.num_heads * config.head_dim
    assert cost.matmul_flops == form["flops"] + hidden


def test_the_border_of_the_program_agrees_with_the_closed_form_within_what_that_leaves_out():
    config = preset("llama-3.2-1b")
    graph = workload("llama-3.2-1b", "decode", tokens=64)
    border, form = graph.cost(level="program"), phase_cost(config, 1, 1, 63, 2)
    # The closed form leaves out the weights of the norms, and the logits; the attention of the graph reads back the token that was written.
    norms = (2 * config.num_layers + 1) * config.hidden_size * 2
    # The looked-up row of the embedding is part of the tied head, which is read whole: the closed form counts it twice.
    known = norms + config.vocab_size * 2 + config.kv_cache_elements(1, 1) * 2 - config.hidden_size * 2
    assert border.bytes - form["bytes"] - known == 8 + 8, "one token and one position"


def test_an_operator_without_a_formula_is_reported_and_not_counted():
    module = Calls(lambda x: torch.special.i0(x) + torch.mm(x, x))
    cost = capture(module, torch.randn(4, 4)).cost()
    assert [c.operator for c in cost.unpriced] == ["special_i0"] or [c.operator for c in cost.unpriced] == ["i0"]
    assert "leave out 1 operators" in cost.caveat and cost.caveat in repr(cost) and cost.caveat in cost._repr_html_()
    assert cost.flops == 2 * 4**3 + 16 and cost.unpriced[0].bytes == 2 * 16 * 4
    assert cost.unpriced[0].arithmetic_intensity != cost.unpriced[0].arithmetic_intensity  # nan


def test_views_are_free_or_charged():
    module = Calls(lambda x: x.t().reshape(-1)[None] + 1)
    graph = capture(module, torch.randn(6, 4))
    free, charged = graph.cost(), graph.cost(views="charged")
    views = [op.name for op in graph.ops if free[op.name].kind == "view"]
    assert views and all(free[name].bytes == 0 for name in views) and all(charged[name].bytes == 2 * 24 * 4 for name in views)
    assert charged.bytes == free.bytes + len(views) * 2 * 24 * 4


def test_what_is_picked_by_index_is_what_is_read():
    table = capture(nn.Embedding(1000, 8), torch.zeros(3, dtype=torch.int64)).cost()
    assert table.bytes_read == 3 * 8 * 4 + 3 * 8 and table.bytes_written == 3 * 8 * 4

    class Cache(nn.Module):
        def forward(self, cache, place, new):
            return cache.index_copy_(1, place, new)

    written = capture(Cache(), torch.zeros(2, 100, 8), torch.zeros(1, dtype=torch.int64), torch.ones(2, 1, 8)).cost()
    assert written.bytes_written == 2 * 8 * 4 and written.bytes_read == 2 * 8 * 4 + 8


def test_an_expanded_operand_is_read_once():
    cost = capture(Calls(lambda x, b: x + b.expand(100, 8)), torch.ones(100, 8), torch.ones(1, 8)).cost()
    assert cost.bytes_read == 100 * 8 * 4 + 8 * 4


def test_other_policies_and_levels_are_refused_with_what_exists():
    graph = capture(Calls(lambda x: x + 1), torch.ones(2))
    with pytest.raises(ValueError, match="views = 'cheap': expected one of free, charged"):
        graph.cost(views="cheap")
    with pytest.raises(ValueError, match="level = 'cache': expected one of operator, program"):
        cost_of(graph, level="cache")


def test_every_row_has_a_kind_and_a_way_to_count():
    for name, row in OPERATORS.items():
        assert row.kind in KINDS, name
        assert (row.formula is None) != (row.per_element is None), name
