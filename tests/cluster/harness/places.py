"""Where things lie: the repository, the cache of built binaries, the folders of running clusters."""

import os
import pathlib
import re

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
CACHE = pathlib.Path(os.environ.get("TRAINYARD_CACHE", REPOSITORY / ".cache"))


def versions():
    """The pins of scripts/cluster/versions.sh as a dict."""
    text = (REPOSITORY / "scripts/cluster/versions.sh").read_text()
    pins = dict(re.findall(r"^([A-Z0-9_]+)=(\S+)$", text, re.MULTILINE))
    return {**pins, "KUBERNETES_VERSION": os.environ.get("TRAINYARD_KUBERNETES_VERSION", pins["KUBERNETES_VERSION"])}


CLUSTER = CACHE / "cluster" / versions()["KUBERNETES_VERSION"]
BIN = CLUSTER / "bin"


def state_folder(name):
    """The folder of the running cluster called `name`: kubeconfig, logs, pid files, data."""
    return CACHE / "cluster" / "state" / name
