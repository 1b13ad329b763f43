"""Views of a tensor on the device share its memory: what is written through one is read through another."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit.spyre  # noqa: F401 - registers the device
from labkit.spyre.layout import SpyreTensorLayout
from labkit.spyre.layout.lanes import overlaps
from labkit.spyre.tensors.storage import memory_of
from tests.spyre.host_tensors import bits, device_tensors, plain, same_bits, view_chains


def both(size, dtype=torch.float16, start=0):
    """Small whole numbers on the CPU and on the device, exact in every format."""
    numel = torch.Size(size).numel()
    x = (torch.arange(start, start + numel) % 97).to(dtype).view(size)
    return x, x.to("spyre")


# ---- aliasing ----


@settings(max_examples=120)
@given(device_tensors(fill=plain), st.data())
def test_what_one_view_writes_every_other_view_reads(pair, data):
    d, twin = pair
    writer, reader = data.draw(view_chains(twin)), data.draw(view_chains(twin))
    if overlaps(writer(twin).shape, writer(twin).stride()) and writer(twin).numel():
        return
    on_device, on_host = reader(d), reader(twin)
    values = plain(d.dtype, max(1, writer(twin).numel()), 7)[: writer(twin).numel()].view(writer(twin).shape)
    rounded = values.to("spyre").cpu()
    writer(d).copy_(values)
    writer(twin).copy_(rounded)
    assert torch.equal(bits(on_device.cpu()), bits(on_host))
    assert torch.equal(bits(d.cpu()), bits(twin))


IN_PLACE = {
    "add_": lambda v: v.add_(1),
    "mul_": lambda v: v.mul_(2),
    "zero_": lambda v: v.zero_(),
    "fill_": lambda v: v.fill_(3),
    "clamp_": lambda v: v.clamp_(max=4),
    "relu_": lambda v: v.neg_().relu_(),
    "setitem": lambda v: v.__setitem__((..., 0), 9),
    "add_ of a view": lambda v: v.add_(v.flip(0)),
    "masked_fill_": lambda v: v.masked_fill_(v > 5, 0),
    "copy_": lambda v: v.copy_(v.flip(0)),
    "out": lambda v: torch.add(v, v, out=v),
    "data": lambda v: v.data.add_(2),
    "detach": lambda v: v.detach().add_(2),
}
VIEWS = {
    "row": lambda x: x[1],
    "column": lambda x: x[:, 65],
    "middle": lambda x: x[1:4, 60:70],
    "every third": lambda x: x[::2, 1::3],
    "transposed": lambda x: x.t(),
    "diagonal": lambda x: x.diagonal(3),
    "flat": lambda x: x.view(-1)[70:200],
    "as_strided": lambda x: x.as_strided((3, 5), (131, 7), 64),
    "element": lambda x: x[2, 64:65],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("operation", IN_PLACE)
def test_in_place_operators_change_a_view_and_nothing_else(view, operation):
    x, d = both((5, 130))
    padding = memory_of(d).codes.clone()
    IN_PLACE[operation](VIEWS[view](x))
    IN_PLACE[operation](VIEWS[view](d))
    assert torch.equal(d.cpu(), x)
    lanes = memory_of(d).codes.view(3, 5, 64)[2, :, 2:]
    assert torch.equal(lanes, padding.view(3, 5, 64)[2, :, 2:])


IN_PLACE_VIEWS = {
    "t_": lambda x: x.t_(),
    "transpose_": lambda x: x.transpose_(0, 1),
    "swapaxes_": lambda x: x.swapaxes_(0, 1),
    "unsqueeze_": lambda x: x.unsqueeze_(1),
    "squeeze_": lambda x: x.unsqueeze_(0).squeeze_(),
    "as_strided_": lambda x: x.as_strided_((2, 3), (1, 2), 4),
    "resize_ smaller": lambda x: x.resize_(2, 3),
}


@pytest.mark.parametrize("operation", IN_PLACE_VIEWS)
def test_an_in_place_view_moves_the_tensor_and_leaves_the_memory(operation):
    x, d = both((4, 70))
    other_x, other_d = x.view(-1), d.view(-1)
    codes = memory_of(d).codes.clone()
    assert IN_PLACE_VIEWS[operation](d) is d
    IN_PLACE_VIEWS[operation](x)
    assert (d.shape, d.stride(), d.storage_offset()) == (x.shape, x.stride(), x.storage_offset())
    assert torch.equal(d.cpu(), x) and torch.equal(memory_of(d).codes, codes)
    d.add_(100)
    x.add_(100)
    assert torch.equal(other_d.cpu(), other_x)


@pytest.mark.parametrize(
    ("view", "copied"),
    [
        (lambda x: x.reshape(-1), False),
        (lambda x: x.reshape(2, 2, 65), False),
        (lambda x: x.t().reshape(-1), True),
        (lambda x: x.t().reshape(130, 2), False),
        (lambda x: x[:, ::2].reshape(130), False),
        (lambda x: x[:, :64].reshape(128), True),
        (lambda x: x.expand(3, 2, 130).reshape(6, 130), True),
        (lambda x: x.flatten(), False),
        (lambda x: x.contiguous(), False),
        (lambda x: x.t().contiguous(), True),
        (lambda x: x.to("spyre" if x.device.type == "spyre" else "cpu", torch.float16), False),
        (lambda x: x.to(x.device, copy=True), True),
        (lambda x: x.float(), True),
    ],
)
def test_a_copy_is_made_only_where_torch_makes_one(view, copied):
    x, d = both((2, 130))
    got, want = view(d), view(x)
    assert (got.shape, got.stride()) == (want.shape, want.stride())
    assert (memory_of(got) is not memory_of(d)) == copied == (want.untyped_storage().data_ptr() != x.untyped_storage().data_ptr())
    assert torch.equal(got.cpu(), want)


def test_a_view_that_cannot_be_is_refused_as_on_the_host():
    x, d = both((2, 130))
    for tensor in (x, d):
        with pytest.raises(RuntimeError):
            tensor.t().view(-1)
        with pytest.raises(RuntimeError):
            tensor.view(7)
        with pytest.raises(IndexError):
            tensor.select(2, 0)
        with pytest.raises(IndexError):
            tensor[5]
        with pytest.raises(RuntimeError):
            tensor.narrow(1, 100, 31)
        with pytest.raises(RuntimeError):
            tensor.expand(3, 130)


@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [((2, 131), (130, 1), 0), ((261,), (1,), 0), ((1,), (1,), 260), ((2,), (260,), 0), ((3, 3), (0, 130), 0)],
)
def test_a_view_cannot_leave_its_storage(size, stride, offset):
    _, d = both((2, 130))
    reached = offset + sum((n - 1) * t for n, t in zip(size, stride, strict=True))
    for take in (d.as_strided, d.clone().as_strided_):
        with pytest.raises(RuntimeError, match=f"{reached} of a storage of 260"):
            take(size, stride, offset)
    assert d.as_strided((0,), (1,), 300).cpu().numel() == 0
    assert d.as_strided((1,), (7,), 259).item() == 259 % 97
    for take in (d.as_strided, d.clone().as_strided_):
        with pytest.raises(RuntimeError, match="[Nn]egative"):
            take((2,), (-1,), 1)


def test_bits_are_not_looked_at_as_another_dtype():
    _, d = both((2, 130))
    same = d.view(torch.float16)
    assert memory_of(same) is memory_of(d)
    for dtype in (torch.bfloat16, torch.int16, torch.float32, torch.uint8):
        with pytest.raises(RuntimeError, match=r"bits on the device"):
            d.view(dtype)


# ---- detach, data, autograd's idea of a view ----


def test_detach_and_data_share_memory():
    _, d = both((2, 130))
    d.requires_grad_()
    for made in (d.detach(), d.data):
        assert memory_of(made) is memory_of(d) and not made.requires_grad
        made[1, 129] = 50
        assert d[1, 129].item() == 50
        made[1, 129] = 0
    assert d[1]._base is d and d[1].is_leaf is False


def test_data_takes_another_tensor():
    _, d = both((2, 130))
    _, other = both((3, 65), start=5)
    d.data = other
    assert d.shape == (3, 65) and memory_of(d) is memory_of(other)
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        d.data = torch.ones(3)


def test_a_view_keeps_the_layout_of_its_base_alive():
    layout = SpyreTensorLayout([2, 130], [130, 1], torch.float16, [1, 0])
    x = both((2, 130))[0]
    column = x.to(device_layout=layout)[:, 100]
    assert column.device_tensor_layout() == layout
    torch.empty(2, 130, device="spyre", dtype=torch.float16)
    assert torch.equal(column.cpu(), x[:, 100])
    assert column.clone().device_tensor_layout() == SpyreTensorLayout([2], torch.float16)


# ---- set_ ----


def test_set_points_at_another_storage():
    x, d = both((2, 130))
    a = torch.empty(0, dtype=torch.float16, device="spyre")
    assert a.set_(d) is a and a.is_set_to(d) and not a.is_set_to(d[1])
    a[0, 0] = 42
    assert d[0, 0].item() == 42
    a.set_(d.untyped_storage(), 65, (2, 3), (130, 2))
    assert torch.equal(a.cpu(), x.as_strided((2, 3), (130, 2), 65))
    a.set_(d.untyped_storage())
    assert a.shape == (260,) and torch.equal(a[1:].cpu(), x.flatten()[1:])
    a.set_(d.untyped_storage(), 1, (2, 3))
    assert a.stride() == (3, 1) and torch.equal(a.cpu(), x.flatten()[1:7].view(2, 3))
    a.set_()
    assert a.shape == (0,) and memory_of(a) is not memory_of(d)
    assert d[0, 0].item() == 42


def test_set_refuses_what_is_no_storage_of_the_tensor():
    x, d = both((2, 130))
    with pytest.raises(RuntimeError, match="260 elements"):
        d.clone().set_(d.untyped_storage(), 1, (260,), (1,))
    with pytest.raises(RuntimeError, match="float16"):
        torch.empty(0, device="spyre").set_(d.untyped_storage(), 0, (3,), (1,))
    with pytest.raises(RuntimeError):
        d.clone().set_(x.untyped_storage(), 0, (3,), (1,))
    with pytest.raises(RuntimeError, match="layout"):
        torch.UntypedStorage(16, device="spyre")


# ---- resize_ ----


@pytest.mark.parametrize("size", [(2, 130), (4, 65), (3,), (3, 130), (7, 65), (0,), (2, 0, 5), ()])
@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[1], lambda x: x[:, 64:]], ids=["whole", "row", "columns"])
def test_resize_keeps_elements_at_their_offsets(size, view):
    x, d = both((2, 130))
    vx, vd = view(x), view(d)
    old = min(vx.storage_offset() + torch.Size(size).numel(), 260) - vx.storage_offset()
    assert vd.resize_(size) is vd
    vx.resize_(size)
    assert (vd.shape, vd.stride(), vd.storage_offset()) == (vx.shape, vx.stride(), vx.storage_offset())
    assert torch.equal(vd.cpu().flatten()[:old], vx.flatten()[:old])
    assert vd.cpu().flatten()[old:].isnan().all(), "what was never written is poison"
    vd.fill_(3)
    vx.fill_(3)
    assert torch.equal(d.cpu(), x), "the base sees what is written through the resized view"


def test_resize_into_a_memory_format():
    _, d = both((2, 130))
    d.resize_(2, 3, 4, 5, memory_format=torch.channels_last)
    assert d.stride() == (60, 1, 15, 3) and d.is_contiguous(memory_format=torch.channels_last)
    d.resize_(2, 3, 10, 10, memory_format=torch.channels_last)
    assert d.stride() == (300, 1, 30, 3)
    assert torch.equal(d.as_strided((260,), (1,)).cpu()[:120], both((120,))[0])


# ---- copies that Python makes ----


def saved(x):
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return torch.load(file, weights_only=not isinstance(x, torch.nn.Module))


def through_the_host(x):
    return pickle.loads(pickle.dumps(x))


@pytest.mark.parametrize("make", [copy.deepcopy, through_the_host, saved])
@pytest.mark.parametrize("view", [lambda x: x, lambda x: x.t(), lambda x: x[1:, 60:70], lambda x: x[:0], lambda x: x[1, 7]])
def test_deepcopy_pickle_and_save_keep_values_and_strides(make, view):
    x, d = both((3, 130))
    got, want = make(view(d)), view(x)
    assert got.device == d.device and got.dtype == d.dtype and memory_of(got) is not memory_of(d)
    assert same_bits(got.cpu(), want)
    dense = want if make is copy.deepcopy else torch.empty_like(want)
    assert got.stride() == dense.stride() and got.storage_offset() == (want.storage_offset() if make is copy.deepcopy else 0)
    if got.numel():
        got.fill_(1)
    assert torch.equal(d.cpu(), x)


def test_deepcopy_keeps_aliases_layouts_and_codes_that_the_host_dtype_does_not_hold():
    layout = SpyreTensorLayout([2, 130], [130, 1], torch.float16, [1, 0])
    d = both((2, 130))[0].to(device_layout=layout)
    d[0, 1] = 0
    d[0, 1].add_(60000).mul_(100)
    one, row = copy.deepcopy([d, d[0]])
    assert one.device_tensor_layout() == layout and memory_of(row) is memory_of(one)
    assert torch.equal(memory_of(one).codes, memory_of(d).codes)
    row[5] = -3
    assert one[0, 5].item() == -3 and d[0, 5].item() == 5


def test_a_module_is_copied_saved_and_loaded():
    torch.manual_seed(0)
    host = torch.nn.Sequential(torch.nn.Linear(70, 3), torch.nn.LayerNorm(3)).half()
    model = copy.deepcopy(host).to("spyre")
    twin = copy.deepcopy(model)
    assert isinstance(twin[0].weight, torch.nn.Parameter) and twin[0].weight.device.type == "spyre"
    loaded = copy.deepcopy(host)
    loaded.load_state_dict(saved(model.state_dict()))
    for name, value in model.state_dict().items():
        assert same_bits(twin.state_dict()[name].cpu(), value.cpu())
        assert same_bits(loaded.state_dict()[name], value.cpu())
        assert memory_of(twin.state_dict()[name]) is not memory_of(value)
    assert saved(model)[0].weight.device.type == "spyre"


def test_storages_are_copied_with_their_memory():
    x, d = both((2, 130))
    cloned = d.untyped_storage().clone()
    a = torch.empty(0, dtype=torch.float16, device="spyre").set_(cloned)
    d.zero_()
    assert torch.equal(a.cpu(), x.flatten())
    plain_storage = x.untyped_storage().clone()
    assert bytes(plain_storage) == bytes(x.untyped_storage())
