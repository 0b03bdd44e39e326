"""`serve` asked by other people's clients: tritonclient over HTTP and gRPC, TensorFlow Serving's documented JSON by urllib."""
import in_venv  # isort: skip  (starts over in the environment that has the clients)

import contextlib
import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy
import served_digits
import tritonclient.grpc
import tritonclient.http
from served_digits import EXAMPLES
from tritonclient.utils import InferenceServerException

sys.path.insert(0, str(in_venv.ROOT / "tests/e2e"))
from serving import Server  # noqa: E402
from trainyard import TRAINER, Run  # noqa: E402


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        served_digits.start(cls)

    def check_triton(self, module, client):
        self.assertTrue(client.is_server_live() and client.is_server_ready() and client.is_model_ready("model") and client.is_model_ready("model", "20"))
        tensor = module.InferInput("input", self.images.shape, "UINT8")
        tensor.set_data_from_numpy(self.images)
        answer = client.infer("model", [tensor], request_id="seven", client_timeout=30) if module is tritonclient.grpc else client.infer("model", [tensor], request_id="seven")
        numpy.testing.assert_array_equal(answer.as_numpy("probabilities"), self.expected)
        top = client.infer("model", [tensor], model_version="20", outputs=[module.InferRequestedOutput("probabilities", class_count=3)])
        likeliest = top.as_numpy("probabilities")
        self.assertEqual(likeliest.shape, (EXAMPLES, 3))
        self.assertEqual([int(row[0].split(b":")[1]) for row in likeliest], list(self.expected.argmax(1)))
        for wrong, words in ((module.InferInput("other", [1, 784], "FP32"), "inputs[0].name"), (module.InferInput("input", [1, 783], "FP32"), "inputs[0].shape")):
            wrong.set_data_from_numpy(numpy.zeros(wrong.shape(), numpy.float32))
            with self.assertRaises(InferenceServerException) as refused:
                client.infer("model", [wrong])
            self.assertIn(words, refused.exception.message())
        with self.assertRaises(InferenceServerException):
            client.infer("model", [tensor], model_version="19")
        return answer

    def test_tritonclient_over_http(self):
        with tritonclient.http.InferenceServerClient(f"127.0.0.1:{self.server.port}") as client:
            answer = self.check_triton(tritonclient.http, client)
            self.assertEqual(answer.get_response()["id"], "seven")
            self.assertEqual(client.get_server_metadata()["name"], "trainyard")
            self.assertEqual(client.get_model_metadata("model")["inputs"], [{"name": "input", "datatype": "FP32", "shape": [-1, 28, 28, 1]}])
            floats = tritonclient.http.InferInput("input", [EXAMPLES, 784], "FP32")
            floats.set_data_from_numpy((self.images / 255).astype(numpy.float32).reshape(EXAMPLES, 784), binary_data=False)
            answer = client.infer("model", [floats], outputs=[tritonclient.http.InferRequestedOutput("probabilities", binary_data=False)])
            numpy.testing.assert_allclose(answer.as_numpy("probabilities"), self.expected, atol=1e-6)

    def test_tritonclient_over_grpc(self):
        with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.server.grpc_port}") as client:
            answer = self.check_triton(tritonclient.grpc, client)
            self.assertEqual(answer.get_response().id, "seven")
            self.assertEqual(client.get_server_metadata().name, "trainyard")
            self.assertEqual(list(client.get_model_metadata("model").inputs[0].shape), [-1, 28, 28, 1])
            with self.assertRaises(InferenceServerException) as refused:
                client.get_model_repository_index()
            self.assertIn("UNIMPLEMENTED", refused.exception.status())

    def test_the_code_of_the_page_runs(self):
        (code,) = re.findall(r"```python\n(.*?)```", (in_venv.ROOT / "docs/serve.md").read_text(), re.DOTALL)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code.replace("127.0.0.1:8080", f"127.0.0.1:{self.server.port}"), {})  # noqa: S102  (our own page)
        self.assertRegex(printed.getvalue(), r"^\[\[0\.")

    def test_typed_contents_over_grpc(self):
        messages = tritonclient.grpc.service_pb2
        request = messages.ModelInferRequest(model_name="model", inputs=[messages.ModelInferRequest.InferInputTensor(
            name="input", datatype="UINT8", shape=self.images.shape, contents=messages.InferTensorContents(uint_contents=self.images.ravel().tolist()))])
        with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.server.grpc_port}") as client:
            response = client._client_stub.ModelInfer(request)
        numpy.testing.assert_array_equal(numpy.frombuffer(response.raw_output_contents[0], numpy.float32).reshape(EXAMPLES, 10), self.expected)

    def test_tensorflow_servings_json(self):
        status, answer = self.server.ask("/v1/models/model")
        self.assertEqual((status, answer["model_version_status"][0]["state"]), (200, "AVAILABLE"))
        rows = (self.images / 255).astype(numpy.float32).tolist()
        for path, body, found in (("", {"signature_name": "serving_default", "instances": rows}, "predictions"),
                                  ("", {"instances": [{"input": row} for row in rows]}, "predictions"),
                                  ("/versions/20", {"inputs": {"input": rows}}, "outputs"), ("", {"inputs": rows}, "outputs")):
            status, answer = self.server.ask(f"/v1/models/model{path}:predict", body)
            self.assertEqual(status, 200, answer)
            numpy.testing.assert_allclose(answer[found], self.expected, atol=1e-6)


