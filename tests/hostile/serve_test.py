"""The prediction server's real program among clients that mean it harm: each request gets a clear 4xx, and the server goes on."""

import json
import pathlib
import random
import resource
import socket
import struct
import sys
import tempfile
import threading
import time
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "e2e")]

from serving import Server  # noqa: E402
from trainyard import Run, job_file  # noqa: E402

# Of the whole file: scripts/test.sh reads it.
MOST_SECONDS_IN_CI = 180
SEED = 1
MOST_MEBIBYTES = 400
MOST_LOG_BYTES = 16 << 10
MOST_ADDRESSES = 8 << 30
REQUEST_BYTES = 1 << 20
ROW = [0] * 784
GOOD = {"inputs": [{"name": "input", "shape": [1, 28, 28], "datatype": "FP32", "data": ROW}]}
V2 = "/v2/models/model/infer"
TENSORFLOW = "/v1/models/model:predict"


def with_input(**fields):
    return {"inputs": [{**GOOD["inputs"][0], **fields}]}


def without(name):
    return {"inputs": [{key: value for key, value in GOOD["inputs"][0].items() if key != name}]}


# Values that are wrong in nearly every place.
ODD = (None, True, -1, 1.5, 1e300, 2**63, "", "x", "\u0000\u001b[2J", [], [[]], {}, {"a": 1}, [None], [[1], [2, 3]], [1, "a"], "A" * 5000)


def tensor_requests():
    """(path, body) with one mistake each; only where none of the odd values is right."""
    for field in ("name", "shape", "datatype", "data", "parameters"):
        yield from ((V2, with_input(**{field: odd})) for odd in ODD if not (field == "parameters" and odd in ({}, {"a": 1}, None)))
    yield from ((V2, without(field)) for field in ("name", "shape", "datatype", "data"))
    yield from ((V2, {**GOOD, "inputs": odd}) for odd in ODD)
    yield from ((V2, {**GOOD, "outputs": odd}) for odd in ODD if odd not in (None, []))
    yield from ((V2, {**GOOD, "outputs": [{"name": odd}]}) for odd in ODD)
    yield from ((V2, {**GOOD, "outputs": [{"name": "probabilities", "parameters": {"classification": odd}}]}) for odd in ODD if odd is not None)
    yield from ((V2, {**GOOD, "id": odd}) for odd in ODD if odd is not None and not isinstance(odd, str))
    yield from ((V2, {**GOOD, "parameters": {"timeout": odd}}) for odd in ODD if odd not in (None, 2**63))
    yield V2, {**GOOD, "parameters": {"sequence_id": 7}}
    yield from ((V2, with_input(shape=shape)) for shape in ([1, 28, 29], [0, 784], [784], [1] * 9, [2**32, 2**32], [1, -784]))


def row_requests():
    yield from ((TENSORFLOW, {"instances": odd}) for odd in ODD)
    yield from ((TENSORFLOW, {"inputs": odd}) for odd in ODD)
    yield from ((TENSORFLOW, {"instances": [odd, ROW]}) for odd in ODD)
    yield from ((TENSORFLOW, {"instances": [ROW], "signature_name": odd}) for odd in ODD if odd not in (None, ""))
    yield from ((TENSORFLOW, {"instances": [{"b64": odd}]}) for odd in ODD)
    yield TENSORFLOW, {"instances": [{"input": ROW}, {"input": ROW, "more": 1}]}
    yield TENSORFLOW, {"instances": [{"input": ROW}, {"output": ROW}]}
    yield TENSORFLOW, {"instances": [ROW], "inputs": [ROW]}


