"""A text classifier as a scikit-learn estimator. This module needs scikit-learn, which `regard[sklearn]` installs."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np

from regard.errors import Interrupted, install_command

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import Tags, check_random_state, column_or_1d
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted
except ModuleNotFoundError as error:
    message = f"regard.RegardClassifier needs scikit-learn; install the extra with: {install_command('sklearn')}"
    raise ModuleNotFoundError(message, name="regard") from error

from regard import disk
from regard.choose import choose_config
from regard.config import RunConfig
from regard.plurals import counted
from regard.presets import preset_layer
from regard.tasks.classification.predict import Classifier
from regard.tasks.classification.results import Classification
from regard.tasks.loading import load
from regard.training import fit


class RegardClassifier(ClassifierMixin, BaseEstimator):
    """A text classifier with attention, as a scikit-learn estimator.

    `fit` takes texts and labels. Settings that are not given are chosen from the data, as in `regard train classification`.

    Args:
        preset: Name of a preset, such as `bag` or `bilstm`; empty to choose the settings from the data.
        max_epochs: Maximum number of epochs; None for the preset's value, or one chosen from the data if it has no value.
        learning_rate: Learning rate; None for the preset's value, or one chosen from the data if it has no value.
        settings: Further settings by dotted names, such as `{"model.hidden_size": 64}`. They override the other arguments.
        random_state: Seed of the run. From a `RandomState`, or from NumPy's if it is None, each `fit` draws a seed.
        device: `auto` (a GPU if there is one), `cpu`, `cuda`, `cuda:N`, or `mps` (untested).

    Attributes:
        classes_: The labels, sorted.
        model_: The trained `regard.Classifier`.

    Example:
        from sklearn.model_selection import cross_val_score

        cross_val_score(regard.RegardClassifier(preset="bag"), texts, labels)
    """

    def __init__(
        self,
        *,
        preset: str = "",
        max_epochs: int | None = None,
        learning_rate: float | None = None,
        settings: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = 0,
        device: str = "auto",
    ) -> None:
        self.preset = preset
        self.max_epochs = max_epochs
        self.learning_rate = learning_rate
        self.settings = settings
        self.random_state = random_state
        self.device = device

    def __sklearn_tags__(self) -> Tags:
        """Declare that the input is a list of texts, and that training needs labels."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags

    def fit(self, X: Sequence[str], y: Sequence[Any]) -> Self:
        """Train a model.

        Args:
            X: Texts: a list, an array or a column of a table.
            y: The label of each text.

        Raises:
            ValueError: If `X` does not contain texts, `y` does not contain labels, their numbers differ, or there are fewer
                than two different labels; or if `random_state` is not of these kinds.
            ConfigError: If a setting is wrong.
            TrainingError: If the loss is not finite.
        """
        texts = _texts(X)
        if y is None:
            raise ValueError("RegardClassifier requires y to be passed, but the target y is None: give a label for each text")
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        if len(texts) != len(labels):
            raise ValueError(f"got {len(texts)} texts and {len(labels)} labels, expected the same number of each")
        classes, codes = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            found = counted(len(classes), "class", "classes")
            raise ValueError(f"RegardClassifier got {found}, expected at least two different labels")
        with tempfile.TemporaryDirectory(prefix="regard-") as folder:
            file = Path(folder, "train.jsonl")
            rows = zip(texts, codes.tolist(), strict=True)
            disk.write(file, "".join(json.dumps({"text": text, "label": str(code)}) + "\n" for text, code in rows))
            try:
                self.model_: Classifier = fit(self._config(file), progress=False)
            except Interrupted as error:  # searches catch an `Exception`, count the fit as failed, and continue
                raise (KeyboardInterrupt if error.exit_code == 130 else SystemExit(error.exit_code)) from error
        self.classes_ = classes
        return self

    def predict(self, X: Sequence[str]) -> np.ndarray:
        """Return the most probable label of each text."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def predict_proba(self, X: Sequence[str]) -> np.ndarray:
        """Return the probabilities of the labels, an array (texts, classes) with the labels in the order of `classes_`."""
        check_is_fitted(self)
        model, texts = self.model_, _texts(X)
        known = model.probabilities(model.scores(texts))
        whole = np.zeros((len(texts), len(self.classes_)))
        whole[:, [int(name) for name in model.labels.names]] = known
        return whole

    def explain(self, X: Sequence[str]) -> list[Classification]:
        """Return the classification of each text with its attention. Labels are given as indices of `classes_`, as strings."""
        check_is_fitted(self)
        return self.model_.classify(_texts(X))

    def _config(self, file: Path) -> RunConfig:
        seed = self.random_state
        given: dict[str, Any] = {
            "data.train": [str(file)],
            "data.text": "text",
            "data.label": "label",
            "out": str(file.with_name("run")),
            "seed": int(seed if isinstance(seed, Integral) else check_random_state(seed).randint(2**31 - 1)),
            "device": self.device,
            "training.tensorboard": False,
        }
        chosen = {"training.max_epochs": self.max_epochs, "training.learning_rate": self.learning_rate}
        given |= {name: value for name, value in chosen.items() if value is not None}
        layers = [preset_layer(self.preset)] if self.preset else []
        return choose_config("classification", {**given, **(self.settings or {})}, *layers)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle; instead of the model, it contains the files that `Classifier.save` writes."""
        state = dict(super().__getstate__())
        if (model := state.pop("model_", None)) is not None:
            with tempfile.TemporaryDirectory(prefix="regard-") as folder:
                model.save(folder)
                state["model_files"] = {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state, and load the model from the files in it, which are checked."""
        files: Mapping[str, bytes] | None = state.pop("model_files", None)
        super().__setstate__(state)
        if files is not None:
            with tempfile.TemporaryDirectory(prefix="regard-") as folder:
                for name, content in files.items():
                    disk.write(Path(folder, Path(name).name), content)
                self.model_ = load(folder, self.device)


def _texts(X: Sequence[str]) -> list[str]:
    """Return texts as a list; raise a ValueError if `X` is a single text, a table, or does not contain texts."""
    if isinstance(X, str):
        raise ValueError("got one text, expected a list of texts; write [text]")
    array = np.asarray(X, dtype=object)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"got an array of shape {array.shape}, expected a list of texts or one column of texts")
    for number, text in enumerate(array, 1):
        if not isinstance(text, str):
            raise ValueError(f"text {number} is of type {type(text).__name__}, expected a str")
    return [str(text) for text in array]
