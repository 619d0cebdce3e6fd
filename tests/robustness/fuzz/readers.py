"""Targets that read texts: pairs, labelled texts, tagged sentences, texts alone, word vectors, alignments.

The first byte of an input chooses settings, the rest is the file. Where files are read two and more at a time, `SEAM` parts
them.
"""

import gzip
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from fuzz.engine import SEAM, Target

from regard.config import DataConfig, LabelledDataConfig, TaggedDataConfig, TextDataConfig, TokenizersConfig
from regard.pharaoh import parse_pharaoh
from regard.records.alignment import read_pharaoh
from regard.text.labelled.labels import sort_names
from regard.text.labelled.readers import read_labelled
from regard.text.labelled.vectors import read_vectors
from regard.text.pairs.readers import read_pairs
from regard.text.plain import read_texts
from regard.text.report import ReadingReport
from regard.text.tagged.readers import read_tagged

_TSV = (
    b'source\ttarget\nShe kissed him.\tSie k\xc3\xbcsste ihn.\nHe said "no".\tEr sagte nein.\tCC-BY\n\n\tleer\nA\x00B\t\xff\n'
)
_CSV = b'id,source,target\r\n1,"Hello, ""you""","Hallo\nzusammen"\r\n2,Yes;no,Ja\r\n3,\xc3\xa9t\xc3\xa9\rx,Sommer\r\n'
_JSONL = b'{"id": 1, "source": "a \\u00e9", "target": "b"}\n{"source": null, "target": "\\ud800"}\n\n'
_NESTED = b'{"translation": {"en": "x", "de": "y"}, "score": 1.5}\n{"translation": {"en": "a", "de": null}}\n'
_ARRAYS = (
    b'[{"id": 1, "source": "a \\u00e9", "target": "b"}, {"source": null, "target": "\\ud800"}]\n',
    b'[\n {"translation": {"en": "x", "de": "y"}},\n {"translation": {"en": "a"}}\n]',
)
_BARS = b"a sentence ||| ein Satz\nanother ||| noch einer\n||| leer\nno bars\n"
_LABELLED = b'text\tlabel\nso good\tpos\nso bad\tneg\n"quoted\tpos;neg\n\tpos\nno label\t\n'
_LABELLED_CSV = b'Review,Stars\n"good, really",5\nbad,1.0\n"a\nb",3\n'
_LABELLED_JSONL = b'{"text": "a", "label": ["x", 1, true, null]}\n{"text": "b", "label": 1.0}\n{"text": 3, "label": NaN}\n'
_CONLL = (
    b"-DOCSTART- -X- O\n\nEU NNP B-ORG\nsays VBZ O\n\n\nRome\n\n\xc3\xa9 x B-\x00\n\n\xff O O\n",
    b"# text = a\n1\tI\ti\tPRON\t_\t_\t_\t_\t_\t_\n2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n#\tO\n",
)
_LISTS = (
    b'{"tokens": ["EU", "says"], "ner_tags": ["B-ORG", "O"]}\n{"tokens": ["a"], "ner_tags": []}\n',
    b'{"tokens": ["EU", "", 3, null], "ner_tags": ["B-ORG", 1, "O", "\\ud800"]}\n{"tokens": "x"}\n',
)
_VECTORS = (b"0the 0.1 0.2 -3e-2\nof 1 2 3\n. . . 0.5 0.5 0.5\n", b"02 3\nthe 0.1 0.2 0.3 \nof 1 2 3 \n")
_LINES = b"A line.\r\nAnother one\n\nA paragraph\nof two lines\n\n\xe2\x80\xa8 x\x85y\n"
_PHARAOH = b"0-0 1-1 2?3 1p2\n\n0-0\n"


def reading(data: bytes, folder: Path, name: str, contents: Sequence[bytes], read: Callable[[list[Path]], Any]) -> None:
    """Write the files of one input and read them through."""
    paths = []
    for number, content in enumerate(contents):
        path = folder / f"{number}{name}"
        path.write_bytes(gzip.compress(content, 1, mtime=0) if data[:1] and data[0] & 8 else content)
        paths.append(path)
    for _ in read(paths):
        pass


def _drain(chunks: Iterable[Any], report: ReadingReport) -> Iterator[Any]:
    """Go through what a reader gives and hold it to what it promises."""
    for chunk in chunks:
        yield chunk
        columns = [*chunk.columns, chunk.line, chunk.labels or chunk.line]
        assert len({len(column) for column in columns}) == 1
    assert report.read == report.kept + report.num_skipped, report
    ReadingReport.from_dict(report.to_dict()).render()


def _settings(data: bytes) -> tuple[int, bytes]:
    return (data[0], data[1:]) if data else (0, b"")


_HEADERS = ("auto", "yes", "no", "auto")
_ENCODINGS = ("auto", "utf-16", "cp1252", "gb18030")
_COLUMNS: tuple[tuple[str, ...], ...] = ((), ("0", "1"), ("source", "target"), ("²", "1"))


