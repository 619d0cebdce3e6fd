import pytest

from regard.config import DataConfig, LabelledDataConfig, TextDataConfig
from regard.errors import DataError
from regard.text.labelled.readers import read_labelled
from regard.text.pairs.readers import read_pairs
from regard.text.plain import read_texts
from regard.text.report import ReadingReport

LINES = [f"A good film {i},pos" for i in range(12)]


@pytest.mark.parametrize("last", ["", "\r", "\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_line_ends_of_the_old_mac_os(tmp_path, last, encoding):
    path = tmp_path / "x.csv"
    path.write_bytes(("\r".join(LINES) + last).encode(encoding))
    for read in (
        lambda: read_labelled([path], LabelledDataConfig(), ReadingReport()),
        lambda: read_pairs([path], DataConfig(), ReadingReport()),
        lambda: read_pairs([path, path], DataConfig(format="text"), ReadingReport()),
        lambda: read_texts([path], TextDataConfig(), ReadingReport()),
    ):
        with pytest.raises(DataError) as caught:
            list(read())
        assert str(caught.value) == (
            f"{path}: its lines end with \\r alone, as on the old Mac OS, expected \\n or \\r\\n; save it again as 'CSV UTF-8' "
            "in your spreadsheet program, or convert it with `tr '\\r' '\\n' < OLD > NEW`"
        )


@pytest.mark.parametrize("text", ["a\rb\rc", "\r" * 50 + "a", "\r".join(LINES) + "\nb", "\r\n".join(LINES)])
def test_carriage_returns_in_a_text(tmp_path, text):
    path = tmp_path / "x.txt"
    path.write_bytes(text.encode())
    report = ReadingReport()
    list(read_texts([path], TextDataConfig(), report))
    assert report.kept == len([line for line in text.split("\n") if line.strip()])
