"""Chromium for tests: started without a window or a network, and driven by the DevTools protocol over two pipes.

`Driver` has what Chromium and Firefox share.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections import deque
from pathlib import Path

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--remote-debugging-pipe",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--force-color-profile=srgb", "--hide-scrollbars",
)  # fmt: skip
KEYS = {"Enter": 13, "Tab": 9, " ": 32, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Escape": 27}


class Driver:
    """What can be done with a page in any browser. A browser has `run`, `mouse`, `key` and `type`, and a folder `downloads`."""

    def wait(self, condition, *, timeout=120):
        """Wait until an expression is true."""
        deadline = time.monotonic() + timeout
        while not self.run(f"Boolean({condition})"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"never true: {condition}; the page shows: {self.text('body')}")
            time.sleep(0.02)

    def text(self, selector):
        """Return the visible text of the first element that matches, or None."""
        return self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? null")

    def texts(self, selector):
        """Return the text of all elements that match."""
        return self.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.textContent)")

    def middle(self, selector, number=0):
        """Return the middle of an element in the window, after scrolling to it."""
        return self.run(
            f"(() => {{ const e = document.querySelectorAll({json.dumps(selector)})[{number}];"
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )

    def click(self, selector, number=0):
        """Click in the middle of an element with the mouse."""
        x, y = self.middle(selector, number)
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def drag(self, start, end, steps=5):
        """Drag the mouse from one point to another."""
        self.mouse("mouseMoved", *start)
        self.mouse("mousePressed", *start)
        for step in range(1, steps + 1):
            place = [a + (b - a) * step / steps for a, b in zip(start, end, strict=True)]
            self.mouse("mouseMoved", *place, held=True)
        self.mouse("mouseReleased", *end)

    def choose(self, selector, value, event="change"):
        """Set the value of a field, as its user does."""
        self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.value = {json.dumps(value)};"
            f"e.dispatchEvent(new Event({json.dumps(event)})); }})()"
        )

    def downloaded(self, names, *, timeout=20):
        """Wait until files are in the folder of downloads, complete, and return it."""
        deadline = time.monotonic() + timeout
        while not all((self.downloads / name).exists() and (self.downloads / name).stat().st_size for name in names):
            if time.monotonic() > deadline:
                raise TimeoutError(f"of {names}, only {[path.name for path in self.downloads.iterdir()]} were downloaded")
            time.sleep(0.05)
        return self.downloads


class Browser(Driver):
    """A running Chromium with one page."""

    def __init__(self):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        ours, theirs = zip(*(os.pipe() if number else os.pipe()[::-1] for number in range(2)), strict=True)
        # The browser reads commands from descriptor 3 and writes answers to 4.
        high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 20) for descriptor in theirs]

        def connect():
            for number, descriptor in enumerate(high, 3):
                os.dup2(descriptor, number)

        command = [CHROMIUM, *FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        self._process = subprocess.Popen(
            command, preexec_fn=connect, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for descriptor in (*theirs, *high):
            os.close(descriptor)
        self._write, self._read = ours
        self._buffer, self._number, self._events = b"", 0, deque(maxlen=10_000)
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.downloads = Path(self._profile.name, "downloads")
        self.downloads.mkdir()
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads))

    def close(self):
        self.session = None
        self._send("Browser.close", {})
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)
        self._profile.cleanup()

    def _send(self, method, parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        return self._number

    def _receive(self, deadline):
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError("the browser did not answer in time")
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise ConnectionError("the browser has ended")
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method, *, timeout=120, **parameters):
        """Call a method of the protocol, and return its result."""
        number, deadline = self._send(method, parameters), time.monotonic() + timeout
        while True:
            message = self._receive(deadline)
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self._events.append(message)

    def events(self, *methods):
        """Return the parameters of the events of these kinds so far."""
        self.call("Runtime.evaluate", expression="0")
        return [each["params"] for each in self._events if each.get("method") in methods]

    def open(self, path, *, width=1280, height=900, dark=False, address="", touch=False):
        """Open a file."""
        self._events.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=Path(path).as_uri() + address)
        self.wait("location.protocol === 'file:' && document.readyState === 'complete'")

    def run(self, expression, *, timeout=120):
        """Evaluate an expression of JavaScript, wait for what it promises, and return the value."""
        found = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True, timeout=timeout
        )
        if "exceptionDetails" in found:
            raise RuntimeError(_told(found["exceptionDetails"]))
        return found["result"].get("value")

    def mouse(self, kind, x, y, *, held=False):
        """Move, press or release the mouse."""
        free = kind == "mouseMoved" and not held
        more = {} if free else {"button": "left", "clickCount": int(not held), "buttons": int(held)}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def type(self, text):
        """Type a text into the element that has the focus, in place of what is selected."""
        self.call("Input.insertText", text=text)

    def key(self, name):
        """Press and release a key."""
        text = {"Enter": "\r"}.get(name, name if len(name) == 1 else "")
        code = KEYS.get(name, ord(name.upper()[0]))
        for kind in ("keyDown", "keyUp"):
            extra = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=code, **extra)

    def screenshot(self, path, *, full=True):
        """Write a picture of the page."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        Path(path).write_bytes(base64.b64decode(shot["data"]))

    def requests(self):
        """Return the addresses that the page has asked for, but for the page itself and what is inside of it."""
        found = [each["request"]["url"] for each in self.events("Network.requestWillBeSent")]
        return [url for url in found if not url.startswith(("file:", "data:", "blob:", "about:"))]

    def errors(self):
        """Return uncaught errors and messages of the console that are errors."""
        thrown = [_told(each["exceptionDetails"]) for each in self.events("Runtime.exceptionThrown")]
        logged = [each["entry"]["text"] for each in self.events("Log.entryAdded") if each["entry"]["level"] == "error"]
        return thrown + logged


def _told(details):
    return details.get("exception", {}).get("description") or details["text"]
