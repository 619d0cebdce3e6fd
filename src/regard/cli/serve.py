"""`regard serve`: offer trained models as a web service."""

import argparse
import os
import socket
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from regard.cli.options import Parser, add_machine_options, at_least, model_folder, parser_of, set_threads
from regard.config.fields import facts_of
from regard.errors import ConfigError, RequestError, install_command

_TOKEN = "REGARD_TOKEN"
_LARGEST_TOKEN, _LARGEST_PAGE = 4096, 1 << 29  # bytes


def _serve(options: argparse.Namespace) -> None:
    missing = [name for name in ("fastapi", "uvicorn", "prometheus_client") if find_spec(name) is None]
    if missing:
        raise RequestError(f"serve: {', '.join(missing)} not installed; install the extra with: {install_command('serve')}")
    from regard.serve.app import build_app
    from regard.serve.limits import Limits
    from regard.serve.models import named_folders
    from regard.serve.server import listen, run

    try:
        limits = Limits(**{item.name: getattr(options, f"limits.{item.name}") for item in fields(Limits)})
    except ConfigError as error:
        raise RequestError(f"serve: {error}") from error
    token = _token(options)
    page = _read(options.page, "the page", _LARGEST_PAGE, "; write one with `regard page`") if options.page else ""
    own = "localhost", socket.gethostname()
    folders = named_folders(options.dirs, lambda name: Path(model_folder(name)))
    with listen(options.host, options.port) as opened:  # first, so that a port in use is reported at once
        set_threads(options.threads, spare=1)  # one core is left for the requests
        app = build_app(
            folders,
            load=partial(_load, device=options.device, engine=options.engine),
            limits=limits,
            token=token,
            # A web site can point its own name at this machine, so that a visitor's browser sends requests here and shows the
            # site the answers (DNS rebinding). These requests contain the site's name, and no token.
            hosts=None if token and not options.allow_host else {name.lower() for name in (*own, *options.allow_host)},
            reload_seconds=options.reload_seconds,
            home=page,
        )
        run(app, opened, limits)


def _load(folder: Path, *, device: str, engine: str) -> Any:
    from regard.tasks.loading import load

    predictor = load(folder, device=device)
    if engine:
        predictor.use_engine(engine)
    return predictor


def main(arguments: Sequence[str]) -> None:
    """Serve models until SIGTERM or Ctrl-C."""
    _serve(_parser().read(arguments))


def _parser() -> Parser:
    parser = Parser(
        "serve",
        "Offer trained models as a web service with JSON: POST /v1/translate, /v1/classify, /v1/generate, /v1/attention …\n"
        "Requests that arrive together share a batch. The service accepts connections from this machine only, unless\n"
        "--host is set. A newer model in a folder is loaded while the service runs. After SIGTERM, the service answers all\n"
        "accepted requests and ends.\n"
        f"Requires: {install_command('serve')}",
        "  regard serve runs/deu runs/reviews\n"
        "  regard serve de=runs/deu --port 9000 --threads 2\n"
        '  curl --json \'{"texts": ["The old man sang."]}\' http://127.0.0.1:8000/v1/translate',
    )
    _add_options(parser)
    _add_limits(parser)
    add_machine_options(parser, threads="all cores but one")
    return parser


def _add_options(parser: Parser) -> None:
    parser.add_argument("dirs", nargs="+", metavar="DIR", help="a trained model's folder; NAME=DIR gives it another name")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, this machine only)")
    parser.add_argument("--port", type=at_least(0), default=8000, metavar="N", help="port; 0 for any free one (default: 8000)")
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help=f"file with a secret token that requests must contain (default: the environment variable {_TOKEN}, or none)",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="accepted host name of requests, for example behind a proxy; may be given several times (default: IP addresses, "
        "localhost and this machine's name; any name if there is a token)",
    )
    parser.add_argument(
        "--engine",
        choices=["", "ctranslate2"],
        default="",
        help="engine that searches for translations instead of regard; see `regard translate --help` (default: none)",
    )
    parser.add_argument(
        "--page",
        metavar="FILE",
        help="HTML file to show at /, such as one that `regard page` wrote (default: a list of the models)",
    )
    parser.add_argument(
        "--reload-seconds",
        type=at_least(0.0),
        default=2.0,
        metavar="X",
        help="seconds between two checks for a newer model; 0 for no checks (default: 2)",
    )


def _add_limits(parser: Parser) -> None:
    from regard.serve.limits import Limits

    group = parser.add_argument_group("limits")
    for name, facts in facts_of(Limits).items():
        group.add_argument(
            f"--limits.{name}",
            type=parser_of(facts),
            default=facts.default,
            metavar="N" if facts.type is int else "X",
            help=f"{facts.help.rstrip('.')} (default: {facts.default:,})".replace("%", "%%"),
        )


def _token(options: argparse.Namespace) -> str:
    """Return the secret token from the file or the environment variable; an empty text if neither is given."""
    path = options.token_file
    given = _read(path, "the token from", _LARGEST_TOKEN) if path else os.environ.get(_TOKEN)
    token = (given or "").strip(" \t\r\n")
    if given is not None and not token:
        raise RequestError(f"serve: {path or f'the environment variable {_TOKEN}'} is empty, expected a token")
    return token


def _read(path: str, what: str, largest: int, advice: str = "") -> str:
    """Return the UTF-8 text of a file that an option names; it may have at most `largest` bytes."""
    try:
        with open(path, "rb") as file:
            content = file.read(largest + 1)  # instead of asking for the size: a device has none, and may never end
        if len(content) > largest:
            raise ValueError(f"it has more than {largest:,} bytes")
        return content.decode()
    except (OSError, ValueError) as error:
        raise RequestError(f"serve: cannot read {what} {path}: {error}{advice}") from error
