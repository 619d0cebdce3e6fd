"""Which labelled texts a run learns from."""

from dataclasses import dataclass
from typing import Literal

from regard.config.data import FileSettings


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
    """Cut `train` into so many parts and hold out one of them, in place of `dev_size`; 0 for no folds."""
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
