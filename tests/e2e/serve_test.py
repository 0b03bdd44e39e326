"""A trained network served: predictions over HTTP while training goes on, the same numbers as `predict`, a clean end."""
import base64
import json
import pathlib
import shutil
import socket
import struct
import tempfile
import threading
import unittest

from own_data_test import CSV_JOB, FLOWERS, HEADER, csv_text, flowers
from predict_test import command, digits, npy, png
from serving import Server
from trainyard import Run, job_file


def float32(numbers):
    """As a float of 32 bits: what `predict` and `serve` print is one, with digits to spare."""
    return list(struct.unpack(f"<{len(numbers)}f", struct.pack(f"<{len(numbers)}f", *numbers)))


class Served(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="trainyard-e2e-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def train(self, **options):
        return Run(job_file(self.folder, **options), output=self.folder / "out").succeed().output

    def serve(self, path, *flags):
        server = Server(path, self.folder / "serve.log", *flags)
        self.addCleanup(server.close)
        return server

    def predicted(self, checkpoint, pixels):
        """What `predict` says of digits, by class."""
        (self.folder / "x.npy").write_bytes(npy(b"".join(pixels), (len(pixels), 28, 28)))
        lines = command("predict", checkpoint, self.folder / "x.npy", "--json", "--top", 10).stdout.splitlines()
        rows = []
        for line in map(json.loads, lines):
            by_class = {entry["classNumber"]: entry["probability"] for entry in line["top"]}
            rows.append([by_class[number] for number in range(10)])
        return rows


class Swap(Served):
    def test_every_request_is_answered_while_training_writes_newer_checkpoints(self):
        server = self.serve(self.folder / "out")
        self.assertEqual(server.ask("/readyz")[0], 503)  # nothing is there yet
        run = Run(job_file(self.folder, steps=120, checkpoint_every=30), output=self.folder / "out")
        self.addCleanup(lambda: run.process.poll() is None and run.process.kill())
        server.await_ready()
        pixels = [image for image, _ in digits()[9000:9003]]
        rows = [list(image) for image in pixels]
        body = {"inputs": [{"name": "input", "shape": [3, 28, 28], "datatype": "UINT8", "data": rows}]}
        answers, wrong = {}, []
        ended = threading.Event()

        def ask():
            while not ended.is_set():
                status, answer = server.ask("/v2/models/model/infer", body)
                if status != 200:
                    wrong.append((status, answer))
                    return
                answers.setdefault(answer["model_version"], []).append(answer["outputs"][0]["data"])

        clients = [threading.Thread(target=ask) for _ in range(3)]
        for client in clients:
            client.start()
        try:
            self.assertEqual(run.wait(), 0, f"{run.text}\n{run.logs()}")
            server.await_text("step-120 is served")
            last = server.ask("/v2/models/model/infer", body)[1]
        finally:
            ended.set()
            for client in clients:
                client.join()
        self.assertEqual(wrong, [], server.log())
        self.assertEqual(last["model_version"], "120")
        self.assertGreater(len(answers), 1, "no version was replaced under load")
        for version, several in answers.items():
            self.assertTrue(all(answer == several[0] for answer in several), version)  # whatever batch it was in
        expected = [number for row in self.predicted(self.folder / "out", pixels) for number in row]
        self.assertEqual(float32(last["outputs"][0]["data"]), float32(expected))
        self.assertEqual(server.ask("/v1/models/model/versions/30:predict", {"instances": []})[0], 404)

    def test_a_damaged_checkpoint_is_told_once_and_the_version_before_stays(self):
        output = self.train(steps=4, checkpoint_every=2)
        good = output / "checkpoints/step-2"
        bad = self.folder / "bad"
        shutil.copytree(output / "checkpoints/step-4", bad)
        data = (bad / "parameters.safetensors").read_bytes()
        (bad / "parameters.safetensors").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        shutil.rmtree(output / "checkpoints/step-4")
        server = self.serve(output).await_ready()
        bad.rename(good.parent / "step-4")
        server.await_text("version 2 stays")
        status, metrics = server.ask("/metrics")
        self.assertEqual(status, 200)
        self.assertIn("trainyard_serve_checkpoints_refused_total 1", metrics)
        self.assertEqual(len(server.predict([[0] * 784])[0]), 10)
        self.assertEqual(server.log().count("is not served"), 1, server.log())


class Inputs(Served):
    def test_pictures_in_base64_are_what_predict_sees_in_files(self):
        output = self.train(steps=4)
        image = digits()[9000][0]
        (self.folder / "digit.png").write_bytes(png(image))
        server = self.serve(output).await_ready()
        (row,) = server.predict([{"b64": base64.b64encode(png(image)).decode()}])
        self.assertEqual(float32(row), float32(self.predicted(output, [image])[0]))
        status, answer = server.ask("/v1/models/model:predict", {"instances": [{"b64": "bm8gcGljdHVyZQ=="}]})
        self.assertEqual(status, 400)
        self.assertIn("picture 0", answer["error"])

    def test_rows_of_a_table_are_what_predict_sees_in_csv_files(self):
        rows = flowers(200, 1)
        (self.folder / "train.csv").write_text(csv_text([HEADER, *rows]))
        job = self.folder / "job.yaml"
        job.write_text(CSV_JOB % {"inputs": 7, "outputs": 3, "loss": "softmaxCrossEntropy", "dir": self.folder, "data": FLOWERS})
        run = Run(job, output=self.folder / "out", overrides=["training.epochs=1"])
        self.assertEqual(run.wait(), 0, f"{run.text}\n{run.logs()}")
        (self.folder / "new.csv").write_text(csv_text([HEADER[:4], *(row[:4] for row in rows[:20])]))
        lines = command("predict", self.folder / "out", "--json", self.folder / "new.csv").stdout.splitlines()
        server = self.serve(self.folder / "out").await_ready()
        instances = [{name: (float(cell) if name != "colour" and cell else cell or None) for name, cell in zip(HEADER, row[:4])} for row in rows[:20]]
        served = server.predict(instances)
        for line, row in zip(map(json.loads, lines), served, strict=True):
            self.assertEqual(float32([line["probability"]]), float32([max(row)]))
        status, answer = server.ask("/v1/models/model:predict", {"inputs": {"length": [1, 2], "weight": [1], "noise": [1, 2], "colour": ["a", "b"]}})
        self.assertEqual((status, answer["error"]), (400, "inputs.weight: found 1 values, expected 2 as in the columns before"))


class Ends(Served):
    def test_a_request_that_has_come_is_answered_after_sigterm(self):
        server = self.serve(self.train(steps=4), "--max-wait", 1000, "--max-batch", 4).await_ready()
        body = json.dumps({"instances": [[0] * 784]}).encode()
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
            client.sendall(b"POST /v1/models/model:predict HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            metrics = "trainyard_serve_queued_examples 0"
            while "trainyard_serve_queued_examples 0" in metrics and "trainyard_serve_requests_total" not in metrics:  # it waits, or was answered
                metrics = server.ask("/metrics")[1]
            self.assertEqual(server.stop(), 0, server.log())
            answer = b""
            while part := client.recv(65536):
                answer += part
        self.assertIn(b"200 OK", answer)
        self.assertIn(b"predictions", answer)

    def test_what_cannot_be_served_is_an_error_at_once(self):
        output = self.train(steps=4)
        server = self.serve(output).await_ready()
        second = command("serve", output, "--port", server.port)
        self.assertEqual(second.returncode, 1)
        self.assertIn("cannot serve REST on 127.0.0.1", second.stderr)
        checkpoint = output / "checkpoints/step-4"
        (checkpoint / "parameters.safetensors").write_bytes(b"")
        damaged = command("serve", checkpoint, "--port", 0, "--grpc-port", 0)
        self.assertEqual(damaged.returncode, 1)
        self.assertIn("step-4", damaged.stderr)


if __name__ == "__main__":
    unittest.main()
