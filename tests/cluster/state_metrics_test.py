"""kube-state-metrics with deploy/kube-state-metrics.yaml beside a real API server: each metric that docs/monitoring.md names comes out of it.

It is built by scripts/cluster/build.sh kube-state-metrics, and has the rights that the page names, by a user of its own.
"""

import json
import re
import unittest
import urllib.request

from harness import needs, places
from harness.control_plane import free_port
from harness.jobs import PODS, job
from harness.suite import skip_or_fail
from harness.wait import wait_for
from operator_case import OperatorCase

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
NAME = "kube-state-metrics"
LAST_WORD = {"step": 700, "totalSteps": 700, "percent": 100.0, "loss": 0.25, "examplesPerSecond": 1026.5, "etaSeconds": 0}


class StateMetricsTest(OperatorCase):
    @classmethod
    def setUpClass(cls):
        lacks = needs.unbuilt(NAME)
        if lacks:
            skip_or_fail(lacks)
        super().setUpClass()

    def account(self):
        """A kubeconfig of a service account that may do what the page says, and no more."""
        rules = [{"apiGroups": ["trainyard.dev"], "resources": ["trainingjobs"], "verbs": ["list", "watch"]},
                 {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["list", "watch"]}]
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": NAME}, "rules": rules}
        binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": NAME},
                   "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
                   "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": "default"}]}
        for path, body in ((ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME}}), (f"{RBAC}/clusterroles", role),
                           (f"{RBAC}/clusterrolebindings", binding)):
            self.api.create(path, body)
            self.addCleanup(self.api.delete, f"{path}/{NAME}")
        config = json.loads(self.kubectl("config", "view", "--raw", "--flatten", "-o", "json"))
        config["users"] = [{"name": each["name"], "user": {"token": self.kubectl("create", "token", NAME).strip()}} for each in config["users"]]
        path = self.plane.folder / "state-metrics.kubeconfig"
        path.write_text(json.dumps(config))
        return path

    def metrics(self):
        """[(metric, labels, value)] of the page that Prometheus would read."""
        self.plane.processes.check()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        found = [re.match(r"(kube_trainingjob\w*)\{(.*)\} (\S+)$", line) for line in lines if line.startswith("kube_trainingjob")]
        return [(each.group(1), dict(re.findall(r'(\w+)="([^"]*)"', each.group(2))), float(each.group(3))) for each in found]

    def value(self, metric, **labels):
        values = [value for name, own, value in self.metrics() if name == metric and labels.items() <= own.items()]
        self.assertEqual(len(values), 1, f"{metric} {labels}: {values}")
        return values[0]

    def test_every_metric_of_the_page_comes_out_with_its_value(self):
        self.running(job("a").worker(1), "a-worker-0")
        first = self.uid("a-worker-0")
        self.kubelet.evict("a-worker-0")
        wait_for("a new pod", lambda: self.api.exists(f"{PODS}/a-worker-0") and self.uid("a-worker-0") != first)
        self.kubelet.run("a-worker-0")
        self.wait_condition("a", "Running")
        self.kubelet.succeed("a-worker-0", message=json.dumps(LAST_WORD))
        self.wait_condition("a", "Succeeded")
        self.port = free_port("127.0.0.1", in_a_row=2)
        self.plane.processes.start(NAME, [places.BIN / NAME, f"--kubeconfig={self.account()}", "--custom-resource-state-only=true",
                                          f"--custom-resource-state-config-file={places.REPOSITORY}/deploy/kube-state-metrics.yaml", "--host=127.0.0.1",
                                          f"--port={self.port}", "--telemetry-host=127.0.0.1", f"--telemetry-port={self.port + 1}"])
        self.addCleanup(self.plane.processes.kill, NAME)
        told = set(re.findall(r"`(kube_trainingjob\w+)`", (places.REPOSITORY / "docs/monitoring.md").read_text(encoding="utf-8")))

        def all_come_out():
            lacking = told - {name for name, labels, _ in self.metrics() if labels["namespace"] == "default" and labels["trainingjob"] == "a"}
            assert not lacking, lacking
            return True

        wait_for("every metric of the page", all_come_out, 60.0)
        self.assertEqual({name for name, _, _ in self.metrics()}, told)
        expected = {"info": 1, "status_restarts": 0, "status_disruptions": 1, "spec_suspend": 0, "status_progress_step": 700, "status_progress_percent": 100,
                    "status_progress_loss": 0.25, "status_progress_examples_per_second": 1026.5, "status_progress_eta_seconds": 0}
        for name, value in expected.items():
            self.assertEqual(self.value(f"kube_trainingjob_{name}"), value, name)
        self.assertEqual(self.value("kube_trainingjob_info", framework="Trainyard", managed_by="trainyard.dev/operator"), 1)
        self.assertEqual(self.value("kube_trainingjob_status_phase", phase="Succeeded"), 1)
        self.assertEqual(self.value("kube_trainingjob_status_phase", phase="Running"), 0)
        self.assertEqual(self.value("kube_trainingjob_status_condition", condition="Succeeded", reason="JobSucceeded"), 1)
        self.assertEqual(self.value("kube_trainingjob_status_replicas", role="worker"), 1)
        times = [self.value(f"kube_trainingjob_{name}") for name in ("created", "status_start_time", "status_completion_time")]
        self.assertEqual(times, sorted(times))


if __name__ == "__main__":
    unittest.main()
