"""The pages of docs/mechanisms: `python -m docs.generate` trains, draws and writes them, `--text` writes the text only.

A page contains the text of the class's docstring. The rest (costs, when to choose it, an example) is in `scored`, `heads`,
`softmax_heads`, `recurrent` and `ordered`, with one entry per mechanism. `libraries.md` contains one section of the index. All
pictures show the same toy problem (`toy`).
"""
