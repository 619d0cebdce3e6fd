"""axe-core, which checks pages for accessibility: `python tests/axe.py` downloads it for the tests that use it.

It is a tool of development and not part of the package. Where it has not been downloaded, these tests are skipped.
"""

import base64
import hashlib
import subprocess
import tarfile
import tempfile
from pathlib import Path

VERSION = "4.14.1"
SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
FILE = Path(__file__).parents[1] / "build" / f"axe-core-{VERSION}.min.js"


def main():
    """Fetch the package with `npm pack`, compare its hash, and keep its script."""
    with tempfile.TemporaryDirectory() as fetched:
        subprocess.run(["npm", "pack", f"axe-core@{VERSION}"], cwd=fetched, check=True)
        [package] = Path(fetched).iterdir()
        found = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
        if found != SHA512:
            raise SystemExit(f"axe-core {VERSION} has the hash {found}, expected {SHA512}")
        with tarfile.open(package) as archive:
            content = archive.extractfile("package/axe.min.js").read()
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_bytes(content)
    print(FILE)


if __name__ == "__main__":
    main()
