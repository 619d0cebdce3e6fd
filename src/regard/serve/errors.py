"""Errors of the service: each has a status, a code for programs and a message for people."""

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse


class ServiceError(HTTPException):
    """An error that the service sends instead of a result; `code` is its short name for programs, such as `queue_full`."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, message, headers)
        self.code = code

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"

    def to_dict(self) -> dict[str, Any]:
        """Return the answer's body."""
        return {"error": {"status": self.status_code, "code": self.code, "message": self.detail}}

    def response(self) -> JSONResponse:
        """Return the answer."""
        return JSONResponse(self.to_dict(), self.status_code, self.headers)
