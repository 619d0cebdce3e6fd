"""From a configuration to a trained model."""

from regard.training.cross_validation import CrossValidation, cross_validate
from regard.training.fit import fit, resume

__all__ = ["CrossValidation", "cross_validate", "fit", "resume"]
