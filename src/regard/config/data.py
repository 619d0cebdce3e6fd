"""Settings of the data files, and of the tokenizers that turn texts into symbols."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from regard.config.checks import encoding_misfits
from regard.config.settings import DataSettings, Settings


@dataclass(frozen=True, kw_only=True)
class FileSettings(DataSettings):
    """Settings of the data of all built-in tasks."""

    train: tuple[str, ...] = ()
    """Training files."""
    dev: tuple[str, ...] = ()
    """Files to validate on. Empty: `dev_size` examples are held out of `train`."""
    dev_size: int = 1000
    """Number of examples to hold out when `dev` is empty, at most a tenth of all; 0 holds out none."""
    encoding: str = "auto"
    """Encoding of the files, such as `cp1252`; `auto` for that of the byte order mark, else UTF-8."""
    allow_skipped: float = 0.1
    """Maximum share of unusable lines in a file, from 0 to 1: lines that cannot be decoded, are too long, or lack a column
    or a text.
    """
    normalization: Literal["nfc", "nfkc", "none"] = "nfc"
    """Unicode normalization of the texts."""
    drop_repeats: bool = True
    """Whether to remove duplicates: equal pairs, equal texts with the same label, or equal texts without labels."""
    cache: str = ""
    """Folder of the encoded corpora, which are reused while data and tokenizers are unchanged. Empty: the folder in
    the environment variable REGARD_CACHE, or else the user's cache folder.
    """

    def misfits(self) -> Iterable[tuple[str, str]]:
        """Check the name of the encoding."""
        return encoding_misfits(self.encoding)


@dataclass(frozen=True, kw_only=True)
class DataConfig(FileSettings):
    """Files of sentence pairs, and the rules for skipping pairs."""

    train: tuple[str, ...] = ()
    """One file of pairs (.tsv, .txt, .csv, .json, .jsonl, .parquet, each also .gz), or two parallel text files."""
    dev: tuple[str, ...] = ()
    """Pairs to validate on, in the same forms. Empty: `dev_size` pairs are held out of `train`."""
    alignments: str = ""
    """File of links between source and target words (Pharaoh format, `0-0 1-2`), whose line n belongs to line n of `train`.
    Attention is trained towards them (`training.alignment_weight`). Pairs with an empty or missing line are trained without
    links.
    """
    dev_size: int = 1000
    """Number of pairs to hold out when `dev` is empty, at most a tenth of all; 0 holds out none. Pairs that share a source or
    a target are all held out, or all used for training. With `max_pairs`, pairs after that limit are held out first.
    """
    source: str = "source"
    """Language code of the source (`en`). It is used in reports, and selects spaCy's tokenizer and the detokenization rules."""
    target: str = "target"
    """Language code of the target (`de`)."""
    columns: tuple[str, ...] = ()
    """The source column and the target column, by name or by number from 0. Empty: chosen by the names and the content of the
    columns."""
    format: Literal["auto", "tsv", "csv", "jsonl", "parquet", "fast_align", "text"] = "auto"
    """Format of the files; `auto`: found from their names and first lines; `jsonl`: JSON lines or a JSON array; `fast_align`:
    lines whose two sides are separated by `|||`."""
    header: Literal["auto", "yes", "no"] = "auto"
    """Whether the first line is a header: column names in a tab- or comma-separated file, languages in parallel files."""
    max_pairs: int = 0
    """Maximum number of training pairs, the first usable ones; 0 for all."""
    max_tokens: int = 200
    """Maximum number of tokens on each side. Longer pairs are left out of training and counted in the report."""


@dataclass(frozen=True, kw_only=True)
class LabelledDataConfig(FileSettings):
    """Files of labelled texts, and the rules for skipping texts."""

    train: tuple[str, ...] = ()
    """One file with a text and a label per line (.tsv, .csv, .json, .jsonl, .parquet, each also .gz), or one text file for each
    label, whose name without its ending is the label; or a folder of such files; or a folder with a subfolder of texts for
    each label."""
    dev: tuple[str, ...] = ()
    """Labelled texts to validate on, in the same forms. Empty: `dev_size` texts are held out of `train`."""
    dev_size: int = 1000
    """Number of texts to hold out when `dev` is empty, at most a tenth of all; 0 holds out none. The split is stratified by
    label, and equal texts are all held out, or all used for training.
    """
    folds: int = 0
    """Number of folds of `train`, one of which is held out instead of `dev_size` texts; 0 for no folds."""
    fold: int = 1
    """Number of the fold that is held out, from 1."""
    text: str = ""
    """Column of the text, by name or by number from 0. Empty: chosen by the names and the content of the columns."""
    label: str = ""
    """Column of the label, by name or by number from 0. Empty: chosen by the names and the content of the columns."""
    label_separator: str = ""
    """Separator of several labels of one text, such as `;`. A text can then have no, one or many labels. Lists in JSON and
    Parquet need no separator. Empty: every text has one label.
    """
    language: str = ""
    """Language code of the texts (`en`), which selects the rules of spaCy's tokenizer."""
    vectors: str = ""
    """File of word vectors that the embedding starts from, in the text format of GloVe, fastText or word2vec, also .gz."""
    vectors_size: int = 0
    """Width of the vectors, read from their file; 0 without a file."""
    format: Literal["auto", "tsv", "csv", "jsonl", "parquet", "text"] = "auto"
    """Format of the files; `auto`: found from their names and first lines; `jsonl`: JSON lines or a JSON array; `text`: one
    file for each label, with one text per line, or one folder for each label, with one text per file."""
    header: Literal["auto", "yes", "no"] = "auto"
    """Whether the first line of a tab- or comma-separated file names the columns."""
    max_texts: int = 0
    """Maximum number of training texts, stratified by label; 0 for all. The held-out texts stay the same."""
    max_tokens: int = 400
    """Maximum number of tokens per text, in training and later; longer texts are truncated, and the report says how many."""


