"""Labelled texts: from files to encoded corpora."""
