"""labkit: the helper package of the labs *Dataflow Architectures for AI: From Principles to Practice*.

Importing it is cheap: no torch, no parallel operator, no device registration. Import the part you need.
"""

__version__ = "0.1.0"
