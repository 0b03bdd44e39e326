"""The operator's real program among pods, objects, API servers and clients that mean it harm: it lives, stays small and serves the others."""

import pathlib
import sys
import threading
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "cluster")]

from harness.wait import wait_for  # noqa: E402

from hostile import servers  # noqa: E402
from hostile.api_server import ApiServer, Raw  # noqa: E402
from hostile.operator import MOST_MEBIBYTES, Operator  # noqa: E402

# Of the whole file: scripts/test.sh reads it.
MOST_SECONDS_IN_CI = 120
DEEP = "[" * 101 + "]" * 101


def job(name, port=5000, ns="default", **spec):
    return {"apiVersion": "trainyard.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name, "namespace": ns},
            "spec": {"worker": {"replicas": 1}, "network": {"port": port},
                     "training": {"model": {"preset": "lenet5"}, "data": {"format": "synthetic"}, "epochs": 1}, **spec}}


class HostileCase(unittest.TestCase):
    flags = ("--no-leader-elect",)

    def setUp(self):
        self.server = ApiServer()
        self.addCleanup(self.server.stop)

    def start(self, *flags):
        self.operator = Operator(self.server, *(flags or self.flags))
        self.addCleanup(self.operator.close)
        wait_for("the operator is ready", lambda: self.operator.page("/readyz")[0] == 200)

    def expect_alive_and_small(self):
        self.assertIsNone(self.operator.process.poll(), self.operator.log()[-3000:])
        self.assertEqual(self.operator.page()[0], 200)
        self.assertLess(self.operator.peak_mebibytes(), MOST_MEBIBYTES)

    def progress(self, name, ns="default"):
        return ((self.server.get("trainingjobs", name, ns) or {}).get("status") or {}).get("progress") or {}

    def running(self, name, ns="default"):
        return ((self.server.get("trainingjobs", name, ns) or {}).get("status") or {}).get("phase") == "Running"


