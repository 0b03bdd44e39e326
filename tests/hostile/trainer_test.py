"""The trainer's real program among peers and clients that mean it harm. It refuses them in few
words, stays small, and its training ends with the same bits."""

import contextlib
import os
import pathlib
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import unittest
import zipfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "cluster")]

from harness.wait import wait_for  # noqa: E402

from hostile import peer as wire  # noqa: E402
from hostile import servers  # noqa: E402
from hostile.peer import Closed, Peer, record  # noqa: E402
from hostile.relay import Relay  # noqa: E402
from hostile.trainer import MOST_LOG_BYTES, MOST_MEBIBYTES, Job  # noqa: E402

# Of the whole file: scripts/test.sh reads it.
MOST_SECONDS_IN_CI = 180
STEPS = 40
MANY_FILES = 12_000  # of a server with 10,000 connections, and of this process


class Undisturbed:
    """The result of a job without attacks, and the words of its worker 1 to the server."""

    def __init__(self):
        job = Job(STEPS)
        try:
            server = job.serve()
            relay = Relay(job.server_port)
            workers = [job.start("worker", 0), job.start("worker", 1, server_port=relay.port)]
            for replica in [*workers, server]:
                assert replica.wait() == 0, replica.log()
            relay.stop()
            self.digest = job.digest()
            assert job.server_record()["refusedStreams"] == 0, server.log()
        finally:
            job.close()
        self.said = bytes(relay.said[0])
        frames = wire.Frames(preface=len(wire.PREFACE))
        frames.feed(self.said)
        records = [found for message in frames.messages for found in wire.records_of(message)]
        self.hello, self.hello_json = next((header, payload) for header, payload in records if header["op"] == wire.HELLO)
        self.push, self.gradient = next((header, payload) for header, payload in records if header["op"] == wire.PUSH and header["length"] > 1000)


undisturbed = None


def setUpModule():
    global undisturbed
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(MANY_FILES, hard), hard))
    undisturbed = Undisturbed()


class HostileCase(unittest.TestCase):
    def make_job(self, **options):
        self.job = Job(**{"steps": STEPS, **options})
        self.addCleanup(self.job.close)
        self.server = self.job.serve()
        return self.job

    def half(self):
        """The job without its last worker: it waits in its first round."""
        self.first = self.job.start("worker", 0)
        wait_for("the chief has filled the server", lambda: "is initialised" in self.server.log())

    def finish(self, *, words=(), digest=None):
        """The rest of the job; then all that must be so after an attack."""
        for replica in (self.job.start("worker", 1), self.first, self.server):
            self.assertEqual(replica.wait(), 0, replica.log()[-3000:])
        self.expect_small()
        for word in words:
            self.assertIn(word, self.server.log())
        self.assertEqual(self.job.digest(), digest or undisturbed.digest)

    def expect_small(self):
        for replica in self.job.replicas:
            self.assertLess(replica.log_bytes(), MOST_LOG_BYTES, replica.log()[:2000])

    def expect_light(self):
        self.assertLess(self.server.peak_mebibytes(), MOST_MEBIBYTES)

    def dial(self, **options):
        peer = Peer(self.job.server_port, **options)
        self.addCleanup(peer.close)
        return peer

    def hello(self, peer, sender=wire.OBSERVER, old='', new='', **fields):
        """Says a hello as worker 1 did, as an observer unless told otherwise, with `new` in the last place of `old`."""
        text = undisturbed.hello_json.decode()
        self.assertIn(old, text)
        peer.say(record(wire.HELLO, new.join(text.rsplit(old, 1) if old else [text]).encode(), sender=sender, fingerprint=undisturbed.hello["fingerprint"], **fields))

    def member(self, sender=wire.OBSERVER):
        peer = self.dial()
        peer.prove(self.job.key)
        self.hello(peer, sender)
        peer.epoch = peer.await_op(wire.WELCOME)[0]["epoch"]
        peer.fields = {"sender": sender, "epoch": peer.epoch, "fingerprint": undisturbed.hello["fingerprint"]}
        return peer


