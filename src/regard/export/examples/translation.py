"""Translate texts with the exported model, using only numpy and onnxruntime.

    python example.py she kissed him .

Words that are not in the vocabulary are split into the longest parts that are in it. If the package `tokenizers` is installed,
text is split exactly as in training.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

FOLDER = Path(__file__).parent
UNKNOWN, START, END, MOST = 1, 2, 3, 100


def load(side: str) -> tuple[dict, dict]:
    path = FOLDER / f"tokenizer.{side}.json"
    saved = json.loads((path if path.exists() else FOLDER / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = saved["tokenizer"]["model"]["vocab"]
    return saved, {token: number for number, (token, _) in enumerate(vocabulary)} if isinstance(
        vocabulary, list
    ) else vocabulary


def encode(text: str, saved: dict, vocabulary: dict) -> list[int]:
    text = text.lower() if saved["lowercase"] else text
    try:
        from tokenizers import Tokenizer

        return [*Tokenizer.from_str(json.dumps(saved["tokenizer"])).encode(text, add_special_tokens=False).ids, END]
    except ImportError:
        ids, mark = [], "▁" if any(token.startswith("▁") for token in vocabulary) else ""
    for word in text.split():
        rest = mark + word
        while rest:
            length = next((n for n in range(len(rest), 0, -1) if rest[:n] in vocabulary), len(rest))
            ids.append(vocabulary.get(rest[:length], UNKNOWN))
            rest = rest[length:]
    return [*ids, END]


def translate(text: str) -> tuple[list[str], np.ndarray]:
    (saved, source), (_, target) = load("source"), load("target")
    words = {number: token for token, number in target.items()}
    encoder, step = (onnxruntime.InferenceSession(str(FOLDER / f"{name}.onnx")) for name in ("encoder", "step"))
    ids = np.array([encode(text, saved, source)])
    given = {"source": ids, "source_mask": np.ones(ids.shape, dtype=bool)}
    given.update(zip([node.name for node in encoder.get_outputs()], encoder.run(None, given), strict=True))
    for node in step.get_inputs():
        if node.name.startswith("overrid"):  # the caller's own attention weights, which this program does not use
            shape = [{"B": 1, "N": 1, "S": ids.shape[1]}.get(size, size) for size in node.shape]
            given[node.name] = np.zeros(shape, bool if node.name == "overridden" else np.float32)
    written: list[tuple[str, np.ndarray]] = []
    token = START
    while token != END and len(written) < MOST:
        inputs = {node.name: given[node.name] for node in step.get_inputs() if node.name != "tokens"}
        found = dict(
            zip(
                [node.name for node in step.get_outputs()],
                step.run(None, {**inputs, "tokens": np.array([[token]])}),
                strict=True,
            )
        )
        given.update({name.removeprefix("next_"): array for name, array in found.items() if name.startswith("next_")})
        scores = found["log_probabilities"][0, 0]
        scores[[0, START]] = -np.inf
        token = int(scores.argmax())
        written.append((words.get(token, "?"), found["cross"][0, 0]))
    words_out = [word for word, _ in written]
    return words_out[:-1] if token == END else words_out, np.stack([weights for _, weights in written])


if __name__ == "__main__":
    output, attention = translate(" ".join(sys.argv[1:]))
    joined = "".join(output).replace("▁", " ") if any("▁" in word for word in output) else " ".join(output)
    print(joined.strip())
    for word, row in zip(output, attention, strict=False):
        print(f"{word:<16}", " ".join(f"{weight:.2f}" for weight in row))
