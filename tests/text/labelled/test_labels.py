import json
from functools import cmp_to_key

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError
from regard.text.labelled.labels import Labels, sort_names


def test_natural_order():
    names = ["class 10", "class 2", "b", "10", "9", "-1", "1.5", "Alpha", "class 02", "nan", "1e3"]
    wanted = ["-1", "1.5", "9", "10", "1e3", "Alpha", "b", "class 02", "class 2", "class 10", "nan"]
    assert sort_names(names) == wanted
    assert sort_names(reversed(names)) == wanted


@given(names=st.sets(st.text(st.sampled_from("019.-ea ٣²"), min_size=1, max_size=6)), seed=st.randoms())
def test_the_order_does_not_depend_on_the_order_before(names, seed):
    shuffled = list(names)
    seed.shuffle(shuffled)
    ordered = sort_names(shuffled)
    assert ordered == sort_names(names)
    numbers = [name for name in ordered if name.isascii() and name.isdigit()]
    assert numbers == sorted(numbers, key=cmp_to_key(lambda a, b: (int(a) > int(b)) - (int(a) < int(b)) or (a > b) - (a < b)))


def test_labels_survive_json():
    labels = Labels(("neg", "pos"), False, (3, 4))
    assert Labels.from_dict(json.loads(json.dumps(labels.to_dict()))) == labels
    assert len(labels) == 2
    assert labels.number("pos") == 1


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"names": ["a"]}, "expected labels with lists of names and counts"),
        ({"names": "ab", "multiple": False, "counts": [1, 2]}, "lists of names and counts"),
        ({"names": ["a", "a"], "multiple": False, "counts": [1, 2]}, "one of them occurs twice"),
        ({"names": [], "multiple": False, "counts": []}, "expected names"),
        ({"names": ["a", 1], "multiple": True, "counts": [1, 2]}, "expected names"),
        ({"names": ["a", "b"], "multiple": True, "counts": [1]}, "expected 2 numbers of texts"),
        ({"names": ["a", "b"], "multiple": True, "counts": [1, -1]}, "expected 2 numbers of texts"),
        ([], "expected labels with"),
    ],
)
def test_labels_of_a_damaged_file(plain, message):
    with pytest.raises(DataError, match=message):
        Labels.from_dict(plain)


def test_an_unseen_label_is_named_with_the_nearest():
    labels = Labels(tuple(f"class {number}" for number in range(20)), False, (1,) * 20)
    with pytest.raises(DataError) as caught:
        labels.number("clas 7", "x.tsv, line 3")
    message = str(caught.value)
    assert message.startswith("x.tsv, line 3: label 'clas 7' is unknown; the model knows 'class 0', 'class 1'")
    assert "… (20 in all)" in message
    assert message.endswith("did you mean 'class 7'?")


@pytest.mark.parametrize(
    ("multiple", "name", "hint"), [(True, "film|good", True), (True, "film|bad", False), (False, "film|good", False)]
)
def test_several_labels_in_one_name_the_setting(multiple, name, hint):
    labels = Labels(("film", "good"), multiple, (1, 1))
    with pytest.raises(DataError) as caught:
        labels.number(name)
    assert ("; if it is several labels, set data.label_separator to '|'" in str(caught.value)) == hint
