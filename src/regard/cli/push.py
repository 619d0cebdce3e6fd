"""`regard push`: upload a trained model to the Hugging Face hub."""

from collections.abc import Sequence

from regard.cli.options import Parser
from regard.terminal import show


def main(arguments: Sequence[str]) -> None:
    """Upload a model, and print its address."""
    parser = Parser(
        "push",
        "Upload a trained model to the Hugging Face hub: the model, its tokenizers, its settings and its card, but no\n"
        "checkpoints, logs or data. Log in first: hf auth login. hf://USER/NAME loads it wherever a model's folder is\n"
        "expected, and hf://USER/NAME@REVISION exactly one version.",
        "  regard push runs/mine user/mine\n"
        "  regard push runs/mine user/mine --private\n"
        '  regard translate hf://user/mine "The old man sang."',
    )
    parser.add_argument("dir", metavar="DIR", help="a trained model's folder")
    parser.add_argument("name", metavar="USER/NAME", help="name on the hub; created if it does not exist")
    parser.add_argument("--private", action="store_true", help="make a new model visible to you only")
    parser.add_argument("--message", default="", metavar="TEXT", help="message of the commit")
    options = parser.read(arguments)

    from regard.hub.upload import push

    show(push(options.dir, options.name, private=options.private, message=options.message))
