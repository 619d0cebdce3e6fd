"""The server of the service: a socket and uvicorn. Before it stops, it answers all accepted requests."""

import asyncio
import os
import signal
import socket
import time
from contextlib import ExitStack
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.errors import RequestError
from regard.serve.limits import Limits
from regard.serve.log import log, set_up_log
from regard.serve.middleware import Middleware

# Time in seconds during a stop in which requests on open connections are still accepted.
_SETTLING_SECONDS = 1.0
_SPARE_SECONDS = 5
_KEEP_ALIVE_SECONDS = 75
_LAST_PORT = 65535


def listen(host: str, port: int) -> socket.socket:
    """Open the socket, before models are loaded; port 0 stands for any that is free."""
    if port > _LAST_PORT:
        raise RequestError(f"serve: the port is {port}, expected at most {_LAST_PORT}")
    with ExitStack() as stack:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, kind, protocol, _, address = found[0]
            opened = stack.enter_context(socket.socket(family, kind, protocol))
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.bind(address)
        except OSError as error:
            reason = error.strerror or str(error)
            advice = "choose others with --host and --port"
            raise RequestError(f"serve: cannot listen on {host} port {port}: {reason}; {advice}") from error
        stack.pop_all()  # the caller closes the socket
    return opened


def run(app: Middleware, opened: socket.socket, limits: Limits) -> None:
    """Serve until SIGTERM or Ctrl-C, and then finish all accepted requests."""
    set_up_log()
    longest = limits.body_seconds + limits.deadline_seconds + _SPARE_SECONDS
    config = uvicorn.Config(
        app,
        http=_Connection,
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=128,  # also the number of connections that are accepted before those that wait are counted
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(longest),
    )
    host, port = opened.getsockname()[:2]
    _Server(config, app, limits).run(sockets=[opened])
    log("stopped", host=host, port=port)


class _Connection(H11Protocol):
    """A connection that knows when it was opened. `on_tick` also reads the state of h11."""

    def connection_made(self, transport: Any) -> None:
        self.opened = time.monotonic()
        super().connection_made(transport)


class _Server(uvicorn.Server):
    """A server that stops in two steps: first it accepts no new connections, then no new requests."""

    def __init__(self, config: uvicorn.Config, middleware: Middleware, limits: Limits) -> None:
        super().__init__(config)
        self._middleware, self._limits = middleware, limits
        self._since: dict[tuple[Any, ...], float] = {}  # time at which each connection began to wait for its client

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for opened in sockets or ():
            host, port = opened.getsockname()[:2]
            name = f"[{host}]" if ":" in host else host
            log("listening", url=f"http://{name}:{port}")

    async def on_tick(self, counter: int) -> bool:
        """Close connections that wait for their clients for too long, or that are too many; uvicorn calls this every 0.1 s."""
        now, before = time.monotonic(), self._since
        self._since = {}
        connections: set[Any] = self.server_state.connections
        for one in connections:
            sends = one.cycle is None or one.conn.their_state is h11.SEND_BODY  # its first headers, or a body
            if sends or one.cycle.response_complete or one.flow.write_paused:
                # A connection with the same state as in the last round still waits; the size changes when the client reads.
                state = one, one.cycle, one.transport.get_write_buffer_size(), sends
                self._since[state] = before.get(state, now)
        most, files = self._limits.connections, os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else 0
        surplus = len(connections) - (min(most, files // 2) if files > 0 else most)
        # Those that came in one round have waited equally long; the one that was opened last is closed last.
        longest = sorted(self._since.items(), key=lambda pair: (pair[1], pair[0][0].opened))
        for number, ((one, *_, sends), since) in enumerate(longest):
            if number < surplus or now > since + (self._limits.body_seconds if sends else _KEEP_ALIVE_SECONDS):
                one.transport.abort()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, accept requests on open connections for a moment, and finish all accepted requests."""
        self._middleware.draining = True
        log("stopping")
        for server in self.servers:
            server.close()
        # Clients may have sent a request just before they learn that the connection closes.
        await asyncio.sleep(_SETTLING_SECONDS)
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; a second Ctrl-C stops at once. The signal is not raised again, so that the exit status is 0."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True
