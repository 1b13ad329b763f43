"""Where every element of a tensor lies on the device.

The host dim along the stick appears twice on the device, as the number of sticks and as the stick itself; the others appear once. Device
dims are order[1:], then order[0], then the stick. A stride map gives each its host stride: from the stick outwards, a host dim's second
device dim continues where its first ended. `tensor_layout` has the layout, `mixed_radix` the way from a host offset to its lane and
back, `lanes` reads and writes views, `arrangement` the orders inside sticks after a change of width, `explaining` the words.
"""

from .arrangement import ElementArrangement, column_of_lane, compatible, from_arrangement, lane_of_column, to_arrangement
from .explaining import DeviceDim, Explanation, Lane, Place, explain, lanes_of_stick
from .lanes import gather, live_lanes, scatter, sticks_of
from .mixed_radix import lane_of, offset_of
from .tensor_layout import MAX_RANK, SpyreTensorLayout, get_device_size_in_bytes

__all__ = [
    "MAX_RANK", "DeviceDim", "ElementArrangement", "Explanation", "Lane", "Place", "SpyreTensorLayout", "column_of_lane", "compatible",
    "explain", "from_arrangement", "gather", "get_device_size_in_bytes", "lane_of", "lane_of_column", "lanes_of_stick", "live_lanes",
    "offset_of", "scatter", "sticks_of", "to_arrangement",
]  # fmt: skip
