"""Sentence pairs: the training data of a translator."""
