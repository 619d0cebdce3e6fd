"""Models that label texts, by the contract of `regard.models.text_classifier`."""
