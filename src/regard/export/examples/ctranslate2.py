"""Translate texts with the exported model, using only ctranslate2 and tokenizers.

python example.py The old man sang.
"""

import json
import sys
from pathlib import Path

import ctranslate2
from tokenizers import Tokenizer

FOLDER = Path(__file__).parent


def load(side: str) -> tuple[Tokenizer, dict]:
    path = FOLDER / f"tokenizer.{side}.json"
    saved = json.loads((path if path.exists() else FOLDER / "tokenizer.json").read_text(encoding="utf-8"))
    return Tokenizer.from_str(json.dumps(saved["tokenizer"])), saved


def translate(texts: list[str], beam_size: int = 5) -> list[list[str]]:
    tokenizer, saved = load("source")
    pieces = [tokenizer.encode(text.lower() if saved["lowercase"] else text, add_special_tokens=False).ids for text in texts]
    translator = ctranslate2.Translator(str(FOLDER), device="cpu", compute_type="float32")
    found = translator.translate_batch(
        [[tokenizer.id_to_token(number) for number in ids] for ids in pieces],
        beam_size=beam_size,
        length_penalty=0,
        min_decoding_length=0,
    )
    return [result.hypotheses[0] for result in found]


if __name__ == "__main__":
    [output] = translate([" ".join(sys.argv[1:])])
    glued = load("target")[1]["kind"] == "characters" or any("▁" in word for word in output)
    print(("" if glued else " ").join(output).replace("▁", " ").strip())
