"""Models that label texts, with the contract of `regard.models.text_classifier`."""
