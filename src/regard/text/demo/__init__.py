"""The built-in corpus: a grammar that writes English–German sentence pairs and knows their word alignment."""

from regard.text.demo.corpus import DemoCorpus, DemoPair

__all__ = ["DemoCorpus", "DemoPair"]
