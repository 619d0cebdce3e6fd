"""The version and the folder of this package."""

from pathlib import Path

__version__ = "0.1.0"

PACKAGE = Path(__file__).parent
"""Folder of the package's modules."""
