"""Training whose model is the configured one, or the user's own object."""

from abc import abstractmethod
from typing import Any, ClassVar

from torch import nn

from regard.errors import ConfigError
from regard.task import Training, find_task


class OwnModelTraining(Training):
    """The `Training` of a task whose users can give their own model: an object, or a function that builds it.

    Attributes:
        setting: Name of the part of the configuration that describes the tokenizers, for messages.
        model_class: Class that a model must have.
        sizes_name: Name of the arguments of a function that builds a model, for messages.
    """

    setting: ClassVar[str]
    model_class: ClassVar[type[nn.Module]]
    sizes_name: ClassVar[str] = "the sizes of the vocabularies"

    @abstractmethod
    def sizes(self, parts: Any) -> tuple[int, ...]:
        """Return the arguments of a function that builds a model, such as the sizes of the vocabularies."""

    @abstractmethod
    def check_sizes(self, model: Any, sizes: tuple[int, ...]) -> str:
        """Return a message if the user's own model does not have these sizes; else an empty text."""

    def build(self, config: Any, parts: Any, model: Any, attention: Any) -> Any:
        """Build the configured model, or return the user's own model.

        Raises:
            ConfigError: If there is not enough memory, or the user's object is not a model of the right class and sizes.
        """
        sizes = self.sizes(parts)
        if model is None:
            try:
                return find_task(config.task).bundle_format.build_model(config, parts, attention)
            except RuntimeError as error:
                if "alloc" not in str(error):
                    raise
                numbers = " and ".join(f"{size:,}" for size in sizes)
                raise ConfigError(
                    f"the model does not fit into memory, with {self.sizes_name} {numbers}; "
                    f"lower the sizes under model, or the sizes of the vocabularies under {self.setting}"
                ) from error
        built = model if isinstance(model, self.model_class) else model(*sizes)
        if not isinstance(built, self.model_class):
            expected = f"{self.model_class.__module__}.{self.model_class.__name__}"
            function = f"a function that builds one from {self.sizes_name}"
            raise ConfigError(f"model is a {type(built).__name__}, expected a {expected}, or {function}")
        if message := self.check_sizes(built, sizes):
            raise ConfigError(f"{message}; give fit a function that builds the model from {self.sizes_name}")
        return built
