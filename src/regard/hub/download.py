"""Download a model: its signature and the files that the signature names are downloaded, checked, and kept in the cache.

The cache contains for each model:

    hub/user--name/refs/main    the commit that a branch or tag, here `main`, named when it was last looked up
    hub/user--name/COMMIT/      the files of a commit; the folder exists once it is complete
"""

import hashlib
import re
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from regard import disk
from regard.bundle.bundle import SIGNATURE, WEIGHTS
from regard.bundle.signature import read_signature
from regard.config.data import FileSettings
from regard.errors import BundleError
from regard.hub.address import Address, client, explained, is_address
from regard.text.cache import cache_folder

_COMMIT = re.compile(r"[0-9a-f]{40}")
# Maximum size in bytes of each file except the weights.
_LARGEST_TEXT = 1 << 26


def local_folder(name: str | Path) -> Path:
    """Return the folder of a model; for an address (`hf://…`), it is in the cache, and is downloaded if necessary.

    Raises:
        BundleError: If the hub has no such model or revision, the model is damaged, or the hub cannot be reached and the cache
            has no copy.
        RequestError: If the address is malformed.
    """
    return fetch(Address.parse(str(name))) if is_address(name) else Path(name)


def fetch(address: Address) -> Path:
    """Return the folder of a model in the cache; if it does not exist, download the model first."""
    home = cache_folder(FileSettings()) / "hub" / address.repository.replace("/", "--")
    if _COMMIT.fullmatch(address.revision) and (home / address.revision).is_dir():
        return home / address.revision
    reference = home / "refs" / quote(address.revision, safe="")
    api = client()
    try:
        with explained(address, api.endpoint):
            info = api.model_info(address.repository, revision=address.revision, files_metadata=True)
            if not _COMMIT.fullmatch(str(info.sha)):
                raise BundleError(f"{address}: {api.endpoint} returned no valid commit; expected 40 hexadecimal digits")
            folder = home / str(info.sha)
            if not folder.is_dir():
                _download(api, address, info, folder)
    except ConnectionError as error:
        return _from_cache(address, api.endpoint, home, reference, error)
    try:
        reference.parent.mkdir(parents=True, exist_ok=True)
        disk.write(reference, folder.name)
    except OSError:
        pass  # the model can still be used now, but a later call without a network will not find this revision
    return folder


def _from_cache(address: Address, endpoint: str, home: Path, reference: Path, error: Exception) -> Path:
    """Return the folder of the commit that the revision named when the hub was last reached."""
    try:
        commit = disk.read(reference, 100).decode()
    except (OSError, ValueError):
        commit = ""
    if not _COMMIT.fullmatch(commit) or not (home / commit).is_dir():
        raise BundleError(
            f"{address}: {endpoint} cannot be reached ({error!s:.200}), and the cache has no copy in {home}; "
            "connect to the network, or name a local folder"
        ) from error
    warnings.warn(f"{address}: {endpoint} cannot be reached; the copy in the cache is used", stacklevel=4)
    return home / commit


def _download(api: Any, address: Address, info: Any, folder: Path) -> None:
    """Download the signature and the files that it names, check them, and move them to `folder`."""
    sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
    with disk.whole_folder(folder) as made, TemporaryDirectory(dir=made.parent) as loaded:

        def take(name: str) -> bytes:
            if name not in sizes:
                raise BundleError(f"{address} is not a trained model of regard, or is incomplete: it has no {name}")
            if name != WEIGHTS and sizes[name] > _LARGEST_TEXT:
                raise BundleError(f"{address}: {name} has {sizes[name]:,} bytes, expected at most {_LARGEST_TEXT:,}")
            content = Path(api.hf_hub_download(address.repository, name, revision=info.sha, local_dir=loaded)).read_bytes()
            disk.write(made / name, content)
            return content

        take(SIGNATURE)
        for name, checksum in sorted(read_signature(made)["files"].items()):
            if hashlib.sha256(take(name)).hexdigest() != checksum:
                raise BundleError(
                    f"{address}: {name} is damaged: its content does not match the checksum in {SIGNATURE}; nothing was kept"
                )
