"""Whole models of other people on the device, unchanged: eager, compiled, and Dynamo kept out of the device's own code."""

import copy

import pytest
import torch

import labkit.spyre  # noqa: F401
from labkit.spyre.compile.graph import compiled_graphs

FP16 = torch.float16


def transformers_models():
    transformers = pytest.importorskip("transformers")
    common = dict(vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4)
    return {
        "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**common, num_key_value_heads=2)),
        "bert": lambda: transformers.BertModel(transformers.BertConfig(**common)),
        "gpt2": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=4)),
    }


@pytest.mark.parametrize("name", ["llama", "bert", "gpt2"])
def test_a_transformers_model_runs_unchanged_and_compiled_equals_eager(name):
    torch.manual_seed(0)
    torch._dynamo.reset()
    host = transformers_models()[name]().eval()
    on_device, tokens = copy.deepcopy(host).to(FP16).to("spyre"), torch.randint(0, 100, (2, 7))
    before = len(compiled_graphs())
    with torch.no_grad():
        expected, got = host(tokens)[0], on_device(tokens.to("spyre"))[0]
        compiled = torch.compile(on_device)(tokens.to("spyre"))[0]
    # Two layers of float16 with a ten-bit significand: a few hundred roundings of 2^-10, of values of this size.
    assert (got.cpu().float() - expected).abs().max() <= 2**-10 * 16 * expected.abs().max()
    assert torch.equal(compiled, got) and len(compiled_graphs()) > before


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_recurrent_layers_equal_the_cpus(kind):
    torch.manual_seed(0)
    host, x = kind(16, 9, num_layers=2, batch_first=True), torch.randn(2, 5, 16)
    on_device = copy.deepcopy(host).to("spyre")  # float32: the same formulas, a few roundings apart
    with torch.no_grad():
        torch.testing.assert_close(on_device(x.to("spyre"))[0].cpu(), host(x)[0], rtol=1e-5, atol=1e-6)


def test_an_encoder_layer_takes_its_slow_and_its_fast_path():
    torch.manual_seed(0)
    host, x = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval(), torch.randn(2, 5, 16)
    on_device = copy.deepcopy(host).to("spyre")
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            torch.testing.assert_close(on_device(x.to("spyre")).cpu(), host(x), rtol=1e-5, atol=1e-5)


def test_an_encoder_with_a_padding_mask_makes_no_nested_tensor():
    torch.manual_seed(0)
    host = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1, enable_nested_tensor=False
    ).eval()
    nested = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1).eval()
    nested.load_state_dict(host.state_dict())
    x, mask = torch.randn(2, 3, 8), torch.tensor([[False, False, False], [False, False, True]])
    with torch.no_grad():
        got = nested.to("spyre")(x.to("spyre"), src_key_padding_mask=mask.to("spyre")).cpu()
        torch.testing.assert_close(got[~mask], host(x, src_key_padding_mask=mask)[~mask], rtol=1e-5, atol=1e-5)


def test_random_integers_without_bounds_fit_the_devices_int32():
    drawn = torch.empty(1000, dtype=torch.int64, device="spyre").random_().cpu()
    assert 0 <= drawn.min() and drawn.max() < 2**31 and len(drawn.unique()) > 990


def test_a_value_that_the_host_cannot_hold_warns(monkeypatch):
    from labkit.spyre import caller

    monkeypatch.setattr(caller, "_said", set())
    big = torch.full((2,), 300.0, device="spyre", dtype=FP16) ** 2
    with pytest.warns(UserWarning, match="became infinite on the host") as seen:
        assert big.cpu().isinf().all() and big.cpu().isinf().all()
    with pytest.warns(UserWarning, match="an infinity became NaN") as more:
        assert torch.full((2,), float("-inf"), dtype=FP16).to("spyre").isnan().all()
    assert len(seen) == len(more) == 1 and {w.filename for w in (*seen, *more)} == {__file__}  # the user's line, once
    assert (big.to("cpu", torch.float32) - 90000).abs().max() <= 64  # half a step of 128


def test_dynamo_does_not_trace_the_devices_own_code():
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list as compiled_of

    from labkit.spyre.execution.reference import ReferenceExecutor
    from labkit.spyre.runtime import DeviceMemory

    def broken(a):
        for i in range(2):  # a break in a loop: this frame runs as it is, and Dynamo looks at what it calls
            if float(a.sum()) > 1e9:
                a = a + i
            a = torch.nn.functional.relu(a) * 2
        return a.to(torch.float32)

    torch._dynamo.reset()
    assert torch.compile(broken)(torch.ones(3, device="spyre", dtype=FP16)).cpu().tolist() == [4, 4, 4]
    for function in (DeviceMemory.allocate, ReferenceExecutor.run, torch.Tensor.to):
        assert compiled_of(function.__code__) == []


def test_parameters_that_are_one_stay_one():
    model = torch.nn.ModuleDict({"table": torch.nn.Embedding(10, 8), "head": torch.nn.Linear(8, 10, bias=False)})
    model["head"].weight = model["table"].weight
    model["again"] = model["head"]
    model.to("spyre")
    assert model["head"].weight is model["table"].weight and model["again"].weight is model["head"].weight
    assert len(list(model.parameters())) == 1 and model["head"].weight.device.type == "spyre"
    model.to("cpu")
    untied = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)).to("spyre")
    assert untied[0].weight is not untied[1].weight


def test_checkpoints_random_states_and_accelerator_queries_of_cpu_programs_work():
    from torch.utils.checkpoint import checkpoint

    for reentrant in (False, True):
        x = torch.ones(3, requires_grad=True)
        checkpoint(torch.sin, x, use_reentrant=reentrant).sum().backward()
        assert torch.equal(x.grad, torch.cos(torch.ones(3)))
    torch.manual_seed(0)
    first = torch.rand(3), torch.rand(3, device="spyre").cpu()
    torch.manual_seed(0)
    with torch.random.fork_rng():
        torch.rand(3), torch.rand(3, device="spyre")
    assert torch.equal(torch.rand(3), first[0]) and torch.equal(torch.rand(3, device="spyre").cpu(), first[1])
    held = torch.spyre.get_rng_state()
    drawn = torch.rand(3, device="spyre")
    torch.spyre.set_rng_state(held)
    assert torch.equal(torch.rand(3, device="spyre"), drawn)
    if hasattr(torch.accelerator, "memory_allocated"):
        assert torch.accelerator.memory_allocated() == torch.spyre.memory_allocated()
        torch.accelerator.empty_cache()


def test_a_compiled_graph_does_not_drop_the_gradient_of_a_cpu_tensor_silently():
    torch._dynamo.reset()
    host, device = torch.ones(2, requires_grad=True), torch.ones(2, device="spyre")
    compiled = torch.compile(lambda c, x: (c * 2, x * 2))
    with pytest.raises(Exception, match="requires a gradient; compiled code on this device gives none"):
        compiled(host, device)
    torch._dynamo.reset()
    with torch.no_grad():
        assert compiled(host, device)[1].cpu().tolist() == [2, 2]


def test_host_memory_can_be_pinned_as_with_any_accelerator():
    pinned = torch.arange(3.0).pin_memory()
    assert torch.equal(pinned, torch.arange(3.0)) and pinned.to("spyre", non_blocking=True).cpu().tolist() == [0, 1, 2]
    data = torch.utils.data.TensorDataset(torch.arange(4.0))
    loader = torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True)
    assert [batch[0].tolist() for batch in loader] == [[0, 1], [2, 3]]
