"""`regard curves` on the logs of runs."""

from analysis.test_history import write

from regard.cli.main import main


def test_a_picture_of_two_runs(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the legend shortens long names
    runs = [write(tmp_path / name, "50,1,0.1,6.5,,\n100,1,0.1,5.5,6,9.5\n").name for name in ("first", "second")]
    for ending in ("png", "svg", "pdf"):
        to = tmp_path / f"curves.{ending}"
        assert main(["curves", *runs, "--to", str(to), "--by", "epoch", "--title", "Two"]) == 0
        assert to.stat().st_size > 1000
        assert capsys.readouterr().out == f"The curves are in {to}.\n"
    svg = (tmp_path / "curves.svg").read_text()
    assert "first" in svg
    assert "BLEU of dev (greedy)" in svg


def test_columns_can_be_chosen(tmp_path):
    run = str(write(tmp_path / "a", "50,1,0.1,6.5,,\n100,1,0.1,5.5,6,9.5\n"))
    to = tmp_path / "c.svg"
    assert main(["curves", run, "--to", str(to), "--columns", "learning_rate"]) == 0
    assert "learning rate" in to.read_text()
    assert "BLEU" not in to.read_text()


def test_mistakes_are_said_before_anything_is_written(tmp_path, capsys):
    run = str(write(tmp_path / "a", "50,1,0.1,6.5,,\n"))
    for arguments, message in (
        ([run, "--to", "c.gif"], "--to names 'c.gif', expected a file that ends in .png, .svg, .pdf"),
        ([str(tmp_path), "--to", "c.png"], "metrics.csv is missing; expected the folder of one run"),
        ([run, "--columns", "blue"], "no run has a column 'blue'; did you mean 'bleu'?"),
        ([], "the following arguments are required: DIR"),
    ):
        assert main(["curves", *arguments]) == 2
        assert message in capsys.readouterr().err
