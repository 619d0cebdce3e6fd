"""A trained model on disk: a folder of plain files. Loading a model runs no code from its folder.

A public name is imported when it is first used, because the files of a run can be read without torch.
"""

from regard.homes import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
