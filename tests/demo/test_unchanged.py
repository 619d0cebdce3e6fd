"""The built-in corpora give the same pairs and reviews in every version: models and tests depend on their numbers."""

import hashlib

from regard.demo import DemoCorpus, ReviewCorpus

NUM_EXAMPLES = 2000


def test_the_first_pairs_and_their_alignments():
    corpus, digest = DemoCorpus(), hashlib.sha256()
    for pair in (corpus[index] for index in range(NUM_EXAMPLES)):
        digest.update(f"{pair.source}\t{pair.target}\t{pair.pharaoh()}\n".encode())
    assert digest.hexdigest() == "0869cceaf9a6c911ef721fbb669d0c8da490183d93e0652b6570eb2207eb8281"


def test_the_first_reviews_and_their_decisive_words():
    corpus, digest = ReviewCorpus(), hashlib.sha256()
    for review in (corpus[index] for index in range(NUM_EXAMPLES)):
        digest.update(f"{review.text}\t{review.label}\t{review.decisive}\n".encode())
    assert digest.hexdigest() == "1f55ce8f99795c25dcd6eaf1714f5fb55f97c94c98f680b3028fe01193ca663f"
