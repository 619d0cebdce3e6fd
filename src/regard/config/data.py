"""Settings of the data files, and of the tokenizers that split texts into tokens."""

import codecs
from collections.abc import Iterator
from dataclasses import field
from encodings.aliases import aliases
from typing import Annotated, Literal

from annotated_types import Ge, Le

from regard.config.fields import Count, Natural, Probability, Role
from regard.config.settings import DataSettings, Settings
from regard.errors import nearest

# Maximum number of cells of an image, so that a stranger's model cannot ask for endless memory.
_MOST_CELLS = 16_384
TableFormat = Literal["tsv", "csv", "jsonl", "parquet"]
"""Formats of tables, which the modules of `regard.text.rows` declare."""


class FileSettings(DataSettings):
    """Settings under `data` that all built-in tasks have."""

    dev_size: Natural = 1000
    """Number of examples to hold out when `dev` is empty, at most a tenth of all; 0 holds out none."""
    encoding: Annotated[str, Role.LAYOUT] = "auto"
    """Encoding of the files, such as `cp1252`; `auto` for UTF-8. A file with a byte order mark has the encoding of its mark."""
    allow_skipped: Annotated[Probability, Role.LAYOUT] = 0.1
    """Maximum share of unusable lines in a file, from 0 to 1; with more, the file is refused. Unusable lines cannot be decoded,
    are too long, lack a column, a text or a label, or have too many columns.
    """
    normalization: Annotated[Literal["nfc", "nfkc", "none"], Role.READING] = "nfc"
    """Unicode normalization of the texts."""
    drop_repeats: Annotated[bool, Role.READING] = True
    """Whether to remove duplicates: equal sentence pairs, equal texts with equal labels, or, without labels, equal texts."""
    cache: Annotated[str, Role.ADJUSTABLE] = ""
    """Folder for the tokenised data, which later runs reuse if the files and the settings of data and tokenizers are the same.
    Empty: the folder in the environment variable REGARD_CACHE, or `regard` in the user's cache folder.
    """

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Yield a conflict if `encoding` is neither `auto` nor a text encoding of Python."""
        try:
            if self.encoding != "auto":
                "".encode(self.encoding)
                codecs.getincrementaldecoder(self.encoding)
        except (LookupError, ValueError):
            known = ("auto", *sorted(set(aliases.values()) | {"cp1252", "utf-8"}))
            yield (
                "data.encoding",
                f"data.encoding is '{self.encoding}', which is not a text encoding of Python{nearest(self.encoding, known)}; "
                "expected auto, utf-8, utf-16, cp1252, …",
            )


class DataConfig(FileSettings):
    """Files of sentence pairs: their format, their columns, and the choice of the pairs to use."""

    train: Annotated[tuple[str, ...], Role.FILE] = ()
    """One file of pairs (.parquet; .tsv, .txt, .csv, .json or .jsonl, also .gz), or two parallel text files."""
    dev: Annotated[tuple[str, ...], Role.FILE] = ()
    """Pairs to validate on, in the same forms. Empty: `dev_size` pairs are held out of `train`."""
    alignments: Annotated[str, Role.FILE] = ""
    """File of links between source and target words (Pharaoh format, `0-0 1-2`), whose line n belongs to line n of `train`.
    A second loss trains the attention to match the links (`training.alignment_weight`). It leaves out pairs whose line is empty
    or missing.
    """
    dev_size: Natural = 1000
    """Number of pairs to hold out when `dev` is empty, at most a tenth of all; 0 holds out none. Held-out pairs share no source
    and no target with training. If there are more than `max_pairs` pairs, pairs after this limit are held out.
    """
    source: Annotated[str, Role.READING] = "source"
    """Language code of the source (`en`), for reports, spaCy's tokenizer, and the rules that join tokens to a text. If neither
    `source` nor `target` is set and both columns of the table are named after languages, these names are used.
    """
    target: Annotated[str, Role.READING] = "target"
    """Language code of the target (`de`), for reports, spaCy's tokenizer, and the rules that join tokens to a text."""
    columns: Annotated[tuple[str, ...], Role.LAYOUT] = ()
    """Columns of the source and of the target, by name or by number from 0. Empty: chosen by the names and the content of the
    columns.
    """
    format: Annotated[Literal["auto", TableFormat, "fast_align", "text"], Role.LAYOUT] = "auto"
    """Format of the files; `auto`: found from the ending of the name, else tab-separated; `jsonl`: JSON lines or a JSON array;
    `fast_align`: lines whose two sides are separated by `|||`; `text`: two parallel text files.
    """
    header: Annotated[Literal["auto", "yes", "no"], Role.LAYOUT] = "auto"
    """Whether the first line is a header: names of columns in a tab- or comma-separated file, or of languages in parallel
    files.
    """
    max_pairs: Natural = 0
    """Maximum number of training pairs; further pairs of the file are not used for training. 0 for all pairs."""
    max_tokens: Annotated[int, Ge(1), Le(65536), Role.READING] = 200
    """Maximum number of tokens on each side. Longer pairs are left out, also from validation, and counted in the report."""


