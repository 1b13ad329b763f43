"""Lanes against two references that share nothing with them: the coordinates by the documentation's rule, and a loop over device memory."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from labkit.spyre.formats import DataFormats
from labkit.spyre.layout import SpyreTensorLayout, gather, lane_of, lanes, live_lanes, scatter, sticks_of
from labkit.spyre.layout.strided_pieces import pieces_of

F16 = torch.float16
DL16 = DataFormats.SEN169_FP16
EMPTY = -7
"""What lanes hold before a test writes: no code that a test writes."""

EXPLICIT = [
    ([60], [1], [1, 64], [64, 1]),
    ([120], [1], [2, 64], [64, 1]),
    ([60], [1], [1, 2, 64], [64, 30, 1]),
    ([60], [1], [2, 1, 2, 64], [15, 64, 30, 1]),
    ([60], [1], [2, 2, 1, 1, 64], [30, 15, 64, 60, 1]),
    ([60], [1], [1, 1, 64], [64, 60, 1]),
    ([60], [1], [1, 1, 1, 1, 1, 64], [60, 60, 60, 64, 60, 1]),
    ([60], [1], [1, 60, 64], [64, 1, 1]),
    ([60], [1], [1, 1, 1, 1, 60, 64], [1, 1, 1, 64, 1, 1]),
    ([60], [1], [1, 512, 64], [64, 0, 1]),
    ([40, 60], [60, 1], [38, 64], [64, 1]),
    ([40, 60], [60, 1], [1, 60, 64], [3840, 1, 60]),
    ([40, 60], [60, 1], [1, 512, 64], [3840, 1, 60]),
    ([40, 60], [60, 1], [1, 512, 64], [64, 60, 1]),
    ([40, 240], [240, 1], [4, 512, 64], [64, 240, 1]),
    ([40, 60], [60, 1], [24, 1, 2, 64], [60, 64, 1440, 1]),
    ([40, 60], [60, 1], [2, 6, 2, 1, 2, 64], [720, 120, 60, 64, 1200, 1]),
    ([40, 60], [60, 1], [3, 4, 3, 1, 2, 64], [600, 180, 60, 64, 1800, 1]),
    ([40, 60], [1, 40], [1, 40, 64], [2560, 1, 40]),
    ([40, 60], [1, 40], [1, 60, 64], [64, 40, 1]),
    ([4800], [1], [3, 2, 14, 64], [120, 64, 360, 1]),
]
"""The explicit layouts of the public project's tests: host size and stride, device size, stride map."""


def offsets_of(size, stride, start=0) -> torch.Tensor:
    made = torch.full([1] * len(size), start, dtype=torch.int64)
    for dim, (n, t) in enumerate(zip(size, stride, strict=True)):
        made = made + (torch.arange(n) * t).view([-1 if d == dim else 1 for d in range(len(size))])
    return made.expand(tuple(size)).contiguous()


