"""Settings of pretrained encoders, for all tasks: their conflicts with other settings, and reading the encoder of a run."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, TypeVar, cast

from regard.config.data import PretrainedTokenizerConfig, TokenizerConfig
from regard.config.pretrained import PretrainedEncoderConfig
from regard.config.run import RunConfig
from regard.errors import ConfigError

Encoder = TypeVar("Encoder", bound=PretrainedEncoderConfig)


def encoder_conflicts(
    config: RunConfig,
    encoder: PretrainedEncoderConfig,
    tokenizer: TokenizerConfig | None = None,
    name: str = "",
    default: TokenizerConfig | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield the conflicts of an encoder with the optimizer, and with the tokenizer, if it has one.

    `name` is the name of the tokenizer's settings. The `default` tokenizer, which the user did not choose, is not a conflict; a
    run replaces it.
    """
    if isinstance(tokenizer, PretrainedTokenizerConfig):
        if tokenizer.name not in ("", encoder.name):
            message = f"{name}.name is '{tokenizer.name}', expected model.encoder.name ('{encoder.name}')"
            yield f"{name}.name", f"{message}; leave it out"
    elif tokenizer and tokenizer.kind != "auto" and tokenizer != default:
        message = f"{name}.kind is '{tokenizer.kind}', but a pretrained encoder needs its own tokenizer"
        yield f"{name}.kind", f"{message}; set it to auto"
    if config.training.optimizer == "muon":
        message = "training.optimizer is 'muon', but each layer of a pretrained encoder has a learning rate of its own; "
        message += "set training.optimizer to adamw"
        yield "training.optimizer", message


def read_encoder_of(
    encoder: Encoder,
    tokenizer: TokenizerConfig,
    max_tokens: int,
    *,
    ends: int = 0,
    tuning: Literal["frozen", "whole"] = "whole",
) -> tuple[Encoder, TokenizerConfig]:
    """Return the settings of an encoder with its architecture, and those of its tokenizer.

    Args:
        encoder: Settings of the encoder.
        tokenizer: Settings of the tokenizer.
        max_tokens: Maximum number of tokens of a text, not counting the `ends` added symbols.
        ends: Number of symbols that are added to each text.
        tuning: Tuning for `auto`.

    Raises:
        ConfigError: If the encoder cannot be read, or its maximum number of tokens is lower.
    """
    from regard.models.pretrained import max_tokens as most_tokens

    encoder = _read(encoder, tuning)
    if max_tokens > (most := most_tokens(encoder) - ends):
        raise ConfigError(
            f"data.max_tokens is {max_tokens:,}, but the encoder '{encoder.name}' reads at most {most:,} tokens; set "
            f"data.max_tokens to {most}"
        )
    if not isinstance(tokenizer, PretrainedTokenizerConfig) or not tokenizer.name:
        tokenizer = PretrainedTokenizerConfig(name=encoder.name)
    return encoder, tokenizer


def _read(encoder: Encoder, tuning: Literal["frozen", "whole"]) -> Encoder:
    from regard.models.pretrained import read_encoder

    if not encoder.checksum:
        encoder = cast(Encoder, read_encoder(encoder))
    return replace(encoder, tuning=tuning) if encoder.tuning == "auto" else encoder


def with_encoder(config: Any) -> Any:
    """Return the settings of a run with one text per row, with the architecture and the tokenizer of its pretrained encoder."""
    encoder, tokenizer = read_encoder_of(config.model.encoder, config.tokenizer, config.data.max_tokens)
    return replace(config, model=replace(config.model, encoder=encoder), tokenizer=tokenizer)


def with_image_encoder(config: Any) -> Any:
    """Return the settings of a captioner with the architecture of its pretrained encoder, whose patches are the cells."""
    from regard.models.vision import image_input

    image, data = _read(config.model.image, "frozen"), config.data
    grid, _, _ = image_input(image)
    colour = "grey" if grid.channels == 1 else "colour"
    canvas = {"height": grid.rows * grid.cell, "width": grid.columns * grid.cell, "cell": grid.cell, "colour": colour}
    for name, value in canvas.items():
        if (own := getattr(data, name)) not in (value, getattr(type(data)(), name)):
            raise ConfigError(f"data.{name} is {own}, but the encoder '{image.name}' needs {value}; leave data.{name} out")
    return replace(config, model=replace(config.model, image=image), data=replace(data, **canvas))
