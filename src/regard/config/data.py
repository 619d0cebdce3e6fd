"""Settings of the files that a run learns from, and of the tokenizers that turn their texts into symbols."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from regard.config.checks import encoding_misfits
from regard.config.settings import DataSettings, Settings


@dataclass(frozen=True, kw_only=True)
class FileSettings(DataSettings):
    """Settings that the data of every built-in task have."""

    train: tuple[str, ...] = ()
    """Training files."""
    dev: tuple[str, ...] = ()
    """Files to validate on. Empty: `dev_size` examples are held out of `train`."""
    dev_size: int = 1000
    """Number of examples to hold out when `dev` is empty, at most a tenth; 0 holds out none."""
    encoding: str = "auto"
    """Encoding of the files, such as `cp1252`; `auto`: the one that a byte order mark gives, else UTF-8."""
    allow_skipped: float = 0.1
    """Largest share of a file's lines that may be unusable (undecodable, overlong, or without a column or a text), from 0
    to 1."""
    normalization: Literal["nfc", "nfkc", "none"] = "nfc"
    """Unicode normalization of the texts."""
    drop_repeats: bool = True
    """Keep one of each exactly repeated example: of a text, of a text with its label, or of a pair."""
    cache: str = ""
    """Folder of the encoded corpora, reused while data and tokenizers are unchanged. Empty: the user's cache folder, or the
    one that REGARD_CACHE names."""

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
    """A file of links between source and target words (Pharaoh format, `0-0 1-2`), line n for line n of `train`: attention is
    trained towards them (`training.alignment_weight`). Pairs whose line is empty or missing are learned without."""
    dev_size: int = 1000
    """How many pairs to hold out when `dev` is empty, never more than a tenth; 0 holds out none. Pairs that share a source
    or a target stay on one side. With `max_pairs`, they are taken from the pairs behind it where there are any."""
    source: str = "source"
    """Language of the source, as a code (`en`): names it in reports, picks spaCy's tokenizer and detokenization rules."""
    target: str = "target"
    """Language of the target, as a code (`de`)."""
    columns: tuple[str, ...] = ()
    """The source column and the target column, by name or by number from 0. Empty: chosen by the names and the content of the
    columns."""
    format: Literal["auto", "tsv", "csv", "jsonl", "parquet", "fast_align", "text"] = "auto"
    """Format of the files; `auto`: found from their names and first lines; `jsonl`: JSON lines or a JSON array; `fast_align`:
    lines whose two sides are separated by `|||`."""
    header: Literal["auto", "yes", "no"] = "auto"
    """Whether the first line is a header: of a tab- or comma-separated file, the names of the columns; of parallel files, the
    languages."""
    max_pairs: int = 0
    """Maximum number of training pairs, the first usable ones; 0 for all."""
    max_tokens: int = 200
    """Pairs with more tokens than this on a side are left out of training, and counted in the report."""


@dataclass(frozen=True, kw_only=True)
class LabelledDataConfig(FileSettings):
    """Files of labelled texts, and the rules for skipping texts."""

    train: tuple[str, ...] = ()
    """One file with a text and a label per line (.tsv, .csv, .json, .jsonl, .parquet, each also .gz), or one text file for each
    label, whose name without its ending is the label; or a folder of such files."""
    dev: tuple[str, ...] = ()
    """Labelled texts to validate on, in the same forms. Empty: `dev_size` texts are held out of `train`."""
    dev_size: int = 1000
    """How many texts to hold out when `dev` is empty, never more than a tenth; 0 holds out none. Labels keep their parts, and
    equal texts stay on one side."""
    folds: int = 0
    """Number of folds into which `train` is cut, one of which is held out in place of `dev_size`; 0 for no folds."""
    fold: int = 1
    """Number of the fold that is held out, from 1."""
    text: str = ""
    """Column of the text, by name or by number from 0. Empty: chosen by the names and the content of the columns."""
    label: str = ""
    """Column of the label, by name or by number from 0. Empty: chosen by the names and the content of the columns."""
    label_separator: str = ""
    """What stands between several labels of one text (`;`), which then may have none, one or many; lists in JSON and Parquet
    need none. Empty: every text has one label."""
    language: str = ""
    """Language of the texts, as a code (`en`): picks the rules of spaCy's tokenizer."""
    vectors: str = ""
    """File of word vectors that the embedding starts from, in the text format of GloVe, fastText or word2vec, also .gz."""
    vectors_size: int = 0
    """Width of the vectors: found in their file; 0 without one."""
    format: Literal["auto", "tsv", "csv", "jsonl", "parquet", "text"] = "auto"
    """Format of the files; `auto`: found from their names and first lines; `jsonl`: JSON lines or a JSON array; `text`: one
    file for each label, with one text per line."""
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
    """How many texts to hold out when `dev` is empty, never more than a tenth; 0 holds out none. Equal texts stay on one
    side."""
    unit: Literal["line", "paragraph"] = "line"
    """Unit of text: a line, or the lines up to an empty line, joined by spaces (for prose that is broken into lines)."""
    language: str = ""
    """Language of the texts, as a code (`en`): picks the rules of spaCy's tokenizer."""
    max_texts: int = 0
    """Maximum number of training texts; 0 for all."""
    max_tokens: int = 256
    """Maximum number of tokens per block; a block sees only the last token of the block before it."""


