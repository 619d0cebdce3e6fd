"""The pages of docs/mechanisms: `python -m docs.generate` trains, draws and writes them, `--text` writes the text only.

What a class says of itself in its docstring is taken from there; what only a person can say (what it costs, when to choose it)
stands in `scored`, `heads` and `ordered`, one entry a mechanism. The pictures are of one toy problem, the same for all (`toy`).
"""
