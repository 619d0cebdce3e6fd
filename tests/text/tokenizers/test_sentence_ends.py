import pytest

from regard.config import BPEConfig, CharactersConfig, WordsConfig
from regard.text.tokenizers.resolve import sentence_ends
from regard.text.tokenizers.tokenizer import build_tokenizer

TEXT = ["Well ... is it 3.5 ? Yes! No?! Wait… 好。是吗？ e.g. this, that; <s> ok."]


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        (WordsConfig(), {"...", "?", "!", "…", "。", "？", "."}),
        (CharactersConfig(), {"?", "!", "…", "。", "？", "."}),
        (BPEConfig(size=90, min_count=1), {"?", "▁?", "!", "…", "。", "？", ".", "..."}),
    ],
)
def test_the_tokens_that_end_sentences(config, wanted):
    tokenizer = build_tokenizer([TEXT], config)
    found = {tokenizer.vocabulary()[number] for number in sentence_ends(tokenizer.vocabulary())}
    assert found - {"▁.", "..", "▁...", "▁.."} == wanted - {"..."} | (found & {"..."})
    assert all(set(token) <= set("▁.?!…。？") for token in found)
