"""Translating in bfloat16, with a real model."""

import pytest
import torch

import regard
from regard.config import DataConfig, RecurrentConfig, TokenizersConfig
from regard.models.build import build_translator
from regard.tasks.translation.bundle import TranslationBundle
from regard.tasks.translation.config import TranslationConfig
from regard.text.tokenizers.tokenizer import build_tokenizers


def test_bfloat16_translates_with_a_lowered_copy(tmp_path):
    torch.manual_seed(0)
    tokenizer = build_tokenizers([(["a b c d"], ["a b c d"])], TokenizersConfig(), DataConfig())[0]
    model = build_translator(RecurrentConfig(), source_size=tokenizer.size, target_size=tokenizer.size)
    config = TranslationConfig()
    bundle = TranslationBundle(
        config=config, model=model, source_tokenizer=tokenizer, target_tokenizer=tokenizer, signature={}, report={}
    )
    translator = regard.Translator(bundle)
    exact, rounded = (translator.translate(["a b", "c"], max_length=5, precision=p) for p in ("float32", "bfloat16"))
    for one, other in zip(exact, rounded, strict=True):
        assert one.score == pytest.approx(other.score, rel=0.05)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    with pytest.raises(regard.RequestError, match="precision is 'half', expected float32 or bfloat16"):
        translator.translate(["a"], precision="half")
