"""A headless Chromium that opens pages as a person's browser does, steered by the DevTools protocol over a pipe. Standard library only.

https://chromedevtools.github.io/devtools-protocol/ has the methods and events.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAM = "chromium-headless-shell"
DEADLINE = 60.0


class Browser:
    """One process with one page. Its console and its uncaught errors are in `complaints`."""

    def __init__(self):
        program = shutil.which(PROGRAM)
        if program is None:
            raise FileNotFoundError(f"{PROGRAM} is not installed; run scripts/setup.sh")
        self.profile = tempfile.TemporaryDirectory(prefix="trainyard-browser-")
        from_us, self.to_browser = os.pipe()
        self.from_browser, to_us = os.pipe()
        # The protocol's ends are descriptors 3 and 4 there. Chromium refuses to run as root with its own sandbox; the pages are our own.
        command = f'exec {program} --remote-debugging-pipe --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --user-data-dir="$0" 3<&{from_us} 4>&{to_us}'
        self.process = subprocess.Popen(["bash", "-c", command, self.profile.name], pass_fds=[from_us, to_us], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(from_us)
        os.close(to_us)
        self.pending = b""
        self.count = 0
        self.events = []
        self.complaints = []
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        self.session = None
        self.call("Browser.close")
        self.process.wait(timeout=DEADLINE)
        os.close(self.to_browser)
        os.close(self.from_browser)
        self.profile.cleanup()

    def _receive(self, deadline):
        while b"\0" not in self.pending:
            ready, _, _ = select.select([self.from_browser], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError(f"the browser says nothing for {DEADLINE} s")
            received = os.read(self.from_browser, 1 << 20)
            if not received:
                raise ConnectionError("the browser has ended")
            self.pending += received
        message, _, self.pending = self.pending.partition(b"\0")
        message = json.loads(message)
        method, details = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(details["exceptionDetails"].get("exception", {}).get("description") or details["exceptionDetails"]["text"])
        elif method == "Runtime.consoleAPICalled" and details["type"] in ("error", "warning", "assert"):
            self.complaints.append(" ".join(str(argument.get("value", argument.get("description"))) for argument in details["args"]))
        elif method == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
            self.complaints.append(details["entry"]["text"])
        elif method:
            self.events.append(method)
        return message

    def call(self, method, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + DEADLINE
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def look_as(self, width=1280, height=900, dark=False, phone=False):
        """Before `open`: the size of the window, and the wishes of its user."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1, mobile=phone)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, url):
        self.complaints.clear()
        self.events.clear()
        self.call("Page.navigate", url=url)
        deadline = time.monotonic() + DEADLINE
        while "Page.loadEventFired" not in self.events:
            self._receive(deadline)

    def ask(self, expression):
        """The value of a JavaScript expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description", expression))
        return answer["result"].get("value")

    def await_true(self, expression):
        deadline = time.monotonic() + DEADLINE
        while not self.ask(expression):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not true within {DEADLINE} s: {expression}; {self.complaints}")
            time.sleep(0.05)

    def screenshot(self, path):
        """The whole page as a PNG file."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))
