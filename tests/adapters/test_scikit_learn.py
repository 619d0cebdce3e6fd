"""The scikit-learn estimator: its contract, and its place in pipelines, searches and pickles."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted, validate_data

import regard
from regard.errors import ConfigError, Interrupted

NOUNS = ["film", "plot", "cast", "score", "end", "book", "song", "play"]
TEXTS = [f"the {noun} is {word} , so is the {other}" for word in ("fine", "dull") for noun in NOUNS for other in NOUNS[:4]]
LABELS = np.array([3 if "fine" in text else 7 for text in TEXTS])
SMALL = {"model.embedding_size": 8, "model.num_buckets": 64, "training.batch_sentences": 8, "data.dev_size": 8, "threads": 1}

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def make(**options):
    given = {"preset": "bag", "max_epochs": 8, "learning_rate": 0.05, "settings": {**SMALL, **options.pop("settings", {})}}
    return regard.RegardClassifier(**{**given, "device": "cpu", **options})


@pytest.fixture(scope="module")
def fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make().fit(TEXTS, LABELS)


def test_it_learns(fitted):
    assert fitted.classes_.tolist() == [3, 7]
    assert fitted.score(TEXTS, LABELS) > 0.9
    probabilities = fitted.predict_proba(TEXTS[:5])
    assert probabilities.shape == (5, 2)
    assert probabilities.sum(1) == pytest.approx(np.ones(5))
    assert fitted.predict(TEXTS[:5]).tolist() == fitted.classes_[probabilities.argmax(1)].tolist()
    [found] = fitted.explain(TEXTS[:1])
    assert found.attention.site() == "pool"
    assert fitted.classes_[int(found.label)] == fitted.predict(TEXTS[:1])[0]


def test_it_is_repeatable_and_left_alone_by_a_clone(fitted):
    again = clone(fitted)
    assert again.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        again.predict(TEXTS)
    again.fit(TEXTS, LABELS)
    assert (again.predict_proba(TEXTS) == fitted.predict_proba(TEXTS)).all()


def test_an_interruption_ends_a_search_and_leaves_the_fitted_model(fitted, monkeypatch):
    def stop(*arguments, **options):
        raise Interrupted("stopped")

    monkeypatch.setattr("regard.adapters.scikit_learn.fit", stop)
    with pytest.raises(KeyboardInterrupt):
        GridSearchCV(make(), {"learning_rate": [0.05, 0.1]}, cv=2).fit(TEXTS, LABELS)
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(TEXTS, np.where(LABELS == 3, "a", "b"))
    assert fitted.classes_.tolist() == [3, 7]


def test_pickles_hold_the_model(fitted):
    data = pickle.dumps(fitted)
    again = pickle.loads(data)
    assert (again.predict_proba(TEXTS) == fitted.predict_proba(TEXTS)).all()
    assert again.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        pickle.loads(pickle.dumps(make())).predict(TEXTS)


@pytest.mark.slow
def test_pipelines_searches_and_columns():
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    search = GridSearchCV(
        make_pipeline(lower, make()), {"regardclassifier__learning_rate": [1e-6, 0.05]}, cv=2, error_score="raise"
    )
    search.fit(np.array(TEXTS, dtype=object), [str(label) for label in LABELS])
    assert search.best_params_ == {"regardclassifier__learning_rate": 0.05}
    assert set(search.predict(TEXTS[:4])) <= {"3", "7"}
    column = np.array(TEXTS[:4])[:, None]
    assert set(search.best_estimator_[-1].predict(column)) <= {"3", "7"}


def test_parameters():
    estimator = make().set_params(max_epochs=2, settings=SMALL)
    assert estimator.get_params()["max_epochs"] == 2
    with pytest.raises(ValueError, match="Invalid parameter 'epochs'"):
        estimator.set_params(epochs=3)
    with pytest.raises(ConfigError, match=r"did you mean .embedding_size|did you mean .model.embedding_size"):
        make(settings={"model.embeding_size": 3}).fit(TEXTS, LABELS)


def test_random_states_are_those_of_scikit_learn():
    def predictions(state):
        return make(random_state=state, max_epochs=1).fit(TEXTS, LABELS).predict_proba(TEXTS[:5])

    state = np.random.RandomState(3)
    drawn, again = predictions(state), predictions(state)
    assert not np.array_equal(drawn, again)
    state = np.random.RandomState(3)
    assert np.array_equal(predictions(np.int64(state.randint(2**31 - 1))), drawn)
    np.random.seed(3)
    assert np.array_equal(predictions(None), drawn)
    with pytest.raises(ValueError, match="'three' cannot be used to seed"):
        predictions("three")


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        ("a text", [1], r"got one text, expected a list of texts; write \[text\]"),
        ([1, 2], [1, 2], "text 1 is of type int, expected a str"),
        ([["a", "b"], ["c", "d"]], [1, 2], r"got an array of shape \(2, 2\), expected a list of texts"),
        (["a", "b"], [1, 2, 3], "got 2 texts and 3 labels, expected the same number of each"),
        (["a", "b"], None, "requires y to be passed, but the target y is None"),
        (["a", "b"], [1, 1], "got 1 class, expected at least two different labels"),
        (["a", "b"], [0.1, 0.2], "Unknown label type: continuous"),
    ],
)
def test_what_fit_refuses(texts, labels, message):
    with pytest.raises(ValueError, match=message):
        make().fit(texts, labels)


def test_check_estimator():
    """scikit-learn skips its checks that pass numbers or tables, as the tags say: the input of this estimator is text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        results = check_estimator(make(), on_fail=None)
    assert results
    failed = [result["check_name"] for result in results if result["status"] not in ("passed", "skipped")]
    assert not failed
    assert "check_estimator_cloneable" in {result["check_name"] for result in results}


class OnTables(regard.RegardClassifier):
    """The estimator behind a table of numbers, each of which becomes a word, so that scikit-learn's checks can train it."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.one_d_array, tags.input_tags.string = True, False, False
        tags.classifier_tags.poor_score = True  # a word says nothing of the size of its number
        return tags

    def fit(self, X, y):
        X, y = validate_data(self, X, y)
        return super().fit(self._words(X), y)

    def predict_proba(self, X):
        check_is_fitted(self)
        return super().predict_proba(self._words(validate_data(self, X, reset=False)))

    @staticmethod
    def _words(X):
        return [" ".join(f"c{column}v{float(value):.3g}" for column, value in enumerate(row)) for row in X]


@pytest.mark.slow
def test_check_estimator_with_texts_of_numbers():
    settings = {**SMALL, "data.dev_size": 0, "model.embedding_size": 4}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(OnTables(preset="bag", max_epochs=1, settings=settings, device="cpu"), on_fail=None)
    failed = {result["check_name"]: repr(result["exception"]) for result in results if result["status"] == "failed"}
    assert not failed
    assert sum(result["status"] == "passed" for result in results) > 30


def test_the_extra_is_named():
    import subprocess
    import sys

    program = "import sys; sys.modules['sklearn'] = None; import regard; regard.RegardClassifier"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (
        "regard.RegardClassifier needs scikit-learn; install the extra with: pip install 'regard[sklearn] @ git+https://github.com/regard-attention/regard'"
        in done.stderr
    )
