"""Eager operators on the device against the same operators on the CPU: values rounded once, dtypes, shapes and strides, errors."""

from __future__ import annotations

import pytest
import torch
from torch.utils import _pytree as pytree

import labkit.spyre  # noqa: F401 - registers the device
from labkit.spyre.formats import decode, round_trip
from labkit.spyre.layout import SpyreTensorLayout
from labkit.spyre.tensors.storage import memory_of
from tests.spyre.eager_calls import CALLS, GROUPS, inputs_of
from tests.spyre.host_tensors import codes_of, lanes_of, same_bits, values_of

HALVES = (torch.float16, torch.bfloat16)


def widened(x: torch.Tensor) -> torch.Tensor:
    """What the device holds of a CPU tensor, 16-bit floats exactly in float32; the same strides."""
    if not x.dtype.is_floating_point or x.dtype not in HALVES:
        return x.clone()
    held = torch.empty_like(x, dtype=torch.float32)
    return held.copy_(round_trip(x).float())


def codes(d: torch.Tensor) -> torch.Tensor:
    return memory_of(d).codes[lanes_of(d)]


def on_device(group: str, name: str, dtype: torch.dtype):
    """(inputs on the CPU, results on the device as a list)."""
    inputs = inputs_of(group, name, dtype)
    results = GROUPS[group][name][0](*[x.to("spyre") for x in inputs])
    return inputs, pytree.tree_leaves(results)


@pytest.mark.parametrize(("group", "name"), CALLS)
@pytest.mark.parametrize("dtype", [*HALVES, torch.float32], ids=str)
def test_results_are_the_float32_ones_rounded_once(group, name, dtype):
    inputs, got = on_device(group, name, dtype)
    want = pytree.tree_leaves(GROUPS[group][name][0](*[widened(x) for x in inputs]))
    assert len(got) == len(want)
    for mine, theirs in zip(got, want, strict=True):
        assert mine.device.type == "spyre" and mine.shape == theirs.shape
        if not theirs.dtype.is_floating_point:
            assert mine.dtype == theirs.dtype
        wanted = codes_of(theirs, mine.dtype)
        nan = (
            decode(wanted, memory_of(mine).fmt).isnan()
            if mine.dtype.is_floating_point
            else torch.zeros(mine.shape, dtype=torch.bool)
        )
        assert torch.equal(codes(mine)[~nan], wanted[~nan])
        if mine.dtype.is_floating_point:
            assert torch.equal(values_of(mine).isnan(), nan)


@pytest.mark.parametrize(("group", "name"), CALLS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_dtypes_shapes_and_strides_are_those_of_the_cpu(group, name, dtype):
    inputs, got = on_device(group, name, dtype)
    want = pytree.tree_leaves(GROUPS[group][name][0](*[x.clone() for x in inputs]))
    for mine, theirs in zip(got, want, strict=True):
        assert (mine.dtype, mine.shape, mine.stride()) == (theirs.dtype, theirs.shape, theirs.stride())


# ---- one rounding, and no rounding on the way ----


def half(values, **kwargs) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float16, **kwargs).to("spyre")


def test_results_beyond_the_range_of_ieee_half_are_kept():
    d = half([60000.0, -60000.0]) * 4
    assert d.to("cpu", torch.float32).tolist() == [240128.0, -240128.0]
    assert (d / 4).cpu().tolist() == [60032.0, -60032.0]
    assert d.cpu().tolist() == [float("inf"), float("-inf")]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.sum(0, dtype=torch.float16),
        lambda x: torch.cumsum(x, 0, dtype=torch.float16)[-1],
        lambda x: x.mean(0, dtype=torch.float16) * 3,
        lambda x: torch.linalg.vector_norm(x, dim=0, ord=1, dtype=torch.float16),
    ],
)
def test_a_16_bit_dtype_argument_does_not_narrow_the_computation(call):
    """Computed in IEEE half, 40000 + 40000 is infinite."""
    x = torch.tensor([[40000.0], [40000.0], [1.0]])
    got = call(x.half().to("spyre"))
    assert got.dtype == torch.float16
    assert got.to("cpu", torch.float32).item() == pytest.approx(80001, abs=256)


def test_a_result_is_rounded_once():
    """1 + 2^-10 + 2^-12 in float32; through IEEE half it would be a tie, and go down to 1."""
    a, b = torch.tensor([1 + 2.0**-10]), torch.tensor([2.0**-12])
    d = torch.empty(1, dtype=torch.float16, device="spyre")
    torch.add(a.to("spyre"), b.to("spyre"), out=d)
    assert d.item() == 1 + 2.0**-9
    assert (a + b).to("spyre", torch.float16).item() == 1 + 2.0**-9
    assert (a + b).half().to("spyre").item() == 1


