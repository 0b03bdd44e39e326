"""kubectl trainyard against a real API server, as kubectl runs it. The logs come from the test, which answers for a node's kubelet."""

import http.server
import json
import ssl
import threading
import unittest

from harness.jobs import JOBS, PODS, job
from harness.wait import wait_for
from operator_case import OperatorCase

NODES = "/api/v1/nodes"


class LogServer:
    """The part of a kubelet that the API server asks for logs: GET /containerLogs/NAMESPACE/POD/CONTAINER. `texts` has a text for each pod."""

    def __init__(self, certificate, key):
        self.texts = {}
        texts = self.texts

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                _, _, _, pod, _ = self.path.split("?")[0].split("/")
                self.send_response(200 if pod in texts else 404)
                self.end_headers()
                self.wfile.write(texts.get(pod, "no such pod").encode())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class PluginTest(OperatorCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.kubelet_logs = LogServer(*cls.plane.authority.issue("node", "node", alternative_names=["IP:127.0.0.1"]))
        cls.addClassCleanup(cls.kubelet_logs.stop)
        cls.api.create(NODES, {"metadata": {"name": "node"}})
        cls.api.merge(f"{NODES}/node/status", {"status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}], "daemonEndpoints": {"kubeletEndpoint": {"Port": cls.kubelet_logs.server.server_port}},
            "conditions": [{"type": "Ready", "status": "True"}]}})

    def clean(self):
        for pod in self.api.list(PODS):
            self.api.delete(f"{PODS}/{pod['metadata']['name']}", grace_seconds=0)  # no kubelet ends them
        super().clean()

    def bind(self, *pods):
        for pod in pods:
            self.api.create(f"{PODS}/{pod}/binding", {"metadata": {"name": pod}, "target": {"kind": "Node", "name": "node"}})

    def start(self, name="digits", workers=2):
        pods = [f"{name}-worker-{i}" for i in range(workers)]
        self.create(job(name).worker(workers).policy(backoffLimit=0))
        self.wait_pods(*pods)
        self.bind(*pods)
        self.kubelet.run(*pods)
        self.wait_condition(name, "Running")
        return pods

    def test_top_shows_all_jobs_and_those_that_run_first(self):
        self.assertIn("no TrainingJobs here", self.plugin("top"))
        self.create(job("a-suspended").worker(1).policy(suspend=True))
        self.wait_condition("a-suspended", "Suspended")
        self.start()
        heads, first, second = self.plugin("top", "-A").splitlines()
        self.assertEqual(heads.split(), ["NAMESPACE", "NAME", "STATE", "READY", "STEP", "DONE", "LOSS", "EXAMPLES/S", "ETA", "AGE"], "no metrics API, no CPU")
        self.assertEqual(first.split()[:4], ["default", "digits", "Running", "2/2"])
        self.assertEqual(second.split()[:3], ["default", "a-suspended", "Suspended"])

    def test_logs_name_their_replica_and_cannot_change_the_terminal(self):
        chief, other = self.start()
        self.kubelet_logs.texts.update({chief: "one\ntwo\n", other: "\x1b]0;title\x07three\rfour\n"})
        self.assertEqual(self.plugin("logs", "digits"), "one\ntwo\n")
        self.assertEqual(sorted(self.plugin("logs", "--all", "digits").splitlines()),
                         ["worker-0 | one", "worker-0 | two", "worker-1 | \ufffd]0;title\ufffdthree\ufffdfour"])
        self.assertEqual(self.plugin("logs", "digits", "--replica=worker-0", "--tail=-1"), "worker-0 | one\nworker-0 | two\n")
        self.assertIn("kubectl says above which log it cannot read", self.plugin("logs", "digits", "--tail=-5", fails=True))
        self.assertIn("digits has no pod of worker-7", self.plugin("logs", "digits", "--replica=worker-7", fails=True))

    def test_followed_logs_end_with_the_job(self):
        chief, other = self.start()
        self.kubelet_logs.texts.update({chief: "to the end\n", other: "mine too\n"})
        self.kubelet.succeed(chief, other)
        self.wait_condition("digits", "Succeeded")
        self.assertEqual(sorted(self.plugin("logs", "-f", "--all", "digits").splitlines()), ["worker-0 | to the end", "worker-1 | mine too"])

    def test_curve_plots_the_epochs_of_the_chiefs_log_also_when_the_job_has_ended(self):
        chief, other = self.start()
        self.kubelet_logs.texts[chief] = "a line without a loss\n"
        self.assertIn("has told no loss so far", self.plugin("curve", "digits", fails=True))
        lines = [f"[info] epoch {epoch}: step {100 * epoch}, loss {2 / epoch:.4f}, 1.00 s" for epoch in (1, 2, 3, 4, 2, 3)]
        self.kubelet_logs.texts[chief] = "\n".join(lines)
        self.kubelet.succeed(chief, other)
        self.wait_condition("digits", "Succeeded")
        drawn = self.plugin("curve", "digits").splitlines()
        self.assertEqual(drawn[0], "digits: loss 0.6667 at step 300")
        self.assertTrue(drawn[1].startswith("     2 │⠑⠢⢄"), drawn[1])
        self.assertTrue(drawn[-3].startswith("0.6667 │"), "step 400 was taken back")
        self.assertEqual(drawn[-1].split(), ["100", "step", "300"])

    def test_curve_plots_the_lines_of_progress_of_other_frameworks(self):
        chief, _ = self.start()
        told = [{"step": step, "totalSteps": 400, "loss": 2 / step} for step in (100, 200, 300, 200)]
        hostile = ['{"step": 250, "loss": NaN}', '{"step": 1e999, "loss": 1}', '{"step": 1, "loss": "low"}', '{"loss": 1}', '{"loss": [[}', "{" * 5000 + '"loss"}']
        self.kubelet_logs.texts[chief] = "\n".join([*map(json.dumps, told), *hostile])
        drawn = self.plugin("curve", "digits").splitlines()
        self.assertEqual(drawn[0], "digits: loss 0.01 at step 200")
        self.assertEqual(drawn[-1].split(), ["100", "step", "200"])

    def test_why_tells_what_failed_a_job_and_the_next_step(self):
        chief, other = self.start()
        self.kubelet.fail(other, code=1, message="no such file \x1b[2Jtrain.idx")
        self.wait_condition("digits", "Failed")
        self.wait_event("Failed")
        told = self.plugin("why", "digits")
        for words in ("default/digits: Failed", "First failure: worker-1 (digits-worker-1, on node, exit code 1, Error)", "train.idx", "Warnings, the newest last:",
                      "Next:\n  kubectl trainyard logs --all digits -n default; then correct the job"):
            self.assertIn(words, told)
        self.assertEqual(told.count("\x1b[2J"), 0)
        self.assertNotIn(chief, told)
        for pod in (chief, other):
            self.api.delete(f"{PODS}/{pod}", grace_seconds=0)
        wait_for("the pods to be gone", lambda: not self.api.list(PODS, "trainyard.dev/job-name=digits"))
        self.assertIn("Next:\n  correct the job and make it anew", self.plugin("why", "digits"))
        self.assertIn("digits has no pod of a replica, so no logs: kubectl trainyard why digits -n default", self.plugin("logs", "--all", "digits", fails=True))

    def test_why_tells_what_holds_a_job(self):
        self.create(job("held").worker(1))
        self.wait_pods("held-worker-0")
        self.api.merge(f"{PODS}/held-worker-0/status", {"status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient cpu."}]}})
        wait_for("the message", lambda: "worker-0" in self.status("held").get("message", ""))
        told = self.plugin("why", "held")
        self.assertIn("worker-0: waits for a node: 0/3 nodes are available: 3 Insufficient cpu.", told)
        self.assertIn("Next:\n  see to the pods above: kubectl get pods -l trainyard.dev/job-name=held -n default", told)
        self.create(job("gated").worker(5, template={"spec": {"schedulingGates": [{"name": "example.com/quota"}], "containers": [{"name": "trainer"}]}}))
        wait_for("the gate", lambda: "scheduling gate example.com/quota" in self.status("gated").get("message", ""))
        told = self.plugin("why", "gated")
        self.assertIn("Pods:\n  worker-0, worker-1, worker-2 and 2 more: waits until another controller removes its scheduling gate example.com/quota", told)
        self.assertIn("Next:\n  see to the pods above", told)
        self.api.delete(f"{JOBS}/gated")
        self.api.merge(f"{JOBS}/held", {"metadata": {"finalizers": ["example.com/hold"]}})
        self.api.delete(f"{JOBS}/held")
        told = self.plugin("why", "held")
        self.assertIn("being deleted", told)
        self.assertIn("Next:\n  it is being deleted: its finalizers are example.com/hold, and their owners must remove them", told)
        self.assertEqual(self.plugin("top").splitlines()[1].split()[:2], ["held", "Deleting"])
        self.api.merge(f"{JOBS}/held", {"metadata": {"finalizers": None}})
        self.operator.stop()
        self.create(job("new").worker(1))
        told = self.plugin("why", "new")
        self.assertIn("if it watches some namespaces only (helm's watchNamespaces), default must be one", told)
        self.assertIn("helm upgrade gives it its rights there again when the namespace was made anew", told)
        self.assertIn('trainingjobs.trainyard.dev "other" not found', self.plugin("why", "other", fails=True))


if __name__ == "__main__":
    unittest.main()