def _pairs(form: str, name: str) -> Callable[[Path], Callable[[bytes], object]]:
    def start(folder: Path) -> Callable[[bytes], object]:
        def run(data: bytes) -> None:
            bits, content = _settings(data)
            columns = _COLUMNS[bits >> 4 & 3] if bits >= 128 else ()
            config = DataConfig(
                format=form,  # type: ignore[arg-type]
                header=_HEADERS[bits & 3],  # type: ignore[arg-type]
                columns=columns,
                encoding=_ENCODINGS[bits >> 2 & 3] if bits & 64 else "auto",
                allow_skipped=1.0 if bits & 32 else 0.1,
            )
            report = ReadingReport()
            contents = [*content.split(SEAM, 1), b""][:2] if form == "text" else [content]
            reading(data, folder, name, contents, lambda paths: _drain(read_pairs(paths, config, report), report))

        return run

    return start


def _labelled(form: str, name: str) -> Callable[[Path], Callable[[bytes], object]]:
    def start(folder: Path) -> Callable[[bytes], object]:
        def run(data: bytes) -> None:
            bits, content = _settings(data)
            label = ("", "1", "label", "²")[bits >> 4 & 3] if bits >= 128 else ""
            separator = ";" if bits & 4 else ""
            config = LabelledDataConfig(format=form, header=_HEADERS[bits & 3], label=label, label_separator=separator)  # type: ignore[arg-type]
            report = ReadingReport()

            def read(paths: list[Path]) -> Iterator[Any]:
                names: set[str] = set()
                for chunk in _drain(read_labelled(paths, config, report), report):
                    names.update(name for own in chunk.labels for name in own)
                    yield chunk
                assert len(sort_names(names)) == len(names)

            contents = [*content.split(SEAM, 1), b""][:2] if form == "text" else [content]
            reading(data, folder, name, contents, read)

        return run

    return start


def _tagged(form: str, name: str) -> Callable[[Path], Callable[[bytes], object]]:
    def start(folder: Path) -> Callable[[bytes], object]:
        def run(data: bytes) -> None:
            bits, content = _settings(data)
            columns = ((), ("0", "-1"), ("1", "3"), ("tokens", "ner_tags"))[bits >> 4 & 3] if bits >= 128 else ()
            config = TaggedDataConfig(format=form, columns=columns, allow_skipped=1.0 if bits & 32 else 0.1)  # type: ignore[arg-type]
            report = ReadingReport()

            def read(paths: list[Path]) -> Iterator[Any]:
                for chunk in _drain(read_tagged(paths, config, report), report):
                    for tags, words in zip(*chunk.columns, strict=True):
                        assert tags.count(" ") == words.count(" ")
                        assert all([*tags.split(" "), *words.split(" ")])
                    yield chunk

            reading(data, folder, name, [content], read)

        return run

    return start


def _plain(folder: Path) -> Callable[[bytes], object]:
    def run(data: bytes) -> None:
        bits, content = _settings(data)
        config = TextDataConfig(unit=("line", "paragraph", "block", "auto")[bits & 3])
        report = ReadingReport()

        def read(paths: list[Path]) -> Iterator[Any]:
            yield from read_texts(paths, config, report)

        reading(data, folder, ".txt", content.split(SEAM, 2), read)

    return run


def _vectors(folder: Path) -> Callable[[bytes], object]:
    def run(data: bytes) -> None:
        _, content = _settings(data)

        def read(paths: list[Path]) -> Iterator[Any]:
            vectors = read_vectors(paths[0], ["the", "Of", ".", "été"])
            yield vectors
            assert vectors.matrix.shape[0] == len(vectors.found) == 4

        reading(data, folder, ".vec", [content], read)

    return run


def _alignments(folder: Path) -> Callable[[bytes], object]:
    def run(data: bytes) -> None:
        path = folder / "links.txt"
        path.write_bytes(data)
        for sure, possible in read_pharaoh(path):
            assert sure <= possible
        for line in data.decode("utf-8", "surrogateescape").split("\n"):
            parse_pharaoh(line)

    return run


def _gold(folder: Path) -> Callable[[bytes], object]:
    pairs, links = folder / "pairs.tsv", folder / "links.txt"
    pairs.write_text("she kissed him\tsie küsste ihn\na cat\teine Katze\nyes .\tja .\n", encoding="utf-8")
    config = DataConfig(train=(str(pairs),), alignments=str(links), dev_size=0, cache=str(folder / "cache"))
    from regard.text.pairs.gold import add_gold_alignments
    from regard.text.pairs.prepare import PairSchema
    from regard.text.preparation import prepare_data

    prepared = prepare_data(PairSchema(config, TokenizersConfig()), seed=1, progress=False)

    def run(data: bytes) -> None:
        links.write_bytes(data)
        guided = add_gold_alignments(prepared, config)
        guided.train.batch(range(len(guided.train)))

    return run


