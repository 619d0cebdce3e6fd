"""Attention and scores for the slides: the code of lessons 3, 4, 6 and 8 is run, and what the slides show is saved.

`python -m docs.generate --lessons` writes docs/lessons/slides/*.json, which the documentation draws when it is built.
"""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from docs.site.notebooks import LESSONS, code_of, pages

FOLDER = LESSONS / "slides"
_SENTENCE = 3  # index into `held_out`: the sentence that the lessons draw
_SURE = 0.9
"""A slide shows the words whose state alone gives a label at least this probability."""


def save_all() -> None:
    """Run the lessons in a temporary folder, and save records and facts."""
    facts: dict[str, str] = {}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            _translator(facts)
            _tutorial()
            _transformer(facts)
            _classifiers(facts)
        finally:
            os.chdir(before)
    (FOLDER / "facts.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _run(number: int) -> dict[str, Any]:
    """Run all code cells of a lesson, and return its names."""
    names: dict[str, Any] = {"__name__": "lesson", "print": lambda *_: None}
    for cell in code_of(pages()[number - 1]):
        exec(compile(cell, f"lesson {number}", "exec"), names)
    return names


def _translator(facts: dict[str, str]) -> None:
    names = _run(3)
    for name, model in (("both", names["translator"]), ("one_way", names["one_way"])):
        [translation] = model.translate([names["sources"][_SENTENCE]])
        translation.attention.save(FOLDER / f"{name}.json")
        facts[f"{name}_bleu"] = f"{model.evaluate(names['sources'], names['targets']).bleu:.0f}"
        facts[f"{name}_error"] = f"{names['alignment_error'](model):.2f}"
        facts[f"{name}_after"] = f"{names['places'](model)['after it']:.0%}"
        facts[f"{name}_on"] = f"{names['places'](model)['on the word']:.0%}"
    names["tutorial"].save(FOLDER / "tutorial.json")


def _tutorial() -> None:
    names = _run(4)
    rows = names["out"].weights[0].detach()
    names["regard"].record(rows, names["source"], ["sie", "öffnete", "die"]).save(FOLDER / "linear.json")


def _transformer(facts: dict[str, str]) -> None:
    names = _run(6)
    names["record"].save(FOLDER / "transformer.json")
    for head in range(4):
        facts[f"head_{head}"] = f"{names['error'](site='cross.0', head=head):.2f}"
    facts["heads_mean"] = f"{names['error'](site='cross.0'):.2f}"


def _classifiers(facts: dict[str, str]) -> None:
    import torch

    names = _run(8)
    review = names["review"]
    facts["review"], facts["review_label"] = review.text, review.label
    for name, model in names["models"].items():
        model.classify([review.text])[0].attention.save(FOLDER / f"{name}.json")
        facts[f"{name}_accuracy"] = f"{model.evaluate(names['texts'], names['labels']).accuracy:.1%}"
    model, tokens, rows = names["model"], names["tokens"], []
    for position, word in enumerate(review.words):
        with torch.inference_mode():
            out = model.model(tokens, torch.ones_like(tokens, dtype=torch.bool), reweight=names["only"](position))
        probabilities = torch.softmax(out.logits[0], -1)
        best = int(probabilities.argmax())
        if probabilities[best] >= _SURE:
            rows.append(f"| {word} | {model.labels.names[best]} | {probabilities[best]:.2f} |")
    facts["intervene"] = "\n".join(["| all weight on | label | probability |", "|---|---|---|", *rows])
