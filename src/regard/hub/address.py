"""Addresses of models on the hub, and clear messages for errors of the hub."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import BundleError, RequestError

PREFIX = "hf://"
_NAME = re.compile(r"(?=.{1,96}$)[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9_])?")
# Names of the errors of connections in the HTTP libraries of huggingface_hub: httpx and requests.
_UNREACHABLE = ("TransportError", "ConnectionError")
_REVISION = re.compile(r"(?!/)[\w./-]{1,200}")


@dataclass(frozen=True)
class Address:
    """Address of a model on the hub."""

    repository: str
    """Name of the model on the hub, `user/name`."""
    revision: str = "main"
    """Branch, tag or commit."""

    def __str__(self) -> str:
        return f"{PREFIX}{self.repository}@{self.revision}"

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read `hf://user/name@revision`, in which `hf://` and `@revision` are optional.

        Raises:
            RequestError: If the text does not have this form.
        """
        name, at, revision = text.removeprefix(PREFIX).partition("@")
        user, _, rest = name.partition("/")
        good = _NAME.fullmatch(user) and _NAME.fullmatch(rest) and ".." not in name and "--" not in name
        if not good or (at and (not _REVISION.fullmatch(revision) or ".." in revision)):
            raise RequestError(
                f"'{text}' is not an address on the hub, expected {PREFIX}user/name or {PREFIX}user/name@revision"
            )
        return cls(name, revision or "main")


def is_address(name: str | Path) -> bool:
    """Return whether a name is an address on the hub: it begins with `hf://`, and no local file or folder has the name."""
    return isinstance(name, str) and name.startswith(PREFIX) and not Path(name).exists()


def client() -> Any:
    """Return a client for the hub at the URL in the environment variable HF_ENDPOINT; if it is not set, for the public hub."""
    from huggingface_hub import HfApi

    from regard.version import __version__

    return HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, library_name="regard", library_version=__version__)


@contextmanager
def explained(address: Address, endpoint: str) -> Iterator[None]:
    """Turn errors of the hub at a URL into a BundleError, or a ConnectionError if the hub cannot be reached."""
    from huggingface_hub import errors

    try:
        yield
    except errors.RevisionNotFoundError as error:
        raise BundleError(
            f"{address}: the model has no revision '{address.revision}'; see {endpoint}/{address.repository}"
        ) from error
    except (errors.RepositoryNotFoundError, errors.GatedRepoError) as error:
        raise BundleError(
            f"{address}: {endpoint} has no such model, or you may not read it; check the name, "
            "or log in with `hf auth login` if it is private"
        ) from error
    except (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError) as error:  # the latter: a download without a network
        raise ConnectionError(str(error)) from error
    except errors.EntryNotFoundError as error:
        raise BundleError(f"{address} is not a trained model of regard, or is incomplete: a file is missing") from error
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        advice = "log in with `hf auth login`" if status in (401, 403) else "try again later"
        raise BundleError(f"{address}: {endpoint} answered with status {status}; {advice}") from error
    except Exception as error:
        if any(kind.__name__ in _UNREACHABLE for kind in type(error).__mro__):
            raise ConnectionError(str(error)) from error
        raise
