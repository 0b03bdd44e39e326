"""A device plugin whose devices are lines of a file: it registers with the kubelet, tells of every change, and gives containers the variables that
NVIDIA's plugin gives them.

  device_plugin.py DESCRIPTORS STATE [KUBELET_FOLDER]

DESCRIPTORS is device_plugin.proto as `protoc --descriptor_set_out` writes it. STATE is a JSON file that is read again whenever it is replaced:
{"devices": {"nvidia.com/gpu": {"GPU-0": "Healthy"}}, "refuse": "what Allocate fails with; empty: it succeeds"}
A resource that appears there is registered. One that goes keeps its name, without devices.
"""

import concurrent.futures
import json
import pathlib
import sys
import threading
import time

import grpc
from google.protobuf import descriptor_pb2, message_factory

READ_EVERY = 0.05  # seconds


def messages_of(path):
    files = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(path).read_bytes())
    return {name.removeprefix("v1beta1."): kind for name, kind in message_factory.GetMessages(files.file).items()}


class State:
    """The file's content. wait() sleeps until it is another one than the caller has."""

    def __init__(self, path):
        self._path = pathlib.Path(path)
        self._changed = threading.Condition()
        self._text = self._path.read_text()

    def value(self):
        with self._changed:
            return json.loads(self._text)

    def wait(self, known):
        with self._changed:
            self._changed.wait_for(lambda: json.loads(self._text) != known)
            return json.loads(self._text)

    def follow(self):
        """Reads the file for ever; the only one that does."""
        while True:
            text = self._path.read_text()
            with self._changed:
                if text != self._text:
                    self._text = text
                    self._changed.notify_all()
            time.sleep(READ_EVERY)


class Plugin:
    """The plugin of one resource: a socket of its own, on which the kubelet asks."""

    def __init__(self, resource, state, messages, folder):
        self._resource = resource
        self._state = state
        self._messages = messages
        self._folder = pathlib.Path(folder)
        self._endpoint = "test-" + resource.replace("/", "-") + ".sock"
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=8))
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", {
            "GetDevicePluginOptions": self._handler(grpc.unary_unary_rpc_method_handler, self._options, "Empty"),
            "ListAndWatch": self._handler(grpc.unary_stream_rpc_method_handler, self._list_and_watch, "Empty"),
            "Allocate": self._handler(grpc.unary_unary_rpc_method_handler, self._allocate, "AllocateRequest")})])
        (self._folder / self._endpoint).unlink(missing_ok=True)
        self._server.add_insecure_port(f"unix://{self._folder / self._endpoint}")
        self._server.start()

    def register(self):
        request = self._messages["RegisterRequest"](version="v1beta1", endpoint=self._endpoint, resource_name=self._resource)
        with grpc.insecure_channel(f"unix://{self._folder / 'kubelet.sock'}") as channel:
            call = channel.unary_unary("/v1beta1.Registration/Register", lambda message: message.SerializeToString(), self._messages["Empty"].FromString)
            call(request, timeout=10)
        print(f"registered {self._resource}", flush=True)

    def _handler(self, kind, function, request):
        return kind(function, self._messages[request].FromString, lambda message: message.SerializeToString())

    def _options(self, _request, _context):
        return self._messages["DevicePluginOptions"]()

    def _list_and_watch(self, _request, context):
        state = self._state.value()
        while context.is_active():
            devices = state["devices"].get(self._resource, {})
            print(f"{self._resource}: {devices}", flush=True)
            yield self._messages["ListAndWatchResponse"](devices=[{"ID": name, "health": health} for name, health in devices.items()])
            state = self._state.wait(state)

    def _allocate(self, request, context):
        refusal = self._state.value().get("refuse")
        if refusal:
            context.abort(grpc.StatusCode.UNAVAILABLE, refusal)
        response = self._messages["AllocateResponse"]()
        for container in request.container_requests:
            names = ",".join(sorted(container.devices_ids))
            print(f"{self._resource}: allocates {names}", flush=True)
            response.container_responses.add(envs={"NVIDIA_VISIBLE_DEVICES": names, "CUDA_VISIBLE_DEVICES": names})
        return response


def main(descriptors, path, folder="/var/lib/kubelet/device-plugins"):
    messages, state, plugins = messages_of(descriptors), State(path), {}
    threading.Thread(target=state.follow, daemon=True).start()
    known = None
    while True:
        known = state.wait(known)
        for resource in known["devices"]:
            if resource not in plugins:
                plugins[resource] = Plugin(resource, state, messages, folder)
                plugins[resource].register()


if __name__ == "__main__":
    main(*sys.argv[1:])
