"""Public bug reports of transfers and views, each with its smallest input: here they give the right numbers."""

from __future__ import annotations

import pytest
import torch

import labkit.spyre  # noqa: F401 - registers the device
from labkit.spyre.formats import is_poison
from labkit.spyre.tensors.storage import memory_of
from tests.spyre.host_tensors import DTYPES, same_bits


def test_issue_1470_expanded_tensor_to_the_host():
    assert torch.ones(1, 1, dtype=torch.float16).to("spyre").expand(3, 2).cpu().tolist() == [[1, 1]] * 3
    assert torch.full((1, 1), 7.0, dtype=torch.float16).expand(3, 2).to("spyre").cpu().tolist() == [[7, 7]] * 3


def test_issue_2791_copy_into_a_select_view():
    d = torch.tensor([1.0, 2, 3, 4], dtype=torch.float16).to("spyre")
    d[2].copy_(torch.tensor(9.0))
    assert d.cpu().tolist() == [1, 2, 9, 4]
    d.select(0, 3).copy_(torch.tensor(8.0).to("spyre"))
    assert d.cpu().tolist() == [1, 2, 9, 8]


def test_issue_3236_narrow_clone_keeps_the_offset():
    x = torch.arange(9, dtype=torch.float16).view(3, 3)
    assert x.to("spyre").narrow(0, 2, 1).clone().cpu().tolist() == [[6, 7, 8]]


def test_issue_3264_narrow_at_the_edge_of_a_stick():
    x = torch.arange(2 * 128, dtype=torch.float16).view(2, 128)
    assert torch.equal(x.to("spyre").narrow(1, 64, 64).clone().cpu(), x[:, 64:])


def test_issue_2757_to_the_host_with_an_offset():
    x = torch.arange(70, dtype=torch.float16)
    for k in (1, 63, 64, 65):
        assert torch.equal(x.to("spyre")[k:].cpu(), x[k:])


def test_issues_3797_3798_a_slice_with_a_row_offset():
    x = torch.arange(400, dtype=torch.float16).view(4, 100).to("spyre").cpu()
    d = x.to("spyre")
    assert torch.equal(d[1:].cpu(), x[1:])
    assert torch.equal((d[1:] + d[:-1]).cpu(), (x[1:].float() + x[:-1].float()).half().to("spyre").cpu())


def test_issue_165_float32_rows_wider_than_32():
    x = torch.arange(4 * 33, dtype=torch.float32).view(4, 33)
    assert torch.equal((x.to("spyre") + x.to("spyre")).cpu(), 2 * x)


def test_issue_3851_index_select_of_rows_wider_than_32():
    x = torch.arange(3 * 40, dtype=torch.float16).view(3, 40)
    assert torch.equal(x.to("spyre").index_select(0, torch.tensor([2, 0]).to("spyre")).cpu(), x[[2, 0]])


def test_issue_352_a_square_is_transposed():
    x = torch.arange(65 * 65).remainder(1000).half().view(65, 65)
    d = x.to("spyre")
    assert torch.equal(d.t().contiguous().cpu(), x.t())
    assert torch.equal(x.t().to("spyre").cpu(), x.t())


def test_issue_80_a_view_is_made_contiguous():
    x = torch.arange(24, dtype=torch.float16).view(2, 3, 4)
    d = x.to("spyre")
    for view in (lambda t: t.permute(2, 0, 1), lambda t: t[:, ::2], lambda t: t.unfold(2, 2, 1), lambda t: t.diagonal(0, 1, 2)):
        got = view(d).contiguous()
        assert got.is_contiguous() and torch.equal(got.cpu(), view(x))


def test_issue_1227_broadcast_to():
    x = torch.arange(3, dtype=torch.float16).view(3, 1)
    assert torch.equal(x.to("spyre").broadcast_to(2, 3, 65).clone().cpu(), x.broadcast_to(2, 3, 65))


@pytest.mark.parametrize("width", [63, 64, 65, 127, 128, 129])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_last_stick_arrives_whatever_its_width(width, dtype):
    """Section 8.6, pattern 1 (issues 523, 524, 391)."""
    x = torch.arange(2 * width).remainder(2 if dtype == torch.bool else 7).view(2, width).to(dtype)
    d = x.to("spyre")
    assert same_bits(d.cpu(), x)
    held = memory_of(d)
    per_stick = held.layout.elems_per_stick()
    codes = held.codes.view(-1, 2, per_stick)
    live = width - (codes.shape[0] - 1) * per_stick
    assert 0 < live <= per_stick
    assert bool(is_poison(codes[-1, :, live:], held.fmt).all())
    assert bool(is_poison(codes[-1, :, :live], held.fmt).any()) is False
