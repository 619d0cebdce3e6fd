"""What can be learned: one folder per task, with its settings, data, model, loss, validation and predictor."""
