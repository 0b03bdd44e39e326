"""The base class of tests that need a control plane of their own."""

import os
import subprocess
import unittest

from . import needs, places
from .control_plane import ControlPlane, Options


def skip_or_fail(lacks):
    """Outside CI a machine that cannot run a suite skips it and says why; in CI that is a failure."""
    text = "; ".join(lacks)
    if os.environ.get("CI") == "true":
        raise RuntimeError(f"CI=true, and this machine lacks: {text}")
    raise unittest.SkipTest(f"this machine lacks: {text}")


class ControlPlaneCase(unittest.TestCase):
    """etcd, kube-apiserver and kube-controller-manager for the whole class; `api` talks to them as an administrator."""

    options = Options()
    plane = None
    api = None

    @classmethod
    def setUpClass(cls):
        lacks = needs.missing("control-plane")
        if lacks:
            skip_or_fail(lacks)
        cls.plane = ControlPlane(places.state_folder(f"{cls.__name__}-{os.getpid()}"), cls.options)
        cls.addClassCleanup(cls.plane.remove)
        cls.plane.start()
        cls.api = cls.plane.api()
        cls.addClassCleanup(cls.api.close)

    @classmethod
    def tool(cls, name, *argv):
        """What kubectl or Helm prints."""
        done = subprocess.run([places.BIN / name, f"--kubeconfig={cls.plane.kubeconfig}", *argv], capture_output=True, text=True, check=False,
                              timeout=60)
        if done.returncode != 0:
            raise AssertionError(f"{name} {' '.join(map(str, argv))}: {done.stderr.strip()}")
        return done.stdout

    @classmethod
    def kubectl(cls, *argv):
        return cls.tool("kubectl", *argv)
