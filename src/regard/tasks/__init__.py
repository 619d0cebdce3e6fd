"""The built-in tasks; each folder has the settings, training, validation, predictor and commands of one task."""
