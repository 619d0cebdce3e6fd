"""Errors of the service: each has a status, a code for programs and a message for people."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ServiceError(Exception):
    """An error that the service sends instead of a result."""

    status: int
    """HTTP status."""
    code: str
    """Short name of the error, such as `queue_full`."""
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers of the answer."""

    def to_json(self) -> bytes:
        """Return the answer's body as JSON."""
        return json.dumps(self.to_dict()).encode()

    def to_dict(self) -> dict[str, Any]:
        """Return the answer's body."""
        return error_body(self.status, self.code, self.message)


def error_body(status: int, code: str, message: str) -> dict[str, Any]:
    """Return the body of an answer that reports an error."""
    return {"error": {"status": status, "code": code, "message": message}}
