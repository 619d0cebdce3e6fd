"""What users of fairseq, OpenNMT, JoeyNMT, Hugging Face and scikit-learn type, and what they are told.

The table is checked as a whole: every setting, command and option that an answer names exists.
"""

import contextlib
import io
import re

import pytest

from regard.cli import habits
from regard.cli.main import COMMANDS, main
from regard.cli.train import read_arguments
from regard.config.loading import setting_names
from regard.config.tasks import BUILT_IN
from regard.errors import RegardError
from regard.presets import preset_names
from regard.task import find_task

ROWS = [
    # what is typed, the task, and what the answer names
    ("--epochs", "translation", "--training.max_epochs"),  # scikit-learn, Keras
    ("--num_train_epochs", "classification", "--training.max_epochs"),  # Hugging Face
    ("--max-epoch", "language", "--training.max_epochs"),  # fairseq
    ("--train_steps", "translation", "--training.max_steps"),  # OpenNMT
    ("--lr", "translation", "--training.learning_rate"),
    ("--learning_rate", "classification", "--training.learning_rate"),
    ("--learning-rate", "translation", "--training.learning_rate"),
    ("--batch-size", "translation", "--training.batch_sentences"),
    ("--per_device_train_batch_size", "classification", "--training.batch_sentences"),
    ("--max-tokens", "translation", "--training.batch_tokens"),  # fairseq
    ("--max-tokens", "translation", "--data.max_tokens"),
    ("--update-freq", "translation", "--training.accumulate"),
    ("--gradient_accumulation_steps", "language", "--training.accumulate"),
    ("--dropout", "translation", "--model.layer_dropout"),
    ("--dropout", "classification", "--model.output_dropout"),
    ("--layers", "translation", "--model.encoder.num_layers"),
    ("--num_layers", "translation", "--model.encoder_layers"),
    ("--hidden_size", "translation", "--model.decoder.hidden_size"),
    ("--hidden_size", "language", "--model.hidden_size"),
    ("--arch", "translation", "--preset"),
    ("-a", "translation", "--preset"),
    ("--warmup-updates", "translation", "--training.schedule.warmup_steps"),
    ("--lr-scheduler", "classification", "--training.schedule.kind"),
    ("--label-smoothing", "translation", "--training.label_smoothing"),
    ("--label_smoothing_factor", "classification", "--training.label_smoothing"),
    ("--clip-norm", "translation", "--training.clip_norm"),
    ("--max_grad_norm", "classification", "--training.clip_norm"),
    ("--weight-decay", "translation", "--training.weight_decay"),
    ("--patience", "translation", "--training.patience"),
    ("--early_stopping", "classification", "--training.patience"),
    ("--save-dir", "translation", "--out"),
    ("--output_dir", "classification", "--out"),
    ("--src", "translation", "--data.source"),
    ("-s", "translation", "--data.source"),
    ("--source-lang", "translation", "--data.source"),
    ("-t", "translation", "--data.target"),
    ("--trainpref", "translation", "--data.train"),
    ("--train_file", "classification", "--data.train"),
    ("--validpref", "translation", "--data.dev"),
    ("--validation_file", "language", "--data.dev"),
    ("--beam-size", "translation", "--decoding.beam_size"),
    ("--beam-size", "translation", "regard translate"),
    ("--lenpen", "translation", "--decoding.length_penalty"),
    ("--fp16", "translation", "--training.precision"),
    ("--bf16", "classification", "--training.precision"),
    ("--vocab_size", "translation", "--tokenizers.source.max_size"),
    ("--vocab_size", "language", "--tokenizer.size"),
    ("--bpe", "translation", "--tokenizers.source.kind bpe"),
    ("--text_column", "classification", "--data.text"),
    ("--label_column", "classification", "--data.label"),
    ("--n_splits", "classification", "--folds"),
    ("--test_size", "classification", "--data.dev_size"),
    ("--C", "classification", "--training.weight_decay"),
    ("--max_iter", "classification", "--training.max_epochs"),
    ("--class_weight", "classification", "--training.class_weights balanced"),
    ("--random_state", "classification", "--seed"),
    ("--resume", "translation", "regard resume"),
    ("--resume_from_checkpoint", "classification", "regard resume"),
    ("--finetune-from-model", "translation", "--from"),
    ("--model_name_or_path", "classification", "--from"),
    ("--no_cuda", "language", "--device cpu"),
    ("--eval_steps", "translation", "--training.validate_every"),
    ("--joined-dictionary", "translation", "--tokenizers.joint true"),
    ("--share-all-embeddings", "translation", "--model.tie_embeddings"),
    ("--block_size", "language", "--data.max_tokens"),
    ("--min_df", "classification", "--tokenizer.min_count"),
    ("--early_stopping_metric", "translation", "--training.monitor"),  # JoeyNMT
    ("--beam_alpha", "translation", "--decoding.length_penalty"),  # JoeyNMT
    ("--verbose", "translation", "standard error"),
    ("-v", "classification", "standard error"),
    ("--delimiter", "classification", "sep=;"),
    # with one of regard's sections in front, as users often guess
    ("--training.batch_size", "translation", "--training.batch_sentences"),
    ("--training.epochs", "language", "--training.max_epochs"),
    ("--training.lr", "classification", "--training.learning_rate"),
    ("--training.warmup", "translation", "--training.schedule.warmup_steps"),
    ("--model.dropout", "translation", "--model.layer_dropout"),
    ("--data.valid", "translation", "--data.dev"),
    ("--data.test", "classification", "regard evaluate"),
    ("--data.sep", "translation", "sep=;"),
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
    assert habits.find_setting(option, "translation").startswith("--training.batch_sentences N")


@pytest.mark.parametrize("command", [["resume", "x"], ["translate", "x"], ["evaluate", "x", "y"], ["info", "x"]])
@pytest.mark.parametrize("option", ["--verbose", "--quiet"])
def test_there_is_no_switch_for_messages(command, option, capsys):
    assert main([*command, option]) == 2
    assert "in regard: no switch: reports and progress bars go to standard error; 2>log.txt writes" in capsys.readouterr().err


def test_an_unknown_option_without_a_value(capsys):
    for arguments in (["--overwrit"], ["--overwrit", "--out", "x"]):
        assert main(["train", "translation", "--data.train", "x", *arguments]) == 2
        shown = capsys.readouterr().err
        assert "train translation: there is no option '--overwrit'; did you mean '--overwrite'?" in shown


def answers():
    for names, answer in habits.read_table("training"):
        for task in BUILT_IN:
            found = answer if isinstance(answer, str) else answer.get(task)
            if found:
                yield pytest.param(task, found, id=f"{task}-{names.split()[0]}")


@pytest.mark.parametrize(("task", "answer"), list(answers()))
def test_what_an_answer_names_exists(task, answer, capsys):
    settings = {f"--{name}" for name in setting_names(find_task(task).config_class)} | {
        "--preset",
        "--config",
        "--overwrite",
        "--from",
        "--folds",
        "--vectors",
    }
    spared = {"--nproc-per-node", "--no-python", "--beam", "--length-penalty"}
    named = set(re.findall(r"(?<![\w-])--[a-z][\w.-]*\w", answer))
    assert named - settings - spared == set()
    assert set(re.findall(r"(?<![-\w.])((?:training|data|model|tokenizers?|decoding|generation)\.\w[\w.]*)", answer)) <= {
        name.removeprefix("--") for name in settings
    }
    assert set(re.findall(r"`regard (\w+)", answer)) <= set(COMMANDS)
    for preset in re.findall(r"--preset ([a-z][\w-]*)", answer):
        assert preset in preset_names()
    for command, option in re.findall(r"`regard (\w+) RUN (--[a-z][a-z-]+)", answer):
        if command != "resume":
            assert option in help_of(command)


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


def test_no_name_has_two_answers_for_a_task():
    for task in BUILT_IN:
        names = [
            name
            for names, answer in habits.read_table("training")
            if isinstance(answer, str) or task in answer
            for name in names.split()
        ]
        assert {name for name in names if names.count(name) > 1} == set()


def test_short_names_of_settings_still_get_the_whole_name(capsys):
    assert main(["train", "translation", "--data.train", "x", "--max_epochs", "5"]) == 2
    assert "unknown setting 'max_epochs'; did you mean 'training.max_epochs'?" in capsys.readouterr().err
    assert main(["train", "language", "--data.train", "x", "--batch_tokens", "5"]) == 2
    assert "unknown setting 'batch_tokens'; did you mean 'training.batch_tokens'?" in capsys.readouterr().err


def test_a_negative_number_is_a_value(capsys):
    assert main(["train", "translation", "--data.train", "x", "--training.learning_rate", "-1"]) == 2
    assert "training.learning_rate is -1, expected more than 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ("fit", "`regard train translation`"),
        ("fairseq-train", "`regard train translation`"),
        ("predict", "`regard classify RUN`"),
        ("interactive", "`regard translate RUN`"),
        ("test", "`regard evaluate RUN FILE`"),
        ("eval", "`regard evaluate RUN FILE`"),
        ("preprocess", "no separate step"),
        ("plot", "`regard curves RUN`"),
        ("onmt_translate", "`regard translate RUN`"),
        ("summary", "`regard info RUN`"),
        ("finetune", "with --from RUN"),
    ],
)
def test_a_command_of_another_tool(typed, named, capsys):
    assert main([typed, "x"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"regard: no command is named '{typed}'; in regard: ")
    assert named in error


def test_commands_in_answers_exist():
    for _, answer in habits.read_table("commands"):
        assert set(re.findall(r"`regard (\w+)", answer)) <= set(COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "translation"], "the first argument is '--task', expected the task: `regard train translation …`"),
        (
            ["--task=language_modeling"],
            "the first argument is '--task=language_modeling', expected the task: `regard train language …`",
        ),
        (["--data.train", "x"], "the first argument is '--data.train', expected the task: `regard train TASK …`"),
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
        (["generate", "x", "hi", "--num_return_sequences", "2"], "in regard: --samples N"),
        (["generate", "x", "hi", "--max_new_tokens", "2"], "in regard: --max-length N"),
        (["classify", "x", "hi", "--no_cuda"], "in regard: --device cpu"),
        (["look", "x", "hi", "--output", "a.png"], "in regard: --to FILE"),
        (["translate", "--path", "x", "hi"], "in regard: the folder of the run, without an option"),
        (["translate", "x", "--bem", "5"], "did you mean '--beam'?"),
    ],
)
def test_options_of_the_commands_that_use_a_model(arguments, answer, capsys):
    assert main(arguments) == 2
    assert answer in capsys.readouterr().err
