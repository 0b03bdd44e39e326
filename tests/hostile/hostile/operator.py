"""The operator's real program against an ApiServer."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = os.environ.get("TRAINYARD_OPERATOR", str(ROOT / "build/release/operator/trainyard-operator"))
MOST_MEBIBYTES = 64


def free_port():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        return taken.getsockname()[1]


class Operator:
    def __init__(self, server, *flags):
        self.port = free_port()
        self._folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self._folder.name)
        (folder / "kubeconfig").write_text(json.dumps({
            "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": ""}}],
            "clusters": [{"name": "c", "cluster": {"server": server.url}}], "users": []}))
        self._log = folder / "log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [PROGRAM, f"--kubeconfig={folder / 'kubeconfig'}", "--metrics-host=127.0.0.1", f"--metrics-port={self.port}", "--progress=direct",
                 "--progress-interval=1", *flags], stdout=log, stderr=log)

    def page(self, path="/healthz"):
        """(code, text) within five seconds, else OSError."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    def metric(self, name):
        """The value of a line of /metrics, its labels included; 0 where there is none."""
        match = re.search(rf"^{re.escape(name)} (\S+)$", self.page("/metrics")[1], re.MULTILINE)
        return float(match.group(1)) if match else 0.0

    def peak_mebibytes(self):
        return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{self.process.pid}/status").read_text()).group(1)) / 1024

    def log(self):
        return self._log.read_text(errors="replace")

    def stop(self):
        """SIGTERM; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode

    def close(self):
        self.stop()
        self._folder.cleanup()
