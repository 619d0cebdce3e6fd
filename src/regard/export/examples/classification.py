"""Classify texts with the exported model, using only numpy and onnxruntime.

    python example.py a film that is worth the evening

If the package `tokenizers` is installed, text is split exactly as in training. Otherwise, words that are not in the vocabulary
are split into the longest parts that are in it.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

FOLDER = Path(__file__).parent
UNKNOWN = 1


def load() -> tuple[dict, dict]:
    saved = json.loads((FOLDER / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = saved["tokenizer"]["model"]["vocab"]
    return saved, {token: number for number, (token, _) in enumerate(vocabulary)} if isinstance(
        vocabulary, list
    ) else vocabulary


def encode(text: str, saved: dict, vocabulary: dict) -> list[int]:
    text = text.lower() if saved["lowercase"] else text
    try:
        from tokenizers import Tokenizer

        return [*Tokenizer.from_str(json.dumps(saved["tokenizer"])).encode(text, add_special_tokens=False).ids]
    except ImportError:
        ids, mark = [], "▁" if any(token.startswith("▁") for token in vocabulary) else ""
    for word in text.split():
        rest = mark + word
        while rest:
            length = next((n for n in range(len(rest), 0, -1) if rest[:n] in vocabulary), len(rest))
            ids.append(vocabulary.get(rest[:length], UNKNOWN))
            rest = rest[length:]
    return [*ids]


def classify(text: str) -> tuple[list[str], list[str], np.ndarray, np.ndarray]:
    saved, vocabulary = load()
    known = json.loads((FOLDER / "labels.json").read_text(encoding="utf-8"))
    session = onnxruntime.InferenceSession(str(FOLDER / "classifier.onnx"))
    ids = encode(text, saved, vocabulary)
    found = session.run(["logits", "pool"], {"tokens": np.array([ids]), "mask": np.ones((1, len(ids)), dtype=bool)})
    scores = found[0][0].astype(np.float64) / known["temperature"]
    if known["labels"]["multiple"]:  # each label has its own probability
        probabilities = 1 / (1 + np.exp(-scores))
    else:
        exponentials = np.exp(scores - scores.max())
        probabilities = exponentials / exponentials.sum()
    words = {number: token for token, number in vocabulary.items()}
    return known["labels"]["names"], [words.get(token, "?") for token in ids], probabilities, found[1][0]


if __name__ == "__main__":
    names, tokens, probabilities, weights = classify(" ".join(sys.argv[1:]))
    for name, probability in zip(names, probabilities, strict=True):
        print(f"{name:<16} {probability:.3f}")
    for token, weight in zip(tokens, np.atleast_2d(weights).mean(0), strict=True):
        print(f"{token:<16} {weight:.2f}")
