"""Fetch the files of onnxruntime-web that pages contain, with `npm pack`: `python -m tools.onnxruntime_web VERSION`.

npm checks the package's hash before any file is written. `MODULE` is the build that runs on the CPU with WebAssembly and
includes its loader. It is the smallest build that has every operator.
"""

import base64
import gzip
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from regard import disk
from regard.version import PACKAGE

MODULE, BINARY = "ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"
LICENSE_URL = "https://raw.githubusercontent.com/microsoft/onnxruntime/v{version}/LICENSE"


def main(version: str) -> None:
    """Fetch a version, and write its files into the package."""
    with tempfile.TemporaryDirectory() as fetched:
        subprocess.run(["npm", "pack", f"onnxruntime-web@{version}"], cwd=fetched, check=True)
        [package] = Path(fetched).iterdir()
        integrity = f"sha512-{base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()}"
        with tarfile.open(package) as archive:
            names = {"package.json": "package.json", **{name: f"dist/{name}" for name in (MODULE, BINARY)}}
            members = {name: archive.extractfile(f"package/{path}") for name, path in names.items()}
            files = {name: member.read() for name, member in members.items() if member is not None}
    described = json.loads(files.pop("package.json"))
    folder = PACKAGE / "export" / "page" / "onnxruntime"
    for name, content in files.items():
        disk.write(folder / f"{name}.gz", gzip.compress(content, 9, mtime=0))
    facts = {
        "package": "onnxruntime-web",
        "version": version,
        "license": described["license"],
        "integrity": integrity,
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    }
    disk.write(folder / "files.json", json.dumps(facts, indent=1) + "\n")
    print(f"{folder}: onnxruntime-web {version}; compare LICENSE with {LICENSE_URL.format(version=version)}")


if __name__ == "__main__":
    main(sys.argv[1])
