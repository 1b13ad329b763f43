"""NVIDIA GPUs as an execution model: thread-block tiles in waves over the SMs, in front of an L2 cache and off-chip memory."""
