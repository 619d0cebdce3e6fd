"""Models packed for search, mostly on a CPU: the same formulas, computed by fewer and larger operations."""

from regard.inference.pack import pack

__all__ = ["pack"]
