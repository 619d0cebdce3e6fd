"""Names of the files that only classifiers have."""

LABELS = "labels.json"
FAITHFULNESS = "faithfulness.json"
"""File with a measurement of the attention, made after training. It is not signed, and may be missing."""
