"""The attention toolkit for PyTorch: mechanisms, models, and a look inside."""

__version__ = "0.1.0"
