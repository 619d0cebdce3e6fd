"""Attention with several heads: one formula (`attend`), one mechanism (`multihead`), and those that change a part of it."""
