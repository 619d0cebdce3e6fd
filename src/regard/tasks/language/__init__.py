"""Learning to continue texts, and generating them."""
