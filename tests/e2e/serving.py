"""Runs `trainyard-trainer serve` as a user would, and asks it. Standard library only."""
import json
import pathlib
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request

from trainyard import ROOT, TRAINER

READY_SECONDS = 60


class Server:
    """One `serve`, on free ports, with its log beside `folder`."""

    def __init__(self, path, log, *flags, **limits):
        self._log = pathlib.Path(log)
        with self._log.open("wb") as out:
            command = [TRAINER, "serve", str(path), "--port", "0", "--grpc-port", "0", "--poll", "0.05", *map(str, flags)]
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out, **limits)
        found = self.await_text(r"REST on http://127\.0\.0\.1:(\d+), gRPC on 127\.0\.0\.1:(\d+)")
        self.port, self.grpc_port = int(found[1]), int(found[2])

    def log(self):
        return self._log.read_text(errors="replace")

    def await_text(self, pattern, seconds=READY_SECONDS):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := re.search(pattern, self.log()):
                return found
            if self.process.poll() is not None:
                raise AssertionError(f"serve has ended with {self.process.returncode}:\n{self.log()}")
            time.sleep(0.01)
        raise AssertionError(f"no {pattern!r} within {seconds} s:\n{self.log()}")

    def await_ready(self):
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end:
            if self.ask("/readyz")[0] == 200:
                return self
            time.sleep(0.01)
        raise AssertionError(f"not ready within {READY_SECONDS} s:\n{self.log()}")

    def ask(self, path, body=None, headers=None):
        """(status, object or text). A body that is not bytes is sent as JSON."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                status, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                status, text = error.code, error.read().decode()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text

    def predict(self, instances):
        """The predictions of rows, which must be answered."""
        status, answer = self.ask("/v1/models/model:predict", {"instances": instances})
        if status != 200:
            raise AssertionError(f"{status}: {answer}\n{self.log()}")
        return answer["predictions"]

    def peak_mebibytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    def stop(self):
        """The exit status after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
