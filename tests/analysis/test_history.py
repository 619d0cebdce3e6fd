"""Reading what a run has logged, and drawing it."""

import os
import re

import pytest

import regard
from regard.analysis.history import read_metrics
from regard.errors import BundleError, DataError, RequestError

HEADER = "step,epoch,learning_rate,train_nll,dev_nll,bleu\n"


def write(folder, rows, header=HEADER):
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "metrics.csv").write_text(header + rows)
    return folder


def test_columns_with_none_where_a_row_has_no_value(tmp_path):
    found = read_metrics(write(tmp_path / "a", "50,1,0.1,6.5,,\n100,1,0.1,5.5,inf,nan\n"))
    assert found == {
        "step": [50, 100],
        "epoch": [1, 1],
        "learning_rate": [0.1, 0.1],
        "train_nll": [6.5, 5.5],
        "dev_nll": [None, float("inf")],
        "bleu": [None, None],
    }


def test_a_row_that_is_being_written_is_left_out(tmp_path):
    assert read_metrics(write(tmp_path / "a", "50,1,0.1,6.5,,\n100,1,0."))["step"] == [50]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("50,1\n100,1,0.1,6.5,,\n", r"metrics.csv:2: the row has 2 values, expected 6; copy the run's logs again"),
        ("50,1,0.1,6.5,,\n100,1,many,6.5,,\n", r"metrics.csv:3: learning_rate is 'many', expected a number"),
    ],
)
def test_a_damaged_row_is_named(tmp_path, rows, message):
    with pytest.raises(DataError, match=message):
        read_metrics(write(tmp_path / "a", rows))


def test_a_file_of_something_else_is_refused(tmp_path):
    with pytest.raises(DataError, match="is not the metrics of a run: its first line has no column 'step'"):
        read_metrics(write(tmp_path / "a", "", header="name,price\n"))


def test_a_folder_without_logs_says_what_to_do(tmp_path):
    with pytest.raises(BundleError, match=f"there is no folder {re.escape(str(tmp_path / 'x'))}; expected one that"):
        regard.curves(tmp_path / "x")
    with pytest.raises(DataError, match=r"has no curves: .*metrics.csv is missing; expected the folder of one run"):
        regard.curves(tmp_path)


def test_one_folder_or_several(tmp_path):
    runs = [write(tmp_path / name, "50,1,0.1,6.5,,\n100,1,0.1,5.5,6,9.5\n") for name in "ab"]
    assert regard.curves(runs[0])._repr_png_().startswith(b"\x89PNG")
    assert len(regard.curves(runs, tmp_path / "c.png", by="epoch").axes) == 3  # two panels and the legend
    assert (tmp_path / "c.png").exists()
    with pytest.raises(RequestError, match=r"curves: .*/a is named twice; name each run once"):
        regard.curves([runs[0], f"{runs[0]}/"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs links and pipes")
@pytest.mark.parametrize("kind", ["link", "linked folder", "link to a device"])
def test_metrics_outside_of_the_folder_are_not_read(tmp_path, kind):
    secret = write(tmp_path / "secret", "1,hunter2\n") / "logs" / "metrics.csv"
    logs = tmp_path / "model" / "logs"
    logs.parent.mkdir()
    if kind == "linked folder":
        logs.symlink_to(secret.parent)
    else:
        logs.mkdir()
        (logs / "metrics.csv").symlink_to(secret if kind == "link" else "/dev/zero")
    with pytest.raises((BundleError, DataError)) as caught:
        read_metrics(logs.parent)
    assert "hunter2" not in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs links and pipes")
@pytest.mark.parametrize("name", ["run.json", "lock"])
@pytest.mark.parametrize("kind", ["pipe", "link to a device", "linked folder"])
def test_info_reads_only_ordinary_files(tmp_path, name, kind):
    """A reader that follows them never ends."""
    checkpoints = tmp_path / "model" / "checkpoints"
    checkpoints.mkdir(parents=True)
    (checkpoints / "run.json").write_text('{"settings": {"task": "language"}}\n')
    if kind == "linked folder":
        checkpoints.rename(tmp_path / "elsewhere")
        checkpoints.symlink_to(tmp_path / "elsewhere")
    else:
        (checkpoints / name).unlink(missing_ok=True)
        os.mkfifo(checkpoints / name) if kind == "pipe" else (checkpoints / name).symlink_to("/dev/zero")
    if name == "run.json" or kind == "linked folder":
        with pytest.raises(BundleError):
            regard.info(tmp_path / "model")
    else:
        assert regard.info(tmp_path / "model").state == "unfinished"