# ---- in-place, out=, several outputs ----


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: x.add_(y),
        lambda x, y: x.sub_(y, alpha=0.5),
        lambda x, y: x.relu_(),
        lambda x, y: x.index_add_(0, torch.tensor([2, 0], device=x.device), y[:2]),
        lambda x, y: x.scatter_(1, torch.zeros(3, 1, dtype=torch.int64, device=x.device), y),
        lambda x, y: x.masked_fill_(y > 0, 0.25),
        lambda x, y: x.clamp_(-1, 1),
        lambda x, y: x.t().addmm_(y.t(), y[:, :3]),
        lambda x, y: x.lerp_(y, 0.5),
        lambda x, y: x.exp_(),
        lambda x, y: x.zero_(),
        lambda x, y: x.index_put_((torch.tensor([0, 2], device=x.device),), y[:2]),
        lambda x, y: x.addcmul_(y, y),
    ],
)
def test_in_place_operators_write_and_return_their_tensor(call):
    x, y = inputs_of("binary", "add", torch.float16)
    d, wide = x.to("spyre"), widened(x)
    held = memory_of(d)
    got = call(d, y.to("spyre"))
    assert got is d or torch.equal(got.cpu(), d.t().cpu())
    assert memory_of(d) is held and memory_of(got) is held
    call(wide, widened(y))
    assert torch.equal(codes(d), codes_of(wide, torch.float16))


@pytest.mark.parametrize("layout", ["default", "sticks along dim 0", "sparse"])
def test_out_keeps_its_memory_and_layout(layout):
    x, y = inputs_of("binary", "add", torch.float16)
    order = {"default": [0, 1], "sticks along dim 0": [1, 0], "sparse": [0, 1, -1]}[layout]
    chosen = SpyreTensorLayout([3, 70], [70, 1], torch.float16, order)
    out = torch.spyre.empty(3, 70, dtype=torch.float16, device_layout=chosen)
    held = memory_of(out)
    assert torch.mul(x.to("spyre"), y.to("spyre"), out=out) is out
    assert memory_of(out) is held and out.device_tensor_layout() == chosen
    assert torch.equal(codes(out), codes_of(widened(x) * widened(y), torch.float16))


def test_out_of_another_shape_is_resized_and_of_a_lesser_dtype_refused():
    x = half([1.5, 2, 3])
    out = torch.empty(0, dtype=torch.float16, device="spyre")
    torch.add(x, x, out=out)
    assert out.cpu().tolist() == [3, 4, 6]
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.add(x, x, out=torch.empty(3, dtype=torch.int32, device="spyre"))
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.tensor([1, 2, 3], device="spyre").mul_(0.5)
    values, places = torch.empty(0, dtype=torch.float16, device="spyre"), torch.empty(0, dtype=torch.int64, device="spyre")
    torch.max(x.view(1, 3), 1, out=(values, places))
    assert (values.item(), places.item()) == (3, 2)


def test_results_that_are_no_tensors():
    x = half([[1.0, 2], [3, 4]])
    assert x.sum().item() == 10.0 and isinstance(x.sum().item(), float)
    assert (x > 3).sum().item() == 1 and isinstance((x > 3).sum().item(), int)
    assert bool((x == 4).any()) is True and bool((x > 0).all()) is True
    assert torch.equal(x, x.clone()) is True and torch.equal(x, x + 1) is False and torch.equal(x, x[:1]) is False
    assert torch.allclose(x, x + 1e-6) is True
    assert x.tolist() == [[1, 2], [3, 4]] and float(x[0, 1]) == 2 and int(x[1, 0]) == 3 and x[1, 1].item() in (4,)
    assert torch.is_nonzero(x[0, 0]) and not torch.is_nonzero(x[0, 0] - 1)
    with pytest.raises(RuntimeError):
        x.item()


def test_shapes_that_depend_on_values():
    x = half([[0.0, 2, 0], [3, 0, 4]])
    found = torch.nonzero(x)
    assert found.dtype == torch.int64 and found.cpu().tolist() == [[0, 1], [1, 0], [1, 2]]
    assert x[x > 1].cpu().tolist() == [2, 3, 4] and x[x > 1].dtype == torch.float16
    assert torch.masked_select(x, x > 9).shape == (0,)
    assert [t.cpu().tolist() for t in torch.where(x > 2)] == [[1, 1], [0, 2]]
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    assert values.cpu().tolist() == [0, 2, 3, 4] and values.dtype == torch.float16
    assert inverse.cpu().tolist() == [[0, 1, 0], [2, 0, 3]] and counts.cpu().tolist() == [3, 1, 1, 1]
    assert torch.repeat_interleave(half([1.0, 2]), torch.tensor([0, 3], device="spyre")).cpu().tolist() == [2, 2, 2]


