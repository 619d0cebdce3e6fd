"""From files of sentence pairs to batches of numbers, and back to text."""
