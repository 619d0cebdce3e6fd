"""Learning to classify texts, and classifying."""
