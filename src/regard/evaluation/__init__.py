"""Scores of predictions, calibration of their probabilities, and comparison of models."""
