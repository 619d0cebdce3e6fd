"""Tasks, one folder each, with its settings, data, model, loss, validation and predictor."""
