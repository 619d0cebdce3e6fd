"""Translators whose source a pretrained encoder reads: states by the formula, and what cannot be done with them."""

import pytest
import torch
from encoders import tiny_encoder
from torch import nn

from regard.config import PretrainedSourceConfig, RecurrentConfig, TransformerConfig
from regard.errors import ConfigError, RequestError
from regard.export.onnx import graphs_of
from regard.inference.ctranslate2 import check_convertible
from regard.models.build import build_translator
from regard.models.pretrained import PretrainedTextEncoder, read_encoder
from regard.models.seq2seq import Seq2Seq
from regard.models.sources import RecurrentSource
from regard.reweight import Sites

transformers = pytest.importorskip("transformers")
SOURCE = torch.tensor([[2, 9, 5, 3], [2, 7, 3, 0]])
MASK = SOURCE > 0


def encoder(**settings) -> PretrainedSourceConfig:
    return read_encoder(PretrainedSourceConfig(**{"name": tiny_encoder(), "tuning": "frozen"} | settings))


def build(config: RecurrentConfig | TransformerConfig) -> Seq2Seq:
    return build_translator(config, source_size=22, target_size=31, encoder_ids=range(22)).eval()


def test_states_are_mapped_and_their_mean_is_the_last_state():
    source = RecurrentSource(PretrainedTextEncoder(encoder(), range(22)), 7).eval()
    library = transformers.AutoModel.from_pretrained(tiny_encoder(), attn_implementation="eager").eval()
    with torch.no_grad():
        states, [(last, _)] = source(source.encoder.embed(SOURCE), MASK, Sites())
        inputs = library.get_input_embeddings()(SOURCE)
        expected = nn.functional.linear(
            library(inputs_embeds=inputs, attention_mask=MASK.long()).last_hidden_state, source.map.weight, source.map.bias
        )
    torch.testing.assert_close(states[MASK], expected[MASK])
    torch.testing.assert_close(last, torch.stack([expected[0].mean(0), expected[1, :3].mean(0)]))


@pytest.mark.parametrize(("tuning", "stored"), [("frozen", 2), ("lora", 26), ("whole", 39)])
def test_each_weight_is_stored_once(tuning, stored):
    state = build(RecurrentConfig(encoder=encoder(tuning=tuning))).state_dict()
    assert len([name for name in state if name.startswith("encoder.")]) == stored
    assert not any(name.startswith("source_embedding") for name in state)


@pytest.mark.parametrize("kind", [RecurrentConfig, TransformerConfig])
def test_exports_and_long_sources_are_refused(kind):
    model = build(kind(encoder=encoder()))
    with pytest.raises(RequestError, match="has a pretrained encoder, which an export or a page does not support"):
        graphs_of(model)
    with pytest.raises(RequestError, match=r"is a \w+, which CTranslate2 cannot express"):
        check_convertible(model)
    with pytest.raises(RequestError, match=r"a text has 513 tokens, but the encoder '.*' reads at most 512; split the text"):
        model(torch.full((1, 513), 5), torch.full((1, 1), 2))


@pytest.mark.parametrize("kind", [RecurrentConfig, TransformerConfig])
def test_a_source_that_arrives_later_is_refused(kind):
    with pytest.raises(ConfigError, match=r"model\.wait_k is 3, but a pretrained encoder reads the whole source"):
        build(kind(encoder=encoder(), wait_k=3))


def test_vocabularies_that_do_not_fit():
    with pytest.raises(ConfigError, match="encoder_ids has 0 ids, expected one for each of the 22 words"):
        build_translator(RecurrentConfig(encoder=encoder()), source_size=22, target_size=31)
    with pytest.raises(ConfigError, match="a pretrained encoder has its own embeddings"):
        build(TransformerConfig(encoder=encoder(), tie_embeddings="all"))
