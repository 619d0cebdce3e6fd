"""Use the exported model, with only numpy and onnxruntime.

    python example.py The old man sang.

A translator translates the text, a language model continues it with the most probable tokens, and a classifier labels it. If
the package `tokenizers` is installed, text is split exactly as in training. Otherwise, words that are not in the vocabulary are
split into the longest parts that are in it.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

FOLDER = Path(__file__).parent
UNKNOWN, START, END = 1, 2, 3


def load_tokenizer(side: str = "source") -> tuple[dict, dict]:
    path = FOLDER / f"tokenizer.{side}.json"
    saved = json.loads((path if path.exists() else FOLDER / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = saved["tokenizer"]["model"]["vocab"]
    if isinstance(vocabulary, list):
        vocabulary = {token: number for number, (token, _) in enumerate(vocabulary)}
    return saved, vocabulary


def encode(text: str, saved: dict, vocabulary: dict) -> list[int]:
    text = text.lower() if saved["lowercase"] else text
    try:
        from tokenizers import Tokenizer

        return [*Tokenizer.from_str(json.dumps(saved["tokenizer"])).encode(text, add_special_tokens=False).ids]
    except ImportError:
        ids, mark = [], "▁" if any(token.startswith("▁") for token in vocabulary) else ""
    for word in [" ".join(text.split())] if saved["kind"] == "characters" else text.split():
        rest = mark + word
        while rest:
            length = next((n for n in range(len(rest), 0, -1) if rest[:n] in vocabulary), len(rest))
            ids.append(vocabulary.get(rest[:length], UNKNOWN))
            rest = rest[length:]
    return ids


def show_text(words: list[str], kind: str) -> None:
    joined = "".join(words) if kind == "characters" or any("▁" in word for word in words) else " ".join(words)
    print(joined.replace("▁", " ").strip())


def open_graph(name: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # one text is too little work for several threads
    return onnxruntime.InferenceSession(str(FOLDER / f"{name}.onnx"), options)


def decode(
    ids: list[int], encoder: onnxruntime.InferenceSession | None, step: onnxruntime.InferenceSession, longest: int = 100
) -> list[tuple[int, np.ndarray]]:
    """Return the most probable tokens, each with its attention to the source. Without an encoder, they continue `ids`."""
    inputs = {node.name: node.shape for node in step.get_inputs()}
    outputs = [node.name for node in step.get_outputs()]
    state = [name.removeprefix("next_") for name in outputs if name.startswith("next_")]
    if encoder:
        given = {"source": np.array([ids]), "source_mask": np.ones((1, len(ids)), dtype=bool)}
        given.update(zip([node.name for node in encoder.get_outputs()], encoder.run(None, given), strict=True))
        tokens = [START]
    else:  # no words so far
        sizes = {name: [size if isinstance(size, int) else 0 for size in inputs[name][2:]] for name in state}
        given = {name: np.zeros([1, 1, *sizes[name]], np.float32) for name in state}
        tokens = [START, *ids]
    written: list[tuple[int, np.ndarray]] = []
    for number in range(longest + len(tokens) - 1):
        given["tokens"] = np.array([[tokens[number]]])
        for name in inputs.keys() & {"override", "overridden"}:  # the caller's own attention weights, which are not used here
            length = len(ids) if encoder else number + 1
            shape = [{"B": 1, "N": 1, "S": length}.get(size, size) for size in inputs[name]]
            given[name] = np.zeros(shape, bool if name == "overridden" else np.float32)
        found = dict(zip(outputs, step.run(outputs, {name: given[name] for name in inputs}), strict=True))
        given.update({name: found[f"next_{name}"] for name in state})
        if number + 1 < len(tokens):
            continue
        found["log_probabilities"][..., [0, START]] = -np.inf
        tokens.append(int(found["log_probabilities"].argmax()))
        written.append((tokens[-1], found["cross"][0, 0] if encoder else np.empty(0)))
        if tokens[-1] == END:
            break
    return written


def translate(text: str) -> None:
    (saved, source), (other, target) = load_tokenizer("source"), load_tokenizer("target")
    words = {number: token for token, number in target.items()}
    written = decode([*encode(text, saved, source), END], open_graph("encoder"), open_graph("step"))
    show_text([words.get(token, "?") for token, _ in written if token != END], other["kind"])
    for token, row in written:
        if token != END:
            print(f"{words.get(token, '?'):<16}", " ".join(f"{weight:.2f}" for weight in row))


def generate(text: str) -> None:
    saved, vocabulary = load_tokenizer()
    words = {number: token for token, number in vocabulary.items()}
    ids = encode(text, saved, vocabulary)
    written = decode(ids, None, open_graph("step"), 30)
    show_text([words.get(token, "?") for token in (*ids, *(token for token, _ in written)) if token != END], saved["kind"])


def classify(text: str) -> None:
    saved, vocabulary = load_tokenizer()
    known = json.loads((FOLDER / "labels.json").read_text(encoding="utf-8"))
    ids = encode(text, saved, vocabulary)
    given = {"tokens": np.array([ids]), "mask": np.ones((1, len(ids)), dtype=bool)}
    scores, weights = (array[0] for array in open_graph("classifier").run(["logits", "pool"], given))
    scores = scores.astype(np.float64) / known["temperature"]
    if known["labels"]["multiple"]:  # each label has its own probability
        probabilities = 1 / (1 + np.exp(-scores))
    else:
        exponentials = np.exp(scores - scores.max())
        probabilities = exponentials / exponentials.sum()
    for name, probability in zip(known["labels"]["names"], probabilities, strict=True):
        print(f"{name:<16} {probability:.3f}")
    words = {number: token for token, number in vocabulary.items()}
    for token, weight in zip(ids, np.atleast_2d(weights).mean(0), strict=True):
        print(f"{words.get(token, '?'):<16} {weight:.2f}")


if __name__ == "__main__":
    text = " ".join(sys.argv[1:])
    if (FOLDER / "classifier.onnx").exists():
        classify(text)
    elif (FOLDER / "encoder.onnx").exists():
        translate(text)
    else:
        generate(text)