class LabelledDataConfig(FileSettings):
    """Files of labelled texts: their format, their columns, and the choice of the texts to use."""

    train: Annotated[tuple[str, ...], Role.FILE] = ()
    """One file with a text and a label per line (.parquet; .tsv, .csv, .json or .jsonl, also .gz); or one text file for each
    label, named like the label; or a folder of such text files; or a folder that has a subfolder of texts for each label.
    """
    dev: Annotated[tuple[str, ...], Role.FILE] = ()
    """Labelled texts to validate on, in the same forms. Empty: `dev_size` texts are held out of `train`."""
    dev_size: Natural = 1000
    """Number of texts to hold out when `dev` is empty, at most a tenth of all; 0 holds out none. The split is stratified by
    label. Held-out texts do not occur in training.
    """
    folds: Natural = 0
    """Number of parts (folds) into which `train` is split; one is held out instead of `dev_size` texts. 0 for no folds. The
    command `regard train` trains a model for each fold, unless `--data.fold` is given.
    """
    fold: Count = 1
    """Number of the fold that is held out, from 1."""
    text: Annotated[str, Role.LAYOUT] = ""
    """Column of the text, by name or by number from 0. Empty: chosen by the names and the content of the columns."""
    label: Annotated[str, Role.LAYOUT] = ""
    """Column of the label, by name or by number from 0. Empty: chosen by the names and the content of the columns."""
    label_separator: Annotated[str, Role.READING, Role.LAYOUT] = ""
    """Separator between the labels of a text, such as `;`. A text can then have no label, one, or several. Empty: every text
    has one label, unless the labels are lists in JSON or Parquet.
    """
    fold_case: Annotated[bool, Role.READING, Role.LAYOUT] = False
    """If True, labels that differ only in upper and lower case are one label, written in lower case: `Good` and `good`."""
    language: Annotated[str, Role.READING] = ""
    """Language code of the texts (`en`), which selects the rules of spaCy's tokenizer."""
    vectors: Annotated[str, Role.FILE] = ""
    """File of word vectors that the embedding starts from, in the text format of GloVe, fastText or word2vec, also .gz."""
    vectors_size: Annotated[Natural, Role.READING, Role.DERIVED] = 0
    """Width of the word vectors from which the embedding started; 0 if there were none. regard sets this; do not set it."""
    format: Annotated[Literal["auto", TableFormat, "fasttext", "text"], Role.LAYOUT] = "auto"
    """Format of the files; `auto`: found from the ending of the name, else tab-separated; `jsonl`: JSON lines or a JSON array;
    `fasttext`: lines with `__label__good` before the text; `text`: one file for each label, with one text per line, or one
    folder for each label, with one text per file.
    """
    header: Annotated[Literal["auto", "yes", "no"], Role.LAYOUT] = "auto"
    """Whether the first line of a tab- or comma-separated file names the columns."""
    max_texts: Natural = 0
    """Maximum number of training texts, stratified by label; 0 for all. Each label keeps at least one text, even if there are
    then a few more texts. The held-out texts stay the same.
    """
    max_tokens: Annotated[int, Ge(1), Le(65536), Role.READING] = 400
    """Maximum number of tokens per text, in training and later; longer texts are truncated, and the report says how many."""


class TextDataConfig(FileSettings):
    """Files of texts: their format, and the choice of the texts to use."""

    train: Annotated[tuple[str, ...], Role.FILE] = ()
    """Text files (also .gz)."""
    dev: Annotated[tuple[str, ...], Role.FILE] = ()
    """Texts to validate on. Empty: `dev_size` texts are held out of `train`."""
    dev_size: Natural = 1000
    """Number of texts to hold out when `dev` is empty, at most a tenth of all; 0 holds out none. Held-out texts do not occur in
    training. If there are more than `max_texts` texts, texts after this limit are held out.
    """
    unit: Annotated[Literal["auto", "line", "paragraph", "block"], Role.READING] = "auto"
    """Unit that counts as one text: a line; a paragraph (the lines up to an empty line, joined with spaces), for prose with
    line breaks; or a block, for source code and verse: the lines up to an empty line that no indented line follows, with their
    line breaks and spaces. `auto`: blocks if many lines are indented, as in source code, otherwise lines.
    """
    language: Annotated[str, Role.READING] = ""
    """Language code of the texts (`en`), for spaCy's tokenizer, and for the rules that join tokens to a text."""
    max_texts: Natural = 0
    """Maximum number of training texts; further texts of the files are not used for training. 0 for all texts."""
    max_tokens: Annotated[int, Ge(1), Le(65536), Role.READING] = 256
    """Maximum number of tokens that are predicted in one block; longer texts are cut into blocks. Each block but the first
    begins with the last token of the previous block, and the model sees no other token of the previous block.
    """


