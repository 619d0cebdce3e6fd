"""A trained model on disk: a folder of plain files. Loading a model runs no code from its folder."""

from regard.bundle.load import load_bundle
from regard.bundle.save import save_bundle
from regard.bundle.start import StartFiles, read_start

__all__ = ["StartFiles", "load_bundle", "read_start", "save_bundle"]
