"""The built-in corpora: English–German sentence pairs with their word alignment, reviews with their
decisive words, and images of digits with their places.
"""

from regard.demo.corpus import DemoCorpus, DemoPair, Review, ReviewCorpus
from regard.demo.digits import DigitCorpus, DigitImage, write_digits

__all__ = ["DemoCorpus", "DemoPair", "DigitCorpus", "DigitImage", "Review", "ReviewCorpus", "write_digits"]