class CaptionDataConfig(FileSettings):
    """Tables of images with texts: their format, their columns, the canvas, and the choice of the images to use."""

    train: Annotated[tuple[str, ...], Role.FILE] = ()
    """One table (.csv, .tsv, .json, .jsonl or .parquet) with the file of an image and its text per row. Names of images are
    relative to the folder of the table, and must not lead out of it. An image may have several rows.
    """
    dev: Annotated[tuple[str, ...], Role.FILE] = ()
    """Table of images to validate on. Empty: `dev_size` rows are held out of `train`."""
    dev_size: Natural = 1000
    """Number of rows to hold out when `dev` is empty, at most a tenth of all; 0 holds out none. Their images do not occur in
    training.
    """
    columns: Annotated[tuple[str, ...], Role.LAYOUT] = ()
    """Columns of the image and of the text, by name or by number from 0. Empty: chosen by the names of the columns."""
    format: Annotated[Literal["auto", TableFormat], Role.LAYOUT] = "auto"
    """Format of the table; `auto`: found from the ending of the name, else tab-separated."""
    header: Annotated[Literal["auto", "yes", "no"], Role.LAYOUT] = "auto"
    """Whether the first line of a tab- or comma-separated file names the columns."""
    height: Annotated[int, Ge(0), Le(4096), Role.READING] = 0
    """Height in pixels of the canvas to which images are scaled, a multiple of `cell`; 0 to choose it from the images."""
    width: Annotated[int, Ge(0), Le(4096), Role.READING] = 0
    """Width in pixels of the canvas, a multiple of `cell`; 0 to choose it from the images."""
    cell: Annotated[int, Ge(2), Le(64), Role.READING] = 4
    """Width and height in pixels of a cell of the canvas, a power of two for convolutions. Cells are the units that get
    attention.
    """
    colour: Annotated[Literal["auto", "grey", "colour"], Role.READING] = "auto"
    """Whether images are read in colour; `auto`: if one of the first 50 has colours."""
    language: Annotated[str, Role.READING] = ""
    """Language code of the texts (`en`), for spaCy's tokenizer, and for the rules that join tokens to a text."""
    max_captions: Natural = 0
    """Maximum number of training rows; further rows of the table are not used for training. 0 for all rows."""
    max_tokens: Annotated[int, Ge(1), Le(65536), Role.READING] = 100
    """Maximum number of tokens of a text. Rows with longer texts are left out, and counted in the report."""

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Yield conflicts between the canvas and its cells (at most 16,384), and wrong numbers of files or columns."""
        yield from super().conflicts()
        for name in ("height", "width"):
            if (size := getattr(self, name)) % self.cell:
                yield (
                    f"data.{name}",
                    f"data.{name} is {size}, expected a multiple of data.cell ({self.cell}), or 0",
                )
        if (cells := (self.height // self.cell) * (self.width // self.cell)) > _MOST_CELLS:
            message = f"the canvas has {cells:,} cells, expected at most {_MOST_CELLS:,}; increase data.cell"
            yield "data.cell", message
        for name, files in (("train", self.train), ("dev", self.dev)):
            if len(files) > 1:
                yield f"data.{name}", f"data.{name} names {len(files)} files, expected one table of images and texts"
        if len(self.columns) not in (0, 2):
            yield "data.columns", f"data.columns names {len(self.columns)}, expected two: the image's and the text's"


class TaggedDataConfig(FileSettings):
    """Files of tagged sentences: their format, their columns, and the choice of the sentences to use."""

    train: Annotated[tuple[str, ...], Role.FILE] = ()
    """Files of tagged sentences, also .gz: CoNLL files with one word and its tag per line and an empty line after each
    sentence, or files (.jsonl, .json or .parquet) with a list of words and a list of tags for each sentence.
    """
    dev: Annotated[tuple[str, ...], Role.FILE] = ()
    """Tagged sentences to validate on, in the same forms. Empty: `dev_size` sentences are held out of `train`."""
    dev_size: Natural = 1000
    """Number of sentences to hold out when `dev` is empty, at most a tenth of all; 0 holds out none. Held-out sentences do not
    occur in training.
    """
    columns: Annotated[tuple[str, ...], Role.LAYOUT] = ()
    """Columns of the words and of the tags: numbers from 0 in CoNLL files, where negative ones count from the end (`1,3` for
    the parts of speech in CoNLL-U), or names in other files. Empty: the first and the last column, or the columns with usual
    names, such as `tokens` and `ner_tags`.
    """
    format: Annotated[Literal["auto", "conll", "jsonl", "parquet"], Role.LAYOUT] = "auto"
    """Format of the files; `auto`: found from the ending of the name, else CoNLL."""
    language: Annotated[str, Role.READING] = ""
    """Language code of the texts (`en`), for reports and the model card."""
    max_sentences: Natural = 0
    """Maximum number of training sentences; further sentences of the files are not used for training. 0 for all sentences."""
    max_tokens: Annotated[int, Ge(1), Le(65536), Role.READING] = 256
    """Maximum number of tokens that the model reads at once, in training and later. Longer sentences are split into parts
    between words; each part is tagged without the others.
    """

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Yield a conflict if `columns` doesn't name two columns."""
        yield from super().conflicts()
        if len(self.columns) not in (0, 2):
            yield "data.columns", f"data.columns names {len(self.columns)}, expected two: the words' and the tags'"


