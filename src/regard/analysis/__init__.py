"""What can be said about a trained model."""

from regard.analysis.quality import Quality, evaluate

__all__ = ["Quality", "evaluate"]
