"""Search for the best target of a source, sample targets, and score given ones.

The functions work with every model that implements `Seq2Seq`.
"""

from regard.decoding.best import beam_search, greedy
from regard.decoding.force import force
from regard.decoding.guidance import Guidance
from regard.decoding.hypothesis import Hypothesis, length_penalty_of, score_of
from regard.decoding.sampling import Sampling, sample

__all__ = [
    "Guidance",
    "Hypothesis",
    "Sampling",
    "beam_search",
    "force",
    "greedy",
    "length_penalty_of",
    "sample",
    "score_of",
]
