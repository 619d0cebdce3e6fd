"""Texts alone, without a translation or a label: what language models learn from."""
