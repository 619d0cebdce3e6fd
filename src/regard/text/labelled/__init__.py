"""Labelled texts: files in, encoded corpora out."""
