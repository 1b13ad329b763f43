"""Google TPUs as an execution model: padded tiles through a weight-stationary array, DMA beside it, a scratchpad that the compiler fills."""
