"""A trained model on disk: a folder of plain files, of which loading runs none."""

from regard.bundle.bundle import Bundle, ClassificationBundle, LanguageBundle, TranslationBundle
from regard.bundle.load import load_bundle
from regard.bundle.save import save_bundle

__all__ = ["Bundle", "ClassificationBundle", "LanguageBundle", "TranslationBundle", "load_bundle", "save_bundle"]
