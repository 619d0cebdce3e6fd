"""`regard`: run the command that the first argument names, and convert an error to a message and an exit code.

Thirteen commands are modules of this package with a function `main(arguments) -> int | None`; the others are operations of
tasks, which `operate.py` runs. Only the module of the called command is imported, so that `regard --help` is fast.
"""

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from regard.errors import (
    RegardError,
    RequestError,
    missing_operation,
    missing_package,
    nearest,
    one_line,
    out_of_memory,
    shortened,
)
from regard.processes.cores import wait_passively
from regard.processes.ranks import own_name
from regard.terminal import discard_output, open_closed_streams, printable_warnings, replace_unwritable, show

_HELP = """\
regard: train a translator, a text classifier or a language model on your own file, use it, and inspect its attention.

Try it (a few minutes on two cores, nothing to download):
  regard demo                                              train a translator
  regard demo --model transformer                          train a Transformer
  regard demo --task classification                        train classifiers of reviews

Train on your own file: sentence pairs (one tab-separated pair per line, or a table), texts with labels, or texts. Columns
and settings are chosen from the data:
  regard train translation --data.train pairs.tsv --data.source en --data.target de --out runs/mine
  regard train classification --data.train reviews.csv --out runs/reviews
  regard train language --data.train stories.txt --out runs/stories
  regard resume runs/mine                                  continue a run that was interrupted
  regard resume runs/mine --training.max_epochs 20         train a run longer
  regard train translation --from runs/mine --data.train new.tsv   fine-tune a model on other data
  regard search translation --data.train pairs.tsv --search.training.learning_rate 0.0005:0.005:log   search for settings

Inspect a run:
  regard info runs/mine                                    show size, data, scores, vocabulary and settings
  regard curves runs/mine --to curves.png                  draw loss and scores during training, of one run or several

Use it:
  regard translate runs/mine "The old man sang."           translate arguments, the lines of --input FILE, or of stdin
  regard classify runs/reviews "a gripping , honest film"  label texts, given in the same ways
  regard generate runs/stories "once upon a time"          continue a text with a language model
  regard look runs/mine "The old man sang." --to map.png   show attention in the terminal, or as .png .svg .pdf .html .json
  regard align runs/mine pairs.tsv                         align the words of given pairs, in Pharaoh format

Take it elsewhere:
  regard page runs/mine --to playground.html               write an HTML page that contains the model, to try it in a browser
  regard export runs/mine --to exported/mine               write ONNX graphs with attention, for onnxruntime
  regard serve runs/mine runs/reviews                      start a web service (JSON) for one or several models
  regard push runs/mine user/mine                          upload a model to the Hugging Face hub; hf://user/mine loads it

Evaluate it:
  regard evaluate runs/mine test.tsv                       translators: loss, BLEU, chrF; classifiers: accuracy, F1, mistakes,
                                                           calibration; language models: perplexity
  regard score runs/mine test.tsv                          print the log probability of each given translation
  regard compare runs/a runs/b test.tsv                    compare two models, and test if their difference is due to chance
  regard faithfulness runs/reviews test.tsv                measure whether attention shows which words decide a prediction

More:
  regard corpus --pairs 20000 --to pairs.tsv               write built-in sentence pairs or reviews to a file
  regard presets [NAME]                                    list the presets, or show the settings of one
  regard COMMAND --help                                    explain a command and its options
  regard --version
"""

# Commands with a module of their own. The others are operations of tasks, such as `translate` (`regard.cli.operate`).
_MODULES = (
    *("demo", "presets", "train", "search", "resume", "info", "curves"),
    *("look", "corpus", "export", "page", "serve", "push"),
)

_OUT_OF_MEMORY = (
    "there is not enough memory; train with lower training.batch_tokens, data.max_tokens or sizes under model, "
    "translate with a smaller --beam, or use a device with more memory"
)


def command_names() -> tuple[str, ...]:
    """Return the names of all commands."""
    from regard.cli.operate import find_operations

    return (*_MODULES, *find_operations())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command in `arguments`, by default those of the process, and return the exit code.

    The code is 0 for success, 2 for an error that is reported in a message, 130 after Ctrl-C, 143 after SIGTERM, and 141 if
    the program that reads the output has closed the pipe.
    """
    open_closed_streams()
    replace_unwritable(sys.stdout)
    wait_passively()
    try:
        with printable_warnings():
            code = _run(sys.argv[1:] if arguments is None else list(arguments))
        sys.stdout.flush()
    except RegardError as error:
        return error.exit_code if error.reported else _fail(own_name() + str(error), error.exit_code)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except BrokenPipeError:
        return 141
    except OSError as error:
        return _fail(own_name() + shortened(one_line(_explain(error))))
    except UnicodeEncodeError as error:
        return _fail(own_name() + f"'{one_line(error.object):.200}' is not UTF-8; rename the file or folder")
    except BaseException as error:  # a panic of the tokenizers library is not a subclass of Exception
        message = missing_operation(error) or (_OUT_OF_MEMORY if out_of_memory(error) else "")
        if not message:
            raise
        return _fail(own_name() + message)
    finally:
        for file in (sys.stdout, sys.stderr):
            try:
                file.flush()
            except OSError:  # nobody reads it
                discard_output(file)
    return code


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help") or arguments == ["help"]:
        show(_HELP, end="")
        return 0
    name, *rest = [*arguments[1:], "--help"] if arguments[0] == "help" else arguments
    if name in ("--version", "-V", "version"):
        from regard.version import __version__

        show(f"regard {__version__}")
        return 0
    # Operations are looked up only for other names, because finding them imports all tasks.
    if name not in _MODULES:
        from regard.cli.habits import find_habit
        from regard.cli.operate import find_operations

        operations = find_operations()
        if name not in operations:
            known = find_habit("commands", name)
            meant = f"; in regard: {known}" if known else nearest(name, command_names())
            raise RequestError(f"no command is named '{name}'{meant} (`regard --help` shows them)")
    try:
        os.getcwd()
    except OSError as error:  # importing PyTorch without a working directory ends the process
        raise RequestError(f"{name}: the working directory no longer exists; change to one that does, and try again") from error
    try:
        if name in _MODULES:
            return import_module(f"regard.cli.{name}").main(rest) or 0
        import_module("regard.cli.operate").main(name, rest)
        return 0
    except ModuleNotFoundError as error:
        if advice := missing_package(error):
            raise RequestError(f"{name} {advice}") from error
        raise


def _fail(message: str, code: int = 2) -> int:
    with suppress(BrokenPipeError):
        show(f"regard: {message}", file=sys.stderr)
    return code


def _explain(error: OSError) -> str:
    where = f" {error.filename}" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full{': cannot write' + where if where else ''}; free some space and try again"
    if error.errno == errno.EFBIG:
        return f"a file grew beyond the limit of this system{where}"
    return f"cannot use{where or ' a file'}: {error.strerror or error}"
