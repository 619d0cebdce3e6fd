"""Join the files of a page into one HTML document.

The modules in `js/` also run in a browser without this step. For a page that opens without a server, they are joined into one
script, each after the modules that it imports, without `import` and `export`. So two modules must not define the same top-level
name.
"""

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import PurePosixPath
from typing import Any

from regard.errors import RegardError

MAIN = "main.js"
_IMPORT = re.compile(r'^import [^;]*? from "\./([^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=const|function|class|async)", re.MULTILINE)
_LIBRARY_EXPORT = re.compile(r"export\{([^{}]*)\};")


@cache
def read_file(name: str) -> bytes:
    """Return the content of a file of this package, given its path relative to the package, such as `js/main.js`."""
    return resources.files("regard.export.page").joinpath(*PurePosixPath(name).parts).read_bytes()


def join_modules(name: str = MAIN) -> str:
    """Return one script with a module and all modules that it imports, directly or through other modules."""
    done: dict[str, str] = {}

    def add(module: str) -> None:
        if module in done:
            return
        done[module] = ""  # a cycle ends here
        text = read_file(f"js/{module}").decode()
        for imported in _IMPORT.findall(text):
            add(imported)
        # It is inserted again behind its imports, which `add` has inserted meanwhile.
        del done[module]
        done[module] = _EXPORT.sub("", _IMPORT.sub("", text))

    add(name)
    return "".join(f"// {module}\n{text}\n" for module, text in done.items())


@cache
def read_library() -> tuple[str, bytes, dict[str, Any]]:
    """Return onnxruntime-web: its script, which sets `globalThis.ort`, its gzipped WebAssembly, and the facts about it."""
    facts = json.loads(read_file("onnxruntime/files.json"))
    packed = {name: read_file(f"onnxruntime/{name}.gz") for name in facts["sha256"]}
    for name, content in packed.items():
        if hashlib.sha256(gzip.decompress(content)).hexdigest() != facts["sha256"][name]:
            raise RegardError(f"{name}.gz in regard.export.page.onnxruntime is damaged; install regard again")
    [script], [binary] = ([name for name in packed if name.endswith(ending)] for ending in (".mjs", ".wasm"))
    text = gzip.decompress(packed[script]).decode()
    text = re.sub(r"^//# sourceMappingURL=.*$", "", text, flags=re.MULTILINE)
    # The library computes addresses from its own address, which fails in Firefox for a page opened from a file.
    text = text.replace("import.meta.url", '"https://page.invalid/ort.mjs"')
    [exported] = _LIBRARY_EXPORT.findall(text)
    pairs = (pair.split(" as ") for pair in exported.split(","))
    assigned = ",".join(f"{name}:{value}" for value, name in pairs)
    return _LIBRARY_EXPORT.sub(lambda _: f"globalThis.ort={{{assigned}}};", text), packed[binary], facts


def build_document(data: Mapping[str, Any], blobs: Mapping[str, bytes], *, title: str) -> str:
    """Build the HTML document of a page from plain data for its script and from binary data by name, such as graphs."""
    library, binary, facts = read_library()
    style, script = read_file("page.css").decode(), join_modules()
    scripts = [f"\n{library}\n", f"\n{script}\n"]
    # The page makes no network requests. Allowed are its own style and two scripts, by their hashes, WebAssembly, and images
    # that the page itself contains or makes.
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {' '.join(map(_hash, scripts))} 'wasm-unsafe-eval'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    about = facts | {"license_text": read_file("onnxruntime/LICENSE").decode()}
    # Without a time, the same models give the same bytes.
    packed = {name: gzip.compress(content, 9, mtime=0) for name, content in blobs.items()} | {"onnxruntime": binary}
    parts = {
        "POLICY": policy,
        "TITLE": html.escape(title),
        "STYLE": style,
        "LIBRARY": scripts[0],
        "SCRIPT": scripts[1],
        "DATA": _json({**data, "onnxruntime": about}),
        "BLOBS": "\n".join(
            f'<script type="text/plain" id="blob-{name}">{base64.b64encode(content).decode()}</script>'
            for name, content in packed.items()
        ),
    }
    page = read_file("page.html").decode()
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], page)


def _json(data: Mapping[str, Any]) -> str:
    """Return JSON in which no text can close the script element around it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
