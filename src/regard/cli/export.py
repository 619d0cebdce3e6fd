"""`regard export`: write a trained model for other runtimes."""

from collections.abc import Sequence

from regard.cli.options import Parser, model_folder
from regard.errors import RequestError, install_command
from regard.terminal import show


def main(arguments: Sequence[str]) -> None:
    """Export a model, and print the files, and how much the export differs from the model."""
    options = _parser().read(arguments)
    from regard.export import export_ctranslate2, export_onnx
    from regard.text.bars import working

    if options.format == "ctranslate2":
        for name in ("overridable", "check", "precision"):
            if getattr(options, name) not in (False, "", "float32"):
                rounds = "; CTranslate2 rounds weights when it loads a model, with compute_type='int8'" * (name == "precision")
                raise RequestError(f"export: --{name} is for --format onnx; leave it out{rounds}")
        export, chosen = export_ctranslate2, ["overwrite"]
    else:
        export, chosen = export_onnx, ["overridable", "precision", "check", "overwrite"]
    with working("exporting the model"):
        done = export(options.dir, options.to, **{name: getattr(options, name) for name in chosen})
    show(f"{done.folder}: {', '.join(done.files)}")
    show(f"largest difference between export and model, over inputs of six sizes: {done.largest_difference:.1e}")
    for quality in done.quality:
        show(quality.render())
    show(f"try it: python {done.folder / 'example.py'} some text")


def _parser() -> Parser:
    parser = Parser(
        "export",
        "Write a trained model as ONNX graphs, for onnxruntime in Python, C++, Java, C#, JavaScript and browsers, with\n"
        "attention among the outputs; or write a Transformer translator in CTranslate2's format. The export is compared\n"
        "with the model before anything is written. The folder also holds the tokenizers and a short example.\n"
        f"Requires: {install_command('onnx')}\n"
        "For CTranslate2, the extra is ctranslate2.",
        "  regard export runs/mine --to exported/mine\n"
        "  python exported/mine/example.py The old man sang.\n"
        "  regard export runs/mine --to exported/mine --overridable --overwrite\n"
        "  regard export runs/mine --to exported/small --precision int8 --check dev.en,dev.de\n"
        "  regard export runs/mine --to exported/fast --format ctranslate2",
    )
    parser.add_argument("dir", metavar="DIR", type=model_folder, help="a trained model's folder")
    parser.add_argument(
        "--to", required=True, metavar="FOLDER", help="folder to write; an export in it is replaced only with --overwrite"
    )
    parser.add_argument("--format", choices=("onnx", "ctranslate2"), default="onnx", help="format to write (default: onnx)")
    parser.add_argument(
        "--overridable",
        action="store_true",
        help="add two inputs to decoder steps, override and overridden, to replace the attention weights of a step",
    )
    parser.add_argument(
        "--precision",
        choices=("float32", "int8"),
        default="float32",
        help="int8: weights of 8 bits; the loss of quality is measured, printed, and written into the model card "
        "(default: float32)",
    )
    parser.add_argument(
        "--check",
        metavar="FILE[,FILE]",
        default="",
        help="with int8: file on which the loss of quality is measured, as for `regard evaluate` (default: random tokens)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an export that is already in the folder")
    return parser
