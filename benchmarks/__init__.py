"""Speed, memory and quality against others, each measured by one command that prints one JSON line (`python -m benchmarks`)."""
