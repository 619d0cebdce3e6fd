"""Translate texts with the exported model, using only numpy and onnxruntime.

    python example.py she kissed him .

If the package `tokenizers` is installed, text is split exactly as in training. Otherwise, words that are not in the vocabulary
are split into the longest parts that are in it.
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


def open_graph(name: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # one sentence is too little work for several threads
    return onnxruntime.InferenceSession(str(FOLDER / f"{name}.onnx"), options)


def decode(
    ids: list[int], encoder: onnxruntime.InferenceSession, step: onnxruntime.InferenceSession
) -> list[tuple[int, np.ndarray]]:
    given = {"source": np.array([ids]), "source_mask": np.ones((1, len(ids)), dtype=bool)}
    given.update(zip([node.name for node in encoder.get_outputs()], encoder.run(None, given), strict=True))
    for node in step.get_inputs():
        if node.name.startswith("overrid"):  # the caller's own attention weights, which this program does not use
            shape = [{"B": 1, "N": 1, "S": len(ids)}.get(size, size) for size in node.shape]
            given[node.name] = np.zeros(shape, bool if node.name == "overridden" else np.float32)
    inputs = [node.name for node in step.get_inputs()]
    state = [node.name for node in step.get_outputs() if node.name.startswith("next_")]
    token = START
    written: list[tuple[int, np.ndarray]] = []
    while token != END and len(written) < MOST:
        given["tokens"] = np.array([[token]])
        scores, cross, *after = step.run(["log_probabilities", "cross", *state], {name: given[name] for name in inputs})
        given.update(zip([name.removeprefix("next_") for name in state], after, strict=True))
        scores[..., [0, START]] = -np.inf
        token = int(scores.argmax())
        written.append((token, cross[0, 0]))
    return written


def translate(text: str) -> tuple[list[str], np.ndarray]:
    (saved, source), (_, target) = load("source"), load("target")
    words = {number: token for token, number in target.items()}
    written = decode(encode(text, saved, source), open_graph("encoder"), open_graph("step"))
    return [words.get(token, "?") for token, _ in written if token != END], np.stack([weights for _, weights in written])


if __name__ == "__main__":
    output, attention = translate(" ".join(sys.argv[1:]))
    joined = "".join(output).replace("▁", " ") if any("▁" in word for word in output) else " ".join(output)
    print(joined.strip())
    for word, row in zip(output, attention, strict=False):
        print(f"{word:<16}", " ".join(f"{weight:.2f}" for weight in row))
