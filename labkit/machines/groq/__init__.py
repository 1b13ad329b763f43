"""The Groq LPU as an execution model: 320-byte streams past functional slices, in a schedule that is exact to the cycle."""
