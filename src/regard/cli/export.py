"""`regard export`: write a trained model for other runtimes."""

from collections.abc import Sequence

from regard.cli.options import Parser, model_folder


def main(arguments: Sequence[str]) -> None:
    """Export a model, and print what was written."""
    parser = Parser(
        "export",
        "Write a trained model as ONNX graphs, for onnxruntime in Python, C++, Java, C#, JavaScript and browsers. Attention\n"
        "is among the outputs. The graphs are compared with the model before anything is written. The folder also holds the\n"
        "tokenizers and a short example that needs numpy and onnxruntime only. Requires: pip install 'regard[onnx]'",
        "  regard export runs/mine --to exported/mine\n"
        "  python exported/mine/example.py she kissed him .\n"
        "  regard export runs/mine --to exported/mine --overridable --overwrite",
    )
    parser.add_argument("dir", metavar="DIR", type=model_folder, help="a trained model's folder")
    parser.add_argument("--to", required=True, metavar="FOLDER", help="folder to write, which does not exist yet")
    parser.add_argument("--format", choices=("onnx",), default="onnx", help="format of the graphs (default: onnx)")
    parser.add_argument(
        "--overridable",
        action="store_true",
        help="let a decoder's step accept attention weights that replace its own (inputs override and overridden)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an export that is already in the folder")
    options = parser.read(arguments)

    from regard.export import export_onnx

    done = export_onnx(options.dir, options.to, overridable=options.overridable, overwrite=options.overwrite)
    print(f"{done.folder}: {', '.join(done.files)}")
    print(f"largest difference from the model, over inputs of six sizes: {done.largest_difference:.1e}")
    print(f"try it: python {done.folder / 'example.py'} some text")
