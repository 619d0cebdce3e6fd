"""Ids of the words that a decoder can copy from a source (`regard.layers.copying`).

A source word that the target's vocabulary has gets its id there. Another word gets the id V + s, with the size V of this
vocabulary and the position s of the first such word in the source.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from regard.errors import ConfigError
from regard.text.batching import Batch
from regard.text.symbols import END, PAD, UNKNOWN
from regard.text.tokenizers.tokenizer import Tokenizer


class Copier:
    """Conversion of source words and copied words to ids and back; the target's tokenizer decides which words are equal."""

    def __init__(self, source: Tokenizer, target: Tokenizer) -> None:
        for side, tokenizer in (("source", source), ("target", target)):
            if not tokenizer.has_whole_words:
                raise ConfigError(
                    f"model.copy copies words, but the tokenizer of the {side} is of kind '{tokenizer.kind}', which spells "
                    f"unknown words from known parts: set tokenizers.{side}.kind to words, or model.copy to false"
                )
        self.source, self.target = source, target

    def ids(self, words: Sequence[str]) -> list[int]:
        """Return the id of each word of a source in the extended vocabulary."""
        first: dict[str, int] = {}
        found = []
        for place, (key, number) in enumerate(map(self.target.look_up, words)):
            found.append(self.target.size + first.setdefault(key, place) if number == UNKNOWN else number)
        return found

    def encoded(self, ids: npt.NDArray[np.int64], words: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return both ids of each token of a source: the encoder's, which end with the end symbol, and those of its words."""
        return np.stack([ids, [*self.ids(words), END]], axis=1)

    def extended(self, ids: Sequence[int], words: Sequence[str], source_words: Sequence[str]) -> list[int]:
        """Return the ids of a target's words; an unknown word that is also in the source gets the id of the source word."""
        if UNKNOWN not in ids:
            return list(ids)
        known = {
            self.target.look_up(word)[0]: number
            for word, number in zip(source_words, self.ids(source_words), strict=True)
            if number >= self.target.size
        }
        pairs = zip(ids, words, strict=True)
        return [known.get(self.target.look_up(word)[0], UNKNOWN) if id == UNKNOWN else id for id, word in pairs]

    def copied(self, tokens: Sequence[int], source: str) -> dict[int, str]:
        """Return the words that an output copied from its source, by their positions in the output."""
        words, size = self.source.split(source), self.target.size
        return {place: words[token - size] for place, token in enumerate(tokens) if token >= size}

    def add_to(self, batch: Batch, sources: Sequence[str], targets: Sequence[str]) -> Batch:
        """Return a batch whose sources have both ids, and whose unknown gold words have the id of the source's word."""
        copies = torch.full_like(batch.source, PAD)
        target_out = batch.target_out.clone()
        is_unknown = (target_out == UNKNOWN).any(1).tolist()
        for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
            words = self.source.split(source)
            copies[row, : len(words) + 1] = torch.tensor([*self.ids(words), END])
            if is_unknown[row]:
                gold = self.target.split(target)
                known = target_out[row, : len(gold)]
                target_out[row, : len(gold)] = torch.tensor(self.extended(known.tolist(), gold, words))
        return replace(batch, source=torch.stack((batch.source, copies), -1), target_out=target_out)
