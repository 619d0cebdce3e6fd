"""Firefox for tests: started without a window and without a network, and driven by its own protocol, Marionette."""

import base64
import json
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from browser import Driver

FIREFOX = next(filter(None, map(shutil.which, ("firefox", "firefox-esr"))), None)
BACKSPACE = "\ue003"
KEYS = {"Enter": "\ue007", "Tab": "\ue004", "Escape": "\ue00c"}
KEYS |= {"ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014", "ArrowDown": "\ue015"}


class Firefox(Driver):
    """A running Firefox with one page."""

    def __init__(self):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.downloads = Path(self._profile.name, "downloads")
        self.downloads.mkdir()
        preferences = {
            "marionette.port": port,
            "network.proxy.type": 1,  # a proxy that is not there: nothing can be fetched
            "network.proxy.http": "127.0.0.1",
            "network.proxy.http_port": 9,
            "network.proxy.ssl": "127.0.0.1",
            "network.proxy.ssl_port": 9,
            "datareporting.policy.dataSubmissionEnabled": False,
            "toolkit.telemetry.enabled": False,
            "browser.download.folderList": 2,
            "browser.download.dir": str(self.downloads),
            "browser.download.alwaysOpenPanel": False,
        }
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in preferences.items()]
        Path(self._profile.name, "user.js").write_text("".join(lines))
        flags = ["--headless", "--no-remote", "--marionette", "--remote-allow-system-access"]
        command = [FIREFOX, *flags, "--profile", self._profile.name]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 90
        while True:
            try:
                self._socket = socket.create_connection(("127.0.0.1", port), timeout=600)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        self._buffer, self._number = b"", 0
        self._receive()
        self.call("WebDriver:NewSession", capabilities={"alwaysMatch": {"timeouts": {"script": 600_000}}})
        self.call("WebDriver:SetWindowRect", width=1280, height=1000)

    def close(self):
        with suppress(EOFError, OSError):  # it may be gone before it has answered
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
            self._read()
        length, _, self._buffer = self._buffer.partition(b":")
        while len(self._buffer) < int(length):
            self._read()
        message, self._buffer = self._buffer[: int(length)], self._buffer[int(length) :]
        return json.loads(message)

    def _read(self):
        received = self._socket.recv(1 << 20)
        if not received:
            raise EOFError("Firefox has closed the connection")
        self._buffer += received

    def call(self, command, **parameters):
        """Send a command, and return its result."""
        self._number += 1
        message = json.dumps([0, self._number, command, parameters]).encode()
        self._socket.sendall(f"{len(message)}:".encode() + message)
        _, _, error, result = self._receive()
        if error:
            raise RuntimeError(f"{command}: {error['message']}")
        return result

    def open(self, path, *, address=""):
        """Open a file."""
        self._privileged("Services.console.reset();")  # it keeps the last 250 messages
        self.call("WebDriver:Navigate", url="about:blank")
        self.call("WebDriver:Navigate", url=Path(path).as_uri() + address)

    def run(self, expression):
        """Evaluate an expression of JavaScript in the page, wait for what it promises, and return the value."""
        return self.call("WebDriver:ExecuteScript", script=f"return ({expression})", args=[])["value"]

    def _privileged(self, script):
        """Run a script with the rights of the browser itself."""
        self.call("Marionette:SetContext", value="chrome")
        try:
            return self.call("WebDriver:ExecuteScript", script=script, args=[])["value"]
        finally:
            self.call("Marionette:SetContext", value="content")

    def mouse(self, kind, x, y, *, held=False):
        """Move, press or release the mouse."""
        if kind == "mouseMoved":
            step = {"type": "pointerMove", "x": round(x), "y": round(y), "duration": 0}
        else:
            step = {"type": {"mousePressed": "pointerDown", "mouseReleased": "pointerUp"}[kind], "button": 0}
        self._act({"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [step]})

    def _act(self, *sources):
        self.call("WebDriver:PerformActions", actions=list(sources))

    def type(self, text):
        """Type a text into the element that has the focus, in place of what is selected."""
        text = text or BACKSPACE
        steps = [{"type": kind, "value": letter} for letter in text for kind in ("keyDown", "keyUp")]
        self._act({"type": "key", "id": "keyboard", "actions": steps})

    def key(self, name):
        """Press and release a key."""
        self.type(KEYS.get(name, name))

    def screenshot(self, path):
        """Write a picture of the page."""
        Path(path).write_bytes(base64.b64decode(self.call("WebDriver:TakeScreenshot", full=True)["value"]))

    def requests(self):
        """Return the addresses that the page has asked for, but for the page itself and what is inside of it."""
        names = self.run("performance.getEntriesByType('resource').map((one) => one.name)")
        return [name for name in names if not name.startswith(("file:", "data:", "blob:", "about:"))]

    def errors(self):
        """Return the errors of the page, as the browser's console has them."""
        return self._privileged(
            "return Services.console.getMessageArray().filter((one) => one instanceof Ci.nsIScriptError"
            " && !(one.flags & Ci.nsIScriptError.warningFlag) && one.sourceName.startsWith('file:'))"
            ".map((one) => one.errorMessage);"
        )
