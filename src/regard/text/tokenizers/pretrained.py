"""The tokenizer of a pretrained encoder: its `tokenizer.json`, which the `tokenizers` library reads, and the encoder's folder.

The symbols of the encoder keep their texts but get other ids, because padding, the unknown symbol, start and end have fixed ids
(`regard.text.symbols`). `PretrainedScheme.encoder_ids` has the encoder's id of each symbol.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int32, Int64
from tokenizers import Tokenizer as Library
from tokenizers import decoders, pre_tokenizers

from regard.errors import ConfigError, install_command, printable
from regard.text.symbols import SPECIAL_TOKENS, START
from regard.text.tokenizers.schemes import Scheme
from regard.text.tokenizers.vocabulary import Symbols

ARCHITECTURE, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
PREPARATION = "preprocessor_config.json"
"""Files of an encoder. An encoder of images has `PREPARATION` instead of `TOKENIZER`."""
HUB = "hf://"
"""Beginning of the name of an encoder that may be downloaded."""
SHELF = "REGARD_ENCODERS"
"""Environment variable that names a folder of encoders; those that have moved are found there."""
# Texts of the symbols for padding and unknown words in BERT, RoBERTa and their successors.
_PAD, _UNKNOWN = ("[PAD]", "<pad>"), ("[UNK]", "<unk>")
_MOST_SYMBOLS = 10_000_000
# For each file: the setting under `model`, an example of an encoder, why the file is needed, and the class that writes it.
_INPUTS = {
    TOKENIZER: ("encoder", "sentence-transformers/all-MiniLM-L6-v2", "has the offsets of tokens in a text", "Tokenizer"),
    PREPARATION: ("image", "google/vit-base-patch16-224-in21k", "says how images are normalised", "ImageProcessor"),
}
_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt", ".h5", ".msgpack")


def find_encoder(name: str, inputs: str = TOKENIZER) -> Path:
    """Return the folder of an encoder, which has the three files that regard reads. Nothing in the folder is run.

    Args:
        name: A folder; or `user/name`, which must be in the local cache of Hugging Face; or `hf://user/name`, which is
            downloaded if it is not in the cache. A folder that has moved is found under its last name, `MiniLM` for
            `/home/ada/MiniLM`, in the folder that the environment variable REGARD_ENCODERS names.
        inputs: Name of the file that describes how the input is prepared: `TOKENIZER` or `PREPARATION`.

    Raises:
        ConfigError: If there is no such folder, or one of the files is missing.
    """
    setting, example, reason, writer = _INPUTS[inputs]
    if not name:
        raise ConfigError(
            f"model.{setting}.name is empty; name the folder of an encoder, or one to download, such as {HUB}{example}"
        )
    folder = Path(name)
    if not folder.is_dir() and (shelf := os.environ.get(SHELF)):
        folder = Path(shelf, folder.name)
    if not folder.is_dir():
        folder = _find_cached(name, inputs)
    missing = [file for file in (ARCHITECTURE, inputs, WEIGHTS) if not (folder / file).is_file()]
    if not missing:
        return folder
    where = f"the encoder '{name}' has no {missing[0]}"
    if missing[0] == inputs:
        raise ConfigError(f"{where}, which {reason}; save it there with Auto{writer}.from_pretrained(…).save_pretrained(…)")
    if missing[0] == WEIGHTS and any(path.suffix in _PICKLES for path in folder.iterdir()):
        raise ConfigError(
            f"{where}, only weights in a format that can run code when they are read; convert them with "
            "model.save_pretrained(…), which writes safetensors"
        )
    raise ConfigError(f"{where}; expected the folder of a model in the format of Hugging Face's transformers")


def _find_cached(name: str, inputs: str) -> Path:
    """Return the folder of an encoder in the cache of Hugging Face; one that begins with `hf://` is downloaded if necessary."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"there is no folder '{name}', and the cache of Hugging Face cannot be read without the package {error.name}: "
            f"{install_command('pretrained')}"
        ) from error
    address, _, revision = name.removeprefix(HUB).partition("@")
    wanted: Any = {"revision": revision or None, "allow_patterns": [ARCHITECTURE, WEIGHTS, inputs]}
    try:
        try:
            return Path(snapshot_download(address, local_files_only=True, **wanted))
        except LocalEntryNotFoundError:
            if not name.startswith(HUB):
                raise
            return Path(snapshot_download(address, **wanted))
    except (HfHubHTTPError, HFValidationError, OSError) as error:  # connection errors are OSErrors
        is_path = isinstance(error, HFValidationError) or Path(name).exists()
        hint = f"to download it, write {HUB}{name}"
        moved = f"check the path, or set {SHELF} to the folder that contains the encoder's folder"
        hint = "check the name and the network" if name.startswith(HUB) else moved if is_path else hint
        raise ConfigError(
            f"there is no encoder '{name}', neither as a folder nor in the cache of Hugging Face; {hint}"
        ) from error