def bytes_requests(rng):
    """Bodies that are no JSON, or JSON of shapes that cost a parser much."""
    good = json.dumps(GOOD).encode()
    yield from ((V2, good[:cut]) for cut in (0, 1, 10, len(good) // 2, len(good) - 1))
    yield from ((V2, rng.randbytes(length)) for length in (1, 100, 10_000))
    yield V2, b"[" * 500_000
    yield V2, b'{"a":' * 100_000
    yield V2, b'{"inputs": [' + b"{}," * 200_000 + b"{}]}"
    yield V2, b'{"inputs": [' + b"[]," * 200_000 + b"{}]}"
    yield V2, b'{' + b",".join(b'"%d": 1' % i for i in range(50_000)) + b"}"
    yield V2, good.replace(b"0, 0", b"NaN, 0", 1)
    yield V2, good + b"{}"
    yield V2, b"\xff\xfe" + good
    yield V2, b'{"inputs": "' + b"A" * 900_000 + b'"}'
    yield TENSORFLOW, b'{"instances": [' + b"1e400," * 100 + b"1]}"


def http(head, body=b""):
    return head.replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n" + body


# Requests that an HTTP client would not send.
RAW = (
    b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200) + b"\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    http("GET / HTTP/9.9\nHost: a"), http("HACK / HTTP/1.1\nHost: a"), http("GET /v2/../../etc/passwd HTTP/1.1\nHost: a"),
    http("GET /" + "a" * 9000 + " HTTP/1.1\nHost: a"), http("GET /" + "%00" * 100 + " HTTP/1.1\nHost: a"),
    http(f"GET {V2} HTTP/1.1\nHost: a\n" + "\n".join(f"X-{i}: {'y' * 100}" for i in range(2000))), http("GET /v2 HTTP/1.1\nX: " + "z" * 20_000),
    http(f"POST {V2} HTTP/1.1\nHost: a", b"{}"), http(f"POST {V2} HTTP/1.1\nHost: a\nContent-Length: -1", b"{}"),
    http(f"POST {V2} HTTP/1.1\nHost: a\nContent-Length: 2\nContent-Length: 3", b"{} "), http(f"POST {V2} HTTP/1.1\nHost: a\nContent-Length: x", b"{}"),
    http(f"POST {V2} HTTP/1.1\nHost: a\nContent-Length: 99999999999999999999999", b"{}"),
    http(f"POST {V2} HTTP/1.1\nHost: a\nTransfer-Encoding: chunked", b"ffffffffffffffff\r\n{}"),
    http(f"POST {V2} HTTP/1.1\nHost: a\nTransfer-Encoding: chunked", b"zz\r\n{}\r\n0\r\n\r\n"),
    http(f"POST {V2} HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\nContent-Length: 2", b"0\r\n\r\n"),
    http(f"POST {V2} HTTP/1.1\nHost: a\nContent-Encoding: gzip\nContent-Length: 20", bytes(20)),
    http(f"POST {V2} HTTP/1.1\nHost: a\nContent-Type: multipart/form-data; boundary=x\nContent-Length: 20", bytes(20)),
    http(f"POST {V2} HTTP/1.1\nHost: a\nInference-Header-Content-Length: 50\nContent-Length: 2", b"{}"),
    http(f"POST {V2} HTTP/1.1\nHost: a\nInference-Header-Content-Length: -5\nContent-Length: 2", b"{}"),
    http(f"POST {V2} HTTP/1.1\nHost: a\nContent-Length: {REQUEST_BYTES + 1}", b" " * (REQUEST_BYTES + 1)),
    http(f"DELETE {V2} HTTP/1.1\nHost: a"), http("PUT /v2 HTTP/1.1\nHost: a\nContent-Length: 2", b"{}"), http("GET /v2 HTTP/1.1\nHost: a\nRange: bytes=x"),
    http("POST /readyz HTTP/1.1\nHost: a\nContent-Length: 2", b"{}"), http("GET /v1/models/other HTTP/1.1\nHost: a"),
    http("GET /v2/models/model/versions/99999999999999999999 HTTP/1.1\nHost: a"), http("GET /v2/models/model/versions/-1/ready HTTP/1.1\nHost: a"),
)


TEXT_JOB = """apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: text}
spec:
  worker: {replicas: 1}
  training:
    model: {preset: ptbLstm, vocabulary: 66, embedding: 8, units: 16, numLayers: 1, steps: 10}
    data: {format: text, dir: examples/data/tinyshakespeare, tokens: characters, train: {files: [input.txt], range: [0, 30000]}}
    batchSize: 10
    steps: 5
    optimizer: {name: adam, learningRate: 0.01}
    strategy: {local: {}}
"""
MOST_SEQUENCES = 4


def text_request(text="a", **parameters):
    return {"inputs": [{"name": "input", "shape": [1], "datatype": "BYTES", "data": [text]}], "parameters": parameters}


def sequence_requests():
    """(path, body) with one mistake each, for a model of text."""
    yield from ((V2, text_request(sequence_id=odd, sequence_start=True)) for odd in ODD if odd not in ("x", "\u0000\u001b[2J"))
    yield from ((V2, text_request(sequence_id=7, sequence_start=odd)) for odd in ODD if odd not in (None, True))
    yield from ((V2, text_request(sequence_id=7, sequence_end=odd)) for odd in ODD if odd is not None)
    yield from ((V2, text_request(sequence_id=unknown)) for unknown in (1, 2**53, "x", "\u0000\u001b[2J", "\U0001f600"))
    yield V2, text_request(sequence_start=True)
    yield V2, text_request(sequence_end=True)
    yield V2, {**text_request(sequence_id=7, sequence_start=True), "inputs": [{"name": "input", "shape": [2], "datatype": "BYTES", "data": ["a", "b"]}]}
    yield from ((V2, text_request(odd, sequence_id=7, sequence_start=True)) for odd in ODD if not (isinstance(odd, str) and odd))
    yield V2, text_request("a" * 65537)
    yield TENSORFLOW, {"instances": ["a"], "sequence_id": 7}
    yield from ((TENSORFLOW, {"instances": odd}) for odd in ([""], [[66]], [[-1]], [[0.5]], [[]], [[1e30]], [[[1]]], [1], [{"b64": "/w=="}], [{"text": "a"}], ["a", 1]))


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESSES, MOST_ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class HostileSequences(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="trainyard-hostile-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        (cls.folder / "job.yaml").write_text(TEXT_JOB)
        Run(cls.folder / "job.yaml", output=cls.folder / "out").succeed()

    def setUp(self):
        flags = ("--max-request", 1, "--max-sequences", MOST_SEQUENCES, "--sequence-idle", 600)
        self.server = Server(self.folder / "out", self.folder / "serve.log", *flags, preexec_fn=limit)
        self.addCleanup(self.server.close)
        self.server.await_ready()

    def tearDown(self):
        self.assertLess(self.server.peak_mebibytes(), MOST_MEBIBYTES)
        self.assertLess(len(self.server.log()), MOST_LOG_BYTES, self.server.log()[:2000])
        self.assertEqual(self.server.stop(), 0, self.server.log())

    def said(self, text, **parameters):
        status, answer = self.server.ask(V2, text_request(text, **parameters))
        self.assertEqual(status, 200, answer)
        return answer["outputs"][0]["data"]

    def test_each_wrong_request_gets_a_4xx_and_changes_no_sequence(self):
        self.said("a", sequence_id="mine", sequence_start=True)
        for path, body in sequence_requests():
            with self.subTest(body=repr(body)[:200]):
                status, answer = self.server.ask(path, body)
                self.assertTrue(400 <= status < 500, f"{status}: {answer}")
                self.assertIn("found" if "missing" not in answer["error"] else "expected", answer["error"])
                self.assertNotRegex(answer["error"], r"[\x00-\x1f]")
                self.assertLess(len(answer["error"]), 600)
        self.assertEqual(self.said("b", sequence_id="mine", sequence_end=True), self.said("ab"))

    def test_sequences_that_nobody_ends_are_bounded(self):
        for number in range(1, MOST_SEQUENCES + 1):
            self.said("a", sequence_id=number, sequence_start=True)
        for number in range(1000, 1050):
            status, answer = self.server.ask(V2, text_request(sequence_id=number, sequence_start=True))
            self.assertEqual(status, 429, answer)
        self.said("b", sequence_id=1, sequence_end=True)
        self.said("a", sequence_id=1000, sequence_start=True)

    def test_two_requests_of_one_sequence_at_once_are_both_answered(self):
        alone = self.said("a" * 41)
        self.said("a", sequence_id=7, sequence_start=True)
        threads = [threading.Thread(target=lambda: [self.said("aa", sequence_id=7) for _ in range(5)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertNotEqual(self.said("b"), alone)
        self.assertEqual(self.said("b", sequence_id=7), self.said("a" * 41 + "b"))


class HostileRequests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="trainyard-hostile-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        Run(job_file(cls.folder, steps=2), output=cls.folder / "out").succeed()

    def setUp(self):
        self.server = Server(self.folder / "out", self.folder / "serve.log", "--max-request", 1, "--max-connections", 8, "--max-queue", 64, preexec_fn=limit)
        self.addCleanup(self.server.close)
        self.server.await_ready()
        self.good = self.server.predict([ROW])

    def tearDown(self):
        self.assertEqual(self.server.predict([ROW]), self.good)  # it goes on, with the same numbers
        self.assertLess(self.server.peak_mebibytes(), MOST_MEBIBYTES)
        self.assertLess(len(self.server.log()), MOST_LOG_BYTES, self.server.log()[:2000])
        self.assertEqual(self.server.stop(), 0, self.server.log())

    def dial(self):
        peer = socket.create_connection(("127.0.0.1", self.server.port), timeout=60)
        self.addCleanup(peer.close)
        return peer

    def test_each_of_200_wrong_requests_gets_a_4xx_that_says_what_is_wrong(self):
        requests = [*tensor_requests(), *row_requests(), *bytes_requests(random.Random(SEED))]
        self.assertGreater(len(requests), 200)
        for path, body in requests:
            with self.subTest(path=path, body=repr(body)[:200]):
                status, answer = self.server.ask(path, body)
                self.assertTrue(400 <= status < 500, f"{status}: {answer}")
                self.assertIn("found" if "missing" not in answer["error"] else "expected", answer["error"])
                self.assertNotRegex(answer["error"], r"[\x00-\x1f]")
                self.assertLess(len(answer["error"]), 600)

    def test_bytes_that_are_no_request_get_a_4xx_and_the_end_of_the_connection(self):
        for request in RAW:
            with self.subTest(request[:100]):
                peer = self.dial()
                answer = b""
                try:
                    peer.sendall(request)
                    peer.shutdown(socket.SHUT_WR)
                    while part := peer.recv(65536):
                        answer += part
                except ConnectionError:
                    pass  # it had read enough
                self.assertRegex(answer, rb"^HTTP/1.1 4\d\d ", answer[:200])

    def test_clients_that_are_silent_slow_or_gone_hold_up_nobody(self):
        for _ in range(30):
            self.dial()  # says nothing
        slow = self.dial()
        slow.sendall(b"POST /v2 HTTP/1.1\r\nContent-Le")
        gone = self.dial()
        gone.sendall(http(f"POST {TENSORFLOW} HTTP/1.1\nHost: a\nContent-Length: 100000", b"{"))
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.close()
        begin = time.monotonic()
        self.assertEqual(self.server.predict([ROW]), self.good)
        self.assertLess(time.monotonic() - begin, 50)

    def test_a_flood_gets_answers_or_429_and_nothing_else(self):
        body = json.dumps({"instances": [ROW] * 60}).encode()
        statuses = []

        def flood():
            for _ in range(10):
                statuses.append(self.server.ask(TENSORFLOW, body)[0])

        threads = [threading.Thread(target=flood) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertLessEqual(set(statuses), {200, 429})
        self.assertIn(200, statuses)
        self.assertEqual(self.server.ask(TENSORFLOW, {"instances": [ROW] * 65})[0], 400)  # more than may ever wait

    def test_bytes_that_are_no_grpc_hold_up_nobody(self):
        rng = random.Random(SEED)
        for noise in (b"", b"GET / HTTP/1.1\r\n\r\n", rng.randbytes(10_000), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + rng.randbytes(1000)):
            with socket.create_connection(("127.0.0.1", self.server.grpc_port), timeout=30) as peer:
                peer.sendall(noise)


if __name__ == "__main__":
    unittest.main()