@dataclass(frozen=True, kw_only=True)
class VocabularySettings(Settings):
    """Settings of tokenizers whose symbols are the most frequent words, or characters."""

    kind: str
    lowercase: bool = False
    """If True, text is converted to lower case."""
    min_count: int = 1
    """Words (or characters) seen fewer times in training become the unknown symbol."""
    max_size: int = 0
    """Keep the N most frequent words (or characters); 0 for all."""


@dataclass(frozen=True, kw_only=True)
class WordsConfig(VocabularySettings):
    """Words and punctuation by Unicode's rules."""

    kind: Literal["words"] = "words"


@dataclass(frozen=True, kw_only=True)
class AutoConfig(VocabularySettings):
    """Chosen by the text: `whitespace` where punctuation stands apart from words already, `words` elsewhere."""

    kind: Literal["auto"] = "auto"


@dataclass(frozen=True, kw_only=True)
class WhitespaceConfig(VocabularySettings):
    """Text that is tokenised already: tokens are what stands between spaces, and come back so."""

    kind: Literal["whitespace"] = "whitespace"


@dataclass(frozen=True, kw_only=True)
class SpacyConfig(VocabularySettings):
    """The rules of spaCy's blank pipeline for the language (extra `spacy`)."""

    kind: Literal["spacy"] = "spacy"
    language: str = ""
    """Empty: the language that `data` names for this side."""


@dataclass(frozen=True, kw_only=True)
class CharactersConfig(VocabularySettings):
    """Every character a token."""

    kind: Literal["characters"] = "characters"


@dataclass(frozen=True, kw_only=True)
class SubwordSettings(Settings):
    """Settings of tokenizers that learn parts of words; spaces are kept, so that decoding gives the text back."""

    kind: str
    size: int = 8000
    """Number of symbols, special ones included."""
    lowercase: bool = False
    """If True, text is converted to lower case."""


@dataclass(frozen=True, kw_only=True)
class BPEConfig(SubwordSettings):
    """Byte-pair encoding (Sennrich et al. 2016); spaces are kept, so that decoding gives the text back."""

    kind: Literal["bpe"] = "bpe"
    min_count: int = 2
    """A merge needs to be seen this often."""


@dataclass(frozen=True, kw_only=True)
class UnigramConfig(SubwordSettings):
    """Unigram language model pieces (Kudo 2018)."""

    kind: Literal["unigram"] = "unigram"


FixedTokenizerConfig = WordsConfig | WhitespaceConfig | SpacyConfig | CharactersConfig | BPEConfig | UnigramConfig
TokenizerConfig = FixedTokenizerConfig | AutoConfig
"""A run's own configuration, as it is kept, has a fixed kind in place of `auto`."""


@dataclass(frozen=True, kw_only=True)
class TokenizersConfig(Settings):
    """How text becomes symbols, for each side."""

    source: TokenizerConfig = field(default_factory=WordsConfig)
    """How source texts become symbols."""
    target: TokenizerConfig = field(default_factory=WordsConfig)
    """How target texts become symbols."""
    joint: bool = False
    """One vocabulary for both sides, learned from both; `source` describes it and `target` must equal it."""
