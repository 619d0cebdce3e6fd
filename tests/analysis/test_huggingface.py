"""`from_huggingface` with models of `transformers`, random weights, and tokenizers trained here."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import regard
from regard.analysis.reader import scheme_of
from regard.errors import RequestError

TEXTS = [
    "unbelievable stories and readable words",
    "a believable story of unreadable words",
    "readers read their über-stories",
] * 4
TEXT = "unbelievable über-readers"
SPECIAL = ["<pad>", "</s>", "<unk>"]
SIZES = {"vocab_size": 90, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 9}
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def train(scheme: str) -> Tokenizer:
    if scheme == "wordpiece":
        tokenizer, trainer = Tokenizer(models.WordPiece(unk_token="<unk>")), trainers.WordPieceTrainer
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    elif scheme == "bytes":
        tokenizer, trainer = Tokenizer(models.BPE()), trainers.BpeTrainer
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    else:
        tokenizer, trainer = Tokenizer(models.BPE(unk_token="<unk>")), trainers.BpeTrainer
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    tokenizer.train_from_iterator(TEXTS, trainer(vocab_size=90, special_tokens=SPECIAL, show_progress=False))
    if scheme != "bytes":
        tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return tokenizer


def wrap(scheme: str):
    transformers = pytest.importorskip("transformers")
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=train(scheme), pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )


def build(name: str, kind: str, attention: str = "sdpa", **settings):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = getattr(transformers, kind)(**settings, pad_token_id=0, eos_token_id=1)
    return getattr(transformers, name)._from_config(config, attn_implementation=attention)


def t5():
    sizes = {"d_model": 16, "d_kv": 4, "num_layers": 2, "num_heads": 4, "d_ff": 9}
    return build("T5ForConditionalGeneration", "T5Config", vocab_size=90, decoder_start_token_id=0, **sizes)


def test_an_encoder_with_its_special_tokens_trimmed_or_kept():
    model, tokenizer = build("BertModel", "BertConfig", **SIZES).train(), wrap("wordpiece")
    made = regard.from_huggingface(model, tokenizer, TEXT)
    assert model.training
    assert made.sites == ("encoder.0", "encoder.1")
    assert made.source_words == ("unbelievable", "über", "-", "readers")
    assert made.source_tokens[-1] == "</s>"
    assert made.source_word_of[-1] == -1
    assert made.source_text == TEXT
    kept = regard.from_huggingface(model, tokenizer, TEXT, special=())
    assert kept.source_words == (*made.source_words, "</s>")
    model.eval().set_attn_implementation("eager")
    with torch.no_grad():
        own = model(**tokenizer(TEXT, return_tensors="pt"), output_attentions=True).attentions
    np.testing.assert_allclose(made.weights["encoder.1"], own[1][0], rtol=0, atol=1e-6)


def test_the_encoding_of_a_pair_has_a_segment_for_each_text():
    model, tokenizer = build("BertModel", "BertConfig", **SIZES), wrap("wordpiece")
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    made = regard.from_huggingface(model, tokenizer, tokenizer("unbelievable readers", "über", return_tensors="pt"))
    assert [each.name for each in made.source_segments] == ["text A", "text B"]
    view = made.view("encoder.1", between=("text B", "text A"))
    assert (view.rows, view.columns) == (("über",), ("unbelievable", "readers"))
    assert not regard.from_huggingface(model, tokenizer, tokenizer(TEXT, return_tensors="pt")).source_segments
    shorter = tokenizer("unbelievable readers", "über", return_tensors="pt")
    for name in list(shorter):
        shorter[name] = shorter[name][:, :3]
    assert not regard.from_huggingface(model, tokenizer, shorter).source_segments


@pytest.mark.parametrize("kind", ["GPT2", "Llama"])
def test_sites_of_a_decoder(kind):
    tokenizer = wrap("bytes")
    sizes = (
        SIZES | {"num_key_value_heads": 2} if kind == "Llama" else {"vocab_size": 90, "n_embd": 16, "n_layer": 2, "n_head": 4}
    )
    model = build(
        f"{kind}{'LMHead' if kind == 'GPT2' else 'ForCausalLM'}{'Model' if kind == 'GPT2' else ''}", f"{kind}Config", **sizes
    )
    made = regard.from_huggingface(model, tokenizer, TEXT)
    assert made.sites == ("decoder.0", "decoder.1")
    assert made.source_words == ()
    assert made.target_words == ("unbelievable", "über-readers")
    assert made.target_text == TEXT
    assert made.target_is_read
    one = regard.from_huggingface(model, tokenizer, "unbelievable")  # no token marks a word
    assert one.target_words == ("unbelievable",)
    more = regard.from_huggingface(model, tokenizer, TEXT, generation={"max_new_tokens": 3, "num_beams": 2})
    assert len(more.target_tokens) > len(made.target_tokens)
    assert more.target_tokens[: len(made.target_tokens)] == made.target_tokens
    assert more.target_text.startswith(TEXT)


@pytest.mark.parametrize("generation", [None, {"max_new_tokens": 3, "do_sample": False}])
def test_padding_before_a_text_is_left_out(generation):
    tokenizer = wrap("bytes")
    tokenizer.padding_side = "left"
    model = build("GPT2LMHeadModel", "GPT2Config", vocab_size=90, n_positions=64, n_embd=16, n_layer=2, n_head=4)
    encoded = tokenizer([TEXT, TEXT * 2], padding=True, return_tensors="pt")
    assert not encoded["attention_mask"][0, 0]
    alone, row = (
        regard.from_huggingface(model, tokenizer, text, batch=batch, generation=generation)
        for text, batch in ((TEXT, None), (encoded, 0))
    )
    assert row.target_tokens == alone.target_tokens
    np.testing.assert_allclose(row.weights["decoder.1"], alone.weights["decoder.1"], atol=1e-6)


@pytest.mark.parametrize("beams", [1, 3])
def test_an_encoder_and_a_decoder(beams):
    model, tokenizer = t5().eval(), wrap("sentencepiece")
    generation = {"max_new_tokens": 5, "num_beams": beams}
    made = regard.from_huggingface(model, tokenizer, TEXT, generation=generation)
    assert set(made.sites) == {f"{family}.{layer}" for family in ("encoder", "decoder", "cross") for layer in (0, 1)}
    assert made.source_words == ("unbelievable", "über-readers")
    inputs = tokenizer(TEXT, return_tensors="pt")
    with torch.no_grad():
        written = model.generate(**inputs, **generation, output_attentions=False)
        model.set_attn_implementation("eager")
        own = model(**inputs, decoder_input_ids=written[:, :-1], output_attentions=True)
    assert list(made.target_tokens) == tokenizer.convert_ids_to_tokens(written[0, 1:])
    for family in ("encoder", "decoder", "cross"):
        np.testing.assert_allclose(made.weights[f"{family}.1"], own[f"{family}_attentions"][1][0], rtol=0, atol=1e-6)


def test_a_given_target():
    made = regard.from_huggingface(t5(), wrap("sentencepiece"), TEXT, "a readable story")
    assert made.target_words == ("a", "readable", "story")
    assert made.target_word_of[-1] == -1
    assert made.matrix("cross.1").shape == (3, 2)


def test_how_tokens_mark_words():
    assert [scheme_of(wrap(scheme)) for scheme in ("wordpiece", "bytes", "sentencepiece")] == [
        "wordpiece",
        "bytes",
        "sentencepiece",
    ]
    assert scheme_of(object()) == "auto"


def test_refusals():
    bert, tokenizer = build("BertModel", "BertConfig", **SIZES), wrap("wordpiece")
    with pytest.raises(RequestError, match="a model needs its tokenizer and a text, got list and str"):
        regard.from_huggingface(bert, ["a"], TEXT)
    with pytest.raises(RequestError, match="BertModel reads one text, and a target was given: leave it out"):
        regard.from_huggingface(bert, tokenizer, TEXT, "words")
    with pytest.raises(RequestError, match="BertModel cannot generate text: give a target, or load the model with its head"):
        regard.from_huggingface(bert, tokenizer, TEXT, generation={})
    with pytest.raises(RequestError, match="the text has no tokens, expected at least one"):
        regard.from_huggingface(bert, wrap("bytes"), "")


def test_chinese_is_parted_at_tokens_and_units_are_chosen():
    transformers = pytest.importorskip("transformers")
    library = Tokenizer(models.BPE())
    library.pre_tokenizer, library.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=270, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False)
    library.train_from_iterator(["今天今天", " good day"] * 3, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=library)
    model = build("GPT2LMHeadModel", "GPT2Config", n_embd=8, n_layer=2, n_head=2, vocab_size=400).eval()
    text = "今天很 good day"
    made = regard.from_huggingface(model, tokenizer, text)
    assert "".join(made.target_words) == "今天很goodday"
    assert len(made.target_words) > 3
    tokens = regard.from_huggingface(model, tokenizer, text, units="tokens")
    assert tokens == made.in_units("tokens")
    assert "".join(tokens.target_words) == "今天很▁good▁day"
    assert regard.from_huggingface(model, tokenizer, text, subwords="none") == tokens
    inputs = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad(), regard.capture(model) as caught:
        model(**inputs)
    names = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist())
    assert caught.to_record(names, units="tokens").target_words == tokens.target_words
