"""Build a complete configuration from the user's settings; all other settings are chosen from the data."""

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

from regard.config import RunConfig
from regard.config.loading import Layer, lay_over, load_config, override_layer
from regard.errors import ConfigError
from regard.presets import preset_layer
from regard.task import Choice, UserSettings, find_task


def choose_config(task: str, overrides: Mapping[str, Any] | None = None, *layers: Layer) -> RunConfig:
    """Return a configuration in which all settings that are not given are chosen according to the training data.

    The data are read once to count and measure the texts; nothing is trained. `config.chosen` says what was chosen and why.

    Args:
        task: Name of a task: `translation`, `classification` or `language`.
        overrides: Settings by dotted names, such as `{"data.train": ["deu.txt"], "training.max_epochs": 5}`. They are used as
            given. `data.train` must be set, here or in `layers`.
        layers: Further settings that are used as given, such as those of a file; `overrides` take precedence over them.

    Returns:
        The configuration, ready for `regard.fit`.

    Raises:
        ConfigError: If a setting is unknown, of the wrong type or out of range, or `data.train` is missing.
        DataError: If the data cannot be read.

    Example:
        config = regard.choose_config("translation", {"data.train": ["deu.txt"], "data.source": "en", "data.target": "de"})
        translator = regard.fit(config)
    """
    made = [Layer({"task": task}), *layers, override_layer(overrides or {})]
    given = reduce(lay_over, made)
    relevant = {name: value for name, value in given.values.items() if name == "task" or name.startswith("data.")}
    data = load_config(Layer(relevant, given.places))
    if not data.data.train:
        raise ConfigError("data.train is empty, but settings are chosen from the training data; set data.train to a file")
    table, known = find_task(data.task).settings_table, UserSettings(given.values)
    if table is None:
        return load_config(*made)
    # Mistakes in the settings are reported before the data are read, because reading can take a while.
    load_config(made[0], *_layers(table.choose(data.data, known, read=False)), *made[1:])
    choice = table.choose(data.data, known)
    below = _layers(choice)
    config = load_config(made[0], *below, *made[1:])
    if reduce(lay_over, below).values.keys() <= given.values.keys():  # no choice has an effect
        return config
    return replace(config, chosen=(*choice.found, *table.describe(config)))


def _layers(choice: Choice) -> list[Layer]:
    preset = [preset_layer(choice.preset)] if choice.preset else []
    return [*preset, override_layer(choice.settings)]
