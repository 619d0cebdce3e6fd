"""Analyses of trained models: comparison, faithfulness, capture, and descriptions of runs.

A public name is imported when it is first used, because `regard.capture` and `regard.info` need none of the tasks.
"""

from regard.homes import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
