"""Ready-made runs, each a commented YAML file."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from regard.config.loading import Layer, load_config, override_layer, parse_layer
from regard.config.run import RunConfig
from regard.errors import ConfigError, nearest


def preset_names() -> list[str]:
    """Return the names of the presets, sorted."""
    return sorted(entry.name.removesuffix(".yaml") for entry in files(__name__).iterdir() if entry.name.endswith(".yaml"))


def preset_text(name: str) -> str:
    """Return the YAML text of a preset, including comments.

    Args:
        name: Name of a preset, such as `"luong"`.

    Raises:
        ConfigError: If there is no such preset.
    """
    if name not in preset_names():
        raise ConfigError(f"no preset is named '{name}'{nearest(name, preset_names())} (`regard presets` lists them)")
    return files(__name__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def preset_layer(name: str) -> Layer:
    """Return the settings of a preset as a layer for `regard.config.loading.load_config`."""
    return parse_layer(preset_text(name), f"preset {name}")


def load_preset(name: str, overrides: Mapping[str, Any] | None = None) -> RunConfig:
    """Load a preset as a configuration.

    Args:
        name: One of `preset_names()`.
        overrides: Settings to change, by dotted names: `{"data.train": ["deu.txt"], "training.max_epochs": 3}`.

    Raises:
        ConfigError: If the preset or a setting is unknown, of the wrong type or out of range, or `overrides` names another task
            than that of the preset.
    """
    preset, changes = preset_layer(name), override_layer(overrides or {})
    task = preset.values.get("task", "translation")
    if changes.values.get("task", task) != task:
        raise ConfigError(f"preset '{name}' is for {task}, so its task cannot be {changes.values['task']!r:.40}")
    return load_config(preset, changes)
