"""Upload a model: its signature, the files that the signature names, and the model card."""

from pathlib import Path

from regard.bundle.bundle import CARD, SIGNATURE
from regard.bundle.folder import read, read_unsigned
from regard.bundle.signature import read_signed
from regard.errors import RequestError
from regard.hub.address import Address, client, explained

_LARGEST_CARD = 1 << 22


def push(folder: str | Path, name: str, *, private: bool = False, message: str = "") -> str:
    """Upload a trained model to the hub.

    Only the signature, the files that it names, and the model card are uploaded: no checkpoints, no logs, no data. The
    checksums of the files are checked first. You need to be logged in (`hf auth login`).

    Args:
        folder: Folder of a trained model.
        name: Name on the hub, `user/name`; the repository is created if it does not exist.
        private: If True and the repository is created, only its owner can see it.
        message: Message of the commit; empty for a standard message.

    Returns:
        The address of this version, for `regard.load`.

    Raises:
        BundleError: If the folder is not a trained model or is damaged, or the hub refuses the upload.
        RequestError: If `name` does not have the form `user/name`, or the hub cannot be reached.

    Example:
        regard.push("runs/deu", "user/deu")
    """
    from huggingface_hub import CommitOperationAdd

    address = Address.parse(name)
    if "@" in name:
        raise RequestError(f"push: '{name}' names a revision, which the hub chooses; leave @{address.revision} out")
    path = Path(folder)
    _, files = read_signed(path)
    contents = {SIGNATURE: read(path, SIGNATURE), **files.content}
    if (card := read_unsigned(path, CARD, _LARGEST_CARD)) is not None:
        contents[CARD] = card
    api = client()
    try:
        with explained(address, api.endpoint):
            api.create_repo(address.repository, private=private, exist_ok=True)
            done = api.create_commit(
                address.repository,
                [CommitOperationAdd(own, content) for own, content in sorted(contents.items())],
                commit_message=message or "Upload a model trained with regard",
            )
    except ConnectionError as error:
        raise RequestError(f"push: {api.endpoint} cannot be reached ({error!s:.200}); nothing was uploaded") from error
    return str(Address(address.repository, done.oid))
