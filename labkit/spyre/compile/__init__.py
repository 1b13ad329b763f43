"""torch.compile on tensors of the device: routing by device, guards on layouts, and the compilation of a captured graph."""
