"""Errors of the package, by cause.

Every error that a user can cause is a `RegardError`: the command line prints its message without a traceback, and ends with
exit code 2, or with another code after a signal (`Interrupted`). A message says what was wrong, what was found, what was
expected, and what to do.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches

_LONGEST = 2000
# Phrases, in lower case, of messages about a lack of memory: from PyTorch, CUDA, C, C++, and libraries in Rust (tokenizers,
# safetensors).
_SHORT_OF_MEMORY = (
    *("out of memory", "alloc_failed", "bad_alloc", "memory allocation", "allocation failed"),
    *("can't allocate memory", "cannot allocate memory", "pyobject pointer is null"),
)
_SHORTENED = " … "
# Characters to escape: control characters (but not tab and line feed), line and paragraph separators, marks that change the
# writing direction, and halves of surrogate pairs.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# A line feed that is not followed by two spaces.
_LINE_FEED = re.compile(r"\n(?!  )")


def printable(text: str) -> str:
    """Escape everything in a text that could control a terminal, in the form `\\u001b`, which JSON and Python can read.

    Letters of every script, joiners and emoji stay as they are. Text from files, models and file names goes through this
    function before a terminal shows it: `regard.terminal.show` and `regard.console.SafeConsole` call it.
    """
    return text if text.isprintable() else _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(text: str) -> str:
    """Escape a text as `printable` does, and escape its line feeds too, unless two spaces follow.

    Further lines of a message are indented with two spaces. The name of a file can therefore not look like another message.
    """
    return _LINE_FEED.sub(r"\\n", printable(text))


def shortened(text: str) -> str:
    """Shorten a text for a message to at most 2,000 characters; of a longer text, keep the beginning and the end."""
    room = _LONGEST - len(_SHORTENED)
    return text if len(text) <= _LONGEST else f"{text[: room * 3 // 4]}{_SHORTENED}{text[-(room - room * 3 // 4) :]}"


class RegardError(Exception):
    """Base of all errors that users, their files or their machines can cause."""

    exit_code: int = 2
    """Exit code of the command line."""
    reported: bool = False
    """Whether another process of the same run already prints the message."""

    def __str__(self) -> str:
        """Return the message in a form that is safe to print.

        The message may quote a file that contains control characters or very long lines.
        """
        text = super().__str__()
        # The text is shortened twice, because an escape is longer than its character.
        return shortened(one_line(shortened(text)))


class ConfigError(RegardError):
    """A setting is misspelt, of the wrong type, out of range, or in conflict with another."""


class ArgumentError(ConfigError, TypeError):
    """A call has an unknown argument, too many arguments, or one of the wrong type. The message says how to correct it."""


class DataError(RegardError):
    """A file cannot be read or written, or has unexpected content. The message names the file and, if known, the line."""


class ShapeError(RegardError, ValueError):
    """A tensor does not have the expected shape. The message names the argument, its shape, and the expected axes or sizes."""


class BundleError(RegardError):
    """A folder is not a trained model; or the model, or a checkpoint of its run, is damaged or written by another version."""


class RequestError(RegardError):
    """A trained model cannot do what was requested."""


class TrainingError(RegardError):
    """Training cannot continue: for example, losses are not finite, the disk is full, or there is not enough memory."""


class Interrupted(RegardError):
    """A signal stopped a run; the message says whether it can be resumed. `exit_code` is 128 plus the signal's number."""

    def __init__(self, message: str, *, signal_number: int = 2) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error, or an error that caused it, reports a lack of memory. PyTorch's errors are included."""
    text = str(error).lower()
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    if named or any(words in text for words in _SHORT_OF_MEMORY):
        return True
    # If memory runs out in torch.save, it raises another error, whose context is the first one.
    return error.__context__ is not None and out_of_memory(error.__context__)


def missing_operation(error: BaseException) -> str:
    """Describe what to do if Apple's GPUs lack an operation, which PyTorch's error names; empty for other errors."""
    found = re.search(r"operator '(aten::\S+)' is not currently implemented for the MPS device", str(error))
    if not found:
        return ""
    return (
        f"{found[1]} does not run on Apple's GPU (device mps); set the environment variable PYTORCH_ENABLE_MPS_FALLBACK=1, so "
        "that PyTorch computes it on the CPU, or use device cpu"
    )


def install_command(extra: str = "") -> str:
    """Return the command that installs regard from its repository, with an extra if one is named."""
    name = f"regard[{extra}]" if extra else "regard"
    return f"pip install '{name} @ git+https://github.com/regard-attention/regard'"


def missing_package(error: ModuleNotFoundError) -> str:
    """Describe what to install after a failed import: `needs the package 'pyarrow', …`; empty for regard's own modules."""
    package = (error.name or "regard").partition(".")[0]
    if package == "regard":
        return ""
    package = {"yaml": "pyyaml", "PIL": "pillow", "charset_normalizer": "charset-normalizer"}.get(package, package)
    return (
        f"needs the package '{package}', which is not installed (without dependencies, only `regard.attention` works); "
        f"install the rest: {install_command()}"
    )


def nearest(name: str, known: Iterable[str]) -> str:
    """Suggest the known name that was probably meant, whatever its case: `; did you mean 'x'?`; empty if nothing is close."""
    if not isinstance(name, str):
        return ""
    names = list(known)
    matches = get_close_matches(name.lower(), [each.lower() for each in names], n=1, cutoff=0.6)
    if not matches:
        return ""
    [meant] = get_close_matches(name, [each for each in names if each.lower() == matches[0]], n=1, cutoff=0)
    return f"; did you mean '{meant}'?"
