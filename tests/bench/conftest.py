"""Devices as the tests want them."""

import pytest
from hypothesis import settings

from labkit.bench.virtual import VirtualDevice


@pytest.fixture
def ideal():
    return VirtualDevice(launch_s=5e-6, name="ideal")


# Speed never decides a test, also not the speed of one hypothesis example.
settings.register_profile("bench", deadline=None)
settings.load_profile("bench")
