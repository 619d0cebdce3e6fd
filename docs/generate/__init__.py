"""The pages of docs/mechanisms: `python -m docs.generate` trains, draws and writes them, `--text` writes the text only.

A mechanism's page contains the docstring of its class. The rest of the text (costs, when to choose it, an example) is in the
modules `scored`, `heads`, `softmax_heads`, `recurrent` and `ordered`, with one entry per mechanism. `libraries.md` contains one
section of the index. The pictures of all mechanisms show the same toy problem (`toy`).
"""
