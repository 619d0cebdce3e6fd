"""Firefox for tests: started without a window and without a network, and driven by its own protocol, Marionette."""

import base64
import json
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

FIREFOX = next(filter(None, map(shutil.which, ("firefox", "firefox-esr"))), None)


class Firefox:
    """A running Firefox with one page."""

    def __init__(self):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        preferences = {
            "marionette.port": port,
            "network.proxy.type": 1,  # a proxy that is not there: nothing can be fetched
            "network.proxy.http": "127.0.0.1",
            "network.proxy.http_port": 9,
            "network.proxy.ssl": "127.0.0.1",
            "network.proxy.ssl_port": 9,
            "datareporting.policy.dataSubmissionEnabled": False,
            "toolkit.telemetry.enabled": False,
        }
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in preferences.items()]
        Path(self._profile.name, "user.js").write_text("".join(lines))
        command = [FIREFOX, "--headless", "--no-remote", "--profile", self._profile.name, "--marionette"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 90
        while True:
            try:
                self._socket = socket.create_connection(("127.0.0.1", port), timeout=120)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        self._buffer, self._number = b"", 0
        self._receive()
        self.call("WebDriver:NewSession", capabilities={})

    def close(self):
        self.call("Marionette:Quit", flags=["eForceQuit"])
        self._socket.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._profile.cleanup()

    def _receive(self):
        """Return one message: its length in digits, a colon, and JSON."""
        while b":" not in self._buffer:
            self._buffer += self._socket.recv(65536)
        length, _, self._buffer = self._buffer.partition(b":")
        while len(self._buffer) < int(length):
            self._buffer += self._socket.recv(1 << 20)
        message, self._buffer = self._buffer[: int(length)], self._buffer[int(length) :]
        return json.loads(message)

    def call(self, command, **parameters):
        """Send a command, and return its result."""
        self._number += 1
        message = json.dumps([0, self._number, command, parameters]).encode()
        self._socket.sendall(f"{len(message)}:".encode() + message)
        _, _, error, result = self._receive()
        if error:
            raise RuntimeError(f"{command}: {error['message']}")
        return result

    def open(self, path):
        """Open a file."""
        self.call("WebDriver:Navigate", url=Path(path).as_uri())

    def run(self, expression):
        """Evaluate JavaScript in the page, and return the value."""
        return self.call("WebDriver:ExecuteScript", script=f"return ({expression})", args=[])["value"]

    def wait(self, condition, *, timeout=120):
        """Wait until an expression is true."""
        deadline = time.monotonic() + timeout
        while not self.run(f"Boolean({condition})"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"never true: {condition}; the page shows: {self.run('document.body.innerText')}")
            time.sleep(0.05)

    def screenshot(self, path):
        """Write a picture of the page."""
        Path(path).write_bytes(base64.b64decode(self.call("WebDriver:TakeScreenshot", full=True)["value"]))
