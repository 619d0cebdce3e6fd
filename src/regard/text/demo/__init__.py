"""The built-in corpora: English–German sentence pairs with their word alignment, and reviews with their decisive words."""

from regard.text.demo.corpus import DemoCorpus, DemoPair
from regard.text.demo.reviews import Review, ReviewCorpus

__all__ = ["DemoCorpus", "DemoPair", "Review", "ReviewCorpus"]
