"""Benchmarks of speed, memory and quality; each is a command that ends with a line of JSON (`python -m benchmarks`)."""
