"""From a configuration to a trained model."""

from regard.training.fit import fit, resume

__all__ = ["fit", "resume"]
