"""`serve` asked by the REST and gRPC clients of KServe's own SDK."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import in_venv  # isort: skip  (starts over in the environment that has the clients)

import asyncio
import importlib.util
import logging
import types
import unittest

import grpc
import httpx
import numpy
import served_digits

# The package's __init__ imports its server and Kubernetes' client, which the inference clients do not use.
kserve = types.ModuleType("kserve")
kserve.__path__ = list(importlib.util.find_spec("kserve").submodule_search_locations)
sys.modules["kserve"] = kserve
from kserve.inference_client import InferenceGRPCClient, InferenceRESTClient, RESTConfig  # noqa: E402
from kserve.protocol.infer_type import InferInput, InferRequest, RequestedOutput  # noqa: E402


class KServe(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls):
        logging.disable()  # the client logs the errors that it raises
        served_digits.start(cls)

    def request(self, images=None, *, binary, name="input"):
        images = self.images if images is None else images
        tensor = InferInput(name, list(images.shape), "UINT8")
        tensor.set_data_from_numpy(images, binary_data=binary)
        outputs = [RequestedOutput("probabilities", parameters={"binary_data": binary})]
        return InferRequest(model_name="model", infer_inputs=[tensor], request_id="seven", request_outputs=outputs)

    def check(self, answer):
        self.assertEqual(answer.id, "seven")
        numpy.testing.assert_array_equal(answer.outputs[0].as_numpy().astype(numpy.float32), self.expected)

    async def test_rest_of_the_open_inference_protocol(self):
        base = f"http://127.0.0.1:{self.server.port}"
        async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
            self.assertTrue(await client.is_server_live(base) and await client.is_server_ready(base) and await client.is_model_ready(base, "model"))
            self.assertFalse(await client.is_model_ready(base, "other"))
            for binary in (True, False):
                self.check(await client.infer(base, self.request(binary=binary), model_name="model"))
            with self.assertRaises(httpx.HTTPStatusError) as refused:
                await client.infer(base, self.request(self.images[:, :27], binary=True), model_name="model")
            self.assertIn("inputs[0].shape: found [5, 27, 28, 1]", str(refused.exception))

    async def test_rest_of_v1(self):
        async with InferenceRESTClient(RESTConfig(protocol="v1")) as client:
            answer = await client.infer(f"http://127.0.0.1:{self.server.port}", {"instances": (self.images / 255).tolist()}, model_name="model")
        numpy.testing.assert_allclose(answer["predictions"], self.expected, atol=1e-6)

    async def test_grpc(self):
        async with InferenceGRPCClient(f"127.0.0.1:{self.server.grpc_port}") as client:
            self.assertTrue(await client.is_server_live() and await client.is_server_ready() and await client.is_model_ready("model"))
            for binary in (True, False):
                self.check(await client.infer(self.request(binary=binary)))
            with self.assertRaises(grpc.RpcError) as refused:
                await client.infer(self.request(binary=True, name="other"))
            self.assertEqual(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn("inputs[0].name", refused.exception.details())

    async def test_clients_at_once(self):
        async with InferenceGRPCClient(f"127.0.0.1:{self.server.grpc_port}") as client:
            for answer in await asyncio.gather(*(client.infer(self.request(binary=True)) for _ in range(20))):
                self.check(answer)


if __name__ == "__main__":
    unittest.main()
