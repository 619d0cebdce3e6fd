"""Find the ends of sentences among tokens."""

from regard.text.symbols import SPECIAL_TOKENS
from regard.text.tokenizers.resolve import ENDS
from regard.text.tokenizers.schemes import SPACE_MARK
from regard.text.tokenizers.tokenizer import Tokenizer

_MARKS = frozenset(ENDS + "．｡‼⁇⁈⁉")


def sentence_ends(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the ids of tokens that end a sentence.

    Such a token consists only of full stops, exclamation marks, question marks and ellipses, including their forms in other
    scripts.
    """
    spelled = (token.removeprefix(SPACE_MARK) for token in tokenizer.vocabulary())
    return tuple(
        number for number, token in enumerate(spelled) if number >= len(SPECIAL_TOKENS) and token and _MARKS.issuperset(token)
    )