def parquet(table: pa.Table, **options: Any) -> bytes:
    """A Parquet file."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def _parquet_seeds(columns: dict[str, list[Any]]) -> Callable[[], list[bytes]]:
    return lambda: _parquet_files(columns)


def _parquet_files(columns: dict[str, list[Any]]) -> list[bytes]:
    table = pa.table(columns)
    nested = pa.table(
        {"translation": pa.StructArray.from_arrays([pa.array(column) for column in columns.values()], list(columns))}
    )
    return [
        b"0" + parquet(table),
        b"0" + parquet(table, compression="none", use_dictionary=False, store_schema=False),
        b"0" + parquet(table, compression="zstd", data_page_version="2.0", write_statistics=False),
        b"0" + parquet(nested, compression="gzip"),
        b"8" + parquet(table, compression="none"),
    ]


def _seeds(*contents: bytes) -> Callable[[], list[bytes]]:
    return lambda: [bytes([bits]) + content for content in contents for bits in (48, 49, 50, 56, 52, 144, 160, 176)]


_EVERY = (_TSV, _CSV, _JSONL)
_PAIRED = {"source": ["She kissed him.", None, "A"], "target": ["Sie küsste ihn.", "b", ""]}
_TAGGED = {"text": ["so good", "so bad", None], "label": [1.0, 0.0, 2.5], "tags": [["x"], [], None]}
_QUOTES = (b'"', b'""', b",", b";", b"\t", b"\r", b"\r\n", b"source", b"target", b"0\t1\n", b'"\n')
_KEYS = (b'"source":', b'"target":', b"{", b"}", b"[", b"]", b":", b",", b"\\", b'"en"', b'"text":', b'"label":')

READERS = (
    Target("pairs-tsv", _pairs("tsv", ".tsv"), _seeds(_TSV), _QUOTES),
    Target("pairs-csv", _pairs("csv", ".csv"), _seeds(_CSV), _QUOTES),
    Target("pairs-jsonl", _pairs("jsonl", ".jsonl"), _seeds(_JSONL, _NESTED), _KEYS),
    Target("pairs-json-array", _pairs("jsonl", ".json"), _seeds(*_ARRAYS), (*_KEYS, b"[{", b"},{", b"}]", b"[]", b"1e9")),
    Target("pairs-bars", _pairs("fast_align", ".txt"), _seeds(_BARS, _BARS.decode().encode("utf-16")), (b"|||", b"||", b"\n")),
    Target("pairs-parquet", _pairs("parquet", ".parquet"), _parquet_seeds(_PAIRED)),
    Target(
        "pairs-two-files", _pairs("text", ".txt"), _seeds(b"a\nb\n" + SEAM + b"c\nd", _LINES + SEAM + _LINES), (SEAM, b"\n")
    ),
    Target(
        "pairs-any-file",
        _pairs("auto", ""),
        lambda: [*_seeds(*_EVERY)(), *(b"0" + gzip.compress(x, mtime=0) for x in _EVERY), _parquet_files(_PAIRED)[0]],
        (*_QUOTES, *_KEYS),
    ),
    Target("labelled-tsv", _labelled("tsv", ".tsv"), _seeds(_LABELLED), _QUOTES),
    Target("labelled-csv", _labelled("csv", ".csv"), _seeds(_LABELLED_CSV), _QUOTES),
    Target("labelled-jsonl", _labelled("jsonl", ".jsonl"), _seeds(_LABELLED_JSONL), _KEYS),
    Target("labelled-parquet", _labelled("parquet", ".parquet"), _parquet_seeds(_TAGGED)),
    Target("labelled-files", _labelled("text", ".txt"), _seeds(b"good\n" + SEAM + b"bad\n"), (SEAM, b"\n")),
    Target(
        "tagged-conll", _tagged("conll", ".conll"), _seeds(*_CONLL), (b"\t", b" ", b"\n\n", b"#", b"O", b"B-", b"-DOCSTART-")
    ),
    Target("tagged-jsonl", _tagged("jsonl", ".jsonl"), _seeds(*_LISTS), (*_KEYS, b'"tokens":', b'"ner_tags":')),
    Target("texts", _plain, _seeds(_LINES, _LINES + SEAM + _LINES), (SEAM, b"\n\n")),
    Target("vectors", _vectors, lambda: _VECTORS, (b" ", b"\n", b"0.5", b"-1e-3", b"2 3\n", b"\t")),
    Target("alignments", _alignments, lambda: [_PHARAOH], (b"0-0", b" ", b"?", b"p", b"-", b"\n")),
    Target("gold", _gold, lambda: [_PHARAOH, b"0-0 2-2\n\n1-1\n"], (b"0-0", b" ", b"?", b"p", b"-", b"\n")),
)
