"""Frequent options, commands and tasks of other tools, and the answers of regard.

The table is checked as a whole: every setting, command and option that an answer names exists.
"""

import contextlib
import io
import re

import pytest

from regard.cli import habits
from regard.cli.main import command_names, main
from regard.cli.train import read_arguments
from regard.config.loading import setting_names
from regard.config.plugins import BUILT_IN
from regard.errors import RegardError
from regard.task import find_task

ROWS = [
    # what is typed, the task, and what the answer names
    ("--epochs", "translation", "--training.max_epochs"),  # scikit-learn, Keras
    ("--num_train_epochs", "classification", "--training.max_epochs"),  # Hugging Face
    ("--max-epoch", "language", "--training.max_epochs"),  # fairseq
    ("--train_steps", "translation", "--training.max_steps"),  # OpenNMT
    ("--lr", "translation", "--training.learning_rate"),
    ("--batch-size", "translation", "--training.batch_sentences"),
    ("--warmup-updates", "translation", "--training.schedule.warmup_steps"),
    ("-a", "translation", "--preset"),
    ("--output_dir", "classification", "--out"),
    ("-s", "translation", "--data.source"),
    ("--resume", "translation", "regard resume"),
    ("--finetune-from-model", "translation", "--from"),
    # with one of regard's sections in front, as users often guess
    ("--training.batch_size", "translation", "--training.batch_sentences"),
    ("--training.lr", "classification", "--training.learning_rate"),
]


@pytest.mark.parametrize(("option", "task", "named"), ROWS)
def test_a_habit_is_answered(option, task, named, capsys):
    answers = set()
    for arguments in ([option], [option, "3"], [f"{option}=3"], ["--data.train", "x", option, "3"]):
        assert main(["train", task, *arguments]) == 2
        answers.add(capsys.readouterr().err)
    [answer] = answers
    assert answer.startswith(f"regard: train {task}: '{option}' is not an option here; in regard: ")
    assert named in answer


@pytest.mark.parametrize("option", ["--batch-size", "--batch_size", "--Batch-Size"])
def test_dashes_underscores_and_case_are_one(option):
    assert habits.find_habit("training", option).startswith("--training.batch_sentences N")


def test_an_unknown_option_without_a_value(capsys):
    for arguments in (["--overwrit"], ["--overwrit", "--out", "x"]):
        assert main(["train", "translation", "--data.train", "x", *arguments]) == 2
        shown = capsys.readouterr().err
        assert "train translation: there is no option '--overwrit'; did you mean '--overwrite'?" in shown


@pytest.mark.parametrize("answer", sorted(set(habits.read_table("training").values())))
def test_what_an_answer_names_exists(answer):
    own = {"--preset", "--config", "--overwrite", "--from", "--help"}
    settings = own | {f"--{name}" for task in BUILT_IN for name in setting_names(find_task(task).config_class)}
    assert set(re.findall(r"(?<![\w-])--[a-z][\w.-]*\w", answer)) <= settings
    assert set(re.findall(r"`regard (\w+)", answer)) <= set(command_names())


def test_options_of_answers_exist():
    helped = help_of("translate")
    for answer in habits.read_table("using").values():
        assert not answer.startswith("--") or answer.split()[0] in helped


def help_of(command):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([command, "--help"])
    return out.getvalue()


def test_a_setting_that_exists_is_never_taken_for_a_habit():
    for task in BUILT_IN:
        for name in setting_names(find_task(task).config_class):
            if "." not in name and name != "task":
                with pytest.raises(RegardError) as caught:
                    read_arguments(task, [f"--{name}", "?" if name in ("seed", "threads", "overwrite") else "x"])
                assert "in regard:" not in str(caught.value)


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ("fit", "`regard train TASK`"),
        ("predict", "`regard classify RUN`"),
        ("interactive", "`regard translate RUN`"),
        ("test", "`regard evaluate RUN FILE`"),
        ("eval", "`regard evaluate RUN FILE`"),
        ("preprocess", "no separate step"),
        ("plot", "`regard curves RUN`"),
        ("onmt_translate", "`regard translate RUN`"),
        ("finetune", "with --from RUN"),
    ],
)
def test_a_command_of_another_tool(typed, named, capsys):
    assert main([typed, "x"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"regard: no command is named '{typed}'; in regard: ")
    assert named in error


def test_commands_in_answers_exist():
    for answer in habits.read_table("commands").values():
        assert set(re.findall(r"`regard (\w+)", answer)) <= set(command_names())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data.train", "x"], "the first argument is '--data.train', expected the task (translation, "),
        (["pairs.tsv"], "the first argument is 'pairs.tsv', expected the task (translation, "),
        (["nmt"], "there is no task 'nmt'; did you mean 'translation'?"),
        (["text-classification"], "there is no task 'text-classification'; did you mean 'classification'?"),
        (["lm"], "there is no task 'lm'; did you mean 'language'?"),
    ],
)
def test_a_task_by_another_name(arguments, message, capsys):
    assert main(["train", *arguments]) == 2
    assert f"regard: train: {message}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["translate", "x", "hi", "--beam-size", "5"], "in regard: --beam N"),
        (["translate", "x", "hi", "--num_beams=5"], "in regard: --beam N"),
        (["translate", "x", "hi", "--lenpen", "1"], "in regard: --length-penalty X"),
        (["translate", "x", "--src", "f"], "in regard: --input FILE"),
        (["translate", "x", "hi", "--nbest", "2"], "in regard: --n-best N"),
        (["translate", "--path", "x", "hi"], "in regard: the folder of the run, without an option"),
        (["translate", "x", "--bem", "5"], "did you mean '--beam'?"),
    ],
)
def test_options_of_the_commands_that_use_a_model(arguments, answer, capsys):
    assert main(arguments) == 2
    assert answer in capsys.readouterr().err
