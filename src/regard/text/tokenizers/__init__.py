"""Tokenizers convert text to ids and back."""
