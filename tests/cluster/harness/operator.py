"""trainyard-operator as a local process against a control plane."""

import os
import pathlib
import signal
import urllib.error
import urllib.request

from . import places
from .control_plane import free_port
from .wait import wait_for


def binary():
    """The built operator: $TRAINYARD_OPERATOR, or the release build's."""
    return pathlib.Path(os.environ.get("TRAINYARD_OPERATOR", places.REPOSITORY / "build/release/operator/trainyard-operator"))


class Operator:
    """One operator process; its flags are its defaults but for what a test names. Name it when a test runs several."""

    def __init__(self, plane, name="operator", **flags):
        self._plane = plane
        self._name = name
        self._flags = flags
        self.port = free_port("127.0.0.1")

    def start(self, wait=True):
        flags = {"kubeconfig": self._plane.kubeconfig, "metrics-host": "127.0.0.1", "metrics-port": self.port, "leader-elect": "false", **self._flags}
        self._plane.processes.start(self._name, [binary(), *[f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]])
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, seconds=30.0):
        def ready():
            if not self.alive():
                raise RuntimeError(f"the operator ended by itself; its log ends:\n{self.log()}")
            return self.status("/readyz") == 200

        wait_for(f"{self._name} to be ready", ready, seconds)

    def alive(self):
        return self._plane.processes.alive(self._name)

    def kill(self):
        """As a node that loses power would."""
        self._plane.processes.kill(self._name, signal.SIGKILL)

    def stop(self):
        """As a kubelet would; returns whether it ended by itself in time."""
        self._plane.processes.kill(self._name, signal.SIGTERM)

    def log(self, lines=40):
        return self._plane.processes.log_tail(self._name, lines)

    def status(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def page(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
            return answer.read().decode()

    def requests(self):
        """How many requests it has sent to the API server so far."""
        return sum(float(line.rsplit(" ", 1)[1]) for line in self.page("/metrics").splitlines() if line.startswith("trainyard_api_requests_total"))