def lanes_by_the_rule(size, order, per_stick):
    """Lane of every host index as the documentation says it: the stick's dim to (c // E, c % E), the others as they are."""
    sparse = bool(order) and order[-1] == -1
    if not size:
        return {(): 0}
    along = order[-1]
    count = {dim: n for dim, n in enumerate(size)} | {-1: 1} | ({} if sparse else {along: -(-size[along] // per_stick)})
    outside = [*order[1:], order[0]]
    made = {}
    for index in itertools.product(*map(range, size)):
        at = dict(enumerate(index)) | {-1: 0} | ({} if sparse else {along: index[along] // per_stick})
        lane = 0
        for dim in outside:
            lane = lane * count[dim] + at[dim]
        made[index] = lane * per_stick + (0 if sparse else index[along] % per_stick)
    return made


def coordinates_of_lanes(layout):
    """Every device coordinate with its lane, in a loop."""
    per_stick = layout.elems_per_stick()
    for place, outer in enumerate(itertools.product(*map(range, layout.device_size[:-1]))):
        for slot in range(layout.device_size[-1]):
            yield (*outer, slot), place * per_stick + slot


@st.composite
def host_tensors(draw, most=3000):
    """Size, stride, order, dtype: dims in any order in memory, gaps between them, sizes around the edge of a stick."""
    size = draw(st.lists(st.sampled_from([0, 1, 1, 2, 3, 4, 5, 31, 32, 63, 64, 65, 66, 129, 130]), max_size=6))
    assume(math.prod(n for n in size if n) <= most)
    stride, reach = [0] * len(size), 1
    for dim in draw(st.permutations(range(len(size)))):
        stride[dim] = reach
        reach = (reach * max(1, size[dim])) + draw(st.sampled_from([0, 0, 0, 0, 1, 7]))
    order = list(draw(st.permutations(range(len(size)))))
    if draw(st.booleans()):
        order.append(-1)
    return size, stride, order, draw(st.sampled_from([F16, torch.float32, torch.float8_e4m3fn, torch.bool]))


@st.composite
def views(draw, size, stride):
    """A chain of views of a host tensor, made by torch itself: its size, stride and storage offset."""
    reach = sum(max(0, n - 1) * t for n, t in zip(size, stride, strict=True)) + 1
    x = torch.empty(reach, device="meta").as_strided(size, stride)
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["select", "slice", "permute", "flatten", "split", "unsqueeze", "expand", "unfold"]))
        dim = draw(st.integers(0, x.dim() - 1)) if x.dim() else 0
        if kind == "select" and x.dim() and x.size(dim):
            x = x.select(dim, draw(st.integers(0, x.size(dim) - 1)))
        elif kind == "slice" and x.dim():
            first = draw(st.integers(0, x.size(dim)))
            last = draw(st.integers(first, x.size(dim)))
            x = x[(slice(None),) * dim + (slice(first, last, draw(st.integers(1, 3))),)]
        elif kind == "permute":
            x = x.permute(draw(st.permutations(range(x.dim()))))
        elif kind == "flatten" and x.is_contiguous():
            x = x.view(-1)
        elif kind == "split" and x.dim() and x.size(dim) and x.size(dim) % 5 == 0:
            x = x.unflatten(dim, (5, -1))
        elif kind == "unsqueeze":
            x = x.unsqueeze(dim)
        elif kind == "unfold" and x.dim() and x.size(dim) >= 6:
            x = x.unfold(dim, 6, draw(st.sampled_from([1, 2, 4, 6, 8])))
        elif kind == "expand" and x.dim() and x.size(dim) == 1:
            x = x.expand([3 if d == dim else -1 for d in range(x.dim())])
    return list(x.size()), list(x.stride()), x.storage_offset()


@settings(max_examples=200)
@given(host_tensors())
def test_lanes_are_where_the_documentation_puts_them(host):
    size, stride, order, dtype = host
    layout = SpyreTensorLayout(size, stride, dtype, order)
    expected = lanes_by_the_rule(size, order, layout.elems_per_stick())
    offsets = offsets_of(size, stride)
    found = lane_of(layout, offsets)
    assert {index: int(found[index]) for index in expected} == expected
    assert len(set(expected.values())) == offsets.numel(), "the reference itself puts two elements into one lane"
    mask = live_lanes(layout, size, stride)
    assert mask.nonzero().flatten().tolist() == sorted(expected.values())


@settings(max_examples=300)
@given(st.data())
def test_a_view_is_read_and_written_and_nothing_else(data):
    size, stride, order, dtype = data.draw(host_tensors())
    view, steps, start = data.draw(views(size, stride))
    layout = SpyreTensorLayout(size, stride, dtype, order)
    expected = lanes_by_the_rule(size, order, layout.elems_per_stick())
    by_offset = {sum(i * t for i, t in zip(index, stride, strict=True)): lane for index, lane in expected.items()}
    offsets = offsets_of(view, steps, start)
    wanted = torch.tensor([by_offset[one] for one in offsets.flatten().tolist()], dtype=torch.int64).view(view)
    memory = torch.arange(layout.lanes, dtype=torch.int32)
    for fast in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not fast:
                patch.setattr(lanes, "pieces_of", lambda *_: None)
            assert torch.equal(gather(layout, memory, view, steps, start), wanted.to(torch.int32))
            assert sticks_of(layout, view, steps, start).tolist() == sorted(
                set((wanted // layout.elems_per_stick()).flatten().tolist())
            )
            device = torch.full((layout.lanes,), EMPTY, dtype=torch.int16)
            codes = torch.arange(offsets.numel(), dtype=torch.int16).view(view)
            if len(set(offsets.flatten().tolist())) < offsets.numel():
                with pytest.raises(ValueError, match="several elements in one place"):
                    scatter(layout, device, view, steps, start, codes)
                assert (device == EMPTY).all()
                continue
            scatter(layout, device, view, steps, start, codes)
            assert torch.equal(gather(layout, device, view, steps, start), codes)
            others = torch.ones(layout.lanes, dtype=torch.bool)
            others[wanted.flatten()] = False
            assert (device[others] == EMPTY).all()
            assert (device[~others] != EMPTY).all()


@settings(max_examples=200)
@given(st.data())
def test_any_layout_against_a_loop_over_device_memory(data):
    """Explicit layouts that no rule made: dims cut, repeated, replicated, longer than needed."""
    rank = data.draw(st.integers(0, 3))
    outer = data.draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    strides = data.draw(st.lists(st.sampled_from([-1, 0, 1, 2, 3, 4, 6, 8, 12, 24, 32, 48, 64]), min_size=rank, max_size=rank))
    last, along = data.draw(st.integers(1, 32)), data.draw(st.sampled_from([-1, 1, 2, 4, 5]))
    layout = SpyreTensorLayout([*outer, last], [*strides, along], DataFormats.IEEE_FP32)
    places: dict[int, list[int]] = {}
    for at, lane in coordinates_of_lanes(layout):
        if all(t != -1 or c == 0 for t, c in zip(layout.stride_map, at, strict=True)):
            offset = sum(max(0, t) * c for t, c in zip(layout.stride_map, at, strict=True))
            places.setdefault(offset, []).append(lane)
    used = {}
    for offset in range(max(places) + 3):
        if offset not in places:
            with pytest.raises(ValueError, match=f"host offset {offset} has no lane"):
                lane_of(layout, torch.tensor([offset]))
            continue
        try:
            used[offset] = int(lane_of(layout, torch.tensor([offset])))
        except ValueError:
            continue  # reached by no greedy digits: refused, which is safe
        assert used[offset] in places[offset]
        memory = torch.full((layout.lanes,), EMPTY)
        scatter(layout, memory, [], [], offset, torch.tensor(5))
        copies = (memory == 5).nonzero().flatten().tolist()
        assert used[offset] == copies[0] and set(copies) <= set(places[offset]) and (memory != EMPTY).sum() == len(copies)
        repeated = math.prod(n for n, t in zip(layout.device_size, layout.stride_map, strict=True) if t == 0)
        assert len(copies) == repeated
        assert sticks_of(layout, [], [], offset, writing=True).tolist() == sorted({lane // 32 for lane in copies})
    assert len(set(used.values())) == len(used)
    assert 0 in used


@pytest.mark.parametrize("size, stride, device_size, stride_map", EXPLICIT)
def test_explicit_layouts_of_the_public_tests_hold_every_element(size, stride, device_size, stride_map):
    layout = SpyreTensorLayout(device_size, stride_map, DL16)
    offsets = offsets_of(size, stride)
    codes = (offsets * 31 + 5).to(torch.int32)
    places: dict[int, set[int]] = {}
    for at, lane in coordinates_of_lanes(layout):
        places.setdefault(sum(max(0, t) * c for t, c in zip(stride_map, at, strict=True)), set()).add(lane)
    found = lane_of(layout, offsets)
    assert found.unique().numel() == offsets.numel()
    assert all(lane in places[offset] for offset, lane in zip(offsets.flatten().tolist(), found.flatten().tolist(), strict=True))
    memory = torch.full((layout.lanes,), EMPTY, dtype=torch.int32)
    scatter(layout, memory, size, stride, 0, codes)
    assert torch.equal(gather(layout, memory, size, stride), codes)
    copies = math.prod(n for n, t in zip(device_size, stride_map, strict=True) if t == 0)
    assert (memory != EMPTY).sum() == offsets.numel() * copies
    assert torch.equal(memory != EMPTY, live_lanes(layout, size, stride))
    part = torch.empty(offsets.numel(), device="meta").as_strided(size, stride)[..., 3:58:2]
    assert torch.equal(gather(layout, memory, part.size(), part.stride(), part.storage_offset()), codes[..., 3:58:2])


def test_padding_would_read_the_next_row():
    """Worked example b': lane 8 of a row's last stick stands for host offset 200 r + 200, the next row's first element."""
    layout = SpyreTensorLayout([1000, 200], F16)
    r = 17
    assert lane_of(layout, torch.tensor(200 * r + 193)) == (3 * 1000 + r) * 64 + 1
    leaked = sum(c * t for c, t in zip((3, r, 8), layout.stride_map, strict=True))
    assert leaked == 200 * (r + 1)
    assert lane_of(layout, torch.tensor(leaked)) == (0 * 1000 + r + 1) * 64
    mask = live_lanes(layout, [1000, 200])
    assert not mask[(3 * 1000 + r) * 64 + 8] and mask[(3 * 1000 + r) * 64 + 7] and mask.sum() == 200_000


def test_stick_count_of_a_transfer():
    layout = SpyreTensorLayout([1000, 200], F16)
    assert sticks_of(layout, [1000, 200], [200, 1]).tolist() == list(range(4000))
    assert sticks_of(layout, [200], [1], 3400).tolist() == [17, 1017, 2017, 3017]
    assert sticks_of(layout, [1000], [200], 64).tolist() == list(range(1000, 2000))
    assert sticks_of(layout, [0, 200], [200, 1]).tolist() == []
    sparse = SpyreTensorLayout([6], [1], F16, [0, -1])
    assert sticks_of(sparse, [6], [1]).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "device, view, blocks",
    [
        (([1000, 200],), ([1000, 200], [200, 1], 0), 2),
        (([1000, 256],), ([1000, 256], [256, 1], 0), 1),
        (([1000, 200],), ([200], [1], 3400), 2),
        (([1000, 200],), ([200, 1000], [1, 200], 0), 2),
        (([1000, 200],), ([1000, 100], [200, 2], 0), 2),
        (([1000, 200],), ([1000, 30], [200, 1], 50), 2),
        (([50, 10, 200],), ([500, 200], [200, 1], 0), 2),
        (([5, 100, 150], [15000, 150, 1], F16, [1, 0, 2]), ([5, 100, 150], [15000, 150, 1], 0), 2),
        (([512, 256], [256, 1], F16, [0, 1, -1]), ([512, 256], [256, 1], 0), 1),
        (([4096, 4096],), ([3, 7, 128], [4096, 0, 1], 8192), 1),
        (([40, 60],), ([40, 60], [60, 1], 0), 1),
        (([40, 60], [60, 1], F16, [1, 0]), ([40, 60], [60, 1], 0), 1),
        (([100, 60], [60, 1], F16, [1, 0]), ([100, 60], [60, 1], 0), 2),
    ],
)
def test_common_views_are_a_few_blocks(device, view, blocks):
    """So that they cost no index; what the blocks hold is tested above against the index."""
    layout = SpyreTensorLayout(*device, *([F16] if len(device) == 1 else []))
    size, stride, start = view
    pieces = pieces_of(layout, tuple(size), tuple(stride), start)
    assert pieces is not None and len(pieces) == blocks


def test_codes_are_broadcast_and_moved_bit_by_bit_in_any_dtype():
    layout = SpyreTensorLayout([3, 70], F16)
    for dtype in (
        torch.uint8,
        torch.int16,
        torch.uint16,
        torch.uint32,
        torch.float32,
        torch.float16,
        torch.bool,
        torch.float8_e4m3fn,
    ):
        for view in (([3, 70], [70, 1], 0), ([50], [4], 3), ([33, 2], [3, 2], 5)):
            memory = torch.zeros(layout.lanes, dtype=torch.int32).to(dtype)
            scatter(layout, memory, *view, torch.ones((), dtype=torch.int32).to(dtype))
            assert gather(layout, memory, *view).dtype is dtype
            assert (gather(layout, memory, *view).to(torch.float32) == 1).all()
            assert int((memory.to(torch.float32) != 0).sum()) == math.prod(view[0])


def test_of_two_dims_with_one_host_stride_the_stick_fills_first():
    layout = SpyreTensorLayout([1, 60, 64], [64, 1, 1], DL16)
    assert lane_of(layout, torch.arange(60)).tolist() == list(range(60))
    # Offset 63 is the stick's last; 64 is 63 and one row on.
    assert lane_of(layout, torch.tensor([63, 64])).tolist() == [63, 64 + 63]


def test_memory_and_codes_inside_a_larger_storage():
    layout = SpyreTensorLayout([3, 70], F16)
    whole = torch.full((layout.lanes + 20,), EMPTY)
    memory = whole[10 : 10 + layout.lanes]
    scatter(layout, memory, [3, 70], [70, 1], 0, torch.arange(1000)[17:227].view(3, 70))
    assert torch.equal(gather(layout, memory, [70, 3], [1, 70]), torch.arange(17, 227).view(3, 70).T)
    assert (whole[:10] == EMPTY).all() and (whole[-10:] == EMPTY).all()


def test_an_empty_layout_and_an_empty_view():
    layout = SpyreTensorLayout([0, 5], F16)
    memory = torch.empty(0, dtype=torch.int16)
    assert gather(layout, memory, [0, 5], [5, 1]).shape == (0, 5)
    scatter(layout, memory, [0, 5], [5, 1], 0, torch.empty(0, 5, dtype=torch.int16))
    assert live_lanes(layout, [0, 5]).numel() == 0 and lane_of(layout, torch.empty(0, 2, dtype=torch.int64)).shape == (0, 2)
    with pytest.raises(ValueError, match="host offset 0 has no lane"):
        lane_of(layout, torch.tensor([0]))
    with pytest.raises(ValueError, match="host offset 0 has no lane"):
        gather(layout, memory, [1], [1])


def test_an_expanded_tensor_keeps_one_copy_of_its_elements():
    size, stride = [3, 5], [0, 1]
    layout = SpyreTensorLayout(size, stride, F16, [0, 1])
    assert layout.stride_map == [64, 0, 1]
    memory = torch.full((layout.lanes,), EMPTY)
    scatter(layout, memory, [5], [1], 0, torch.arange(5))
    assert memory.view(3, 64)[:, :5].tolist() == [[0, 1, 2, 3, 4]] * 3 and (memory.view(3, 64)[:, 5:] == EMPTY).all()
    assert gather(layout, memory, size, stride).tolist() == [[0, 1, 2, 3, 4]] * 3
    assert torch.equal(live_lanes(layout, size, stride), memory != EMPTY)


@pytest.mark.parametrize(
    "use, said",
    [
        (lambda y, m: gather(y, m, [4, 70], [70, 1]), "host offset 268 has no lane in SpyreTensorLayout"),
        (lambda y, m: gather(y, m, [3, 70], [70]), "one stride per dimension"),
        (lambda y, m: gather(y, m, [3, 70], [70, -1]), "numbers of 0 or more"),
        (lambda y, m: gather(y, m, [3, 70], [70, 1], -1), "storage offset -1"),
        (lambda y, m: gather(y, m[1:], [3, 70], [70, 1]), "dense flat tensor of 384 lanes, 6 sticks of 64"),
        (lambda y, m: gather(y, m.view(6, 64), [3, 70], [70, 1]), "dense flat tensor"),
        (lambda y, m: scatter(y, m, [3, 70], [70, 1], 0, torch.zeros(3, 70)), "codes are torch.float32 and the device memory holds torch.int16"),
        (lambda y, m: scatter(y, m, [3, 70], [70, 1], 0, m[:7]), r"size \[7\] do not broadcast to a view of size \[3, 70\]"),
        (lambda y, m: scatter(y, m, [2, 70], [0, 1], 0, m[:1]), r"size \[2, 70\] with stride \[0, 1\] has several elements in one place"),
        (lambda y, m: scatter(y, m, [4, 4], [1, 2], 0, m[:1]), "several elements in one place"),
        (lambda y, m: lane_of(y, torch.tensor([5, -1])), "host offset -1 has no lane"),
        (lambda y, m: lane_of(y, torch.tensor([0.5])), "offsets are torch.float32"),
        (lambda y, m: lane_of(SpyreTensorLayout([1, 64], [64, 1], DataFormats.SENINT24), torch.tensor([0])), "no stick geometry"),
    ],
)  # fmt: skip
def test_bad_input_says_what_was_given(use, said):
    layout = SpyreTensorLayout([3, 70], F16)
    with pytest.raises(ValueError, match=said):
        use(layout, torch.zeros(layout.lanes, dtype=torch.int16))


def test_kept_indexes_stay_within_their_bound(monkeypatch):
    monkeypatch.setattr(lanes, "pieces_of", lambda *_: None)
    monkeypatch.setattr(lanes, "INDEX_CACHE_BYTES", 4000)
    layout = SpyreTensorLayout([100, 30], F16)
    memory = torch.arange(layout.lanes)
    for row in range(90):
        gather(layout, memory, [10, 30], [30, 1], row * 30)
        assert 0 < sum(one.nbytes for one in lanes._indexes.values()) <= 4000
    whole = gather(layout, memory, [100, 30], [30, 1])
    assert torch.equal(whole, lane_of(layout, torch.arange(3000).view(100, 30)))
    assert sum(one.nbytes for one in lanes._indexes.values()) <= 4000