class PeersWithoutTheKeyTest(HostileCase):
    def test_they_are_refused_and_named_and_the_bits_are_the_same(self):
        self.make_job()
        self.half()
        says = {
            "expected 'challenge'": record(wire.HELLO, undisturbed.hello_json),
            "message ends within a header": b'{"mode": "sync"}',
            "magic": os.urandom(4096),
            "the first message has": record(wire.CHALLENGE, bytes(32)) + bytes(2_000_000),
            "op is 99": record(99),
            "length is 4294967295 bytes": record(wire.CHALLENGE, length=0xFFFFFFFF),
            "message ends within the payload": record(wire.CHALLENGE, bytes(32), length=1 << 20),
            "'challenge' has 31 bytes": record(wire.CHALLENGE, bytes(31)),
            "no 'hello' within 2s": record(15, step=1 << 62),
        }
        for words, message in says.items():
            with self.subTest(words):
                peer = self.dial()
                peer.say(message)
                peer.end()
        wrong = self.dial()
        wrong.prove(self.job.key, wrong=True)
        self.assertIn("another job's key", wrong.end())
        with self.assertRaises(Closed):  # what worker 1 of another job said, word for word
            replay = self.dial(opens=False)
            replay.socket.sendall(undisturbed.said[len(wire.PREFACE):])
            while True:
                self.assertNotEqual(replay.next()[0]["op"], wire.WELCOME)
        with self.assertRaises(Closed):
            huge = self.dial()
            huge.say(record(wire.CHALLENGE, bytes(100_000_000)))
            huge.end()
            raise Closed
        for noise in (b"", os.urandom(10_000), b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", wire.PREFACE + os.urandom(1000)):
            with socket.create_connection(("127.0.0.1", self.job.server_port), timeout=15) as stranger, self.subTest(noise[:10]):
                with contextlib.suppress(ConnectionResetError):
                    stranger.sendall(noise)
                    while stranger.recv(65536):
                        pass
        self.expect_light()
        wait_for("all are counted", lambda: self.job.refused(self.server) >= len(says) + 6)
        self.finish(words=[*says, "another job's key", "no HTTP/2 greeting within 2s", "it begins with 'GET / HTTP/1.1"])


class PeersWithTheKeyTest(HostileCase):
    def refused(self, words, peer, message):
        with self.subTest(words):
            peer.say(message)
            self.assertIn(words, peer.end())

    def test_what_does_not_fit_ends_its_stream_and_the_worker_that_follows_repairs_the_round(self):
        self.make_job()
        self.half()
        hellos = {
            "the number of workers differs": ('"workers":2', '"workers":3'),
            "the number of servers differs": ('"servers":1', '"servers":7'),
            "the strategy's mode differs": ('"mode":"sync"', '"mode":"async"'),
            "field 'mode' is missing": ('"mode":"sync",', ""),
            "of at most 64 levels but": ('"mode":"sync"', '"mode":' + "[" * 10_000 + "]" * 10_000),
            "not a JSON object": ("}", ""),
            "bytes of JSON, expected at most 65536": ("}", "}" + " " * 1_000_000),
            "worker index is 2": ("}", "}"),
        }
        for words, (old, new) in hellos.items():
            peer = self.dial()
            peer.prove(self.job.key)
            with self.subTest(words):
                self.hello(peer, 2, old, new)
                self.assertIn(words, peer.end())
        push = {name: undisturbed.push[name] for name in ("key", "part", "slot", "dtype", "offset")}
        gradient = undisturbed.gradient
        for words, op, payload, fields in (
                ("'values' is not for a server", wire.VALUES, b"", {}),
                ("op is 77", 77, b"", {}),
                ("model fingerprint is", wire.HEARTBEAT, b"", {"fingerprint": 1}),
                ("sender is 0, expected 1", wire.HEARTBEAT, b"", {"sender": 0}),
                ("only the chief may reset", 18, b"", {}),
                ("only the chief may end", 14, b"", {}),
                ("only the chief may release", 20, b"", {}),
                ("'push'", wire.PUSH, gradient, {**push, "part": 4_000_000_000}),
                ("'push'", wire.PUSH, gradient, {**push, "key": 4_000_000_000}),
                ("'push'", wire.PUSH, gradient, {**push, "offset": 1 << 63}),
                ("'push'", wire.PUSH, gradient[:-4], push),
                ("'push'", wire.PUSH, gradient + bytes(4), push),
                ("'push'", wire.PUSH, b"", push),
                ("'push'", wire.PUSH, struct.pack("<I", 0xFFFFFFFF) + bytes(100), {**push, "flags": 4}),
                ("the sum over 9 devices, expected at most 1", wire.PUSH, gradient, {**push, "slot": 9}),
                ("step is", wire.PUSH, gradient, {**push, "step": 1 << 60}),
                ("'torn'", 19, b"x" * 5000, {})):
            peer = self.member(1)
            self.refused(words, peer, record(op, payload, **{**peer.fields, **fields}))
        nan = struct.pack("<f", float("nan")) * (len(gradient) // 4)
        mad = self.member(1)  # one part of a round that is not complete: forgotten when a new process is worker 1
        mad.say(record(wire.PUSH, nan, **{**mad.fields, **push, "step": 0}))
        self.expect_light()
        self.finish(words=["the number of workers differs", "worker index is 2", "op is 77"])

    def test_a_peer_that_pulls_for_ever_and_reads_nothing_holds_no_memory(self):
        self.make_job()
        self.half()
        before = self.server.peak_mebibytes()
        greedy = self.member()
        pull = record(wire.PULL, **greedy.fields)
        try:
            for _ in range(20_000):  # each answer has half a megabyte
                greedy.say(pull)
        except (Closed, TimeoutError):
            pass
        self.assertLess(self.server.peak_mebibytes() - before, 100)
        self.finish()


class ManyConnectionsTest(HostileCase):
    CONNECTIONS = 10_000
    LONG = 4000          # steps
    WINDOW = 1000        # steps whose cost is measured: a second of the server's processor time
    MOST_OF_A_STEP = 2   # times what a step costs the server without strangers, in processor time: the same on a machine that is busy
    MOST_OF_A_STRANGER = 0.25

    def train(self):
        self.workers = [self.job.start("worker", 0), self.job.start("worker", 1)]

    def end(self):
        for replica in (*self.workers, self.server):
            self.assertEqual(replica.wait(), 0, replica.log()[-3000:])
        return self.job.digest()

    def at(self, step):
        """(step, the server's processor seconds), once that step is done."""
        now = wait_for(f"step {step}", lambda: found if (found := self.job.step(self.workers[0])) >= step else None, 60, every=0.01)
        return now, self.server.processor_seconds()

    def test_ten_thousand_that_do_not_speak_are_dropped_and_slow_no_step_and_the_bits_are_the_same(self):
        self.make_job(steps=self.LONG)
        self.train()
        expected = self.end()
        self.make_job(steps=self.LONG, hello=3, files=MANY_FILES)
        self.train()
        first = self.at(200)
        before = self.at(first[0] + self.WINDOW)
        silent = [socket.create_connection(("127.0.0.1", self.job.server_port), timeout=10) for _ in range(self.CONNECTIONS)]
        connected = self.at(0)
        beside = self.at(connected[0] + self.WINDOW)
        self.workers[1].process.send_signal(signal.SIGSTOP)  # the job must not end before they are dropped
        self.assertLess(beside[0], self.LONG)
        for connection in silent:
            connection.settimeout(15)
            self.assertEqual(connection.recv(1), b"", "it was not dropped")
            connection.close()
        wait_for("all are counted", lambda: self.job.refused(self.server) >= self.CONNECTIONS)
        dropped = self.server.processor_seconds()
        self.expect_light()
        self.workers[1].process.send_signal(signal.SIGCONT)
        step = (before[1] - first[1]) / (before[0] - first[0])
        self.assertLess((beside[1] - connected[1]) / (beside[0] - connected[0]), self.MOST_OF_A_STEP * step)
        strangers = dropped - before[1] - step * (beside[0] - before[0])
        self.assertLess(strangers / self.CONNECTIONS, self.MOST_OF_A_STRANGER * step)
        self.assertEqual(self.end(), expected)
        self.expect_small()

    def test_five_thousand_streams_and_greetings_without_a_hello_hold_no_memory(self):
        self.make_job(files=MANY_FILES)
        self.half()
        strangers = [Peer(self.job.server_port, opens=number % 2 == 0) for number in range(5000)]
        self.assertLess(self.server.peak_mebibytes(), 200)
        wait_for("all but the newest are counted", lambda: self.job.refused(self.server) >= 4000)
        self.finish(words=["connections came after it"])
        for stranger in strangers:
            stranger.close()

    def test_a_server_without_files_to_spare_takes_the_worker_that_comes_after_them(self):
        self.make_job(files=256)
        self.half()
        silent = [socket.create_connection(("127.0.0.1", self.job.server_port), timeout=10) for _ in range(1000)]
        self.finish()
        for connection in silent:
            connection.close()


class HalfOpenTest(HostileCase):
    def test_a_connection_that_falls_silent_is_dialled_again_and_the_bits_are_the_same(self):
        self.make_job(silence=3)
        self.half()
        relay = Relay(self.job.server_port)
        self.addCleanup(relay.stop)
        second = self.job.start("worker", 1, server_port=relay.port)
        wait_for("the job trains", lambda: self.job.step(second) > 2, every=0.01)
        relay.silent.set()
        wait_for("the silence is noticed", lambda: len(relay.said) > 1)
        relay.silent.clear()
        for replica in (second, self.first, self.server):
            self.assertEqual(replica.wait(), 0, replica.log()[-3000:])
        self.assertEqual(self.job.digest(), undisturbed.digest)
        self.expect_small()


class HttpClientsTest(HostileCase):
    def test_idle_slow_and_huge_clients_delay_neither_healthz_nor_progress(self):
        self.make_job()
        self.half()
        for replica in (self.server, self.first):
            port = self.job.http[replica.name]
            idle = [servers.slow_client(port) for _ in range(50)]
            slow = [servers.slow_client(port, b"GET /progress HTTP/1.1\r\nA: ") for _ in range(50)]
            huge = servers.slow_client(port, b"GET /progress HTTP/1.1\r\nA: " + b"x" * 10_000_000)
            body = servers.slow_client(port, b"POST /progress HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\nx")
            for _ in range(10):
                for client in slow:
                    try:
                        client.sendall(b"x")
                    except OSError:
                        pass
                self.assertEqual(self.job.page(replica, "/healthz"), "ok\n")
                self.assertIn('"step"', self.job.page(replica, "/progress"))
            for client in [*idle, *slow, huge, body]:
                client.close()
            self.assertLess(replica.peak_mebibytes(), MOST_MEBIBYTES)
        self.finish()


class TlsTest(HostileCase):
    UID = "7d0c"

    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], cwd=self.job.folder, check=True, capture_output=True)

    def make_certificates(self, config, authority):
        """A folder with the certificate of the job, signed by an authority of that name."""
        place = config / "tls"
        place.mkdir(parents=True)
        ca, key = self.job.folder / f"{authority}.crt", self.job.folder / f"{authority}.key"
        if not ca.exists():
            self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={authority}",
                         "-keyout", str(key), "-out", str(ca))
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=job", "-keyout", str(place / "tls.key"),
                     "-out", str(place / "tls.csr"))
        (place / "names").write_text(f"subjectAltName=DNS:{self.UID}.trainyard.dev")
        self.openssl("x509", "-req", "-in", str(place / "tls.csr"), "-CA", str(ca), "-CAkey", str(key), "-CAcreateserial", "-days", "2",
                     "-extfile", str(place / "names"), "-out", str(place / "tls.crt"))
        (place / "ca.crt").write_bytes(ca.read_bytes())

    def test_replicas_with_the_jobs_certificate_train_and_others_are_refused_by_name(self):
        self.job = Job(STEPS, connect=4)
        self.addCleanup(self.job.close)
        self.make_certificates(self.job.config, "authority")
        plain = self.job.folder / "plain"
        shutil.copytree(self.job.config, plain, ignore=shutil.ignore_patterns("tls"))
        foreign = self.job.folder / "foreign"
        shutil.copytree(plain, foreign)
        self.make_certificates(foreign, "stranger")
        uid = {"TRAINYARD_JOB_UID": self.UID}
        self.server = self.job.start("ps", **uid)
        self.job.await_page(self.server)
        self.first = self.job.start("worker", 0, **uid)
        wait_for("the chief has filled the server", lambda: "is initialised" in self.server.log())
        for _ in range(200):
            with socket.create_connection(("127.0.0.1", self.job.server_port), timeout=15) as stranger, contextlib.suppress(ConnectionResetError):
                stranger.sendall(b"\x16\x03\x01\x02\x00" + os.urandom(512))
                while stranger.recv(65536):
                    pass
        self.assertIn("gRPC: Handshake failed", self.server.log())
        self.assertLess(self.server.log().count("Handshake failed"), 40)
        wait_for("each failed handshake is counted", lambda: self.job.refused(self.server) >= 200)
        self.assertIn("its TLS handshake has failed", self.server.log())
        for config, says in ((plain, "no certificate: does this job need TLS?"), (foreign, "")):
            with self.subTest(config.name):
                stranger = self.job.start("worker", 1, config=config, **uid)
                self.assertEqual(stranger.wait(), 200, stranger.log())
                self.assertIn(f"127.0.0.1:{self.job.server_port}", stranger.log())
                self.assertIn(says, stranger.log())
        second = self.job.start("worker", 1, **uid)
        for replica in (second, self.first, self.server):
            self.assertEqual(replica.wait(), 0, replica.log()[-3000:])
        self.assertIn("refuses ipv4:127.0.0.1", self.server.log())
        self.assertIn("it speaks HTTP/2 without TLS: it has no certificate of this job", self.server.log())
        self.assertEqual(self.job.digest(), undisturbed.digest)


