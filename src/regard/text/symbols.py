"""The special symbols, with the same ids in every vocabulary."""

PAD, UNKNOWN, START, END = 0, 1, 2, 3
"""Ids of padding, an unknown word, the start of a target, and the end of a sentence."""

PAD_TOKEN, UNKNOWN_TOKEN, START_TOKEN, END_TOKEN = "<pad>", "<unk>", "<s>", "</s>"

SPECIAL_TOKENS = (PAD_TOKEN, UNKNOWN_TOKEN, START_TOKEN, END_TOKEN)
"""The texts of the special symbols, in the order of their ids."""
