"""Continue a text with the most probable tokens, using only numpy and onnxruntime.

    python example.py a man in a

If the package `tokenizers` is installed, text is split exactly as in training. Otherwise, words that are not in the vocabulary
are split into the longest parts that are in it.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

FOLDER = Path(__file__).parent
UNKNOWN, START, END, MOST = 1, 2, 3, 30


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


def generate(text: str) -> list[str]:
    saved, vocabulary = load()
    words = {number: token for token, number in vocabulary.items()}
    step = onnxruntime.InferenceSession(str(FOLDER / "step.onnx"))
    outputs = [node.name for node in step.get_outputs()]
    shape = next(node.shape for node in step.get_inputs() if node.name == "own_key")
    empty = np.zeros([1, 1, *(size if isinstance(size, int) else 0 for size in shape[2:])], np.float32)
    state = {"own_key": empty, "own_value": empty}
    unused = [node for node in step.get_inputs() if node.name.startswith("overrid")]  # the caller's own attention weights
    tokens = [START, *encode(text, saved, vocabulary)]
    for number in range(MOST + len(tokens)):
        given = {"tokens": np.array([[tokens[number]]]), **state}
        for node in unused:
            shape = [{"B": 1, "N": 1, "S": number + 1}.get(size, size) for size in node.shape]
            given[node.name] = np.zeros(shape, bool if node.name == "overridden" else np.float32)
        found = dict(zip(outputs, step.run(None, given), strict=True))
        state = {name: found[f"next_{name}"] for name in state}
        if number + 1 == len(tokens):
            scores = found["log_probabilities"][0, 0]
            scores[[0, START]] = -np.inf
            tokens.append(int(scores.argmax()))
        if tokens[-1] == END:
            break
    return [words.get(token, "?") for token in tokens[1:] if token != END]


if __name__ == "__main__":
    output = generate(" ".join(sys.argv[1:]))
    joined = "".join(output).replace("▁", " ") if any("▁" in word for word in output) else " ".join(output)
    print(joined.strip())
