"""`regard compare`: test which of two trained models is better on a file."""

from collections.abc import Sequence

from regard.cli.options import Parser, add_machine_options, given_files, kind_of, model_folder, print_result, set_threads
from regard.cli.task_options import TaskOptions
from regard.errors import RequestError
from regard.task import FileOperation, find_task


def main(arguments: Sequence[str]) -> None:
    """Print the scores of both models, their difference, and whether the difference may be due to chance."""
    parser = Parser(
        "compare",
        "Test which of two models is better on a file that neither was trained on.\n"
        "For two classifiers and labelled texts: accuracy, macro F1, their differences with a 95% interval and a p-value from\n"
        "a paired bootstrap, and McNemar's exact test. For two translators and sentence pairs: sacrebleu's paired bootstrap\n"
        "of BLEU and chrF.",
        "  regard compare runs/bilstm runs/bag test.tsv\n  regard compare runs/luong runs/bahdanau test.en,test.de --beam 5",
    )
    parser.add_argument("first", metavar="DIR", type=model_folder, help="a trained model's folder")
    parser.add_argument("second", metavar="DIR", type=model_folder, help="the folder of another model of the same kind")
    parser.add_argument(
        "files", metavar="FILE[,FILE]", help="one file of pairs or of labelled texts, or two parallel text files"
    )
    own = TaskOptions(parser, "compare", "compare")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    own.add_layout()
    add_machine_options(parser)
    options = parser.read(arguments)

    from regard.tasks.loading import load

    set_threads(options.threads)
    first, second = (load(folder, device=options.device) for folder in (options.first, options.second))
    options.dir = options.first
    task = first.config.task
    if task != second.config.task or task not in own.operations:
        kinds = f"{options.first} holds {kind_of(first)} and {options.second} {kind_of(second)}"
        able = " or ".join(find_task(name).words.predictors for name in own.operations)
        raise RequestError(f"compare: {kinds}; expected two models of one kind, {able}")
    operation = own.create(FileOperation, options, task)
    found = operation.compare((first, second), (options.first, options.second), given_files(options))
    print_result(found, as_json=options.json)
