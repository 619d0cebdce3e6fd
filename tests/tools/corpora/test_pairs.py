"""The grammar of the pairs: patterns that do not overlap, no English sentence twice, and the tables of the package."""

import lzma
import re
from itertools import combinations

import numpy as np
import pytest
from tools.corpora.__main__ import PACKAGE, pair_rows, review_rows
from tools.corpora.frames import Slot
from tools.corpora.pairs import GeneratedPairs
from tools.corpora.patterns import Pattern

CORPUS = GeneratedPairs()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rows"), [("pairs", pair_rows), ("reviews", review_rows)])
def test_the_grammar_writes_the_tables_of_the_package(name, rows):
    assert lzma.decompress((PACKAGE / f"{name}.tsv.xz").read_bytes()).decode() == "".join(rows())


def used(template: str) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for slot, field in re.findall(r"\{(\w)\.(\w+)\}", template):
        fields.setdefault(slot, []).append(field)
    return fields


def english_rows(slot: Slot, fields: list[str], cache: dict[object, frozenset]) -> frozenset:
    """What a slot can say in English, over all its tables; within one table nothing is said twice."""
    key = (slot.tables, tuple(fields))
    if key not in cache:
        tables = [[tuple(getattr(row, field) for field in fields) for row in table.plain] for table in slot.tables]
        for rows in tables:
            assert len(rows) == len(set(rows))
        cache[key] = frozenset(row for rows in tables for row in rows)
    return cache[key]


def english_of(pattern: Pattern, fields: dict[str, list[str]], cache: dict[object, frozenset]) -> dict[str, frozenset]:
    """What every slot can say; a pronoun that stands for something says it together with the subject."""
    slots = {slot.name: slot for slot in pattern.slots}
    said = {name: english_rows(slots[name], names, cache) for name, names in fields.items()}
    if "S" in slots and slots["S"].attribute == "referent":
        slot, (subjects,) = slots["S"], slots["s"].tables
        key = (slot, slots[slot.by].tables, subjects)
        if key not in cache:
            for_row = {row.referent: slot.tables[row.referent].plain[0].en for row in slots[slot.by].tables[0].plain}
            cache[key] = frozenset(
                (row.en, pronoun)
                for row in subjects.plain
                for referent, pronoun in for_row.items()
                if slot.by != "s" or referent == row.referent
            )
        said["S"] = cache[key]
    return said


def test_patterns_of_one_template_do_not_overlap() -> None:
    """Two patterns with one English template differ in a slot in which they have no phrase in common."""
    patterns: dict[object, Pattern] = {share.pattern.key: share.pattern for share, _ in CORPUS._segments}
    groups: dict[str, list[Pattern]] = {}
    for pattern in patterns.values():
        groups.setdefault(pattern.source, []).append(pattern)
    cache: dict[object, frozenset] = {}
    apart: dict[object, bool] = {}
    for source, group in groups.items():
        fields = used(source)
        rows = [english_of(pattern, fields, cache) for pattern in group]
        for first, second in combinations(rows, 2):
            for name in first:
                key = (id(first[name]), id(second[name]))
                if key not in apart:
                    apart[key] = first[name].isdisjoint(second[name])
                if apart[key]:
                    break
            else:
                raise AssertionError(f"two patterns of {source!r} overlap")


@pytest.mark.slow
def test_no_english_sentence_twice_in_the_whole_corpus() -> None:
    hashes = np.fromiter((hash(source) for source, _ in CORPUS.texts(0, len(CORPUS))), np.int64, len(CORPUS))
    assert len(np.unique(hashes)) == len(CORPUS)


@pytest.mark.slow
def test_another_seed_has_no_sentence_twice_either() -> None:
    pairs = list(GeneratedPairs(seed=3).texts(5_000_000, 5_020_000))
    assert len({source for source, _ in pairs}) == len(pairs)
