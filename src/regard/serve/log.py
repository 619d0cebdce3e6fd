"""The log of the service: a line of JSON for each event. It never contains texts of users or answers."""

import json
import logging
import sys
import time
import traceback
from types import TracebackType
from typing import Any

_LOGGER = logging.getLogger("regard.serve")


def log(event: str, *, level: int = logging.INFO, **facts: Any) -> None:
    """Write an event to the log, with further facts, none of which may be a text of a user."""
    _LOGGER.log(level, event, extra={"facts": facts})


def places(trace: TracebackType | None) -> list[str]:
    """Return file, line and function of each call in a traceback, without messages and values, which may quote a text."""
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(trace)]


class JsonLines(logging.Formatter):
    """A formatter that writes a log record as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        plain: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
        }
        if record.name == _LOGGER.name:
            plain |= {"event": record.msg, **getattr(record, "facts", {})}
        else:  # a message of a library: only its format is written, because its arguments may quote a request
            plain |= {"event": "library", "logger": record.name, "message": str(record.msg)}
        if record.exc_info and record.exc_info[1] is not None:
            plain |= {"error": type(record.exc_info[1]).__name__, "places": places(record.exc_info[2])}
        return json.dumps(plain, ensure_ascii=False)


def set_up_log() -> None:
    """Send the log of the service, and warnings of its libraries, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    minutes: dict[tuple[str, str], int] = {}

    def is_new(record: logging.LogRecord) -> bool:
        """Return False for a library's message that was logged in this minute; asyncio repeats some for each connection."""
        kind, minute = (record.name, str(record.msg).partition("\n")[0]), int(record.created // 60)
        known, minutes[kind] = minutes.get(kind), minute
        return record.name == _LOGGER.name or known != minute

    handler.addFilter(is_new)
    for name, level in (("regard.serve", logging.INFO), ("uvicorn", logging.WARNING), ("asyncio", logging.ERROR)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