# ---- creation and random ----


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.float32, torch.int32, torch.int64, torch.bool, torch.uint8, torch.int8], ids=str
)
def test_creation(dtype):
    kwargs = {"dtype": dtype, "device": "spyre"}
    for made, want in (
        (torch.zeros(3, 70, **kwargs), torch.zeros(3, 70, dtype=dtype)),
        (torch.ones(65, **kwargs), torch.ones(65, dtype=dtype)),
        (torch.full((2, 3), 1, **kwargs), torch.full((2, 3), 1, dtype=dtype)),
        (torch.tensor([[0, 1]], **kwargs), torch.tensor([[0, 1]], dtype=dtype)),
        (torch.eye(5, **kwargs), torch.eye(5, dtype=dtype)),
    ):
        assert made.stride() == want.stride() and same_bits(made.cpu(), want)
    if dtype != torch.bool:
        assert same_bits(torch.arange(0, 70, 3, **kwargs).cpu(), torch.arange(0, 70, 3, dtype=dtype))
    assert torch.empty(3, **kwargs).cpu().dtype == dtype, "memory that was never written can be read"


def test_fresh_memory_is_poison():
    assert torch.empty(70, dtype=torch.float16, device="spyre").cpu().isnan().all()
    assert torch.empty(70, dtype=torch.int32, device="spyre").cpu().eq(0x5A5A5A5A).all()


def test_random_numbers_repeat_after_a_seed_and_stay_in_range():
    def draw():
        torch.manual_seed(3)
        return [
            torch.rand(4000, dtype=torch.float16, device="spyre"),
            torch.randn(100, device="spyre"),
            torch.randint(2, 9, (1000,), device="spyre"),
            torch.randperm(70, device="spyre"),
            torch.empty(1000, dtype=torch.float16, device="spyre").bernoulli_(0.25),
            torch.nn.functional.dropout(torch.ones(1000, device="spyre"), 0.5),
            torch.rand_like(torch.ones(7, device="spyre")),
        ]

    first, second = draw(), draw()
    for one, two in zip(first, second, strict=True):
        assert one.device.type == "spyre" and same_bits(one.cpu(), two.cpu())
    uniform, normal, integers, order, bernoulli, dropped, _ = (t.cpu() for t in first)
    assert uniform.min() >= 0 and uniform.max() < 1, "a number just below 1 is not rounded up to it"
    assert len(uniform.unique()) > 500 and abs(normal.mean()) < 0.5
    assert integers.min() == 2 and integers.max() == 8
    assert order.sort().values.tolist() == list(range(70)) and order.tolist() != list(range(70))
    assert set(bernoulli.tolist()) == {0.0, 1.0} and 150 < bernoulli.sum() < 350
    assert set(dropped.tolist()) == {0.0, 2.0}


def test_the_card_has_its_own_random_numbers():
    torch.manual_seed(3)
    alone = torch.rand(3)
    torch.manual_seed(3)
    torch.rand(100, device="spyre")
    assert torch.equal(torch.rand(3), alone), "a draw on the device does not move the CPU's generator"


# ---- what is refused ----


@pytest.mark.parametrize(
    "call",
    [
        lambda big: big + big,
        lambda big: big * 2,
        lambda big: big.sum(),
        lambda big: big.add_(1),
        lambda big: torch.full((2,), 2**31, device="spyre"),
        lambda big: torch.arange(2**31, 2**31 + 2, device="spyre"),
        lambda big: big.fill_(-(2**31) - 1),
    ],
)
def test_int64_results_beyond_int32_raise(call):
    big = torch.tensor([2**31 - 1, 2**31 - 1], device="spyre")
    with pytest.raises(ValueError, match=r"2147483647"):
        call(big)
    assert big.cpu().tolist() == [2**31 - 1] * 2
    assert (big - 1).cpu().tolist() == [2**31 - 2] * 2, "an error leaves the device usable"


@pytest.mark.parametrize(
    "call",
    [
        lambda d, x: d + x,
        lambda d, x: x + d,
        lambda d, x: d @ x.t(),
        lambda d, x: torch.cat([d, x]),
        lambda d, x: torch.where(x > 0, d, d),
        lambda d, x: d.add_(x),
        lambda d, x: x.add_(d),
        lambda d, x: x + d[0, 0],
        lambda d, x: torch.add(d, d, out=x),
        lambda d, x: torch.add(x, x, out=d),
        lambda d, x: d.index_select(0, torch.tensor([0])),
        lambda d, x: torch.nn.functional.embedding(torch.tensor([0]), d),
        lambda d, x: x[torch.tensor([0], device="spyre")],
        lambda d, x: d.index_put_((torch.tensor([0, 1]),), x[:2]),
        lambda d, x: torch.nn.functional.linear(d, x),
        lambda d, x: torch.equal(d, x),
    ],
)
def test_tensors_of_two_devices_are_refused(call):
    x = torch.ones(3, 70)
    d = x.to("spyre")
    with pytest.raises((RuntimeError, ValueError), match="(?i)device"):
        call(d, x)
    assert x.eq(1).all() and d.cpu().eq(1).all()


