from regard.plurals import counted


def test_one_has_the_singular_and_all_else_the_plural():
    assert [counted(number, "label") for number in (0, 1, 2, 1200)] == ["0 labels", "1 label", "2 labels", "1,200 labels"]
    assert counted(1, "matrix", "matrices") == "1 matrix"
    assert counted(2, "matrix", "matrices") == "2 matrices"
