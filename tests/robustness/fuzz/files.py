"""Targets that read what stands beside models: tokenizers, configurations, records of attention."""

import io
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.engine import SEAM, Target

from regard.config.loading import dump_config, load_config, override_layer, parse_layer, read_config, render_config
from regard.records import frames, load_record, patches, record
from regard.text.tokenizers.tokenizer import Tokenizer, build_tokenizer

PAIRS = (["she kissed him .", "a cat sleeps on the mat ."], ["sie küsste ihn .", "eine Katze schläft auf der Matte ."])
_LEARNT = {"bpe": 4, "unigram": 16}
"""The kinds that take milliseconds to learn: one input in so many is learnt from, the others meet what was learnt before."""
KINDS = ("words", "whitespace", "characters", "bpe", "unigram", "spacy")
_HARD_TEXT = "It's 3.14 — “well-known” R&B 👩‍🚀, U.S. naïve 東京 don't▁x\n\tﬁ İI ²"


@cache
def trained(kind: str, lowercase: bool = False) -> Tokenizer:
    """A small tokenizer."""
    config = _settings(kind, lowercase, 40 if kind in _LEARNT else 0)
    return build_tokenizer([[*PAIRS[0], _HARD_TEXT]], config, language="en")


@cache
def _settings(kind: str, lowercase: bool, size: int) -> Any:
    settings = {"kind": kind, "lowercase": lowercase} | ({"size": size} if size else {})
    return load_config({"tokenizers": {"source": settings}}).tokenizers.source  # type: ignore[union-attr]


def _learn(kind: str) -> Callable[[Path], Callable[[bytes], object]]:
    def start(folder: Path) -> Callable[[bytes], object]:
        def run(data: bytes) -> None:
            bits, texts = (data[0] if data else 0), data[1:].decode("utf-8", "surrogateescape").split("\n")
            lowercase, form = bool(bits & 1), ("nfc", "nfkc", "none")[bits % 3]
            if kind in _LEARNT and len(data) % _LEARNT[kind]:
                return check_texts(trained(kind, lowercase), texts)
            config = _settings(kind, lowercase, (5, 12, 60, 1000)[bits >> 1 & 3] if kind in _LEARNT else 0)
            return check_texts(build_tokenizer([texts], config, language="en", normalization=form), texts)  # type: ignore[arg-type]

        return run

    return start


def _encode(kind: str) -> Callable[[Path], Callable[[bytes], object]]:
    def start(folder: Path) -> Callable[[bytes], object]:
        tokenizer = trained(kind)
        return lambda data: check_texts(tokenizer, data.decode("utf-8", "surrogateescape").split("\n"))

    return start


def check_texts(tokenizer: Tokenizer, texts: Sequence[str]) -> None:
    """What every tokenizer promises for every text."""
    ids, offsets = tokenizer.encode_batch([*texts, ""])  # one text alone would be encoded by `encode`
    for number, text in enumerate(texts):
        encoding = tokenizer.encode(text)
        assert encoding.ids == ids[offsets[number] : offsets[number + 1]].tolist()
        assert len(encoding.ids) == len(encoding.tokens) == len(encoding.word_of)
        assert all(0 <= owner < len(encoding.words) for owner in encoding.word_of)
        tokenizer.decode(encoding.ids).encode()
        described = tokenizer.describe(encoding.ids)
        assert all(-1 <= owner < max(1, len(described.words)) for owner in described.word_of)
        tokenizer.detokenize(encoding.words).encode()


def _tokenizer_file(folder: Path) -> Callable[[bytes], object]:
    def run(data: bytes) -> None:
        check_texts(Tokenizer.load("tokenizer.json", data=data), [PAIRS[0][0], _HARD_TEXT, ""])

    return run


def saved(tokenizer: Tokenizer, folder: Path) -> bytes:
    """A tokenizer's file."""
    path = folder / "tokenizer.json"
    tokenizer.save(path)
    return path.read_bytes()


def _config(folder: Path) -> Callable[[bytes], object]:
    path = folder / "config.yaml"

    def run(data: bytes) -> None:
        path.write_bytes(data)
        config = read_config(path)
        assert load_config(dump_config(config)) == config
        if len(data) % 32 == 0:  # a long YAML text
            assert load_config(parse_layer(render_config(config), "again")) == config

    return run


def _overrides(folder: Path) -> Callable[[bytes], object]:
    def run(data: bytes) -> None:
        lines = data.decode("utf-8", "surrogateescape").split("\n")
        load_config(override_layer({name: value for name, _, value in (line.partition("=") for line in lines) if name}))

    return run


def _record(name: str) -> Callable[[Path], Callable[[bytes], object]]:
    def start(folder: Path) -> Callable[[bytes], object]:
        path = folder / name

        def run(data: bytes) -> None:
            path.write_bytes(repack(data) if name.endswith(".npz") else data)
            loaded = load_record(path)
            assert type(loaded).from_json(loaded.to_json()) == loaded
            for site in loaded.sites:
                matrix = loaded.matrix(site)
                assert matrix.shape == tuple(map(len, loaded.words(site)))
                assert np.isfinite(matrix).all()
                loaded.pharaoh(site)
                loaded.view(site)

        return run

    return start


