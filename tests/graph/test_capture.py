"""Capture via fx, export and dynamo; layers held once; execution node by node, bit for bit; errors that name the line."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from labkit.graph import CaptureError, capture
from labkit.graph.execution import execute
from labkit.graph.tracing import TRACERS
from labkit.models import build, load

VIAS = list(TRACERS)
each_way = pytest.mark.parametrize("via", VIAS)


class Residual(nn.Module):
    """A CNN with batch norm and a skip connection."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.Linear(3, 5)

    def forward(self, x):
        x = x + F.relu(self.norm(self.conv(x)))
        return self.head(x.mean((2, 3)))


class Layer(nn.Module):
    def __init__(self, width: int = 8, window: int = 0):
        super().__init__()
        self.linear, self.window = nn.Linear(width, width), window

    def forward(self, x):
        x = x + torch.tanh(self.linear(x))
        return x * 0.5 if self.window else x


class Stack(nn.Module):
    """kind: plain, window (every fourth layer differs), count (depends on the number of layers), skip (first layer's result after the stack),
    all (returns every layer's result)."""

    def __init__(self, kind: str = "plain", layers: int = 6):
        super().__init__()
        self.kind = kind
        self.layers = nn.ModuleList(Layer(window=int(kind == "window" and i % 4 == 3)) for i in range(layers))

    def forward(self, x):
        if self.kind == "count":
            x = x / len(self.layers)
        seen = []
        for layer in self.layers:
            x = layer(x)
            seen.append(x)
        if self.kind == "skip":
            return x + seen[0]
        return tuple(seen) if self.kind == "all" else x * 2


class Writes(nn.Module):
    """Writes into a buffer through a view, and reads the whole buffer afterwards."""

    def forward(self, buffer, x):
        buffer[1:3].copy_(x)
        buffer[0].mul_(2)
        return buffer.sum(0)


class Nested(nn.Module):
    """Takes a dict and a list, returns nested containers, splits and unbinds."""

    def forward(self, given, others):
        a, b = given["x"].chunk(2, dim=-1)
        parts = others[0].unbind(0)
        return {"sum": a + b, "rest": [parts[0] * 2, (parts[1], 3)]}


def tokens(count: int = 9):
    return torch.randint(0, 8, (2, count), generator=torch.Generator().manual_seed(0))


CASES = {
    "CNN": (lambda: Residual().eval(), lambda: (torch.randn(2, 3, 6, 6),)),
    "decoder": (lambda: load("tiny"), lambda: (tokens(),)),
    "stack": (Stack, lambda: (torch.randn(4, 8),)),
    "bfloat16": (lambda: Stack().to(torch.bfloat16), lambda: (torch.randn(4, 8).bfloat16(),)),
    "LSTM cell": (lambda: nn.LSTMCell(4, 5), lambda: (torch.randn(2, 4), (torch.randn(2, 5), torch.randn(2, 5)))),
    "nested": (Nested, lambda: ({"x": torch.randn(2, 6)}, [torch.randn(2, 3)])),
}


def same(a, b) -> bool:
    flat, other = (torch.utils._pytree.tree_flatten(value) for value in (a, b))
    return flat[1] == other[1] and all(
        torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y for x, y in zip(flat[0], other[0], strict=True)
    )


@each_way
@pytest.mark.parametrize("name", CASES)
def test_a_graph_computes_what_the_module_computes_bit_for_bit(name, via):
    torch.manual_seed(0)
    make, inputs = CASES[name]
    module, inputs = make(), inputs()
    graph = capture(module, *inputs, via=via)
    with torch.no_grad():
        expected = module(*inputs)
    run = graph.run(*inputs)
    assert same(run.result, expected)
    assert {op.target.split(".")[0] for op in graph.ops} == {"aten"} and set(run.values) == set(run.graph.tensors)


