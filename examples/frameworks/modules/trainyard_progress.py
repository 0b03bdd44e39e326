#!/usr/bin/env python3
"""Brings the progress of any training program to `kubectl get tj`. Python 3.8 and nothing else; copy this file into your image.

    trainyard_progress.py COMMAND …

It runs COMMAND and passes on what it prints. A line that is a JSON object with a whole number "step" is progress, in the words of docs/contract.md:

    {"step": 120, "totalSteps": 560, "loss": 0.31, "examplesPerSecond": 6668.8, "metrics": {"accuracy": 0.93}}

The newest such line answers GET /progress on $TRAINYARD_PROGRESS_PORT (spec.network.progressPort). When COMMAND ends with 0, it is left in
/dev/termination-log, so that the job's status ends with it. The exit code is COMMAND's, or 128 + n after signal n; SIGTERM goes on to COMMAND.

A Python program may print such lines by the class Progress.
"""

import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

LONGEST_LINE = 1 << 14  # bytes; the operator takes no longer answer
TERMINATION_LOG = "/dev/termination-log"
MOST_FOR_TERMINATION_LOG = 2048  # bytes; what the kubelet keeps of it


class Progress:
    """Prints progress, at most one line a second but for the lines with metrics. Give `examples` the number of all replicas' examples in a step."""

    def __init__(self, total_steps, examples):
        self._total, self._examples = total_steps, examples
        self._told_at, self._told_step = time.monotonic(), None
        self._rate = None  # steps a second, of the newest line that had new steps

    def tell(self, step, loss, **metrics):
        now = time.monotonic()
        seconds, steps = now - self._told_at, step - (step if self._told_step is None else self._told_step)
        if self._told_step is not None and seconds < 1 and not metrics:
            return
        line = {"step": step, "totalSteps": self._total, "loss": float(loss)}
        if metrics:
            line["metrics"] = {name: float(value) for name, value in metrics.items()}
        if steps > 0 and seconds > 0:
            self._rate = steps / seconds
        if self._rate:
            line.update(batchesPerSecond=round(self._rate, 2), examplesPerSecond=round(self._rate * self._examples, 1),
                        etaSeconds=round((self._total - step) / self._rate))
        self._told_at, self._told_step = now, step
        print(json.dumps(line), flush=True)


class _Newest:
    """The newest line of progress. Thread-safe: it is replaced as a whole."""

    line = b""

    def take(self, line):
        if not line.startswith(b"{") or len(line) > LONGEST_LINE:
            return
        try:
            constants = []  # NaN and Infinity, which Python writes and JSON does not have: they become null
            told = json.loads(line, parse_constant=constants.append)
            answer = json.dumps(told, allow_nan=False).encode() if constants else line.strip()
        except (ValueError, RecursionError):
            return  # a line that only looks like progress
        if _is_count(told.get("step")) and len(answer) <= LONGEST_LINE:
            self.line = answer


def _is_count(step):
    whole = isinstance(step, int) or isinstance(step, float) and step.is_integer()
    return whole and not isinstance(step, bool) and step >= 0


class _Server(http.server.ThreadingHTTPServer):
    """On all addresses of the pod, of IPv4 and IPv6."""

    daemon_threads = True
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def server_bind(self):
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


def _serve(newest, port):
    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = 5  # seconds for a client's next byte

        def do_GET(self):
            line = newest.line if self.path == "/progress" else b""
            self.send_response(200 if line else 404 if self.path != "/progress" else 503)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(line)))
            self.end_headers()
            self.wfile.write(line)

        def log_message(self, *_):
            pass

    server = _Server(("", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def _pass_on(output, newest):
    for line in iter(lambda: output.readline(1 << 16), b""):
        newest.take(line)
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


def main(command):
    newest = _Newest()
    if os.environ.get("TRAINYARD_PROGRESS_PORT"):
        _serve(newest, int(os.environ["TRAINYARD_PROGRESS_PORT"]))
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda number, _: child.send_signal(number))
    reader = threading.Thread(target=_pass_on, args=(child.stdout, newest), daemon=True)
    reader.start()
    code = child.wait()
    reader.join(5)  # the rest of the output; a process that COMMAND left behind may hold it open
    if code == 0 and 0 < len(newest.line) <= MOST_FOR_TERMINATION_LOG and os.path.exists(TERMINATION_LOG):
        with open(TERMINATION_LOG, "wb") as log:
            log.write(newest.line)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