class HostilePodsTest(HostileCase):
    def chief(self, name, answer, ns="default"):
        """A job whose chief answers so."""
        chief = servers.RawServer(answer)
        self.addCleanup(chief.stop)
        self.server.put("trainingjobs", job(name, chief.port - 1, ns))
        return chief

    def good_chief(self, name, ns):
        steps = iter(range(1, 1000000))
        return self.chief(name, lambda peer: servers.body(b'{"step": %d}' % next(steps))(peer), ns)

    def test_a_chief_can_neither_crash_feed_nor_hold_the_operator(self):
        long_line = b"x" * 100_000
        trap = servers.RawServer(servers.says(b""))
        self.addCleanup(trap.stop)
        hostile = {
            "status-line": servers.says(b"HTTP/1.1 200 " + long_line + b"\r\n\r\n"),
            "header-line": servers.for_ever(servers.OK + b"A: ", long_line),
            "headers": servers.for_ever(servers.OK, b"A: b\r\n"),
            "body": servers.for_ever(servers.OK + b"\r\n", long_line),
            "chunks": servers.for_ever(servers.OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
            "continue": servers.for_ever(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
            "drip": servers.for_ever(b"", b"H", pause=0.5),
            "drip-header": servers.for_ever(servers.OK + b"A: ", b"x", pause=0.5),
            "redirect": servers.body(b"", b"HTTP/1.1 302 Found", b"Location: http://127.0.0.1:%d/progress\r\n" % trap.port),
            "busy": servers.body(b"", b"HTTP/1.1 429 Too Many Requests", b"Retry-After: 3600\r\n"),
            "nested": servers.body(b'{"step": 1, "metrics": ' + b"[" * 8000 + b"]" * 8000 + b"}"),
            "wrong-types": servers.body(b'{"step": {}, "metrics": [1], "loss": "x", "totalSteps": 1e999}'),
            "warnings": servers.body(b"{}", headers=b"".join(b'Warning: 299 - "%d"\r\n' % i for i in range(400))),
            "garbage": servers.says(bytes(range(256)) * 64),
        }
        chiefs = {name: self.chief(name, answer, "hostile") for name, answer in hostile.items()}
        for i in range(40):
            self.chief(f"hang-{i}", servers.for_ever(b"", b"H", pause=1.0), "hostile")
        self.good_chief("good", "other")
        self.start()
        first = wait_for("progress of the good job", lambda: self.progress("good", "other").get("step"))
        wait_for("every chief was asked twice", lambda: all(chief.peers >= 2 for chief in chiefs.values()), seconds=60)
        wait_for("more progress of the good job", lambda: self.progress("good", "other").get("step", 0) > first + 3, seconds=60)
        self.assertEqual(trap.peers, 0, "a redirect was followed")
        self.expect_alive_and_small()
        self.server.put("trainingjobs", job("later"))
        wait_for("the API server's throttle was not paused", lambda: self.running("later"))


class HostileObjectsTest(HostileCase):
    flags = ("--leader-elect", "--leader-elect-namespace=default")  # the first lists come in before it leads

    def bad(self, name, rest, **meta):
        """An object's text: its metadata, then `rest`, which may be anything."""
        version = self.server.next_version()
        fields = {"name": f'"{name}"', "namespace": '"default"', "resourceVersion": f'"{version}"', "uid": f'"uid-{name}"', **meta}
        inner = ",".join(f'"{field}":{value}' for field, value in sorted(fields.items()))
        return Raw('{"apiVersion":"trainyard.dev/v1alpha1","kind":"TrainingJob","metadata":{%s}%s}' % (inner, rest))

    def put_bad(self, when):
        for name, rest, meta in (
                (f"deep-{when}", f',"spec":{{"training":{DEEP}}}', {}),
                (f"huge-{when}", ',"spec":{"training":{"a":"%s"}}' % ("x" * 10_000_000), {}),
                (f"no-json-{when}", ',"spec":tru', {}),
                (f"version-{when}", ',"spec":{}', {"resourceVersion": "7"})):
            self.server.put("trainingjobs", self.bad(name, rest, **meta), name)
        for name, rest in ((f"spec-{when}", ',"spec":[1]'), (f"types-{when}", ',"spec":{"worker":"x","ps":7,"runPolicy":[]}'),
                           (f"status-{when}", ',"spec":{},"status":"x"')):
            self.server.put("trainingjobs", self.bad(name, rest), name)

    def unreadable(self):
        return self.operator.metric('trainyard_unreadable_objects_total{resource="trainingjobs"}')

    def test_a_bad_object_stops_only_itself_and_is_told_by_its_name(self):
        self.server.put("trainingjobs", job("first"))
        self.put_bad("listed")
        self.server.put("trainingjobs", job("last"))
        self.start()
        wait_for("the good jobs of the list run", lambda: self.running("first") and self.running("last"))
        self.put_bad("watched")
        self.server.put("trainingjobs", job("later"))
        wait_for("a job after the bad events runs", lambda: self.running("later"))
        self.assertGreaterEqual(self.unreadable(), 8)
        for name in ("deep-listed", "huge-listed", "deep-watched", "huge-watched", "no-json-watched"):
            self.assertIn(f"trainingjobs default/{name}: cannot be read", self.operator.log())

        def events():
            return {event["regarding"]["name"] for event in self.server.all("events") if event["reason"] == "Unreadable"}
        wait_for("events about them", lambda: {"deep-listed", "huge-listed", "deep-watched", "huge-watched", "no-json-watched"} <= events())
        self.expect_alive_and_small()


class HostileApiServerTest(HostileCase):
    def test_answers_without_end_or_sense_are_given_up_and_the_next_is_taken(self):
        hostile = iter([servers.says(b"HTTP/1.1 200 " + b"x" * 100_000 + b"\r\n\r\n"), servers.for_ever(servers.OK, b"A: b\r\n"),
                        servers.for_ever(servers.OK + b"A: ", b"x" * 60_000), servers.says(b"garbage"),
                        servers.for_ever(servers.OK + b"\r\n", b'{"items":[' + b"[" * 60_000)])
        lock = threading.Lock()

        def answers(handler):
            if "trainingjobs?" not in handler.path or "watch" in handler.path:
                return False
            with lock:
                answer = next(hostile, None)
            if answer is None:
                return False
            handler.close_connection = True
            answer(handler.connection)
            return True

        self.server.answers = answers
        self.server.put("trainingjobs", job("patient"))
        self.operator = Operator(self.server, *self.flags)
        self.addCleanup(self.operator.close)
        wait_for("the job runs in the end", lambda: self.running("patient"), seconds=100)
        self.expect_alive_and_small()


class HostileClientsTest(HostileCase):
    def test_healthz_is_answered_however_many_clients_are_slow_or_huge(self):
        self.start()
        clients = [servers.slow_client(self.operator.port, data) for data in
                   [b"", b"GET /healthz HTTP/1.1\r\nA: ", b"POST /healthz HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\nx",
                    b"GET /" + b"x" * 200_000, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"] * 60]
        for _ in range(20):
            self.assertEqual(self.operator.page()[0], 200)
        more = [servers.slow_client(self.operator.port, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 50) for _ in range(300)]
        self.assertEqual(self.operator.page()[0], 200)
        self.server.put("trainingjobs", job("beside"))
        wait_for("a job runs beside them", lambda: self.running("beside"))
        self.expect_alive_and_small()
        for client in clients + more:
            client.close()


class StopTest(HostileCase):
    flags = ("--leader-elect", "--leader-elect-namespace=default")

    def setUp(self):
        super().setUp()
        for i in range(30):
            self.server.put("trainingjobs", job(f"job-{i}"))

    def lease(self):
        return self.server.get("leases", "trainyard-operator") or {"spec": {}}

    def test_nothing_is_written_after_the_lease_is_given_up(self):
        self.start()
        wait_for("it writes", lambda: len(self.server.all("pods")) > 3)
        self.assertEqual(self.operator.stop(), 0, self.operator.log()[-3000:])
        self.assertEqual(self.lease()["spec"]["holderIdentity"], "")
        method, path, _ = self.server.writes[-1]
        self.assertEqual((method, path.split("?")[0].rsplit("/", 1)[-1]), ("PUT", "trainyard-operator"))

    def test_a_lease_that_is_lost_ends_the_process_without_a_crash(self):
        self.start()
        wait_for("it writes", lambda: len(self.server.all("pods")) > 3)
        lease = self.lease()
        self.server.put("leases", {**lease, "spec": {**lease["spec"], "holderIdentity": "thief"}})
        self.operator.process.wait(30)
        self.assertEqual(self.operator.process.returncode, 1, self.operator.log()[-3000:])
        self.assertEqual(self.lease()["spec"]["holderIdentity"], "thief")


if __name__ == "__main__":
    unittest.main()
