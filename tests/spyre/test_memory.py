"""Device memory: addresses, room, statistics, and accesses that must lie inside an allocation."""

import gc

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labkit.spyre.formats import DataFormats, poison
from labkit.spyre.runtime import DeviceAccessError, DeviceMemory, OutOfDeviceMemory, memory

FP16 = DataFormats.SEN169_FP16


def test_fresh_memory_is_poison_in_whole_sticks():
    made = DeviceMemory().allocate(130, FP16)
    assert made.size == 256 and made.address % 128 == 0
    assert made.codes.shape == (128,) and (made.codes == poison(FP16)).all()


@given(st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 3)), max_size=40))
def test_live_allocations_never_overlap_and_freed_room_comes_back(steps):
    card = DeviceMemory(capacity=64 * 1024)
    live = []
    for size, drop in steps:
        try:
            live.append(card.allocate(size, FP16))
        except OutOfDeviceMemory:
            assert card.allocated + size > card.capacity // 4
        if drop == 0 and live:
            del live[len(live) // 2]
        ranges = sorted((a.address, a.address + max(a.size, 128)) for a in live)
        assert all(end <= start for (_, end), (start, _) in zip(ranges, ranges[1:], strict=False))
        assert card.allocated == sum(end - start for start, end in ranges)
        assert card.peak >= card.allocated
    live.clear()
    assert card.allocated == 0 and card.stats()["allocation.all.current"] == 0
    assert card.allocate(card.capacity, FP16).size == card.capacity


def test_no_room_says_what_was_asked_and_what_is_left():
    card = DeviceMemory(capacity=1024)
    kept = card.allocate(512, FP16)
    with pytest.raises(OutOfDeviceMemory, match=r"1,024 bytes asked for, 512 of 1,024 bytes free"):
        card.allocate(1024, FP16)
    assert card.allocated == kept.size


def test_reads_and_writes_go_by_address():
    card = DeviceMemory()
    made = card.allocate(256, FP16)
    made.codes[:] = torch.arange(128, dtype=torch.int16)
    assert card.read(made.address + 2, 4).tolist() == [1, 0, 2, 0]
    card.write(made.address + 254, torch.tensor([7, 1], dtype=torch.uint8))
    assert made.codes[127] == 7 + 256


@pytest.mark.parametrize("offset, size", [(-1, 1), (256, 1), (255, 2), (0, 257), (10**9, 1)])
def test_an_access_outside_is_an_error_with_the_address(offset, size):
    card = DeviceMemory()
    made = card.allocate(256, FP16)
    before = made.codes.clone()
    with pytest.raises(DeviceAccessError, match=f"0x{made.address + offset:x}: outside every allocation"):
        card.write(made.address + offset, torch.zeros(size, dtype=torch.uint8))
    with pytest.raises(DeviceAccessError):
        card.read(made.address + offset, size)
    assert torch.equal(made.codes, before)


def test_memory_of_a_freed_tensor_is_no_longer_there():
    gc.collect()
    before = torch.spyre.memory_allocated()
    x = torch.zeros(1000, device="spyre", dtype=torch.float16)
    view = x[10:20]
    assert torch.spyre.memory_allocated() - before == 2048
    address = view.untyped_storage().spyre_memory.allocation.address
    del x
    assert torch.spyre.memory_allocated() - before == 2048  # the view keeps it
    assert memory().find(address, 1)
    del view
    assert torch.spyre.memory_allocated() == before
    with pytest.raises(DeviceAccessError):
        memory().find(address, 1)


def test_peak_and_summary():
    torch.spyre.reset_peak_memory_stats()
    base = torch.spyre.max_memory_allocated()
    torch.zeros(64, 64, device="spyre", dtype=torch.float32)
    assert torch.spyre.max_memory_allocated() - base >= 64 * 64 * 4
    torch.spyre.reset_peak_memory_stats()
    assert torch.spyre.max_memory_allocated() == torch.spyre.memory_allocated()
    assert "allocated_bytes.all.peak" in torch.spyre.memory_summary()
