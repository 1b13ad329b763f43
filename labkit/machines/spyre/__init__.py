"""IBM's Spyre card as an execution model: sticks, products divided over 32 cores, results that stay in scratchpads."""