def repack(data: bytes) -> bytes:
    """A zip archive of its members' contents, so that mutations need not mend checksums; other bytes stay as they are."""
    if not data.startswith(b"{"):
        return data
    members = data.split(SEAM)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for number, member in enumerate(members):
            array = np.frombuffer(member, np.uint8) if number == 0 else None
            content = io.BytesIO()
            if array is not None:
                np.save(content, array)
            archive.writestr("record.npy" if number == 0 else f"weights.{number - 1}.npy", content.getvalue() or member)
    return buffer.getvalue()


def _unpack(content: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        texts = np.load(io.BytesIO(archive.read("record.npy"))).tobytes()
        arrays = [archive.read(name) for name in sorted(archive.namelist()) if name != "record.npy"]
    return SEAM.join([texts, *arrays])


def _record_seeds(name: str) -> list[bytes]:
    plain = record([[0.9, 0.1], [0.2, 0.8]], ["good", "day"], ["guten", "Tag"], reference="x", score=-1.5)
    heads = record({"cross": [[[1.0]], [[1.0]]], "encoder.0": [[0.25]]}, ["a"], ["b"])
    labels = record([[0.5, 0.5]], ["so", "good"], ["pos"], probabilities={"pos": 0.75, "neg": 0.25})
    parts = {"A": ["a"], "": patches(1, 2, np.zeros((2, 2))), "sound": frames(2, 0.5, [0.0, 1.0])}
    placed = record([[0.2, 0.3, 0.1, 0.2, 0.2]], parts, {"words": ["x"]})
    with tempfile.TemporaryDirectory() as folder:
        contents = []
        for number, each in enumerate((plain, heads, labels, placed)):
            path = Path(folder) / f"{number}{name}"
            each.save(path)
            contents.append(path.read_bytes())
    return contents if name == ".json" else [*contents, *map(_unpack, contents)]


def _texts() -> list[bytes]:
    return [f"{bits}{text}".encode() for bits in "0123456" for text in ("\n".join(PAIRS[0]), _HARD_TEXT, PAIRS[1][1])]


def _tokenizer_seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        return [saved(trained(kind), Path(folder)) for kind in KINDS]


def _config_seeds() -> list[bytes]:
    """Short ones: YAML is read by a library in Python, a hundred times slower than what is done with it."""
    short = b"seed: 7\nmodel:\n  kind: transformer\n  num_heads: 8\ndata: {train: [a.tsv, b.tsv], columns: [0, 1]}\n"
    nested = b"model:\n  encoder: {cell: lstm, num_layers: 2}\n  decoder:\n    kind: luong\n    attention: {kind: general}\n"
    classifier = (
        b"task: classification\nmodel:\n  kind: combined\n  counted: {max_ngram: 2}\n"
        b"  recurrent: {pooling: {kind: additive}}\ndata: {folds: 3, fold: 2}\n"
    )
    language = (
        b"task: language\ntraining:\n  learning_rate: 1e-3\n  schedule: {kind: cosine}\ntokenizer: {kind: bpe, size: 99}\n"
    )
    bomb = b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"
    tagged = b'out: !!python/object/apply:os.system ["true"]\nx: "\\U00110000"\n? [a]\n: b\n'
    return [short, nested, classifier, language, bomb, tagged]


YAML = (
    *(b": ", b"- ", b"\n  ", b"{", b"}", b"[", b"]", b"&a ", b"*a", b"!!python/name:os.system ", b"!<x> ", b"%YAML 9.9\n---\n"),
    *(
        b"? ",
        b"| ",
        b">-\n",
        b"kind: ",
        b"kind: []",
        b"task: classification\n",
        b"null",
        b"~",
        b"<<: ",
        b'"\\U00110000"',
        b"\\x",
    ),
    *(b"hidden_size: 1000000000", b"num_layers: 1000000000", b"encoder_layers: 99999999", b"- - - -", b"[[[[", b"#", b"\t"),
)
JSON = (
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b'"',
    b"\\",
    b'"shape":',
    b'"files":',
    b'"dtype":"F64"',
    b"[1000000,1000000]",
    b"[-1]",
)


FILES = (
    *(Target(f"tokenizer-{kind}", _learn(kind), _texts, (b" ", b"\n")) for kind in KINDS[:5]),
    Target("tokenizer-spacy", _encode("spacy"), _texts, (b" ", b"\n")),
    Target("tokenizer-file", _tokenizer_file, _tokenizer_seeds, JSON),
    Target("config", _config, _config_seeds, YAML),
    Target("overrides", _overrides, lambda: [b"seed=7\nmodel.kind=transformer", b"a.b=1\na=2"], (b"=", b".", b"\n")),
    Target("record-json", _record("r.json"), lambda: _record_seeds(".json"), JSON),
    Target("record-npz", _record("r.npz"), lambda: _record_seeds(".npz"), (*JSON, SEAM, b"\x93NUMPY\x01", b"'<f4'", b"(2, 2)")),
)
