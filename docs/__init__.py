"""Not shipped. A package so that `python -m docs.generate` finds it."""
