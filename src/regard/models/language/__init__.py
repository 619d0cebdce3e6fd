"""Language models: the decoder alone."""
