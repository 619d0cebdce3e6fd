"""The special symbols, with the same ids in every vocabulary."""

import re

PAD, UNKNOWN, START, END = 0, 1, 2, 3
"""Ids of padding, an unknown word, the start of a target, and the end of a sentence."""

PAD_TOKEN, UNKNOWN_TOKEN, START_TOKEN, END_TOKEN = "<pad>", "<unk>", "<s>", "</s>"

SPECIAL_TOKENS = (PAD_TOKEN, UNKNOWN_TOKEN, START_TOKEN, END_TOKEN)
"""The texts of the special symbols, in the order of their ids."""

WHITE_SPACE = "␊␉␠"
"""Symbols of a line break, a tab and a space. A tokenizer keeps the white space of texts if it has one of these symbols,
which then come back as white space from texts that contain them too."""


def show_space(text: str) -> str:
    """Replace line breaks, tabs, and spaces beside other white space with symbols, which tokenizers don't drop."""
    return re.sub(r"(?<!\S) | (?=\s)", "␠", text.replace("\r\n", "\n")).translate(str.maketrans("\n\t", "␊␉"))


def restore_space(text: str) -> str:
    """Replace the symbols of `show_space` with white space."""
    return text.translate(str.maketrans(WHITE_SPACE, "\n\t "))
