"""Download the files of onnxruntime-web from the npm registry: `python renew.py VERSION`.

The registry publishes a hash of each package, which is checked before any file is written. `MODULE` is the build that runs on
the CPU with WebAssembly and includes its loader. It is the smallest build that has every operator.
"""

import base64
import gzip
import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path
from urllib.request import urlopen

from regard import disk

REGISTRY = "https://registry.npmjs.org/onnxruntime-web"
MODULE, BINARY = "ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"
LICENSE_URL = "https://raw.githubusercontent.com/microsoft/onnxruntime/v{version}/LICENSE"


def main(version: str) -> None:
    """Download a version, check it, and write its files beside this script."""
    with urlopen(f"{REGISTRY}/{version}") as answer:
        described = json.load(answer)
    with urlopen(described["dist"]["tarball"]) as answer:
        package = answer.read()
    integrity = f"sha512-{base64.b64encode(hashlib.sha512(package).digest()).decode()}"
    if integrity != described["dist"]["integrity"]:
        raise SystemExit(f"the package has the hash {integrity}, expected {described['dist']['integrity']}")
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        members = {name: archive.extractfile(f"package/dist/{name}") for name in (MODULE, BINARY)}
        files = {name: member.read() for name, member in members.items() if member is not None}
    folder = Path(__file__).parent
    for name, content in files.items():
        disk.write(folder / f"{name}.gz", gzip.compress(content, 9, mtime=0))
    facts = {
        "package": "onnxruntime-web",
        "version": version,
        "license": described["license"],
        "source": described["dist"]["tarball"],
        "integrity": integrity,
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    }
    disk.write(folder / "files.json", json.dumps(facts, indent=1) + "\n")
    print(f"{folder}: onnxruntime-web {version}; compare LICENSE with {LICENSE_URL.format(version=version)}")


if __name__ == "__main__":
    main(sys.argv[1])
