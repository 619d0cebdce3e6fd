"""Preparation of text: from files to batches of ids, and from ids back to text."""