class VocabularySettings(Settings):
    """Settings of tokenizers whose vocabulary contains the most frequent words (or characters)."""

    kind: str = ""
    lowercase: bool = False
    """If True, text is converted to lower case."""
    min_count: Count = 1
    """Minimum number of occurrences of a word (or character) in training; rarer ones become the unknown symbol."""
    max_size: Natural = 0
    """Keep the N most frequent words (or characters); 0 for all."""


class WordsConfig(VocabularySettings, kind="words"):
    """Tokenizer that splits texts into words and punctuation marks by the rules of Unicode."""


class AutoConfig(VocabularySettings, kind="auto"):
    """Tokenizer that is chosen from the text: `whitespace` if punctuation is already separated from words, else `words`."""


class WhitespaceConfig(VocabularySettings, kind="whitespace"):
    """Tokenizer for text that is tokenised already: it splits texts at spaces, and decoding joins tokens with spaces."""


class SpacyConfig(VocabularySettings, kind="spacy"):
    """Tokenizer that splits texts by spaCy's rules for the language, without a trained pipeline (needs the extra `spacy`)."""

    language: str = ""
    """Language code; empty for the one in `data.source` or `data.target`, or in `data.language` for single texts."""


class CharactersConfig(VocabularySettings, kind="characters"):
    """Tokenizer in which every character is a token."""


class SubwordSettings(Settings):
    """Settings of tokenizers that learn parts of words. Tokens include spaces, so that decoding restores the text."""

    kind: str = ""
    size: Annotated[int, Ge(5)] = 8000
    """Maximum number of symbols in the vocabulary, including the four special symbols."""
    lowercase: bool = False
    """If True, text is converted to lower case."""


class BPEConfig(SubwordSettings, kind="bpe"):
    """Byte-pair encoding (Sennrich et al. 2016). Tokens include spaces, so that decoding restores the text."""

    min_count: Count = 2
    """Minimum number of times that two neighbouring symbols must occur to be merged. Rarer characters become the unknown
    symbol.
    """


class UnigramConfig(SubwordSettings, kind="unigram"):
    """Subwords that a unigram language model selects (Kudo 2018)."""


class PretrainedTokenizerConfig(Settings, kind="pretrained"):
    """The tokenizer of a pretrained encoder (`tokenizer.json`), with the encoder's start and end symbols around each text."""

    kind: str = ""
    name: str = ""
    """Folder or name of the encoder, as in `model.encoder.name`."""
    checksum: Annotated[str, Role.DERIVED] = ""
    """SHA-256 of `tokenizer.json`. regard sets this; do not set it."""


LearnedTokenizer = WordsConfig | WhitespaceConfig | SpacyConfig | CharactersConfig | BPEConfig | UnigramConfig
FixedTokenizerConfig = LearnedTokenizer | PretrainedTokenizerConfig
TokenizerConfig = FixedTokenizerConfig | AutoConfig
"""In the saved configuration of a run, `auto` is replaced by the kind that was chosen."""


class TokenizersConfig(Settings):
    """Tokenizers of the source and of the target."""

    source: TokenizerConfig = field(default_factory=WordsConfig)
    """Tokenizer of the source."""
    target: TokenizerConfig = field(default_factory=WordsConfig)
    """Tokenizer of the target."""
    joint: bool = False
    """Whether source and target share one vocabulary, learned from the texts of both. `source` and `target` must then have
    equal settings.
    """