@each_way
def test_a_cached_step_leaves_the_cache_as_the_module_does(via):
    module = load("tiny")
    ours, theirs = module.new_cache(2, 16), module.new_cache(2, 16)
    for new in (torch.arange(5), torch.arange(5, 6)):
        given = tokens(len(new))
        graph = capture(module, given, new, module.new_cache(2, 16), via=via)
        with torch.no_grad():
            expected = module(given, new, theirs)
        assert torch.equal(graph.run(given, new, ours).result, expected)
        assert all(torch.equal(a, b) for x, y in zip(ours, theirs, strict=True) for a, b in zip(x, y, strict=True))


def test_values_at_edges_are_those_that_the_modules_return():
    module, seen = load("tiny"), {}
    hooks = [
        child.register_forward_hook(lambda m, i, out, path=path: seen.__setitem__(path, out))
        for path, child in module.named_modules()
    ]
    given = tokens()
    with torch.no_grad():
        module(given)
    for hook in hooks:
        hook.remove()
    run = capture(module, given).run(given)
    for path in ("model.embed_tokens", "model.layers.2.mlp.down_proj", "model.norm", "lm_head"):
        made = [v for n, v in run.values.items() if run.graph.tensors[n].module == path and run.graph.tensors[n].producer]
        assert any(v.shape == seen[path].shape and torch.equal(v, seen[path]) for v in made), path


@each_way
def test_a_model_on_the_meta_device_gives_the_graph_of_one_with_weights(via):
    real, empty = load("tiny"), build("tiny").eval()
    given = tokens()
    assert capture(real, given, via=via).to_text() == capture(empty, given.to("meta"), via=via).to_text()
    with pytest.raises(ValueError, match="is on the meta device, which holds no values: pass weights="):
        capture(empty, given, via=via).run(given)
    weights = dict(real.named_parameters())
    with torch.no_grad():
        assert torch.equal(capture(empty, given, via=via).run(given, weights=weights).result, real(given))


@each_way
def test_roles_lines_and_modules(via):
    module = load("tiny")
    graph = capture(module, tokens(1), torch.arange(1), module.new_cache(2, 16), via=via)
    roles = {name: spec.role for name, spec in graph.tensors.items()}
    assert (
        roles["tokens"] == roles["positions"] == "input"
        and roles["cache.0.0"] == "kv_cache"
        and roles["lm_head.weight" if "lm_head.weight" in roles else "model.embed_tokens.weight"] == "weight"
    )
    writes = [op for op in graph.ops if op.writes]
    assert len(writes) == 2 and all(roles[op.outputs[0]] == "kv_cache" for op in writes)
    assert roles[graph.outputs[0]] == "output" and any(role == "constant" for role in roles.values())
    product = next(op for op in graph.ops if op.module.endswith("mlp.down_proj") and op.operator in ("mm", "bmm"))
    assert (product.module, product.module_type) == ("model.layers.0.mlp.down_proj", "Linear")
    first = inspect.getsourcelines(type(module.model.layers[0].mlp).forward)[1]
    assert (
        product.source.file.endswith("decoder.py")
        and first <= product.source.line <= first + 2
        and "down_proj" in product.source.text
    )
    # Without a cache, positions are counted in the program: what depends on them alone is a constant.
    plain = capture(module, tokens(4), via=via)
    assert all(plain.tensors[op.outputs[0]].role == "constant" for op in plain.ops if op.operator in ("cos", "sin"))


@each_way
@pytest.mark.parametrize("kind, folded, note", [
    ("plain", True, ""), ("window", False, ""), ("count", False, "depends on the number of layers"), ("skip", False, "of a layer that is not the last"),
    ("all", False, "of a layer that is not the last"),
])  # fmt: skip
def test_layers_are_held_once_only_when_they_do_the_same(kind, folded, note, via):
    torch.manual_seed(0)
    module, x = Stack(kind), torch.randn(3, 8)
    graph = capture(module, x, via=via)
    assert [r.count for r in graph.repeats] == ([6] if folded else []) and (not note or note in graph.notes[0])
    with torch.no_grad():
        assert same(graph.run(x).result, module(x))
    written = capture(module, x, via=via, repeats=False)
    assert not written.repeats and graph.count == written.count
    assert [op.target for op in graph.expand().ops] == [op.target for op in written.ops]


