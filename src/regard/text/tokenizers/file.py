"""A tokenizer as one JSON file: fields of regard, and a complete `tokenizer.json` of the `tokenizers` library.

No code in the file is run. From the library's part, only symbols, merges and scores are read and checked; the rules are
rebuilt from the kind of the tokenizer.
"""

import json
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Library
from tokenizers import decoders, normalizers

from regard import disk
from regard.errors import BundleError, ConfigError
from regard.text.tokenizers.pretrained import PretrainedScheme
from regard.text.tokenizers.schemes import SPACE_MARK, Scheme
from regard.text.tokenizers.vocabulary import Symbols, check_symbols

FORMAT = "regard-tokenizer"
VERSION = 1
_AGAIN = "copy the file from the trained model again"
_MOST_BYTES = 512 * 2**20
_MOST_SYMBOLS = 10_000_000
_MODELS = {"whitespace": "WordLevel", "words": "WordLevel", "spacy": "WordLevel", "characters": "WordLevel"}
_MODELS |= {"bpe": "BPE", "unigram": "Unigram"}
_FIELDS = {"format": str, "version": int, "kind": str, "language": str, "lowercase": bool, "normalization": str, "spacy": str}


def write_tokenizer(path: str | Path, symbols: Symbols, scheme: Scheme, *, lowercase: bool, normalization: str) -> None:
    """Write the file. The `tokenizers` library can load its part of the file, but may lower-case rare letters differently."""
    content = scheme.to_plain() or _library(symbols, scheme, lowercase=lowercase, normalization=normalization)
    plain = {
        "format": FORMAT,
        "version": VERSION,
        "kind": scheme.kind,
        "language": scheme.language,
        "lowercase": lowercase,
        "normalization": normalization,
        "spacy": metadata.version("spacy") if scheme.kind == "spacy" else "",
        "tokenizer": json.loads(content),
    }
    disk.write(Path(path), json.dumps(plain, ensure_ascii=False, indent=1) + "\n")


def _library(symbols: Symbols, scheme: Scheme, *, lowercase: bool, normalization: str) -> str:
    """Return the part of the file that the `tokenizers` library can load."""
    library = Library(symbols.model())
    steps = [] if normalization == "none" else [normalizers.NFC() if normalization == "nfc" else normalizers.NFKC()]
    library.normalizer = normalizers.Sequence([*steps, normalizers.Lowercase()] if lowercase else steps)
    library.pre_tokenizer = scheme.pre_tokenizer
    if scheme.space == SPACE_MARK:
        library.decoder = decoders.Metaspace(SPACE_MARK, "always")
    return library.to_str()


def read_tokenizer(path: str | Path, data: bytes | None = None) -> tuple[dict[str, Any], Symbols]:
    """Read and check a file; `data` is its content, if it was read before.

    Returns:
        The fields `kind`, `language`, `lowercase` and `normalization`, among others, and the `scheme` of a pretrained
        tokenizer; and the symbols.
    """
    content = _read_json(Path(path), data)
    where = f"{path} is not a tokenizer that regard can read"
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise BundleError(f'{where}: it has no "format": "{FORMAT}"; name a tokenizer*.json of a trained model')
    if type(content.get("version")) is int and content["version"] != VERSION:
        raise BundleError(
            f"{where}: its format version is {content['version']}, but this regard reads {VERSION}; upgrade regard"
        )
    if set(content) != {*_FIELDS, "tokenizer"}:
        odd = sorted({*_FIELDS, "tokenizer"} ^ set(content))
        raise BundleError(f"{where}: it is damaged or was edited (missing or unknown fields: {', '.join(odd)})")
    for name, kind in _FIELDS.items():
        if type(content[name]) is not kind or (kind is str and len(content[name]) > 100):
            raise BundleError(f"{where}: its {name} is not a {kind.__name__} as expected, but {str(content[name])[:60]!r}")
    if content["kind"] not in (*_MODELS, PretrainedScheme.name) or content["normalization"] not in {"nfc", "nfkc", "none"}:
        raise BundleError(f"{where}: unknown kind {content['kind']!r} or normalization {content['normalization']!r}")
    if content["kind"] == PretrainedScheme.name:
        try:
            scheme = PretrainedScheme(json.dumps(content["tokenizer"]), str(path))
        except ConfigError as error:
            raise BundleError(str(error)) from error
        return content | {"scheme": scheme}, scheme.symbols
    try:
        symbols = _read_symbols(content["tokenizer"]["model"], _MODELS[content["kind"]])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BundleError(f"{where}: its vocabulary is damaged ({error!r:.200}); {_AGAIN}") from error
    if problem := check_symbols(symbols):
        raise BundleError(f"{where}: {problem}; {_AGAIN}")
    if content["spacy"]:
        _compare_spacy(path, content["spacy"])
    return content, symbols


def _read_json(path: Path, data: bytes | None) -> Any:
    try:
        size = path.stat().st_size if data is None else len(data)
        if size > _MOST_BYTES:
            raise BundleError(f"{path} has {size:,} bytes; a tokenizer has at most {_MOST_BYTES:,}")
        return json.loads(path.read_bytes() if data is None else data)
    except OSError as error:
        raise BundleError(
            f"{path} cannot be read: {error.strerror or error}; check that this is the folder of a trained model"
        ) from error
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path} is not a tokenizer that regard can read: it is not JSON ({error}); {_AGAIN}") from error


def _read_symbols(model: dict[str, Any], expected: str) -> Symbols:
    if model["type"] != expected:
        raise ValueError(f"a {expected} model was expected, not {str(model['type'])[:60]}")
    if len(model["vocab"]) > _MOST_SYMBOLS:
        raise ValueError(f"{len(model['vocab']):,} symbols; at most {_MOST_SYMBOLS:,} are read")
    if expected == "Unigram":
        tokens = tuple(_string(token) for token, _ in model["vocab"])
        return Symbols(tokens, scores=tuple(float(score) for _, score in model["vocab"]))
    ids = {token: number for token, number in model["vocab"].items() if type(number) is int}
    if sorted(ids.values()) != list(range(len(model["vocab"]))):
        raise ValueError("its ids are not 0, 1, 2, … without gaps")
    tokens = tuple(sorted(ids, key=ids.__getitem__))
    if expected == "WordLevel":
        return Symbols(tokens)
    return Symbols(tokens, merges=tuple((_string(left), _string(right)) for left, right in model["merges"]))


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:60]!r} is not a string")
    return value


def _compare_spacy(path: str | Path, recorded: str) -> None:
    """Warn if the version of spaCy differs, because it may split words differently."""
    try:
        present = metadata.version("spacy")
    except metadata.PackageNotFoundError:
        return  # the scheme raises an error about the missing package
    if recorded.split(".")[:2] != present.split(".")[:2]:
        warnings.warn(
            f"{path} was made with spaCy {recorded}, but {present} is installed: words may be split differently", stacklevel=4
        )
