"""What can be said about a trained model."""

from regard.analysis.alignments import evaluate_alignment
from regard.analysis.decisive import decisive_share

__all__ = ["decisive_share", "evaluate_alignment"]
