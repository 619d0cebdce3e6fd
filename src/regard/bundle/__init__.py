"""A trained model on disk: a folder of plain files, of which loading runs none."""

from regard.bundle.bundle import Bundle, ClassificationBundle, LanguageBundle, TranslationBundle
from regard.bundle.load import load_bundle
from regard.bundle.save import save_bundle
from regard.bundle.start import Start, read_start

__all__ = [
    "Bundle",
    "ClassificationBundle",
    "LanguageBundle",
    "Start",
    "TranslationBundle",
    "load_bundle",
    "read_start",
    "save_bundle",
]