@dataclass(frozen=True, kw_only=True)
class TextDataConfig(FileSettings):
    """Files of texts, and the rules for skipping texts."""

    train: tuple[str, ...] = ()
    """Text files (also .gz)."""
    dev: tuple[str, ...] = ()
    """Texts to validate on. Empty: `dev_size` texts are held out of `train`."""
    dev_size: int = 1000
    """Number of texts to hold out when `dev` is empty, at most a tenth of all; 0 holds out none. Equal texts are all held
    out, or all used for training.
    """
    unit: Literal["line", "paragraph"] = "line"
    """Unit of text: a line, or the lines up to an empty line, joined by spaces (for prose that is broken into lines)."""
    language: str = ""
    """Language code of the texts (`en`), which selects the rules of spaCy's tokenizer."""
    max_texts: int = 0
    """Maximum number of training texts; 0 for all."""
    max_tokens: int = 256
    """Maximum number of tokens per block. The first token of a block is the last token of the previous block; the model sees
    no other token of the previous block.
    """


@dataclass(frozen=True, kw_only=True)
class VocabularySettings(Settings):
    """Settings of tokenizers whose symbols are the most frequent words, or characters."""

    kind: str
    lowercase: bool = False
    """If True, text is converted to lower case."""
    min_count: int = 1
    """Minimum number of occurrences in training; rarer words (or characters) become the unknown symbol."""
    max_size: int = 0
    """Keep the N most frequent words (or characters); 0 for all."""


@dataclass(frozen=True, kw_only=True)
class WordsConfig(VocabularySettings):
    """Words and punctuation by Unicode's rules."""

    kind: Literal["words"] = "words"


@dataclass(frozen=True, kw_only=True)
class AutoConfig(VocabularySettings):
    """Tokenizer that is chosen from the text: `whitespace` if punctuation is already separated from words, else `words`."""

    kind: Literal["auto"] = "auto"


@dataclass(frozen=True, kw_only=True)
class WhitespaceConfig(VocabularySettings):
    """Tokenizer for tokenised text: tokens are separated by spaces, and decoding joins them with spaces."""

    kind: Literal["whitespace"] = "whitespace"


@dataclass(frozen=True, kw_only=True)
class SpacyConfig(VocabularySettings):
    """Words by the rules of spaCy's blank pipeline for the language (extra `spacy`)."""

    kind: Literal["spacy"] = "spacy"
    language: str = ""
    """Language code; empty for the language of this side in `data`."""


@dataclass(frozen=True, kw_only=True)
class CharactersConfig(VocabularySettings):
    """Every character is a token."""

    kind: Literal["characters"] = "characters"


@dataclass(frozen=True, kw_only=True)
class SubwordSettings(Settings):
    """Settings of tokenizers that learn parts of words; spaces are kept, so that decoding restores the text."""

    kind: str
    size: int = 8000
    """Number of symbols, including special ones."""
    lowercase: bool = False
    """If True, text is converted to lower case."""


@dataclass(frozen=True, kw_only=True)
class BPEConfig(SubwordSettings):
    """Byte-pair encoding (Sennrich et al. 2016); spaces are kept, so that decoding restores the text."""

    kind: Literal["bpe"] = "bpe"
    min_count: int = 2
    """Minimum number of occurrences of two symbols next to each other, to merge them."""


@dataclass(frozen=True, kw_only=True)
class UnigramConfig(SubwordSettings):
    """Subwords that a unigram language model selects (Kudo 2018)."""

    kind: Literal["unigram"] = "unigram"


FixedTokenizerConfig = WordsConfig | WhitespaceConfig | SpacyConfig | CharactersConfig | BPEConfig | UnigramConfig
TokenizerConfig = FixedTokenizerConfig | AutoConfig
"""In the saved configuration of a run, a fixed kind replaces `auto`."""


@dataclass(frozen=True, kw_only=True)
class TokenizersConfig(Settings):
    """Tokenizers of both sides."""

    source: TokenizerConfig = field(default_factory=WordsConfig)
    """Tokenizer of the source."""
    target: TokenizerConfig = field(default_factory=WordsConfig)
    """Tokenizer of the target."""
    joint: bool = False
    """Whether both sides share one vocabulary, learned from both. `source` and `target` must then be equal."""
