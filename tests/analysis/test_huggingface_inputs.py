"""What `from_huggingface` reads besides a text, with a tokenizer of the same methods as those of `transformers`."""

import pytest
import torch
from torch import nn

import regard
from regard.errors import RequestError

WORDS = ["<s>", "user", "a", "good", "day"]


class Tokens:
    """A tokenizer of words that puts a start symbol before each text."""

    bos_token_id, cls_token_id, all_special_tokens, chat_template = 0, None, ["<s>"], "of the model"

    def __call__(self, text: str, *, add_special_tokens: bool = True, return_tensors: str | None = None):
        ids = [0] * add_special_tokens + [WORDS.index(word) for word in text.split()]
        many = {"input_ids": [ids], "attention_mask": [[1] * len(ids)]}
        return {name: torch.tensor(each) if return_tensors else each[0] for name, each in many.items()}

    def apply_chat_template(self, messages, *, tokenize: bool, return_dict: bool = False, return_tensors: str | None = None):
        text = " ".join(["<s>", *(f"{each['role']} {each['content']}" for each in messages)])
        return self(text, add_special_tokens=False, return_tensors=return_tensors) if tokenize else text

    def convert_ids_to_tokens(self, ids):
        return [WORDS[each] for each in ids]

    def decode(self, ids, *, skip_special_tokens: bool):
        return " ".join(WORDS[each] for each in ids.tolist() if each)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.attention = nn.Embedding(5, 8), nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, input_ids, attention_mask=None):
        x = self.embed(input_ids)
        return self.attention(x, x, x)


TALK = [{"role": "user", "content": "a good day"}]


@pytest.mark.parametrize(
    "given",
    [
        "user a good day",
        "<s> user a good day",
        TALK,
        torch.tensor([[0, 1, 2, 3, 4]]),
        torch.tensor([0, 1, 2, 3, 4]),
        [0, 1, 2, 3, 4],
        [[0, 1, 2, 3, 4]],
        {"input_ids": [0, 1, 2, 3, 4], "attention_mask": [1] * 5},
        Tokens()("user a good day", return_tensors="pt"),
    ],
)
def test_every_form_of_a_text_gives_the_same_record(given):
    record = regard.from_huggingface(Model(), Tokens(), given)
    assert record.source_tokens == ("<s>", "user", "a", "good", "day")
    assert record.source_text.endswith("user a good day")
    assert record.sites == ("encoder.0",)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "needs its tokenizer and a text, got Tokens and NoneType"),
        (["a good day", "a day"], r"'a good day', which has several words.* tokenizer\(a, b, return_tensors='pt'\)"),
        (torch.zeros(1, 3, 8, 8), r"got Tokens and Tensor as text; give an image by name: .*image=image"),
        (["a", "good"], "Tokens cannot read these words: TypeError"),
        ({"attention_mask": [1]}, "got Tokens and dict"),
        ([0.5, 1.0], "got Tokens and list: .* where the text may also be an encoding, ids, a list of words, or chat messages"),
        ([[0, 1], [0, 2]], r"the ids have shape \(2, 2\) and batch is None, expected one text"),
        ([], "the text has no tokens"),
    ],
)
def test_refusals(given, message):
    with pytest.raises(RequestError, match=message):
        regard.from_huggingface(Model(), Tokens(), given)
    without = Tokens()
    without.chat_template = None
    with pytest.raises(RequestError, match="got chat messages, but the tokenizer has no chat template"):
        regard.from_huggingface(Model(), without, TALK)


@pytest.mark.parametrize(
    ("field", "name"), [("pixel_values", "image=image"), ("input_features", "audio=samples, sampling_rate=rate")]
)
def test_a_processor_without_texts_names_the_argument(field, name):
    processor = Tokens()
    processor.model_input_names = [field, "attention_mask"]
    with pytest.raises(RequestError, match=name):
        regard.from_huggingface(Model(), processor, "dog.jpg")


def test_arguments_in_the_wrong_order_or_of_the_wrong_kind():
    with pytest.raises(RequestError, match="got Tokens and then Model, expected the model first"):
        regard.from_huggingface(Tokens(), Model(), "a good day")
    with pytest.raises(RequestError, match="model is the text 'bert-base', expected a model or its output: load it first"):
        regard.from_huggingface("bert-base", "a", "good")
    with pytest.raises(RequestError, match=r"Model reads one text, .*leave it out, or give a pair .* tokenizer\(a, b"):
        regard.from_huggingface(Model(), Tokens(), "a good", "day")
