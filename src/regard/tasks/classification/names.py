"""Names of the files that only classifiers have."""

LABELS = "labels.json"
FAITHFULNESS = "faithfulness.json"
"""Measured after training, and not signed; it may be missing."""
