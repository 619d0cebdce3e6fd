"""What can be said about a trained model."""

from regard.analysis.alignments import evaluate_alignment

__all__ = ["evaluate_alignment"]
