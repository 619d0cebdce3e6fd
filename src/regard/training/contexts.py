"""A context in which models are trained."""

from collections.abc import Iterator
from contextlib import contextmanager

from regard.errors import TrainingError, out_of_memory


@contextmanager
def explaining_memory() -> Iterator[None]:
    """Raise an error that names settings to lower if memory is short in an unsplit computation, such as validation.

    Raises:
        TrainingError: If there is not enough memory.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        raise TrainingError(
            "there is not enough memory; lower training.batch_tokens or the sizes under model, and start a new run. If it ran "
            "out while dev pairs were translated, lower decoding.batch_tokens and resume. The last checkpoint is kept"
        ) from error
