"""GPUs of a real node that has none: a device plugin (device_plugin/) tells the kubelet of them."""

import json
import pathlib
import subprocess

from . import node, places
from .wait import wait_for

GPU = "nvidia.com/gpu"
_SOURCE = pathlib.Path(__file__).resolve().parents[1] / "device_plugin"
_DESCRIPTORS = places.CACHE / "cluster" / "device-plugin.descriptors"


def _python():
    made = subprocess.run([places.REPOSITORY / "scripts/venv.sh", _SOURCE / "requirements.txt"], check=True, stdout=subprocess.PIPE, text=True)
    return made.stdout.strip()


def prepare():
    """Loads and makes what the plugin needs. Outside of the sandbox, which no packet leaves."""
    _python()
    subprocess.run(["protoc", f"--proto_path={_SOURCE}", f"--descriptor_set_out={_DESCRIPTORS}", "device_plugin.proto"], check=True)


class Gpus:
    """The devices of the node's one plugin, by resource: {"nvidia.com/gpu": {"GPU-0": "Healthy"}}. Every call waits until the node shows them."""

    def __init__(self, plane):
        self._plane = plane
        self._api = plane.api()
        self._file = plane.folder / "devices.json"
        self._devices = {}
        self._write(refuse="")

    def start(self):
        self._plane.processes.start("device-plugin", [_python(), _SOURCE / "device_plugin.py", _DESCRIPTORS, self._file])
        return self

    def stop(self):
        """As a plugin's pod that is deleted: the kubelet takes its devices for unhealthy."""
        self._plane.processes.kill("device-plugin")
        for resource in self._devices:
            self._wait(resource, 0)

    def has(self, *names, resource=GPU, unhealthy=()):
        """The node has these devices and no other ones of the resource."""
        self._devices[resource] = {name: "Unhealthy" if name in unhealthy else "Healthy" for name in names}
        self._write(refuse="")
        self._wait(resource, len(names) - len(unhealthy))

    def refuse(self, why):
        """From now on containers get no device, but the node still shows all. Empty: they do get them."""
        self._write(refuse=why)

    def log(self):
        return self._plane.processes.log_tail("device-plugin", 40)

    def _write(self, refuse):
        unfinished = self._file.with_suffix(".new")
        unfinished.write_text(json.dumps({"devices": self._devices, "refuse": refuse}))
        unfinished.rename(self._file)

    def _wait(self, resource, number):
        def shown():
            found = self._api.get(f"/api/v1/nodes/{node.NAME}")["status"]["allocatable"].get(resource, "0")
            assert int(found) == number, f"{found}\n{self.log()}"
            return True

        wait_for(f"the node to have {number} healthy {resource}", shown, 30.0)