def test_what_pytorch_allows_of_the_cpu_is_allowed():
    d = torch.arange(6.0).view(3, 2).to("spyre")
    assert (d + torch.tensor(2.0)).cpu().tolist() == [[2, 3], [4, 5], [6, 7]]
    assert d[torch.tensor([2, 0])].cpu().tolist() == [[4, 5], [0, 1]]
    d[torch.tensor([True, False, True])] = torch.tensor(9.0)
    assert d.cpu().tolist() == [[9, 9], [2, 3], [9, 9]]
    d[1] = torch.tensor([7.0, 8.0])
    assert d[1].cpu().tolist() == [7, 8]


def test_errors_of_arguments_are_pytorchs_own():
    d = torch.ones(3, 70, device="spyre")
    with pytest.raises(RuntimeError, match="size of tensor a"):
        d + torch.ones(3, 71, device="spyre")
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        d @ d
    with pytest.raises(IndexError):
        d.sum(2)
    with pytest.raises(IndexError):
        d[torch.tensor([3])]
    assert d.sum().item() == 210


@pytest.mark.parametrize("size", [(1,) * 7, (2, 1, 2, 1, 2, 1, 2)])
def test_seven_dimensions_are_refused(size):
    with pytest.raises(RuntimeError, match="at most 6"):
        torch.ones(size).to("spyre")
    with pytest.raises(RuntimeError, match="at most 6"):
        torch.zeros(size, device="spyre")


# ---- spans, counters, autograd ----


def test_a_tensor_beyond_the_span_of_one_core(monkeypatch):
    """Issues 983, 1757, 3415. A sparse layout takes a stick per element, so few elements reach 268,435,456 bytes."""
    rows = 2_097_154
    layout = SpyreTensorLayout([rows], [1], torch.float16, [0, -1])
    assert layout.size_in_bytes > 268_435_456
    d = torch.spyre.empty(rows, dtype=torch.float16, device_layout=layout)
    monkeypatch.setenv("SENCORES", "1")
    with pytest.raises(RuntimeError, match="268,435,456"):
        d.fill_(1)
    monkeypatch.setenv("SENCORES", "2")
    assert d.fill_(1) is d
    assert d[rows - 1].item() == 1


def test_counters_name_operator_and_executor():
    torch.spyre.reset_counters()
    d = torch.ones(3, device="spyre", dtype=torch.float16)
    torch.spyre.reset_counters()
    for _ in range(3):
        d = d + 1
    d.relu()
    d[1:].view(-1).cpu()
    assert torch.spyre.counters() == [
        {"op": "aten.add.Tensor", "executor": "reference", "runs": 3},
        {"op": "aten.relu.default", "executor": "reference", "runs": 1},
    ]


@pytest.fixture
def autograd():
    torch.spyre.set_autograd(True)
    yield
    torch.spyre.set_autograd(False)


def loss_of(x, w, b):
    hidden = torch.nn.functional.gelu(x @ w + b)
    return (torch.softmax(hidden, -1) * hidden[:, 1:2]).sum()


def test_a_backward_pass_is_refused_and_says_what_to_do():
    w = torch.ones(3, 3, device="spyre", requires_grad=True)
    loss = (w * 2).sum()
    with pytest.raises(RuntimeError, match="set_autograd"):
        loss.backward()
    assert w.grad is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_gradients_are_those_of_the_cpu(autograd, dtype):
    host = [x.to(dtype) / 3 for x in (inputs_of("matrix", "addmm", torch.float32)[i] for i in (1, 2, 0))]
    reference = [widened(x).requires_grad_() for x in host]
    loss_of(*reference).backward()
    device = [x.to("spyre").requires_grad_() for x in host]
    loss_of(*device).backward()
    step = 2.0**-6 if dtype == torch.float16 else 1e-6
    for mine, theirs in zip(device, reference, strict=True):
        assert mine.grad.device.type == "spyre" and mine.grad.dtype == dtype
        scale = theirs.grad.abs().max().item()
        assert scale > 0.01
        assert (mine.grad.cpu().float() - theirs.grad).abs().max().item() <= step * scale
