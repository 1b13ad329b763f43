"""The Cerebras wafer as an execution model: a rectangle of PEs, words that hop over a mesh, sums added on the way."""
