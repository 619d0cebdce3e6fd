"""Run benchmarks: `python -m benchmarks [NAME [OPTIONS]]`. Without a name, run those that take a few minutes and no network.

report     measures claims about speed ratios with the benchmarks below, and writes the documentation page that lists them
additive   additive scores without tanh against the eager formula
fast_paths each fast path of attention against the path that would run without it: ten minutes
operations the number of operations of an update and of a search step, on the device `meta`: seconds
overhead   processor time of small calls and of a decoder's step against plain lines: a minute
mechanisms mechanisms, poolings and normalizers compared with an earlier commit: some minutes
multihead  multi-head attention against PyTorch's: with weights, without weights, and decoding with cached keys
lengths    linear attention and Gated DeltaNet against multi-head attention, by length: some minutes
capture    `regard.capture` on a model of transformers that reads 4,096 tokens: time and memory
alignment  alignment error of a small Transformer's attention on the built-in pairs, trained without and with known links:
           ten minutes
scale      preparing many sentence pairs and training on them: speed and memory
scaling    training in one process and in two: speed, processor time, and time for communication
classifier training the attention classifier against a plain loop, and classifying; with --rows, memory for many reviews
pretrained classifiers with a pretrained encoder against others, by number of texts: half an hour, and an encoder
joeynmt    training and decoding against JoeyNMT 2.3.0, which it installs: an hour, and a network
transformer  training a Transformer against JoeyNMT and MarianMT: a quarter of an hour
decoding   decoding with a trained Transformer against CTranslate2 and JoeyNMT, with the same weights
distillation  students of several sizes, with teachers and without: hours
copying    translators with and without `model.copy`, on built-in pairs with invented names: ten minutes
simultaneous  BLEU against average lagging of wait-k translators: a quarter of an hour
variants   a preset against itself with other settings, each trained on the same pairs: hours
precision  decoding with a trained translator in float32 and in bfloat16
gpu        an NVIDIA GPU in one session: a default run, updates, attention, models of real sizes, search: ten minutes
iwslt14    the published setting of IWSLT 2014 German–English, for whoever has its files: hours on a GPU
export     a translator exported to ONNX against regard: the same words and attention, and the time for one sentence
service    `regard serve` under load against one request at a time, a plain FastAPI handler and LitServe
page       loading a page of `regard page`, and translating on it, in Chromium and Firefox
streaming  memory while a file of a million lines is translated
"""

import subprocess
import sys

NAMES = (
    "report",
    "additive",
    "fast_paths",
    "operations",
    "overhead",
    "mechanisms",
    "multihead",
    "lengths",
    "capture",
    "alignment",
    "scale",
    "scaling",
    "classifier",
    "pretrained",
    "joeynmt",
    "transformer",
    "decoding",
    "distillation",
    "simultaneous",
    "variants",
    "precision",
    "gpu",
    "iwslt14",
    "export",
    "service",
    "page",
    "copying",
    "streaming",
)
SHORT = (["additive"], ["multihead"], ["scale", "--pairs", "200000"], ["classifier"])


def main(arguments: list[str]) -> int:
    """Run the benchmark that is named, or the short ones; each prints one JSON line."""
    if arguments and arguments[0] not in NAMES:
        print(f"benchmarks: got {arguments[0]!r}, expected one of:\n{__doc__}", file=sys.stderr)
        return 2
    codes = [
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *options], check=False).returncode
        for name, *options in ([arguments] if arguments else SHORT)
    ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
