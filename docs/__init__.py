"""The sources of the documentation. This is a package so that `python -m docs.generate` works; it is not installed."""