TEXT_JOB = """apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: text}
spec:
  worker: {replicas: 1}
  training:
    model: {preset: ptbLstm, vocabulary: 66, embedding: 16, units: 32, numLayers: 2, steps: 10}
    data: {format: text, dir: examples/data/tinyshakespeare, tokens: characters, train: {files: [input.txt], range: [0, 30000]}}
    batchSize: 10
    steps: 30
    optimizer: {name: adam, learningRate: 0.01, clipNorm: 1}
    strategy: {local: {}}
"""
TEXTS = ("What is th", "First Citizen:\nWe", "a")


class Texts(unittest.TestCase):
    """A model of characters, whose layers carry state: whole texts, and texts in sequences of requests."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="trainyard-serve-")
        cls.addClassCleanup(folder.cleanup)
        folder = pathlib.Path(folder.name)
        (folder / "job.yaml").write_text(TEXT_JOB)
        run = Run(folder / "job.yaml", output=folder / "out").succeed()
        (folder / "texts.jsonl").write_text("".join(json.dumps(text) + "\n" for text in TEXTS))
        said = subprocess.run([TRAINER, "predict", run.output, folder / "texts.jsonl", "--json", "--top", "66"],
                              cwd=in_venv.ROOT, capture_output=True, text=True, check=True).stdout
        cls.expected = numpy.zeros((len(TEXTS), 66), numpy.float32)
        for row, line in zip(cls.expected, map(json.loads, said.splitlines()), strict=True):
            for entry in line["top"]:
                row[entry["classNumber"]] = entry["probability"]
        cls.server = Server(run.output, folder / "serve.log")
        cls.addClassCleanup(cls.server.close)
        cls.server.await_ready()

    def test_tensorflow_servings_json_gets_the_numbers_of_predict(self):
        numpy.testing.assert_array_equal(numpy.float32(self.server.predict(list(TEXTS))), self.expected)
        vocabulary = self.server.ask("/v1/models/model/metadata")[1]["metadata"]["classes"]
        ids = [[vocabulary.index(character) for character in TEXTS[0]]]
        numpy.testing.assert_array_equal(numpy.float32(self.server.predict(ids)), self.expected[:1])

    def check_triton(self, module, client):
        def infer(texts, **sequence):
            tensor = module.InferInput("input", [len(texts)], "BYTES")
            tensor.set_data_from_numpy(numpy.array([text.encode() for text in texts], object))
            return client.infer("model", [tensor], **sequence).as_numpy("probabilities")

        numpy.testing.assert_array_equal(infer(TEXTS), self.expected)
        said = {}
        for place in range(max(map(len, TEXTS))):  # all texts in turn, a character each
            for row, text in enumerate(TEXTS):
                if place < len(text):
                    of = {"sequence_id": row + 1 if row < 2 else "third", "sequence_start": place == 0, "sequence_end": place == len(text) - 1}
                    said[row] = infer([text[place]], **of)[0]
        numpy.testing.assert_array_equal([said[row] for row in range(len(TEXTS))], self.expected)
        with self.assertRaises(InferenceServerException) as refused:
            infer(["a"], sequence_id=1)
        self.assertIn("has not begun, has ended", refused.exception.message())

    def test_tritonclient_over_http(self):
        with tritonclient.http.InferenceServerClient(f"127.0.0.1:{self.server.port}") as client:
            self.check_triton(tritonclient.http, client)

    def test_tritonclient_over_grpc(self):
        with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.server.grpc_port}") as client:
            self.check_triton(tritonclient.grpc, client)


if __name__ == "__main__":
    unittest.main()