class BadStartTest(unittest.TestCase):
    """A start that cannot work ends at once with one line, although no server is there yet."""

    def start(self, replica, words):
        self.assertEqual(replica.wait(), 1)
        self.assertIn(words, replica.log())
        self.assertEqual(len(replica.log().strip().splitlines()), 1, replica.log())

    def test_a_key_that_is_none(self):
        job = Job()
        self.addCleanup(job.close)
        (job.config / "key").write_text("no key\n")
        for role in ("ps", "worker"):
            self.start(job.start(role), f"job key '{job.config / 'key'}': found 6 characters, some of them no digits")

    def test_a_checkpoint_of_another_model(self):
        job = Job()
        self.addCleanup(job.close)
        first = job.start("worker", alone=True)
        self.assertEqual(first.wait(), 0, first.log())
        (job.folder / "worker-0.log").unlink()
        text = (job.config / "job.yaml").read_text()
        (job.config / "job.yaml").write_text(text.replace("units: 300", "units: 301"))
        self.start(job.start("worker"), "use another output folder or the model of the checkpoint")


class HostileFilesTest(unittest.TestCase):
    def test_an_array_that_claims_three_gigabytes_is_refused_without_them(self):
        """The names and sizes in a zip archive and in a numpy header are its maker's word."""
        job = Job()
        self.addCleanup(job.close)
        elements = 3_000_000_000 // 4
        for name, honest in (("zip", False), ("npy", True)):
            with self.subTest(name):
                header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 1), }" % elements
                header += b" " * (-(len(header) + 11) % 64) + b"\n"
                npy = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(400)
                path = job.folder / f"{name}.npz"
                with zipfile.ZipFile(path, "w") as archive:
                    for array in ("x.npy", "y.npy"):
                        archive.writestr(array, npy)
                if not honest:  # the archive's directory claims it too
                    data = path.read_bytes()
                    path.write_bytes(data.replace(struct.pack("<II", len(npy), len(npy)), struct.pack("<II", 3_000_000_000, 3_000_000_000)))
                replica = job.start("worker", overrides=[f"training.data={{format: numpy, train: {{file: {path}, images: x, labels: y}}}}"], alone=True,
                                    addresses=1 << 30)
                self.assertEqual(replica.wait(), 1, replica.log())
                self.assertIn(str(path), replica.log())
                (job.folder / "worker-0.log").unlink()


class EndingTest(HostileCase):
    def test_a_profile_that_cannot_be_written_is_told_and_the_ending_is_whole(self):
        self.make_job(extra="    profile: {steps: [3, 5]}\n")
        (self.job.output / "profiles").parent.mkdir(parents=True, exist_ok=True)
        (self.job.output / "profiles").write_text("a file in place of the folder")
        self.first = self.job.start("worker", 0)
        self.finish()
        self.assertIn("no profile; the training goes on", self.first.log())

    def test_a_report_that_cannot_be_written_is_told_and_lets_the_others_end(self):
        self.make_job()
        self.half()
        (self.job.output / "replicas").mkdir(parents=True, exist_ok=True)
        (self.job.output / "replicas/worker-1.json").mkdir()
        second = self.job.start("worker", 1)
        self.assertEqual(second.wait(), 1, second.log())
        self.assertIn("worker-1.json", second.log())
        for replica in (self.first, self.server):
            self.assertEqual(replica.wait(), 0, replica.log()[-3000:])
        self.assertEqual(self.job.digest(), undisturbed.digest)


if __name__ == "__main__":
    unittest.main()
