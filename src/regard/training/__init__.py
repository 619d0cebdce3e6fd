"""Training of a model from a configuration."""

from regard.training.cross_validation import CrossValidation, cross_validate, holds_folds, resume_folds
from regard.training.run import Callback
from regard.training.trainer import fit, resume

__all__ = ["Callback", "CrossValidation", "cross_validate", "fit", "holds_folds", "resume", "resume_folds"]
