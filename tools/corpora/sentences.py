"""The functions that draw a sentence pattern, each with the weight by which it is chosen."""

from collections.abc import Callable
from random import Random

from tools.corpora import complex_sentences, draw, simple_sentences
from tools.corpora.patterns import Pattern

PATTERNS: dict[Callable[[Random], Pattern], float] = {
    simple_sentences.statement: 30,
    simple_sentences.fronted_place: 3,
    simple_sentences.there_is: 3,
    simple_sentences.state: 4,
    simple_sentences.question: 9,
    simple_sentences.question_of_state: 2,
    simple_sentences.question_of_object: 4,
    simple_sentences.question_of_subject: 3,
    simple_sentences.command: 7,
    complex_sentences.subordinate: 10,
    complex_sentences.reason: 3,
    complex_sentences.reason_of_object: 3,
    complex_sentences.but: 2,
    complex_sentences.coordination: 4,
    complex_sentences.that: 5,
    complex_sentences.relative_subject: 4,
    complex_sentences.relative_object: 3,
    complex_sentences.attempt: 5,
    complex_sentences.purpose: 2,
}


def draw_pattern(random: Random) -> Pattern:
    """Draw a sentence pattern."""
    return draw.pick(random, PATTERNS)(random)
