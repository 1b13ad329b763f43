"""torch.compile on tensors of the device: routing, layouts as guards, mutation, several graphs, dynamic shapes."""

from types import ModuleType

import pytest
import torch

import labkit.spyre  # noqa: F401
from labkit.spyre.compile import routing
from labkit.spyre.compile.graph import compiled_graphs
from labkit.spyre.compile.routing import works_on_spyre
from labkit.spyre.layout import SpyreTensorLayout

FP16 = torch.float16


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.spyre.reset_counters()


def captured() -> int:
    return torch._dynamo.utils.counters["stats"]["calls_captured"]


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(65, 33), torch.nn.GELU(), torch.nn.LayerNorm(33)).to(FP16)


@pytest.mark.parametrize("backend", ["default", "inductor"])
def test_plain_compile_goes_to_the_simulated_stack_and_equals_eager(backend):
    on_device, x = model().to("spyre"), torch.randn(7, 65, dtype=FP16).to("spyre")
    before = len(compiled_graphs())
    compiled = torch.compile(on_device) if backend == "default" else torch.compile(on_device, backend=backend)
    with torch.no_grad():
        expected = on_device(x)
        torch.spyre.reset_counters()
        got = compiled(x)
    assert got.device.type == "spyre" and torch.equal(got, expected)
    assert len(compiled_graphs()) == before + 1 and compiled_graphs()[-1].runs == 1
    assert {"op": "compiled graph", "executor": "reference", "runs": 1} in torch.spyre.counters()


def test_a_module_with_gradients_compiles_to_an_inference_graph():
    on_device, x = model().to("spyre"), torch.randn(7, 65, dtype=FP16).to("spyre")
    assert torch.equal(torch.compile(on_device)(x), on_device(x).detach())
    assert not any("backward" in str(n.target) for n in compiled_graphs()[-1].graph_module.graph.nodes)


def test_graphs_of_other_devices_are_passed_on_as_they_are():
    inductor = ModuleType("inductor")
    inductor.compile_fx = lambda *args, **keywords: (args, keywords)
    routing._wrap(inductor)
    graph = torch.fx.symbolic_trace(lambda a: (a + 1,))
    args, keywords = inductor.compile_fx(graph, [torch.ones(3)], "more", config_patches={"x": 1})
    assert args[0] is graph and args[2] == "more" and keywords == {"config_patches": {"x": 1}}
    assert callable(inductor.compile_fx(graph, [torch.ones(3, device="spyre")]))


@pytest.mark.slow
def test_inductor_compiles_cpu_code_as_ever():
    import shutil

    if shutil.which("g++") is None:
        pytest.skip("needs a C++ compiler")
    before, x = len(compiled_graphs()), torch.randn(33)
    assert torch.allclose(torch.compile(lambda a: torch.sin(a) + 1)(x), torch.sin(x) + 1)
    assert len(compiled_graphs()) == before


def test_a_graph_that_only_makes_tensors_is_routed_by_its_device_argument():
    compiled = torch.compile(lambda n: torch.zeros(n, device="spyre") + 2)
    assert compiled(3).cpu().tolist() == [2, 2, 2]
    graph = torch.fx.symbolic_trace(lambda: torch.zeros(3, device="spyre:0"))
    assert works_on_spyre(graph, [])


def test_a_constant_of_the_device_routes_too():
    held = torch.full((3,), 5.0, device="spyre")
    assert torch.compile(lambda: held * 2)().cpu().tolist() == [10, 10, 10]


def test_another_layout_of_the_same_shape_compiles_again():
    x = torch.randn(130, 70, dtype=FP16)
    rows = x.to(device_layout=SpyreTensorLayout([130, 70], FP16))
    columns = x.to(device_layout=SpyreTensorLayout([130, 70], [70, 1], FP16, [1, 0]))
    compiled = torch.compile(lambda a: a * 2)
    counts = []
    for tensor in (rows, columns, columns, rows):
        assert torch.equal(compiled(tensor).cpu(), (x.to("spyre") * 2).cpu())
        counts.append(captured())
    assert counts == [1, 2, 2, 2]


def test_inputs_that_are_changed_in_place_are_changed():
    @torch.compile
    def step(cache, x, at):
        cache.index_copy_(0, at, x)
        cache[0].add_(1)
        return cache.sum(0)

    cache, host = torch.zeros(5, 3, device="spyre"), torch.zeros(5, 3)
    for i in range(1, 5):
        x = torch.full((1, 3), float(i))
        host.index_copy_(0, torch.tensor([i]), x)
        host[0] += 1
        assert torch.equal(step(cache, x.to("spyre"), torch.tensor([i], device="spyre")).cpu(), host.sum(0))
    assert torch.equal(cache.cpu(), host) and torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_a_view_input_and_a_view_output_alias_as_in_eager():
    base = torch.zeros(4, 6, device="spyre")

    @torch.compile
    def f(a):
        a.add_(1)
        return a.t()

    out = f(base[1:3, ::2])
    out[0, 0] = 9
    expected = torch.zeros(4, 6)
    expected[1:3, ::2] += 1
    expected[1, 0] = 9
    assert torch.equal(base.cpu(), expected)


def test_a_break_gives_two_graphs_with_eager_between():
    def f(a):
        b = a * 2
        torch._dynamo.graph_break()
        return b + 1

    before = len(compiled_graphs())
    assert torch.compile(f)(torch.ones(3, device="spyre")).cpu().tolist() == [3, 3, 3]
    assert len(compiled_graphs()) == before + 2


def test_one_dynamic_graph_serves_many_lengths():
    compiled = torch.compile(lambda a: torch.softmax(a, -1).sum(0), dynamic=True)
    for n in (3, 64, 65, 130):
        x = torch.randn(n, 7, dtype=FP16).to("spyre")
        assert torch.equal(compiled(x), torch.softmax(x, -1).sum(0))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_fake_tensors_and_export_see_the_device():
    from torch._subclasses.fake_tensor import FakeTensorMode

    x, linear = torch.randn(3, 65, dtype=FP16).to("spyre"), model()[0].to("spyre")
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
        assert (fake @ fake.t()).device.type == "spyre" and torch.empty(3, device="spyre").device.type == "spyre"
        with pytest.raises(RuntimeError, match="holds no device memory"):
            fake.device_tensor_layout()
    exported = torch.export.export(linear, (x,))
    assert torch.equal(exported.module()(x), linear(x))
