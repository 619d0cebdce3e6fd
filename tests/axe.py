"""axe-core, which checks pages for accessibility: `python tests/axe.py` downloads it for the tests that use it.

It is a tool of development and not part of the package. Where it has not been downloaded, these tests are skipped.
"""

import base64
import hashlib
import io
import tarfile
from pathlib import Path
from urllib.request import urlopen

VERSION = "4.14.1"
ADDRESS = f"https://registry.npmjs.org/axe-core/-/axe-core-{VERSION}.tgz"
SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
FILE = Path(__file__).parents[1] / "build" / f"axe-core-{VERSION}.min.js"


def main():
    """Download the package, compare its hash, and keep its script."""
    with urlopen(ADDRESS) as answer:
        package = answer.read()
    found = base64.b64encode(hashlib.sha512(package).digest()).decode()
    if found != SHA512:
        raise SystemExit(f"{ADDRESS} has the hash {found}, expected {SHA512}")
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        content = archive.extractfile("package/axe.min.js").read()
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_bytes(content)
    print(FILE)


if __name__ == "__main__":
    main()
