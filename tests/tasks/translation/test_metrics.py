"""How BLEU reads a text: as it is where it was tokenised already."""

import pytest

from regard.config import BPEConfig, DataConfig, TokenizersConfig, WhitespaceConfig, WordsConfig
from regard.tasks.translation.metrics import suitable_metrics
from regard.text.tokenizers.tokenizer import build_tokenizers

TOKENISED = ["he 's here , she is not .", "where is the cat ?"]
PLAIN = ["He's here, she is not.", "Where is the cat?"]


@pytest.mark.parametrize(
    ("kind", "references", "tokenize"),
    [
        (BPEConfig(size=60), TOKENISED, "none"),
        (BPEConfig(size=60), PLAIN, "13a"),
        (WordsConfig(), PLAIN, "13a"),
        (WordsConfig(), TOKENISED, "13a"),  # its translations come without the space before a full stop
        (WhitespaceConfig(), PLAIN, "none"),
    ],
)
def test_the_references_say_how_bleu_reads(kind, references, tokenize):
    _, target = build_tokenizers([(references, references)], TokenizersConfig(source=kind, target=kind), DataConfig())
    bleu, _ = suitable_metrics(target, references)
    score = bleu.corpus_score(references, [references])
    assert score.score == pytest.approx(100)
    assert f"tok:{tokenize}" in str(bleu.get_signature())
