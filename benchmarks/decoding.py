"""Decoding test 2016 of Multi30k with one Transformer in regard, in JoeyNMT 2.3.0 and in CTranslate2: sentences per second.

    python -m benchmarks.decoding MODEL                                # MODEL: a bundle of preset transformer-tiny
    python -m benchmarks.decoding MODEL --joeynmt-model OTHER          # OTHER: a bundle of the same shape, for JoeyNMT
    python -m benchmarks.decoding MODEL --sentences 200 --rounds 1     # a quick look

The bundle's weights are converted for the two other programs, so that all three search the same model, at beam 5 (length
penalty 1) and greedily. JoeyNMT has no rotary positions, RMSNorm or gated feed-forward layers. If the model has one of them, it
is compared only with CTranslate2, and a message says so. With --joeynmt-model, regard and JoeyNMT are compared on a second
bundle, which was trained with the same settings but `model.positions: sinusoidal`. It must have the same layers, width, heads
and vocabularies as the first bundle, and the same number of weights up to 2%. The JSON line has an entry in `matches` for each
bundle.

Each program runs in a process of its own on the same core with one thread in float32, and the programs take turns. Each figure
is the median over the rounds, for the best of a few batch sizes. Seconds are those of the search, without loading the model.
regard's search starts and ends with text, CTranslate2's starts and ends with subwords, and JoeyNMT's seconds are from its log.
Ratios are given for elapsed time and for processor time, which other programs affect little. JoeyNMT logs elapsed time only,
which is used for both ratios.

`same` is the share of sentences that both programs translate equally. CTranslate2 has another length penalty (a power of the
length), so its share is measured without a length penalty; it shows that weights and search are the same. JoeyNMT limits the
length to 1.5 times the source, and its layer norm has another constant. JoeyNMT is installed if it is missing; CTranslate2
comes with `pip install '.[bench]'`.

Progress goes to standard error, one JSON line to standard output.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from benchmarks import rival
from benchmarks.conversion import joeynmt_lacks, read_spelt, spell, spellings, to_joeynmt
from benchmarks.joeynmt import add_data, add_places, count, counts, find_data
from benchmarks.joeynmt_transformer import transformer_config, write_vocabulary
from benchmarks.rival import run, say
from regard.errors import RegardError
from regard.inference.ctranslate2 import check_convertible, read_parts, unscaled, write_ctranslate2
from regard.models.transformer.translator import TransformerTranslator
from regard.tasks.translation.predict import Translator

NAMES = ("regard", "ctranslate2", "joeynmt")
REMEDY = "--joeynmt-model DIR, trained with the same settings but model.positions=sinusoidal"
Match = tuple[Path, Translator, list[str]]
"""Folder of a bundle, its translator, and the programs that regard is compared with on this bundle."""
Speed = tuple[float, float]
"""Sentences per second of elapsed time, and per second of processor time."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison and print it."""
    options = _options(arguments)
    try:
        print(json.dumps(compare(options)), flush=True)
    except RegardError as error:
        sys.exit(f"error: {error}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("benchmarks.decoding", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("model", type=Path, help="folder of a trained Transformer")
    add("--joeynmt-model", type=Path, help="folder of a second Transformer of the same shape, which JoeyNMT supports")
    add_data(parser)
    add("--test", type=Path, metavar="PATH", help="decode PATH.en (default: test 2016, in lower case and tokenised)")
    add_places(parser, "decoding")
    add("--rivals", default="ctranslate2,joeynmt", help="programs to compare with, separated by commas (%(default)s)")
    add("--beams", type=counts, default=[5, 1], help="beam sizes (5,1)")
    add("--rounds", type=count, default=3, help="runs of each program (%(default)s)")
    add("--sentences", type=count, default=0, help="decode only the first N sentences; 0 for all (%(default)s)")
    add("--regard-batches", type=counts, default=[4096, 8192], help="tokens × beam in a batch (4096,8192)")
    add("--ctranslate2-batches", type=counts, default=[1024, 4096], help="tokens in a batch (1024,4096)")
    add("--joeynmt-batches", type=counts, default=[64], help="sentences in a batch (64)")
    return parser.parse_args(arguments)


def compare(options: argparse.Namespace) -> dict[str, Any]:
    """Convert the models, decode with each program, and return all figures.

    Raises:
        RegardError: If data or a program is missing, the model cannot be converted, or a step fails.
    """
    rivals = options.rivals.split(",")
    if not set(rivals) <= set(NAMES[1:]):
        raise RegardError(f"--rivals is {options.rivals!r}, expected some of {', '.join(NAMES[1:])}")
    options.out.mkdir(parents=True, exist_ok=True)
    matches, left_out = plan(options, rivals)
    core = min(os.sched_getaffinity(0))
    found = [_match(Bench(options, folder, translator, names), core) for folder, translator, names in matches]
    return {
        "benchmark": "decoding",
        "matches": found,
        "left_out": left_out,
        "settings": {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()},
        "load_average": os.getloadavg()[0],
    }


def plan(options: argparse.Namespace, rivals: Sequence[str]) -> tuple[list[Match], dict[str, str]]:
    """Return the bundle on which each rival is compared, and the reason for each rival that is left out.

    Raises:
        RegardError: If a model cannot be converted, the second one has another shape or is not needed, or no rival is left.
    """
    import regard

    if options.joeynmt_model is not None and "joeynmt" not in rivals:
        raise RegardError(
            f"--joeynmt-model is given, but --rivals is {options.rivals!r}; add joeynmt to it, or leave out --joeynmt-model"
        )
    first = regard.load(options.model, device="cpu")
    lacking = joeynmt_lacks(model := check_convertible(first.model))
    others = [name for name in rivals if name != "joeynmt"]
    if options.joeynmt_model is not None:
        second = regard.load(options.joeynmt_model, device="cpu")
        check_same_shape(model, check_convertible(second.model))
        if lacking := joeynmt_lacks(second.model):
            raise RegardError(f"--joeynmt-model {options.joeynmt_model} has {lacking}, which JoeyNMT 2.3 does not support")
        matches = [(options.model, first, others), (options.joeynmt_model, second, ["joeynmt"])]
        return [match for match in matches if match[2]], {}
    if "joeynmt" not in rivals or not lacking:
        return [(options.model, first, list(rivals))], {}
    why = f"the model has {lacking}, which JoeyNMT 2.3 does not support"
    say(f"JoeyNMT is left out: {why}. To compare it, name a second bundle of the same shape: {REMEDY}")
    if not others:
        raise RegardError(f"no program is left to compare with: {why}; add ctranslate2 to --rivals, or give {REMEDY}")
    return [(options.model, first, others)], {"joeynmt": why}


def check_same_shape(first: TransformerTranslator, second: TransformerTranslator) -> None:
    """Raise an error if the search of a second model needs more or less work than that of the first one.

    Raises:
        RegardError: If layers, width, heads or vocabularies differ, or if the numbers of weights differ by more than 2%.
    """
    shapes = [_shape(model) for model in (first, second)]
    weights = [shape.pop("weights") for shape in shapes]
    different = [
        f"{name} {shapes[1][name]} in place of {value}" for name, value in shapes[0].items() if shapes[1][name] != value
    ]
    if abs(weights[0] - weights[1]) > 0.02 * weights[0]:
        different.append(f"{weights[1]:,} weights in place of {weights[0]:,}")
    if different:
        raise RegardError(
            f"--joeynmt-model has {', '.join(different)}; expected a model of the same shape, trained with the same settings "
            "but model.positions=sinusoidal"
        )


def _shape(model: TransformerTranslator) -> dict[str, int]:
    return {
        "encoder_layers": len(model.encoder.layers),
        "decoder_layers": len(model.decoder.layers),
        "hidden_size": model.encoder.size,
        "num_heads": model.encoder.layers[0].attention.num_heads,
        "source_size": model.source_embedding.num_embeddings,
        "target_size": model.target_embedding.num_embeddings,
        "weights": sum(parameter.numel() for parameter in model.parameters()),
    }


def _match(bench: "Bench", core: int) -> dict[str, Any]:
    """Return the figures for one model, by beam size."""
    options, found = bench.options, {}
    for beam_size in options.beams:
        speeds: dict[str, list[dict[str, Speed]]] = {name: [] for name in ("regard", *bench.rivals)}
        for number in range(options.rounds):
            for name, rows in speeds.items():
                rows.append(bench.decode(name, beam_size, core))
                say(f"beam {beam_size}, round {number + 1}, {name}: {max(rows[-1].values())[0]:,.1f} sentences/s")
        same = {name: bench.same(name, beam_size, core) for name in bench.rivals}
        found[str(beam_size)] = _figures(speeds) | {"same": same}
    return {
        "model": str(bench.folder),
        "made_of": {**asdict(read_parts(bench.model)), **_shape(bench.model)},
        "sentences": bench.sentences,
        "by_beam": found,
    }


def _figures(speeds: dict[str, list[dict[str, Speed]]]) -> dict[str, Any]:
    """Return the medians over the rounds for each batch size, the best of them, and the ratios."""
    clocks = {"clock": 0, "processor": 1}
    found: dict[str, Any] = {}
    for clock, place in clocks.items():
        medians = {name: {size: median(row[size][place] for row in rows) for size in rows[0]} for name, rows in speeds.items()}
        best = {name: max(each.values()) for name, each in medians.items()}
        ratios = {f"over_{name}": best["regard"] / speed for name, speed in best.items() if name != "regard"}
        found[clock] = {**ratios, "sentences_per_second": best, "by_batch": medians}
    return {**found, "rounds": speeds}


class Bench:
    """A model in the formats of all programs, and the sentences to decode.

    Args:
        options: Options of the command.
        folder: Folder of the bundle.
        translator: Translator of the bundle.
        rivals: Programs for which the model is converted.
    """

    def __init__(self, options: argparse.Namespace, folder: Path, translator: Translator, rivals: Sequence[str]) -> None:
        self.options, self.folder, self.rivals, self.translator = options, folder.absolute(), rivals, translator
        self.out = options.out.absolute() / "-".join(rivals)
        self.out.mkdir(parents=True, exist_ok=True)
        self.model = model = check_convertible(translator.model)
        self.shape = replace(translator.config.model, norm_order=read_parts(unscaled(model)).norm_order)
        test = options.test or find_data(options.data)["test"]
        tokenizers = self.translator.bundle.parts.source, self.translator.bundle.parts.target
        for language, tokenizer in zip(("en", "de"), tokenizers, strict=True):
            lines = Path(f"{test}.{language}").read_text(encoding="utf-8").splitlines()[: options.sentences or None]
            ids, offsets = tokenizer.encode_batch(lines)
            pieces = [spell(ids[start:stop]) for start, stop in pairwise(offsets)]
            _write(self.out / f"lines.{language}", lines)
            _write(self.out / f"pieces.{language}", pieces)
        self.sentences = len(lines)
        if "ctranslate2" in rivals:
            try:
                sizes = model.source_embedding.num_embeddings, model.target_embedding.num_embeddings
                source, target = map(spellings, sizes)
                write_ctranslate2(model, self.out / "ctranslate2", source_tokens=source, target_tokens=target)
            except ModuleNotFoundError as error:
                raise RegardError(
                    "CTranslate2 is not installed: pip install '.[bench]', or leave it out of --rivals"
                ) from error
        if "joeynmt" in rivals:
            self.python = rival.set_up(options.env.expanduser().absolute())
            to_joeynmt(model, self.out / "joeynmt")
            self.vocabulary = write_vocabulary(self.out / "pieces.txt", model.output.out_features)

    def decode(self, name: str, beam_size: int, core: int, *, penalty: float = 1.0) -> dict[str, Speed]:
        """Decode once with each batch size, and return the sentences per second."""
        if name == "joeynmt":
            return {str(size): self._decode_joeynmt(beam_size, size, core) for size in self.options.joeynmt_batches}
        ours = name == "regard"
        sizes = self.options.regard_batches if ours else self.options.ctranslate2_batches
        places = [self.folder, self.out / "lines.en"] if ours else [self.out / name, self.out / "pieces.en"]
        out = self._output(name, beam_size, penalty)
        command = [sys.executable, "-m", "benchmarks.decoders", name, *places, out, str(beam_size), str(penalty)]
        printed = run([*command, *map(str, sizes)], core=core, log=self.out / f"{name}.log", note=lambda log: f"{name} …")
        seconds = json.loads(printed.strip().splitlines()[-1])["seconds"]
        return {size: (self.sentences / clock, self.sentences / processor) for size, (clock, processor) in seconds.items()}

    def _decode_joeynmt(self, beam_size: int, size: int, core: int) -> Speed:
        config = transformer_config(
            self.shape,
            data={"train": self.out / "pieces", "test": self.out / "pieces"},
            vocabulary=self.vocabulary,
            model_dir=self.out / "joeynmt",
            beam_size=beam_size,
            decoding_batch=size,
        )
        path = self.out / "joeynmt.yaml"
        path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
        command = [self.python, "-m", "joeynmt", "test", path, "-o", self._output("joeynmt", beam_size, 1.0)]
        log = run(command, core=core, log=self.out / "joeynmt.log", note=lambda log: "joeynmt …")
        speed = self.sentences / rival.parse_decoding(log)
        return speed, speed

    def _output(self, name: str, beam_size: int, penalty: float) -> Path:
        return self.out / f"{name}.{beam_size}.{penalty:g}"

    def same(self, name: str, beam_size: int, core: int) -> float:
        """Return the share of sentences that a program translates as regard does; for CTranslate2, without a length penalty."""
        penalty = 0.0 if name == "ctranslate2" else 1.0
        if not penalty:
            for each in ("regard", name):
                self.decode(each, beam_size, core, penalty=penalty)
        path = self._output(name, beam_size, penalty)
        lines = (Path(f"{path}.test") if name == "joeynmt" else path).read_text(encoding="utf-8").splitlines()
        theirs = [self.translator.bundle.parts.target.decode(read_spelt(line)) for line in lines]
        ours = self._output("regard", beam_size, penalty).read_text(encoding="utf-8").splitlines()
        return sum(one == other for one, other in zip(ours, theirs, strict=True)) / len(ours)


def _write(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
