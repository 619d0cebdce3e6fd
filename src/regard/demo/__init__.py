"""The built-in corpora: English–German sentence pairs with their word alignment, and reviews with their decisive words."""

from regard.demo.corpus import DemoCorpus, DemoPair, Review, ReviewCorpus

__all__ = ["DemoCorpus", "DemoPair", "Review", "ReviewCorpus"]