def read_library(name: str) -> tuple[str, str]:
    """Return the content of an encoder's `tokenizer.json`, and its SHA-256."""
    data = (find_encoder(name) / TOKENIZER).read_bytes()
    try:
        return data.decode("utf-8"), hashlib.sha256(data).hexdigest()
    except UnicodeDecodeError as error:
        raise ConfigError(f"the {TOKENIZER} of the encoder '{name}' is not UTF-8; copy the encoder again") from error


@contextmanager
def _reported(name: str) -> Iterator[None]:
    """Raise a ConfigError for errors of the library, some of which are only a `BaseException`."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        raise ConfigError(f"{name} is not a tokenizer of the tokenizers library ({error!s:.200}); copy it again") from error


class PretrainedScheme(Scheme):
    """The rules of a pretrained tokenizer, which finds the tokens of a whole text, with the encoder's start and end symbols.

    Args:
        content: Text of a `tokenizer.json`.
        name: Name of the tokenizer, for messages.

    Raises:
        ConfigError: If the text is not a tokenizer, or the tokenizer lacks one of the special symbols.
    """

    name = "pretrained"
    """The kind of the tokenizer."""
    needs = "the rules of a pretrained tokenizer"

    def __init__(self, content: str, name: str) -> None:
        super().__init__(self.name, "", pre_tokenizers.WhitespaceSplit())
        self.place = name
        with _reported(name):
            self.library = Library.from_str(content)
        self.library.no_truncation()
        self.library.no_padding()
        self.library.encode_special_tokens = True  # so that `[SEP]` in a text is not the symbol
        numbers = self.library.get_vocab(with_added_tokens=True)
        with _reported(name):
            around = self.library.encode("").ids
        first = [next((numbers[text] for text in texts if text in numbers), -1) for texts in (_PAD, _UNKNOWN)]
        first += [around[0], around[-1]] if len(around) > 1 else [-1, -1]
        if min(first) < 0 or len(set(first)) < len(first):
            lacks = "padding" if first[0] < 0 else "unknown words" if first[1] < 0 else "the start and the end of a text"
            raise ConfigError(f"{name} has no symbols of its own for {lacks}; expected those of an encoder such as BERT")
        with _reported(name):
            self.library.encode("a \U0001f9ff")  # has an unknown character, which some tokenizers fail on
        texts = {number: text for text, number in numbers.items()}
        if max(texts) >= _MOST_SYMBOLS:
            raise ConfigError(f"{name} has a symbol with the id {max(texts):,}, expected less than {_MOST_SYMBOLS:,}")
        self.encoder_ids = np.array([*first, *sorted(texts.keys() - set(first))], np.int64)
        """The encoder's id (V,) of each symbol."""
        self._texts = (*SPECIAL_TOKENS, *(printable(texts[number]) for number in self.encoder_ids[START + 2 :].tolist()))
        self._own_ids = np.zeros(int(self.encoder_ids.max()) + 1, np.int32)
        self._own_ids[self.encoder_ids] = np.arange(len(self.encoder_ids), dtype=np.int32)

    @cached_property
    def symbols(self) -> Symbols:
        """The symbols; the texts of the special ones are regard's."""
        return Symbols(self._texts)

    def split(self, chunk: str) -> list[str]:
        return chunk.split()

    def join(self, symbols: Sequence[str]) -> str:
        decoder = self.library.decoder or decoders.WordPiece()
        return decoder.decode(list(symbols))

    def encode(self, text: str) -> tuple[list[int], list[str], list[int]]:
        """Return the ids of a text, its words, and the word of each token; −1 for the start and the end symbol."""
        with _reported(self.place):
            found = self.library.encode(text)
        spans: list[list[int]] = []
        word_of, last = [], None
        for word, (start, stop) in zip(found.word_ids, found.offsets, strict=True):
            if word is not None and word != last:
                spans.append([start, stop])
            last = word
            word_of.append(-1 if word is None else len(spans) - 1)
            if word is not None:
                spans[-1][1] = max(stop, spans[-1][1])
        words = [text[start:stop].strip() for start, stop in spans]
        return self._own_ids[found.ids].tolist(), words, word_of

    def encode_batch(self, texts: Sequence[str]) -> tuple[Int32[np.ndarray, " tokens"], Int64[np.ndarray, " texts"]]:
        """Return the ids of all texts, one after another, and the number of ids of each text."""
        with _reported(self.place):
            found = [each.ids for each in self.library.encode_batch_fast(list(texts))]
        flat = np.concatenate([np.array(ids, np.int64) for ids in found]) if found else np.zeros(0, np.int64)
        return self._own_ids[flat], np.array([len(ids) for ids in found], np.int64)

    @classmethod
    def of(cls, name: str) -> "PretrainedScheme":
        """Return the rules of an encoder, by its folder or name."""
        return cls(read_library(name)[0], f"the {TOKENIZER} of the encoder '{name}'")

    def to_plain(self) -> str:
        """Return the content of a `tokenizer.json`."""
        return self.library.to_str()