def test_order_through_memory_is_kept():
    module, buffer, x = Writes(), torch.randn(4, 3), torch.randn(2, 3)
    graph = capture(module, buffer, x)
    expected_buffer = buffer.clone()
    with torch.no_grad():
        expected = module(expected_buffer, x)
    for order in orders(graph):
        mine = buffer.clone()
        assert torch.equal(execute(replace(graph, ops=order), (mine, x)).result, expected) and torch.equal(mine, expected_buffer)
    # Positive control: without the order through memory some order that the tensors allow computes something else.
    blind = replace(graph, ops=tuple(replace(op, after=()) for op in graph.ops))
    results = []
    for order in orders(blind):
        mine = buffer.clone()
        results.append(torch.equal(execute(replace(blind, ops=order), (mine, x)).result, expected))
    assert len(results) > 1 and not all(results)


def orders(graph, limit: int = 200):
    """Orders of the operators that respect tensors and `after`."""
    found = []

    def go(done, left):
        if len(found) >= limit:
            return
        if not left:
            found.append(tuple(done))
            return
        ran, made = {op.name for op in done}, {n for op in done for n in op.outputs}
        for op in left:
            ready = all(n in made or not graph.tensors[n].producer for n in op.inputs) and all(a in ran for a in op.after)
            if ready:
                go([*done, op], [other for other in left if other is not op])

    go([], list(graph.ops))
    return found


class Asks(nn.Module):
    def forward(self, x):
        y = x * 2
        if y.sum() > 0:
            return y
        return -y


class Picks(nn.Module):
    def forward(self, x):
        return x[x > 0]


@each_way
@pytest.mark.parametrize("module, line", [(Asks(), "if y.sum() > 0:"), (Picks(), "x")])
def test_what_cannot_be_captured_names_its_line(module, line, via, capfd):
    with pytest.raises(CaptureError, match=r"test_capture\.py:\d+") as caught:
        capture(module, torch.randn(4), via=via)
    assert line in str(caught.value)


def test_bad_input_says_what_to_do():
    x = torch.randn(3, 8)
    with pytest.raises(ValueError, match="via = 'jit': expected one of fx, export, dynamo"):
        capture(Stack(), x, via="jit")
    with pytest.raises(ValueError, match="expected a torch.nn.Module; wrap a function in one"):
        capture(torch.relu, x)
    with pytest.raises(ValueError, match="no input 'y'; the inputs are x"):
        capture(Stack(), x, roles={"y": "input"})
    with pytest.raises(ValueError, match="only strided"):
        capture(Stack(), x.to_sparse())
    graph = capture(Stack(), x)
    with pytest.raises(
        ValueError, match=r"input x is float32\[2, 8\]; Stack was captured with float32\[3, 8\]: capture it for these sizes"
    ):
        graph.run(torch.randn(2, 8))
    with pytest.raises(ValueError, match=r"Stack takes 1 tensors \(x\); given 2"):
        graph.run(x, x)
    with pytest.raises(KeyError, match="no tensor 'tanhh'.*near it: tanh"):
        graph.run(x)["tanhh"]
    with pytest.raises(ValueError, match="role = 'wieght'"):
        graph.by_role("wieght")


def test_a_graph_travels_without_its_weights_and_capture_leaves_the_module_alone():
    module, x = Stack().train(), torch.randn(3, 8)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    graph = capture(module, x)
    again = pickle.loads(pickle.dumps(replace(graph, weights={}, output_tree=None)))
    assert again.to_text() == graph.to_text() and again.repeats[0].count == 6
    assert module.training and all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
