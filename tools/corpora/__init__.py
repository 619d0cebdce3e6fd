"""The grammar behind the built-in corpora: 2^24 English–German sentence pairs with alignments, and 2^23 labelled reviews."""
